/* lanes.c: the kernels of one vector width. A generated file for each width defines LS__GEMM_LANES
 * and LS__WINO_TABLE and includes this one. */
#include "cpu/conv/implicit_gemm/product.h"
#include "cpu/conv/winograd/images.h"
#include "cpu/conv/winograd/weights.h"

const ls__wino_lanes LS__WINO_TABLE = { .lanes = LANES,
                                        .panel = PANEL,
                                        .rows = ROWS,
                                        .input = input,
                                        .output = output,
                                        .gradient = gradient,
                                        .weights = weights,
                                        .weight_gradient = weight_gradient,
                                        .multiply = multiply,
                                        .outer = outer };
