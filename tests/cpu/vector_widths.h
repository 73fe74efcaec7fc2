/* vector_widths.h: tests that a convolution provider's kernels of both vector widths have equal
 * bits. The 16-wide kernels are also built for AVX2, as pairs of registers: same source, same bits,
 * on a machine without AVX-512. */
#ifndef LS_TESTS_CPU_VECTOR_WIDTHS_H
#define LS_TESTS_CPU_VECTOR_WIDTHS_H

#include "op_case.h"
#include <check.h>

typedef enum vector_width { WIDTH_8, WIDTH_16_PAIRS, WIDTH_16_AVX512 } vector_width;

/* Runs the case with the provider's kernels of that width into new buffers. */
typedef void (*run_width_fn)(ls_context *ctx, const op_case *c, vector_width width, op_buffers *b);

/* Compares the widths of the kernel `name` for this case, if it is offered for it. */
void check_widths(const op_case *c, const char *name, run_width_fn run);
/* Runs `offered` and, for each case, `widths`. Returns the program's exit status. */
int run_width_tests(const char *name, const TTest *offered, const TTest *widths);

#endif
