/* Convolutions and linear layers as implicit GEMM, of all vector widths (vector_widths.h). */
#include "../suite.h"
#include "cpu/conv/implicit_gemm/implicit_gemm.h"
#include "vector_widths.h"

extern const ls__microkernels ls__microkernels_pairs; /* 16 wide, of AVX2 */

TEST_PROGRAM(implicit_gemm)
{
    static const width_tables tables = {
        "implicit gemm",
        LS__OP_LINEAR_BACKWARD_WEIGHTS,
        &ls__implicit_gemm_algorithm,
        { [WIDTH_4] = { &ls__microkernels_plain, &ls__microkernels_plain },
          [WIDTH_8] = { &ls__microkernels_avx2, &ls__microkernels_avx2 },
          [WIDTH_16_PAIRS] = { &ls__microkernels_pairs, &ls__microkernels_pairs },
          [WIDTH_16_AVX512] = { &ls__microkernels_avx512, &ls__microkernels_avx512 } }
    };
    return run_width_tests(&tables);
}
