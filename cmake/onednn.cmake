# Native arithmetic: whether oneDNN is here to build it in. Debian's package has a CMake config that fails without OpenCL headers, so the
# header and the library are looked for themselves, first where -Ddnnl_ROOT points to.
set(LOCKSTEP_ONEDNN AUTO CACHE STRING "Build native arithmetic, which uses oneDNN: ON, OFF, or AUTO for where oneDNN is found")
set_property(CACHE LOCKSTEP_ONEDNN PROPERTY STRINGS AUTO ON OFF)

set(LOCKSTEP_HAS_ONEDNN OFF)
if(NOT LOCKSTEP_ONEDNN)
  return()
endif()
find_path(LOCKSTEP_DNNL_INCLUDE oneapi/dnnl/dnnl.h HINTS ${dnnl_ROOT} PATH_SUFFIXES include)
find_library(LOCKSTEP_DNNL_LIBRARY dnnl HINTS ${dnnl_ROOT} PATH_SUFFIXES lib)
if(LOCKSTEP_DNNL_INCLUDE AND LOCKSTEP_DNNL_LIBRARY)
  set(LOCKSTEP_HAS_ONEDNN ON)
elseif(NOT LOCKSTEP_ONEDNN STREQUAL "AUTO")
  message(FATAL_ERROR "LOCKSTEP_ONEDNN is ON, and oneDNN is missing; -Ddnnl_ROOT=PREFIX names its folder")
endif()
