# What the library links. Debian's dnnl package has a CMake config that fails without OpenCL headers, so the header and
# the library are looked for themselves.
find_package(Threads REQUIRED)
find_package(JPEG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_path(LOCKSTEP_DNNL_INCLUDE oneapi/dnnl/dnnl.h REQUIRED)
find_library(LOCKSTEP_DNNL_LIBRARY dnnl REQUIRED)
find_path(LOCKSTEP_STB_INCLUDE stb/stb_image.h REQUIRED)
find_path(LOCKSTEP_XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(LOCKSTEP_JANSSON_INCLUDE jansson.h REQUIRED)
find_library(LOCKSTEP_JANSSON_LIBRARY jansson REQUIRED)

# oneDNN runs one-threaded inside our tasks; only libgomp's own functions are called to tell it so.
set(LOCKSTEP_DEPENDENCIES
  Threads::Threads JPEG::JPEG ${LOCKSTEP_DNNL_LIBRARY} ${LOCKSTEP_JANSSON_LIBRARY} ${OpenMP_gomp_LIBRARY} m)
