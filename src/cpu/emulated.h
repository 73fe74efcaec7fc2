/* emulated.h: ops with bf16 or f16 operands on a CPU that computes in f32: any kernel of the other
 * providers, between casts, named "emulated KERNEL". Operands are rounded as on a device that has
 * the type; emulation is no faster than f32. Our own bf16 kernels give the same bits, except a
 * batch norm's backward that reads dadd again. oneDNN's bf16 kernels do not. */
#ifndef LS_CPU_EMULATED_H
#define LS_CPU_EMULATED_H

#include "cpu/cpu.h"

extern const ls__cpu_provider ls__emulated_provider;

/* Whether an op other than a cast has 16-bit operands. */
bool ls__needs_emulation(const ls__op *op);

#endif
