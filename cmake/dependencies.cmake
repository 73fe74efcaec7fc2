# What the library links. Installed beside the package config, which uses it as well.
find_package(Threads REQUIRED)
find_package(JPEG REQUIRED)
find_library(LOCKSTEP_JANSSON_LIBRARY jansson REQUIRED)
set(LOCKSTEP_DEPENDENCIES Threads::Threads JPEG::JPEG ${LOCKSTEP_JANSSON_LIBRARY} m)
if(NOT LOCKSTEP_MINIMAL)
  find_package(ZLIB REQUIRED)
  find_library(LOCKSTEP_WEBP_LIBRARY webp REQUIRED)
  list(PREPEND LOCKSTEP_DEPENDENCIES ZLIB::ZLIB ${LOCKSTEP_WEBP_LIBRARY})
endif()

# protobuf-c writes ONNX models.
if(LOCKSTEP_HAS_ONNX)
  find_library(LOCKSTEP_PROTOBUF_C_LIBRARY protobuf-c REQUIRED)
  list(PREPEND LOCKSTEP_DEPENDENCIES ${LOCKSTEP_PROTOBUF_C_LIBRARY})
endif()

# oneDNN runs one-threaded inside our tasks; only libgomp's own functions are called to tell it so. It must be the very
# library that oneDNN uses, with any compiler.
if(LOCKSTEP_HAS_ONEDNN)
  find_library(LOCKSTEP_DNNL_LIBRARY dnnl HINTS ${dnnl_ROOT} PATH_SUFFIXES lib REQUIRED)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.so.1
    OUTPUT_VARIABLE LOCKSTEP_GOMP_PATH OUTPUT_STRIP_TRAILING_WHITESPACE)
  cmake_path(GET LOCKSTEP_GOMP_PATH PARENT_PATH LOCKSTEP_GOMP_FOLDER)
  find_library(LOCKSTEP_GOMP_LIBRARY NAMES libgomp.so.1 HINTS ${LOCKSTEP_GOMP_FOLDER} REQUIRED)
  list(PREPEND LOCKSTEP_DEPENDENCIES ${LOCKSTEP_DNNL_LIBRARY} ${LOCKSTEP_GOMP_LIBRARY})
endif()
