/* handle.h: what belongs to one ls__cudnn: the handle, the device, and what the heuristics said. */
#ifndef LS_CUDA_CUDNN_HANDLE_H
#define LS_CUDA_CUDNN_HANDLE_H

#include "cuda/cudnn/cudnn.h"
#include "cuda/cudnn/engine.h"

/* What the heuristics said of a problem. */
typedef struct ls__cudnn_answer {
    char *text;     /* the problem's; NULL in free places */
    uint64_t asked; /* when it was last of use */
    int n_candidates;
    ls__candidate *candidates;
} ls__cudnn_answer;

/* More than a net like resnet50 asks for, fused and apart; the one unused for longest goes first.
 */
enum { LS__CUDNN_MAX_ANSWERS = 256 };

struct ls__cudnn {
    ls_context *ctx;
    cudnnHandle_t handle;            /* NULL without a driver */
    void *const *wanted_stream;      /* NULL until it was set */
    void *stream;                    /* the handle's */
    cudnnBackendDescriptor_t device; /* its description */
    char version[32];
    int64_t n_dropped;
    uint64_t n_asked;
    ls__cudnn_answer answers[LS__CUDNN_MAX_ANSWERS];
};

/* What plans are made for where there is no handle; NULL where there is one. */
static inline cudnnBackendDescriptor_t ls__cudnn_described(const ls__cudnn *cudnn)
{
    return cudnn->handle == NULL ? cudnn->device : NULL;
}

/* As the functions of cudnn.h for convolutions, for any problem. */
int ls__cudnn_candidates(ls__cudnn *cudnn, const ls__cudnn_problem *problem, ls__candidate *out,
                         int max);
ls_status ls__cudnn_kernel_open(ls__cudnn *cudnn, const ls__cudnn_problem *problem,
                                const char *name, ls__kernel **out);
ls_status ls__cudnn_kernel_restore(ls__cudnn *cudnn, const ls__cudnn_problem *problem,
                                   const char *text, ls__kernel **out);

/* Sets the handle's stream to the wanted one, unless it is. */
void ls__cudnn_follow_stream(ls__cudnn *cudnn, ls__cudnn_calls *calls);

void ls__cudnn_forget_answers(ls__cudnn *cudnn);

/* What a convolution costs at least, see ls__cudnn_problem. */
double ls__cudnn_conv_cost_ms(const ls__op *op);

#endif
