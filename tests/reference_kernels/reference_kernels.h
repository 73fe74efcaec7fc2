/* reference_kernels.h: the CPU device with a reference kernel of every op beside its own kernels:
 * plain C, the oracle of the tests of all kernels. Its name is "reference", or "emulated reference"
 * for 16-bit operands. */
#ifndef LS_TEST_REFERENCE_KERNELS_H
#define LS_TEST_REFERENCE_KERNELS_H

#include "base/context.h"

/* Offers the reference kernels in an open context of the CPU. Those of optional ops are not listed,
 * and open by name. */
void offer_reference_kernels(ls_context *ctx);

#endif
