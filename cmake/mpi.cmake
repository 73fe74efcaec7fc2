# The communicator of MPI: whether Open MPI is here to build its module.
if(NOT DEFINED LOCKSTEP_MPI OR LOCKSTEP_MPI)
  find_package(MPI QUIET COMPONENTS C)
endif()
# The binary interfaces of MPI libraries differ, and only Open MPI is tested.
if(MPI_C_FOUND)
  include(CheckSymbolExists)
  set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
  check_symbol_exists(OPEN_MPI mpi.h LOCKSTEP_MPI_IS_OPEN_MPI)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
lockstep_optional(MPI "the MPI module, which uses Open MPI" "Open MPI is missing; MPI_C_COMPILER may name its mpicc"
  MPI_C_FOUND LOCKSTEP_MPI_IS_OPEN_MPI)
