/* cpu.h: the CPU device, and the interface of its kernels' providers.
 *
 * An op's kernel comes from one of six providers: winograd (our own 3x3 convolutions), direct
 * (conv/small_channels: our own convolutions of few input channels), implicit gemm (our own
 * convolutions as matrix products, of every kind, and linear layers), depthwise (our own
 * depthwise convolutions), oneDNN (convolution, linear), own (cpu/ops: our own kernels of the other
 * ops, of fixed order). A seventh, emulated, runs ops with 16-bit operands through their f32
 * kernels. Winograd, implicit gemm, depthwise and own also have bf16 kernels; oneDNN has no others,
 * and only on processors that multiply bf16.
 *
 * Every kernel is a list of tasks that depends on the shape alone, not on the number of threads.
 * Portable arithmetic (lockstep/context.h) leaves oneDNN out: the shape alone
 * selects a kernel, and kernels for all vector widths have the same bits. */
#ifndef LS_CPU_CPU_H
#define LS_CPU_CPU_H

#include "base/isa.h"
#include "base/minmax.h"
#include "base/threads.h"
#include "backend/backend.h"
#include <fenv.h>

typedef struct ls__onednn ls__onednn; /* onednn.h */

typedef struct ls__cpu {
    ls__device device; /* first */
    ls__threads *threads;
    int n_threads;
    ls__isa isa;             /* of our own kernels */
    ls__onednn *onednn;      /* NULL: all kernels are those of portable arithmetic */
    unsigned char **scratch; /* one block per thread, of scratch_bytes each */
    size_t scratch_bytes;
    fenv_t caller_environment; /* between begin and end: the caller's rounding and flush modes */
    char libraries[24], description[160];
} ls__cpu;

/* Makes every thread's scratch at least this large. No kernel may run meanwhile. */
ls_status ls__cpu_reserve_scratch(ls__cpu *cpu, size_t bytes);

/* A provider lists and makes kernels as ls__backend's slots of the same names do. */
typedef struct ls__cpu_provider {
    const char *name;
    int (*candidates)(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max);
    ls_status (*kernel_open)(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out);
    /* [LS__N_OPS]: whether the provider also offers kernels with bf16 operands. NULL: for no op. */
    const bool *bf16_kinds;
} ls__cpu_provider;

static inline int64_t ls__divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* n rounded up to a multiple of step. */
static inline int64_t ls__round_up_to(int64_t n, int64_t step)
{
    return ls__divide_up(n, step) * step;
}

extern const ls__cpu_provider ls__onednn_provider;
extern const ls__cpu_provider ls__ops_provider;

/* The backend table, which the registry names. */
extern const ls__backend ls__cpu_backend;

#endif
