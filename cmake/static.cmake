# LOCKSTEP_STATIC: a command for other machines. Its file holds the libraries that it uses; it requires the C library alone, of the build
# machine's version or a newer one. oneDNN is a shared library in Debian.
option(LOCKSTEP_STATIC "Link the command with static libraries; only the C library stays shared" OFF)
if(LOCKSTEP_STATIC)
  foreach(part ONEDNN BUILD_SHARED)
    if(LOCKSTEP_${part} AND NOT LOCKSTEP_${part} STREQUAL "AUTO")
      message(FATAL_ERROR "LOCKSTEP_STATIC and LOCKSTEP_${part} are ON; expected a new build folder with one of them")
    endif()
    set(LOCKSTEP_${part} OFF)
  endforeach()
  set(LOCKSTEP_LIBRARY_SUFFIXES .a)
else()
  set(LOCKSTEP_LIBRARY_SUFFIXES ${CMAKE_FIND_LIBRARY_SUFFIXES})
endif()
