/* provider.h: what the providers of our own convolutions share: one kernel name each, for dense
 * N,H,W,C activations on processors with AVX2. A provider adds a cost, a plan and the functions
 * that run it. */
#ifndef LS_CPU_CONV_PROVIDER_H
#define LS_CPU_CONV_PROVIDER_H

#include "cpu/cpu.h"

typedef struct ls__conv_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op_kind kind;
    size_t scratch_bytes; /* of each thread */
} ls__conv_kernel;

typedef struct ls__conv_algorithm {
    const char *name;    /* of the kernel */
    size_t kernel_bytes; /* of a kernel, whose first member is an ls__conv_kernel */
    /* Estimated time on one thread, whatever their number, because a selection must not depend on
     * it. Negative: the op is not supported. */
    double (*cost_ms)(const ls__op *op);
    /* Sets run, workspace_bytes, scratch_bytes and the provider's fields from a supported op.
     * microkernels: the table for one vector width, of the provider's type. */
    void (*plan)(ls__conv_kernel *k, const ls__op *op, const void *microkernels);
} ls__conv_algorithm;

/* The slots of ls__cpu_provider. */
int ls__conv_candidates(const ls__conv_algorithm *algorithm, const ls__cpu *cpu, const ls__op *op,
                        ls__candidate *out, int max);
ls_status ls__conv_open(const ls__conv_algorithm *algorithm, ls__cpu *cpu, const ls__op *op,
                        const void *microkernels, const char *name, ls__kernel **out);

/* One run. Operands are named as in a forward convolution; backward by data reads dy as x and
 * writes dx as y; backward weights reads dy as w, and writes dw as y and db as bias. Absent: NULL.
 */
typedef struct ls__conv_call {
    const void *kernel; /* the provider's */
    const void *x, *w;
    void *bias, *y;
    float *workspace;
} ls__conv_call;

ls__conv_call ls__conv_call_of(const ls__kernel *kernel, void *const *buffers, void *workspace);

static inline float *ls__conv_scratch(const ls__conv_kernel *k, int thread)
{
    return (float *)(void *)k->cpu->scratch[thread];
}

#endif
