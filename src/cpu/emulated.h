/* emulated.h: ops with bf16 or f16 operands on a CPU that computes in f32: any kernel of the other
 * providers, named "emulated KERNEL", between casts. What is read and written is rounded as on a
 * device that has the type; nothing is gained in speed. Kernels of our own that take bf16 give the
 * same bits, but for a batch norm's backward that leaves dadd and reads it again; oneDNN's, which
 * are there where the processor multiplies bf16, do not. */
#ifndef LS_CPU_EMULATED_H
#define LS_CPU_EMULATED_H

#include "cpu/cpu.h"

extern const ls__cpu_provider ls__emulated_provider;

/* Whether an op, which is not a cast itself, has 16-bit operands. */
bool ls__needs_emulation(const ls__op *op);

#endif
