/* Direct convolutions of few input channels, of all vector widths (vector_widths.h). */
#include "../suite.h"
#include "cpu/conv/small_channels/small_channels.h"
#include "vector_widths.h"

extern const ls__small_channels_microkernels ls__small_channels_pairs; /* 16 wide, of AVX2 */

TEST_PROGRAM(small_channels)
{
    static const width_tables tables = { "direct",
                                         LS__OP_CONV2D_BACKWARD_WEIGHTS,
                                         &ls__small_channels_algorithm,
                                         { [WIDTH_4] = { &ls__small_channels_plain },
                                           [WIDTH_8] = { &ls__small_channels_avx2 },
                                           [WIDTH_16_PAIRS] = { &ls__small_channels_pairs },
                                           [WIDTH_16_AVX512] = { &ls__small_channels_avx512 } } };
    return run_width_tests(&tables);
}
