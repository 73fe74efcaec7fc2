/* net.h: a built network: shapes inferred, layers fused, kernels chosen, memory planned. */
#ifndef LOCKSTEP_NET_H
#define LOCKSTEP_NET_H

#include <lockstep/data.h>
#include <lockstep/nn.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_net ls_net;
typedef struct ls_optimizer ls_optimizer;

typedef enum ls_loss_kind {
    LS_NO_LOSS,      /* losses, if any, are declared in the graph with ls_loss */
    LS_CROSS_ENTROPY /* of the model's output [N,K] against the input "label", with the metrics
                        "top1" (and "top5" for K > 5) */
} ls_loss_kind;

typedef struct ls_loss_config {
    ls_loss_kind kind;
    float label_smoothing;
    const float *class_weights; /* n_classes of them, copied; NULL = all 1 */
} ls_loss_config;

/* What tensors hold, and what products are computed with.
 *
 * With BF16 and F16, activations and their gradients are of that type inside a program, and so are
 * the weights and biases of convolutions and linear layers, each program's own rounded copy. What
 * is computed between reading and writing them is f32: sums, normalisation, softmax. Parameters as
 * ls_net_parameter_at shows and optimizers update them, their gradients, running statistics,
 * losses, metrics, outputs, inputs and their gradients, and whatever users' ops (ls_op) read and
 * write are F32, and cast where they meet the rest. */
typedef enum ls_precision {
    LS_PRECISION_F32,  /* f32 throughout */
    LS_PRECISION_TF32, /* f32, but convolutions and linear layers may round their factors to tf32's
                          10 bits of mantissa; sums stay f32. On CUDA devices only */
    LS_PRECISION_BF16, /* 8 bits of mantissa, f32's range. A CPU without AVX512_BF16 or AMX stores
                          it and multiplies in f32: it saves memory, and hardly time */
    LS_PRECISION_F16 /* 11 bits of mantissa, from 6e-8 to 65504; trained with a loss scale. The CPU
                        emulates it, by casts around f32's kernels */
} ls_precision;

/* Loss scaling, of F16 only: gradients are computed of the loss times a scale, so that small ones
 * do not vanish, and divided by it in the optimizer's update. When one of them overflows, the
 * update is skipped (parameters and the optimizer's state stay as they are) and the scale halved,
 * to at least 2^-24; after growth_interval updates in a row without it is doubled, to at most 2^24.
 * The scale is the net's: where several optimizers take turns, updates skipped under one count for
 * all. */
typedef struct ls_loss_scale_config {
    float initial;           /* a power of two from 1 to 2^24; 0 = 65536 */
    int64_t growth_interval; /* updates, 1 to 2^24; 0 = 2000 */
} ls_loss_scale_config;

/* What of the forward part the backward part computes again instead of keeping it in memory. No
 * result changes by a bit. */
typedef enum ls_recompute {
    LS_RECOMPUTE_AUTO, /* on the CPU as little as needed: NONE where the arena then takes at most
                          75 % of the available memory when a shape is first planned, else results
                          of normalisation, ReLU, additions and pooling, else CHEAP. The available
                          memory is the machine's, cut by the process's control groups, ulimit -v
                          and ls_context_config.memory_limit_bytes. Elsewhere as NONE */
    LS_RECOMPUTE_NONE, /* everything is kept */
    LS_RECOMPUTE_CHEAP /* results of normalisation, ReLU, additions, pooling, and of convolutions
                          of up to 64 products for a result */
} ls_recompute;

typedef struct ls_net_config {
    ls_input_spec input; /* of the model's input, named "input"; required */
    ls_loss_config loss;
    ls_precision precision;
    ls_loss_scale_config loss_scale; /* not for inference, nor for other precisions than F16 */
    ls_recompute recompute;          /* trades time for memory */
    int max_execution_plans; /* input shapes whose plans are kept; 0 = 8. The least recently used
                      one goes first */
    int64_t steps;  /* how many steps, or evaluations of an inference net, are expected with inputs
                       of  the shapes given here; 0 = unknown. With benchmark = on, the kernels are
                       timed  for at most 3 % of what so many steps are estimated to take, unknown
                       being 25;  ops that weigh most come first */
    bool inference; /* no backward program: ls_net_step and ls_net_backward are errors */
} ls_net_config;

/* Calls model(graph, input, options) once and builds the programs for config->input's shape. Errors
 * name the layer, the dimension and both values; out of memory names what was asked, what was free
 * and the largest batch that fits. */
LS_API ls_net *ls_net_build(ls_context *ctx, ls_model_fn model, const void *options,
                            const ls_net_config *config);
LS_API void ls_net_close(ls_net **net);
LS_API ls_context *ls_net_context(ls_net *net);

typedef enum ls_mode { LS_TRAIN, LS_EVAL } ls_mode;

/* Forward, backward and update as one program over one batch. opt NULL = forward and backward only.
 * Errors: LS_ERR_SHAPE where batch->n is not the number of images, those of ls_net_feed, and
 * LS_ERR_INVALID where another call is running on the net: it belongs to one thread at a time. */
LS_API ls_status ls_net_step(ls_net *net, ls_optimizer *opt, const ls_batch *batch, double lr);
/* Forward in evaluation mode over one batch: outputs, losses, metrics. Where batch->labels is NULL
 * and "label", the input of the config loss, was not fed, outputs only: then ls_net_loss and
 * ls_net_metric are LS_ERR_INVALID. */
LS_API ls_status ls_net_evaluate(ls_net *net, const ls_batch *batch);

/* The same in pieces. Inputs are named as in the graph; the model's input is "input", the config
 * loss's labels "label". The tensor, of the net's context, is copied at the next forward and must
 * live until then. dims[0] may be any batch; plans are kept by shape. Errors name the input:
 * LS_ERR_NOT_FOUND, LS_ERR_SHAPE, LS_ERR_MISMATCH for a tensor of another context.
 *
 * Labels of cross-entropy are 0 to classes - 1, or -1 for a row that is left out. Others are
 * LS_ERR_INVALID before anything is computed; the error gives the label and its position. On a GPU
 * a tensor of the caller's own is read back for that once after each write. */
LS_API ls_status ls_net_feed(ls_net *net, const char *name, const ls_tensor *tensor);
LS_API ls_status ls_net_forward(ls_net *net, ls_mode mode);
LS_API ls_status
ls_net_backward(ls_net *net); /* gradients of the sum of losses; overwrites the last ones */
/* Epoch and step key the random draws of dropout. ls_net_step sets them from the batch. */
LS_API ls_status ls_net_set_step(ls_net *net, int64_t epoch, int64_t step);

/* Results of the last forward. Scalars: sum of losses; and by name, as "top1" (a fraction) for the
 * config loss. They wait until the device has done it. */
LS_API ls_status ls_net_loss(ls_net *net, double *loss);
LS_API ls_status ls_net_metric(ls_net *net, const char *name, double *value);

typedef struct ls_metric_value {
    const char *name; /* valid as long as the net */
    double value;     /* per image: a fraction for "top1" */
} ls_metric_value;

/* The numbers of a batch that ls_net_step or ls_net_evaluate has run. */
typedef struct ls_results {
    int64_t epoch, step, n; /* the batch's; n images */
    bool has_loss;          /* false where the net has no loss or the batch no labels */
    double loss;            /* the sum of losses, as ls_net_loss gives it; 0 without */
    int n_metrics;          /* in the order of the graph; 0 where the batch had no labels */
    ls_metric_value metrics[LS_MAX_METRICS];
    double gradient_norm; /* as ls_optimizer_gradient_norm gives it; 0 where nothing measures it */
} ls_results;
/* The value of the metric of that name; 0 where there is none. */
LS_API double ls_results_metric(const ls_results *results, const char *name);

/* The same without waiting for the device, for loops that look at them each step: gives the results
 * of the oldest batch that was not given yet. On a GPU they come one batch late, so that it goes on
 * with the last batch meanwhile; on the CPU, which has done a batch when the call returns, at once:
 *
 *     while (ls_loader_next(loader, &b)) {
 *         LS_TRY(ls_net_step(net, opt, &b, rate));
 *         LS_TRY(ls_net_results(net, &r));
 *         if (r.n > 0) ...
 *     }
 *     LS_TRY(ls_net_last_results(net, &r));
 *     if (r.n > 0) ...
 *
 * All of *out is 0 when there is none to give. ls_net_last_results waits, and so gives those of the
 * last batch too. Results that nobody asks for are dropped, two batches later. */
LS_API ls_status ls_net_results(ls_net *net, ls_results *out);
LS_API ls_status ls_net_last_results(ls_net *net, ls_results *out);

/* A named output, dense; the model's result is "output". Borrowed until the next forward or close.
 */
LS_API const ls_tensor *ls_net_output(ls_net *net, const char *name);
/* Gradient of the loss by a fed f32 input, when asked for before the first backward by
 * ls_net_want_gradient. With loss scaling it is that of the scaled loss. */
LS_API ls_status ls_net_want_gradient(ls_net *net, const char *input);
LS_API const ls_tensor *ls_net_input_gradient(ls_net *net, const char *input);

/* Parameters and buffers (running statistics) in the order of the graph. The tensors are borrowed
 * views into the net's blocks: dense, in memory order (convolution weights [O,H,W,I]); valid as
 * long as the net. */
typedef struct ls_parameter_info {
    const char *name;
    ls_parameter_kind kind;
    ls_tensor *value;
    const ls_tensor *gradient; /* NULL for buffers and in inference nets; with loss scaling that of
                                  the scaled loss */
    bool frozen;
} ls_parameter_info;
LS_API int64_t ls_net_parameter_count(const ls_net *net);
LS_API ls_parameter_info ls_net_parameter_at(const ls_net *net, int64_t i);
/* The value of a parameter or buffer; NULL and an error when there is none of that name. */
LS_API ls_tensor *ls_net_parameter(ls_net *net, const char *name);
LS_API int64_t
ls_net_parameter_elements(const ls_net *net); /* trained elements; buffers not counted */

/* Parameters whose name matches the pattern (as in a shell: * ? [..]) are frozen, or trained again:
 * no gradient is computed for them and no optimizer touches them. Takes effect at the next step. A
 * pattern without a match is an error. What is frozen belongs to a run's identity: before
 * ls_checkpoint_load goes on with it, the same must be frozen as when it was saved. */
LS_API ls_status ls_net_freeze(ls_net *net, const char *pattern);
LS_API ls_status ls_net_unfreeze(ls_net *net, const char *pattern);

/* The loss scale by which the next gradients will be multiplied, and how many updates were skipped
 * since the net was built; either may be NULL. LS_ERR_UNSUPPORTED for a net without loss scaling.
 * Waits for the device. */
LS_API ls_status ls_net_loss_scale(ls_net *net, double *scale, int64_t *skipped);

/* A table of the layers: output shape, parameters, multiply-adds, bytes, and below each its
 * kernels, with the reason of their selection where it is not the heuristic; then the memory plan
 * and the precision. Lines have at most 80 columns where names and shapes allow it. Cut to size,
 * always terminated; returns the whole text's length as snprintf does, or -1. */
LS_API int ls_net_describe(ls_net *net, char *buffer, size_t size);

typedef struct ls_net_memory {
    size_t parameter_bytes; /* parameters and buffers, and the parameters' 16-bit copy */
    size_t gradient_bytes;
    size_t arena_bytes;    /* activations, their gradients and workspaces of the largest plan */
    size_t scratch_bytes;  /* per-thread scratch of the kernels */
    size_t unshared_bytes; /* what the arena would be if no two values shared memory */
} ls_net_memory;
LS_API ls_net_memory ls_net_memory_plan(const ls_net *net);

LS_END_DECLARATIONS

#endif
