# LOCKSTEP_BUILT_COMMIT: the commit that is built, for the manifests of runs: the option LOCKSTEP_COMMIT, or that of the clone
# (CMake runs again when it changes), or that which 'git archive' writes here, or "unknown".
set(LOCKSTEP_COMMIT "" CACHE STRING "The commit that is built, for the manifests of runs; by default git's, or the archive's")
set(archived "$Format:%H$")
set(LOCKSTEP_BUILT_COMMIT unknown)
if(LOCKSTEP_COMMIT)
  set(LOCKSTEP_BUILT_COMMIT ${LOCKSTEP_COMMIT})
elseif(EXISTS ${PROJECT_SOURCE_DIR}/.git)
  find_package(Git QUIET)
  set(failed TRUE)
  if(GIT_FOUND)
    cmake_path(GET PROJECT_SOURCE_DIR PARENT_PATH parent)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${parent} # not the commit of a clone around this folder
      ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD --verify HEAD
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE lines RESULT_VARIABLE failed ERROR_QUIET)
  endif()
  if(NOT failed)
    string(REGEX MATCHALL "[^\n]+" lines "${lines}")
    list(GET lines 0 log)
    list(GET lines -1 LOCKSTEP_BUILT_COMMIT)
    get_filename_component(log ${log} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
    if(EXISTS ${log})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${log})
    endif()
  endif()
elseif(archived MATCHES "^[0-9a-f]+$")
  set(LOCKSTEP_BUILT_COMMIT ${archived})
endif()
file(WRITE ${PROJECT_BINARY_DIR}/COMMIT "${LOCKSTEP_BUILT_COMMIT}\n") # for scripts/gpu_bundle.sh and gpu_check.sh
