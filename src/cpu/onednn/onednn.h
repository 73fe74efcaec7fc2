/* onednn.h: convolutions and linear layers in bf16 through oneDNN, for processors that multiply
 * bf16. Our own kernels are as fast in f32, so oneDNN has no others here: operands and results are
 * bf16, sums and the gradients of weights f32.
 *
 * An op is a list of tasks cut by shape alone. Each task is one oneDNN primitive, created and run
 * by one thread, so bits do not depend on the number of threads. A linear layer is a 1x1
 * convolution, whose pixels are rows of x. */
#ifndef LS_CPU_ONEDNN_ONEDNN_H
#define LS_CPU_ONEDNN_ONEDNN_H

#include "cpu/onednn/headroom.h"
#include "cpu/cpu.h"
#include "cpu/onednn/primitive.h"

struct ls__onednn {
    ls__dnn *dnn;
    ls__headroom headroom; /* lent while oneDNN's code runs */
    bool starved;          /* between begin and end: there was none to lend */
    int caller_threads;    /* between begin and end: OpenMP's number of threads of the caller */
    char libraries[48], processor[128];
};

/* *out is NULL, and arithmetic is portable, if the processor does not multiply bf16 (AVX512_BF16,
 * AMX), or if LOCKSTEP_MAX_ISA or ONEDNN_MAX_CPU_ISA does not allow it. With plain AVX-512 oneDNN
 * has bf16 kernels of f32 instructions, which are no faster than ours, and wrong for some linear
 * layers (2.6.3). */
ls_status ls__onednn_open(ls_context *ctx, int n_threads, ls__onednn **out);
void ls__onednn_close(ls_context *ctx, ls__onednn **onednn);
/* The libraries and the processor on which results in bf16 depend, as in backend.h. */
const char *ls__onednn_libraries(const ls__onednn *onednn);
const char *ls__onednn_processor(const ls__onednn *onednn);
/* Sizes of the data caches, first level first: "caches 32 KiB, 512 KiB, 32768 KiB". The order of
 * libraries' sums may depend on them. */
void ls__cache_text(char *text, size_t size);

/* Each thread of the pool calls it once. Returns false if memory is short. */
bool ls__onednn_thread_start(void);
/* The caller's thread calls these before and after each program. */
void ls__onednn_begin(ls__onednn *onednn);
void ls__onednn_end(ls__onednn *onednn);

/* Lends oneDNN its headroom while a kernel of `what` is listed or opened. LS_ERR_MEMORY if there is
 * none. */
ls_status ls__onednn_lend(ls_context *ctx, ls__onednn *onednn, const char *what);

/* Each run of a kernel starts with this. LS_ERR_MEMORY if there is too little memory for oneDNN,
 * which writes through the NULL of a failed allocation or ends the process. A kernel's first run
 * checks again, because it compiles matrix products, and because the first runs of all threads have
 * taken memory since begin. */
ls_status ls__onednn_check_memory(const ls__cpu *cpu, const ls__kernel *kernel, bool *has_run);

/* Makes a kernel of a convolution in bf16. relu: of the result of a forward op. The caller makes
 * OpenMP single-threaded. */
ls_status ls__onednn_conv_open(ls__cpu *cpu, const ls__op *op, bool relu, const char *name,
                               ls__kernel **out);

#endif
