# Parts of the library that are built where the library that they use is found.

# Adds the option LOCKSTEP_<name>, ON, OFF or AUTO, and sets LOCKSTEP_HAS_<name>: whether to build `part`. The further arguments are
# the variables that find_* has set; `missing` says what to install if they are not.
function(lockstep_optional name part missing)
  set(LOCKSTEP_${name} AUTO CACHE STRING "Build ${part}: ON, OFF, or AUTO for where that is found")
  set_property(CACHE LOCKSTEP_${name} PROPERTY STRINGS AUTO ON OFF)
  set(has ${LOCKSTEP_${name}})
  foreach(variable IN LISTS ARGN)
    if(has AND NOT ${variable})
      if(NOT LOCKSTEP_${name} STREQUAL "AUTO")
        message(FATAL_ERROR "LOCKSTEP_${name} is ON, and ${missing}")
      endif()
      set(has OFF)
    endif()
  endforeach()
  if(has)
    set(LOCKSTEP_HAS_${name} ON PARENT_SCOPE)
  else()
    set(LOCKSTEP_HAS_${name} OFF PARENT_SCOPE)
  endif()
endfunction()

# Debian's package has a CMake config that fails without OpenCL headers, so the header and the library are looked for themselves,
# first where -Ddnnl_ROOT points to.
find_path(LOCKSTEP_DNNL_INCLUDE oneapi/dnnl/dnnl.h HINTS ${dnnl_ROOT} PATH_SUFFIXES include)
find_library(LOCKSTEP_DNNL_LIBRARY dnnl HINTS ${dnnl_ROOT} PATH_SUFFIXES lib)
lockstep_optional(ONEDNN "native arithmetic, which uses oneDNN" "oneDNN is missing; -Ddnnl_ROOT=PREFIX names its folder"
  LOCKSTEP_DNNL_INCLUDE LOCKSTEP_DNNL_LIBRARY)

find_path(LOCKSTEP_PROTOBUF_C_INCLUDE protobuf-c/protobuf-c.h)
find_library(LOCKSTEP_PROTOBUF_C_LIBRARY protobuf-c)
find_program(LOCKSTEP_PROTOC_C protoc-c)
lockstep_optional(ONNX "ONNX export, which uses protobuf-c" "protobuf-c or its compiler protoc-c is missing"
  LOCKSTEP_PROTOBUF_C_INCLUDE LOCKSTEP_PROTOBUF_C_LIBRARY LOCKSTEP_PROTOC_C)
