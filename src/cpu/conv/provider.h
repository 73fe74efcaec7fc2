/* provider.h: the common code of the providers of our own convolutions. Each has kernels of one
 * name, and adds a cost and a plan. Its microkernels are compiled for each instruction set and give
 * the same bits with all of them. */
#ifndef LS_CPU_CONV_PROVIDER_H
#define LS_CPU_CONV_PROVIDER_H

#include "cpu/cpu.h"

typedef struct ls__conv_call ls__conv_call;

/* One task of a pass. scratch: the thread's, of scratch_bytes. */
typedef void (*ls__conv_task)(const ls__conv_call *call, int64_t task, float *scratch);

typedef struct ls__conv_pass {
    ls__conv_task run;
    int64_t n_tasks;
} ls__conv_pass;

enum { LS__CONV_MAX_PASSES = 4 };

/* Sums of dy's columns, the gradient of a bias, for kernels that do not add them up themselves.
 * Chains of LS__ROW_CHAIN rows are added one after the other, 64 of them to a partial sum; partial
 * sums are added in a binary tree. */
typedef struct ls__conv_bias {
    int64_t rows, columns, n_sums; /* n_sums 0: no gradient */
    size_t offset;                 /* of the partial sums in the workspace, in floats */
    bool bf16;
    ls__conv_pass passes[2];
} ls__conv_bias;

typedef struct ls__conv_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op_kind kind;
    size_t scratch_bytes;                      /* of each thread */
    ls__conv_pass passes[LS__CONV_MAX_PASSES]; /* of a run, one after the other */
    ls__conv_bias bias;                        /* whose passes follow */
} ls__conv_kernel;

/* One run. Operands are named as in a forward convolution; backward by data reads dy as x and
 * writes dx as y; backward weights reads dy as w, and writes dw as y and db as bias. Absent: NULL.
 */
struct ls__conv_call {
    const void *kernel; /* the provider's */
    const void *x, *w;
    void *bias, *y;
    float *workspace;
    int64_t block; /* non-fused Winograd: the current block of output channels */
    ls__conv_task task;
};

typedef struct ls__conv_algorithm {
    const char *name;    /* of the kernel */
    size_t kernel_bytes; /* of a kernel, whose first member is an ls__conv_kernel */
    /* Estimated time on one thread, whatever their number, because a selection must not depend on
     * it. Negative: the op is not supported. */
    double (*cost_ms)(const ls__op *op);
    /* Sets workspace_bytes, scratch_bytes, the passes (or run) and the provider's fields from a
     * supported op. microkernels: the table for one vector width, of the provider's type. */
    void (*plan)(ls__conv_kernel *k, const ls__op *op, const void *microkernels);
} ls__conv_algorithm;

/* The initializers of an array of microkernels' tables, with ls__isa as the index. */
#if defined(__x86_64__)
#define LS__BY_ISA(plain, avx2, avx512) plain, avx2, avx512
#else
#define LS__BY_ISA(plain, avx2, avx512) plain
#endif

/* The slots of ls__cpu_provider. */
int ls__conv_candidates(const ls__conv_algorithm *algorithm, const ls__op *op, ls__candidate *out,
                        int max);
ls_status ls__conv_open(const ls__conv_algorithm *algorithm, ls__cpu *cpu, const ls__op *op,
                        const void *microkernels, const char *name, ls__kernel **out);

/* A kernel that does not run by its passes alone uses these three. */
ls__conv_call ls__conv_call_of(const ls__kernel *kernel, void *const *buffers, void *workspace);
void ls__conv_run_pass(ls__conv_call *call, ls__conv_task task, int64_t n_tasks);
void ls__conv_run_bias(ls__conv_call *call);

/* The end of a plan: adds the workspace of a bias's gradient, if the op has one. */
void ls__conv_plan_bias(ls__conv_kernel *k, const ls__op *op);

#endif
