# lockstep_variant(TARGET NAME SOURCE OPTIONS [MACRO ...]): compiles SOURCE, a path below src, into TARGET once more, with the
# compiler's OPTIONS (a list) and each "MACRO VALUE" defined, by way of a generated file NAME.c that includes it.
function(lockstep_variant target name source options)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  set(text "")
  foreach(macro ${ARGN})
    string(APPEND text "#define ${macro}\n")
  endforeach()
  file(CONFIGURE OUTPUT ${generated} CONTENT "${text}#include \"${source}\"\n")
  set_source_files_properties(${generated} TARGET_DIRECTORY ${target} PROPERTIES
    COMPILE_OPTIONS "${LOCKSTEP_KERNEL_OPTIONS};${options}" OBJECT_DEPENDS ${PROJECT_SOURCE_DIR}/src/${source})
  target_sources(${target} PRIVATE ${generated})
endfunction()
