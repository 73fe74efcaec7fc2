/* The depthwise convolutions, of all vector widths (vector_widths.h). */
#include "../suite.h"
#include "cpu/conv/depthwise/depthwise.h"
#include "vector_widths.h"

extern const ls__depthwise_microkernels ls__depthwise_pairs; /* 16 wide, of AVX2 */

TEST_PROGRAM(depthwise)
{
    static const width_tables tables = {
        "depthwise",
        LS__OP_CONV2D_BACKWARD_WEIGHTS,
        &ls__depthwise_algorithm,
        { [WIDTH_4] = { &ls__depthwise_plain, &ls__depthwise_plain },
          [WIDTH_8] = { &ls__depthwise_avx2, &ls__depthwise_avx2 },
          [WIDTH_16_PAIRS] = { &ls__depthwise_pairs, &ls__depthwise_pairs },
          [WIDTH_16_AVX512] = { &ls__depthwise_avx512, &ls__depthwise_avx512 } }
    };
    return run_width_tests(&tables);
}
