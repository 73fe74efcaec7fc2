/* engine.h: cuDNN's engine configurations: their names, their numerical properties, the lists of
 * the heuristics. */
#ifndef LS_CUDA_CUDNN_ENGINE_H
#define LS_CUDA_CUDNN_ENGINE_H

#include "cuda/cudnn/graph.h"

typedef struct ls__cudnn_engine {
    char name[LS__KERNEL_NAME_SIZE]; /* "cudnn 62 2=4,13=0": index, then knobs and their values */
    bool deterministic;
    bool tensor_cores;
    bool transforms; /* by a Winograd or Fourier transform */
    bool fewer_bits; /* rounds inputs to fewer bits than theirs, or sums to fewer than f32's */
    bool compiled;   /* by cuDNN when a plan is made, which requires a driver */
    int64_t workspace_bytes;
} ls__cudnn_engine;

/* Reads a configuration. name is "" if it is too long. */
void ls__cudnn_engine_read(ls__cudnn_calls *calls, cudnnBackendDescriptor_t configuration,
                           ls__cudnn_engine *out);

/* Is this the name of a configuration of any graph? */
bool ls__cudnn_engine_is_name(const char *name);

/* The finalized configuration of that name for an open graph; the caller releases it. `device` is
 * NULL where the graph has a handle, because the handle determines the device. `name` satisfies
 * ls__cudnn_engine_is_name. A name that cuDNN does not have for this graph is a failure in calls.
 */
cudnnBackendDescriptor_t ls__cudnn_engine_configure(ls__cudnn_calls *calls,
                                                    const ls__cudnn_graph *graph,
                                                    cudnnBackendDescriptor_t device,
                                                    const char *name);

/* Are these names of the same configuration? A knob with value -1 is unset. */
bool ls__cudnn_engine_same(const char *a, const char *b);

/* Why a problem excludes an engine: "it rounds inputs to tf32"; NULL if it does not. */
const char *ls__cudnn_engine_rejection(const ls__cudnn_engine *engine,
                                       const ls__cudnn_problem *problem);

/* Calls visit for each configuration of the heuristics, best first, until it returns false. device
 * as above. */
typedef bool ls__cudnn_visit_fn(void *user, const ls__cudnn_engine *engine);
void ls__cudnn_engines_visit(ls__cudnn_calls *calls, ls_context *ctx, const ls__cudnn_graph *graph,
                             cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                             ls__cudnn_visit_fn *visit, void *user);

#endif
