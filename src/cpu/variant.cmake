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

# lockstep_convolution_variants(TARGET NAME WIDTH OPTIONS): ls__microkernels_NAME, ls__depthwise_NAME, ls__winograd_NAME and
# ls__winograd_bf16_NAME for vectors of WIDTH floats.
function(lockstep_convolution_variants target name width options)
  set(macros "LS__VECTOR_WIDTH ${width}" "LS__ISA_SUFFIX _${name}")
  lockstep_variant(${target} microkernels_${name} cpu/conv/microkernels.c "${LOCKSTEP_LOOP_OPTIONS};${options}" ${macros})
  set(few_rows_width ${width})
  if(width GREATER 8)
    set(few_rows_width 8) # of blocks of eight places
  endif()
  lockstep_variant(${target} few_rows_${name} cpu/conv/implicit_gemm/few_rows_microkernel.c "${options}"
    "LS__VECTOR_WIDTH ${few_rows_width}" "LS__ISA_SUFFIX _${name}")
  lockstep_variant(${target} depthwise_${name} cpu/conv/depthwise/microkernels.c "${options}" ${macros})
  lockstep_variant(${target} winograd_${name} cpu/conv/winograd/transforms.c "${options}" ${macros})
  lockstep_variant(${target} winograd_bf16_${name} cpu/conv/winograd/transforms.c "${options}" ${macros} LS__ELEMENT_BF16)
endfunction()

# lockstep_small_channels_variants(TARGET NAME WIDTH OPTIONS): ls__small_channels_NAME, for vectors of at least 8 floats.
function(lockstep_small_channels_variants target name width options)
  if(width LESS 8)
    set(width 8)
  endif()
  set(suffix "LS__ISA_SUFFIX _${name}")
  lockstep_variant(${target} small_channels_${name} cpu/conv/small_channels/microkernel.c "${options}" "LS__VECTOR_WIDTH ${width}" ${suffix})
  lockstep_variant(${target} sliding_${name} cpu/conv/small_channels/sliding.c "${options}" "LS__VECTOR_WIDTH 8" ${suffix})
endfunction()
