/* Winograd's kernels of all vector widths, in f32 and bf16 (vector_widths.h). */
#include "../suite.h"
#include "cpu/conv/winograd/winograd.h"
#include "vector_widths.h"

extern const ls__winograd_transforms ls__winograd_pairs,
    ls__winograd_bf16_pairs; /* 16 wide, of AVX2 */

TEST_PROGRAM(winograd)
{
    static const width_tables tables = {
        "winograd 4x4",
        LS__OP_CONV2D_BACKWARD_WEIGHTS,
        &ls__winograd_algorithm,
        { [WIDTH_4] = { &ls__winograd_plain, &ls__winograd_bf16_plain },
          [WIDTH_8] = { &ls__winograd_avx2, &ls__winograd_bf16_avx2 },
          [WIDTH_16_PAIRS] = { &ls__winograd_pairs, &ls__winograd_bf16_pairs },
          [WIDTH_16_AVX512] = { &ls__winograd_avx512, &ls__winograd_bf16_avx512 } }
    };
    return run_width_tests(&tables);
}
