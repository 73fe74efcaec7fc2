/* vector_widths.h: tests that a convolution provider's kernels of all vector widths have equal
 * bits. The 16-wide kernels are also built for AVX2, as pairs of registers: same source, same bits,
 * on a machine without AVX-512. */
#ifndef LS_TESTS_CPU_VECTOR_WIDTHS_H
#define LS_TESTS_CPU_VECTOR_WIDTHS_H

#include "cpu/conv/provider.h"

typedef enum vector_width {
    WIDTH_4,
    WIDTH_8,
    WIDTH_16_PAIRS,
    WIDTH_16_AVX512,
    N_WIDTHS
} vector_width;

typedef struct width_tables {
    const char *kernel;
    ls__op_kind last_kind; /* of the ops that have the kernel; CONV2D is the first */
    const ls__conv_algorithm *algorithm;
    const void *microkernels[N_WIDTHS][2]; /* for f32 and, if any, for bf16 */
} width_tables;

/* Runs all cases for which the kernel is offered with each width, and compares the results.
 * Returns the program's exit status. */
int run_width_tests(const width_tables *tables);

#endif
