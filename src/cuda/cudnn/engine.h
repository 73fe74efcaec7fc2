/* engine.h: engine configurations: what cuDNN's heuristics answer, their names, what they do to
 * numbers. */
#ifndef LS_CUDA_CUDNN_ENGINE_H
#define LS_CUDA_CUDNN_ENGINE_H

#include "cuda/cudnn/graph.h"

typedef struct ls__cudnn_engine {
    char name[LS__KERNEL_NAME_SIZE]; /* "cudnn 62 2=4,13=0": index, then knobs and their values */
    bool deterministic;
    bool tensor_cores;
    bool transforms; /* a Winograd or Fourier transform's sums, not the definition's */
    bool fewer_bits; /* converts factors or sums to fewer bits than the operands' and f32 */
    bool compiled;   /* by cuDNN when a plan is made, which needs a driver */
    int64_t workspace_bytes;
} ls__cudnn_engine;

/* Reads a configuration. name is "" when it does not fit. */
void ls__cudnn_engine_read(ls__cudnn_calls *calls, cudnnBackendDescriptor_t configuration,
                           ls__cudnn_engine *out);

/* Could the heuristics give a configuration this name, whatever the graph? */
bool ls__cudnn_engine_is_name(const char *name);

/* The configuration of that name for a finished graph, finalized; the caller releases it. `device`
 * is NULL where the graph has a handle: that says which device it is. `name` is one by
 * ls__cudnn_engine_is_name; one that cuDNN does not know for this graph is a failure in calls. */
cudnnBackendDescriptor_t ls__cudnn_engine_configure(ls__cudnn_calls *calls,
                                                    const ls__cudnn_graph *graph,
                                                    cudnnBackendDescriptor_t device,
                                                    const char *name);

/* Do two names stand for the same configuration? Knobs that are -1 are as if left out. */
bool ls__cudnn_engine_same(const char *a, const char *b);

/* Why a problem rules an engine out: "it rounds factors to tf32"; NULL when it does not. */
const char *ls__cudnn_engine_objection(const ls__cudnn_engine *engine,
                                       const ls__cudnn_problem *problem);

/* Calls visit for what the heuristics answer, best first; until it says false. device as above. */
typedef bool ls__cudnn_visit_fn(void *user, const ls__cudnn_engine *engine);
void ls__cudnn_engines_visit(ls__cudnn_calls *calls, ls_context *ctx, const ls__cudnn_graph *graph,
                             cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                             ls__cudnn_visit_fn *visit, void *user);

#endif
