/* onednn.h: convolution and linear layers through oneDNN.
 *
 * An op is a list of tasks cut by shape alone; each task is one oneDNN primitive, created and run
 * single-threaded. Bits can depend on the number of threads nowhere.
 *
 * Ops in bf16 are offered where the processor multiplies it (AVX512_BF16, AMX), and
 * ONEDNN_MAX_CPU_ISA lets oneDNN do so: factors and results are bf16, sums and the gradients of
 * weights f32. With plain AVX-512 oneDNN has the kernels too, of f32's instructions, which are no
 * faster: tests run them there.
 *
 * The exception are kernels whose names begin with "onednn threaded": convolutions as oneDNN's
 * other users have them, one primitive for the whole batch, which oneDNN cuts by the number of
 * threads. They are marked as not deterministic and offered where the context allows such: to
 * measure what the cuts by shape cost, and to see that tests of the number of threads can fail. */
#ifndef LS_CPU_ONEDNN_ONEDNN_H
#define LS_CPU_ONEDNN_ONEDNN_H

#include "base/headroom.h"
#include "cpu/cpu.h"
#include "cpu/onednn/primitive.h"

struct ls__onednn {
    ls__dnn *dnn;
    ls__headroom headroom; /* lent while oneDNN's code runs */
    bool starved;          /* between begin and end: there was none to lend */
    bool has_bf16;         /* the processor multiplies bf16: such ops are offered */
    int caller_threads;    /* OpenMP's number for the caller, kept between begin and end */
};

ls_status ls__onednn_open(ls_context *ctx, int n_threads, ls__onednn **out);
void ls__onednn_close(ls_context *ctx, ls__onednn **onednn);
/* Each thread of the pool, once. False: it has no memory. */
bool ls__onednn_thread_start(void);
/* The caller's thread, around each program. */
void ls__onednn_begin(ls__onednn *onednn);
void ls__onednn_end(ls__onednn *onednn);

/* Lends oneDNN its headroom while a kernel of `what` is listed or opened; LS_ERR_MEMORY if there is
 * none. */
ls_status ls__onednn_lend(ls_context *ctx, ls__onednn *onednn, const char *what);

/* Each run of a kernel, between begin and end, starts with this: LS_ERR_MEMORY where there is too
 * little memory for oneDNN, which writes through the NULL of an allocation that failed, or ends the
 * process. A kernel's first run looks again, because matrix products are compiled in it, and the
 * first runs of all threads have taken memory since begin. */
ls_status ls__onednn_check_memory(const ls__cpu *cpu, const ls__kernel *kernel, bool *has_run);

static inline bool ls__onednn_is_bf16(const ls__op *op)
{
    return op->operands[0].dtype == LS_BF16;
}

/* conv.c, linear.c: as ls__cpu_provider's slots; OpenMP is single-threaded around them. */
int ls__onednn_conv_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max);
ls_status ls__onednn_conv_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out);
/* The same, with relu over what a forward op in bf16 leaves. */
ls_status ls__onednn_conv_relu_open(ls__cpu *cpu, const ls__op *op, const char *name,
                                    ls__kernel **out);
int ls__onednn_linear_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max);
ls_status ls__onednn_linear_open(ls__cpu *cpu, const ls__op *op, const char *name,
                                 ls__kernel **out);

#endif
