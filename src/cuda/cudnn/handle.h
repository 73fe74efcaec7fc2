/* handle.h: the state of an ls__cudnn: the handle, the device, cached lists of candidates. */
#ifndef LS_CUDA_CUDNN_HANDLE_H
#define LS_CUDA_CUDNN_HANDLE_H

#include "cuda/cudnn/cudnn.h"
#include "cuda/cudnn/engine.h"

/* The candidates of a problem. */
typedef struct ls__cudnn_listed {
    char *text;        /* the problem's; NULL: a free row */
    uint64_t last_use; /* the value of n_uses then */
    int n_candidates;
    ls__candidate *candidates;
} ls__cudnn_listed;

/* More than the fused and unfused ops of resnet50. The least recently used list is replaced
 * first. */
enum { LS__CUDNN_CACHE_SIZE = 256 };

struct ls__cudnn {
    ls_context *ctx;
    cudnnHandle_t handle;            /* NULL without a driver */
    void *const *launch_stream;      /* kernels run in *launch_stream; NULL until set */
    void *stream;                    /* the handle's current one */
    cudnnBackendDescriptor_t device; /* its description */
    char version[32];
    int64_t n_dropped;
    uint64_t n_uses;
    ls__cudnn_listed cache[LS__CUDNN_CACHE_SIZE];
};

/* The device of plans where there is no handle; NULL where there is one. */
static inline cudnnBackendDescriptor_t ls__cudnn_described(const ls__cudnn *cudnn)
{
    return cudnn->handle == NULL ? cudnn->device : NULL;
}

/* Makes the problem of an LS__OP_CONV2D*, or of an optional op. Returns NULL, or the reason why
 * cuDNN can't have a kernel for it. */
const char *ls__cudnn_conv_problem(const ls__op *op, ls__cudnn_problem *out);
const char *ls__cudnn_fusion_problem(const ls__op *op, ls__cudnn_problem *out);

static inline const char *ls__cudnn_problem_of(const ls__op *op, ls__cudnn_problem *out)
{
    return ls__op_is_optional(op->kind) ? ls__cudnn_fusion_problem(op, out)
                                        : ls__cudnn_conv_problem(op, out);
}

/* Sets the handle's stream to *launch_stream, if it differs. */
void ls__cudnn_update_stream(ls__cudnn *cudnn, ls__cudnn_calls *calls);

void ls__cudnn_cache_clear(ls__cudnn *cudnn);

/* A lower bound for a convolution on an H200. */
double ls__cudnn_conv_cost_ms(const ls__op *op);

#endif
