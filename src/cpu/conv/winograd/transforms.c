/* transforms.c: Winograd's transforms, compiled for each vector width and each type in memory. */
#include "cpu/conv/winograd/images.h"
#include "cpu/conv/winograd/weights.h"

extern const ls__microkernels LS__ISA_NAME(ls__microkernels);

const ls__winograd_transforms LS__ELEMENT_NAME(ls__winograd) = {
    .micro = &LS__ISA_NAME(ls__microkernels),
    .input = input,
    .output = output,
    .gradient = gradient,
    .weights = weights,
    .weight_gradient = weight_gradient,
};
