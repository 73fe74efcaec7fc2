# Initial cache (cmake -C) of a build that scripts/gpu_bundle.sh can pack: a program in bin/ finds its shared libraries, and those
# that they need, in lib/. DT_RPATH is required: DT_RUNPATH does not serve the libraries of libraries.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON CACHE BOOL "" FORCE)
set(CMAKE_INSTALL_RPATH "$ORIGIN/../lib" CACHE STRING "" FORCE)
set(CMAKE_EXE_LINKER_FLAGS "-Wl,--disable-new-dtags" CACHE STRING "" FORCE)
set(CMAKE_SHARED_LINKER_FLAGS "-Wl,--disable-new-dtags" CACHE STRING "" FORCE)
