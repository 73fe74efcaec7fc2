/* net.h: a built network: shapes inferred, layers fused, kernels selected, memory planned. */
#ifndef LOCKSTEP_NET_H
#define LOCKSTEP_NET_H

#include <lockstep/loader.h>
#include <lockstep/nn.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_net ls_net;
typedef struct ls_optimizer ls_optimizer;

typedef enum ls_loss_kind {
    LS_LOSS_NONE,          /* losses, if any, are declared in the graph with ls_loss */
    LS_LOSS_CROSS_ENTROPY, /* softmax cross-entropy of the model's output [N,K] and the labels in
                              the input "label"; adds the metrics "top1" and, for K > 5, "top5" */
    /* Of the model's output [N,K] and the input "target" f32 [N,K], without metrics. K must be the
     * data's n_targets. The other fields of ls_loss_config must be 0. */
    LS_LOSS_BINARY_CROSS_ENTROPY, /* ls_binary_cross_entropy, for samples with several labels */
    LS_LOSS_MSE,                  /* ls_mse, for targets that are numbers */
    /* The program computes the loss from the outputs, and gives its gradient to
     * ls_net_backward_from. The graph must not declare losses. Without shards */
    LS_LOSS_EXTERNAL
} ls_loss_kind;

typedef struct ls_loss_config {
    ls_loss_kind kind;
    float label_smoothing;
    const float *class_weights; /* n_classes of them, copied; NULL = all 1 */
    bool soft_targets; /* the loss reads the input "target" f32 [N,K], class probabilities such as
                          those of a loader with mixup, instead of the labels, which the metrics
                          read. A batch without targets has those of its labels, one-hot (all 0 for
                          label -1) */
    LS_RESERVED(8);
} ls_loss_config;

/* The dtypes of values and of matrix multiplications and convolutions.
 *
 * With BF16 and F16, activations and their gradients are 16-bit, and convolutions and linear layers
 * read compute weights: 16-bit copies of weights and biases, one per execution plan. Sums,
 * normalization and softmax are computed in f32. Parameters (ls_net_parameter_at), their gradients,
 * running statistics, losses, metrics, inputs, outputs, and the values that custom ops read and
 * write are F32. */
typedef enum ls_precision {
    LS_PRECISION_F32,  /* f32 throughout */
    LS_PRECISION_TF32, /* f32, but convolutions and linear layers may round their operands to tf32's
                          10 bits of mantissa; sums stay f32. On CUDA devices only */
    LS_PRECISION_BF16, /* 7 bits of mantissa, f32's range. A CPU stores it and multiplies in f32,
                          unless arithmetic is native and it has AVX512_BF16 or AMX: that saves
                          memory, but little time */
    LS_PRECISION_F16 /* 10 bits of mantissa, from 6e-8 to 65504; trained with a loss scale. The CPU
                        emulates it by casts around f32 kernels */
} ls_precision;

/* Loss scaling, for F16 only. The loss is multiplied by a scale, so that small gradients do not
 * underflow, and the optimizer's update divides the gradients by it. If a gradient overflows, the
 * update is skipped (parameters and optimizer states do not change) and the scale is halved, to at
 * least 2^-24. After growth_interval consecutive updates it is doubled, to at most 2^24. Optimizers
 * of the same net share its scale and its count of skipped updates. */
typedef struct ls_loss_scale_config {
    float initial;           /* a power of two from 1 to 2^24; 0 = 65536 */
    int64_t growth_interval; /* updates, 1 to 2^24; 0 = 2000 */
    LS_RESERVED(4);
} ls_loss_scale_config;

/* Activation checkpointing: which activations the backward pass recomputes instead of keeping them
 * in memory. It does not change results. */
typedef enum ls_recompute {
    LS_RECOMPUTE_AUTO, /* on the CPU, the first of these whose arena takes at most 75 % of the
                          available memory: (1) NONE, (2) recompute the results of batch norm,
                          ReLU, addition and pooling, (3) CHEAP. Decided when a shape is first
                          used. The available memory is the machine's, limited by control groups,
                          ulimit -v and ls_context_config.memory_limit_bytes. Other devices: NONE */
    LS_RECOMPUTE_NONE, /* all values are kept */
    LS_RECOMPUTE_CHEAP /* recompute the results of batch norm, ReLU, addition and pooling, and of
                          convolutions with up to 64 multiply-adds per output element */
} ls_recompute;

typedef struct ls_net_config {
    ls_input_spec input; /* of the model's input, named "input"; required */
    ls_loss_config loss;
    ls_precision precision;
    ls_loss_scale_config loss_scale; /* not for inference, nor for other precisions than F16 */
    ls_recompute recompute;          /* trades time for memory */
    int max_execution_plans; /* input shapes whose execution plans are cached; 0 = 8. A shape can
                                have a plan for training and one for evaluation, so twice as many
                                plans are kept; the least recently used one is dropped first */
    int64_t steps;  /* expected number of steps, or evaluations of an inference net, with inputs of
                       these shapes; 0 = unknown, taken as 25. With benchmark = on, timing takes at
                       most 3 % of the estimated time of these steps (or 30 ms if that is more),
                       longest ops first */
    bool inference; /* no backward pass: ls_net_step and ls_net_backward are errors */
    LS_RESERVED(16);
} ls_net_config;

/* Calls model(graph, input, options) once and builds the execution plans for config->input's shape.
 * Errors name the layer, the dimension and both values. LS_ERR_INVALID if the loss reads labels,
 * but config->input has targets only. LS_ERR_MEMORY gives the bytes needed, the bytes free and the
 * largest batch that fits. */
LS_API ls_net *ls_net_build(ls_context *ctx, ls_model_fn model, const void *options,
                            const ls_net_config *config);
LS_API void ls_net_close(ls_net **net);
LS_API ls_context *ls_net_context(ls_net *net);

typedef enum ls_mode { LS_MODE_TRAIN, LS_MODE_EVAL } ls_mode;

/* Forward in evaluation mode over one batch: outputs, losses, metrics. Labels and targets are
 * optional: without those that a loss of ls_net_config reads, in the batch or fed, only outputs are
 * computed, and ls_net_loss and ls_net_metric return LS_ERR_INVALID. With several ranks it runs the
 * batch in this rank alone, and batches of ls_loader_next are not whole: use ls_evaluate. */
LS_API ls_status ls_net_evaluate(ls_net *net, const ls_batch *batch);

/* A step in separate calls: feed, forward, backward, ls_optimizer_step. Inputs are named as in the
 * graph; the model's input is "input", the labels of ls_net_config.loss are "label", its soft
 * targets "target". ls_net_step and ls_net_evaluate feed the batch's labels and targets to the
 * inputs of these names, where the graph has them. Targets that ls_net_config.loss does not
 * read are LS_ERR_INVALID, unless config.input.n_targets is above 0: a loss of labels ignores the
 * targets of such samples.
 *
 * ls_net_feed: the tensor must belong to the net's context and stay open until the next forward,
 * which copies it. dims[0]
 * may be any batch size; execution plans are kept by shape. Errors name the input:
 * LS_ERR_NOT_FOUND, LS_ERR_SHAPE, LS_ERR_MISMATCH for a tensor of another context.
 *
 * Labels of cross-entropy are 0 to classes - 1, or -1 for a row that is ignored. Other labels are
 * LS_ERR_INVALID before anything is computed; the error gives the label and its position. On a GPU
 * this check copies a caller's tensor to the host once after each write. */
LS_API ls_status ls_net_feed(ls_net *net, const char *name, const ls_tensor *tensor);
LS_API ls_status ls_net_forward(ls_net *net, ls_mode mode);
LS_API ls_status
ls_net_backward(ls_net *net); /* gradients of the sum of losses; overwrites the previous ones */
/* The backward pass of a net with LS_LOSS_EXTERNAL: gradients of the sum over the elements of
 * output * gradient, where `gradient` is that of the program's loss with respect to the named
 * output, f32 of the output's shape. Other outputs count as if the loss did not depend on them.
 * With loss scaling the gradient must be that of the scaled loss (ls_net_loss_scale). It is copied.
 * Errors: those of ls_net_backward; LS_ERR_NOT_FOUND names the output; LS_ERR_SHAPE, LS_ERR_TYPE,
 * LS_ERR_MISMATCH for the tensor; LS_ERR_UNSUPPORTED for a net with losses of its own, and for an
 * output that depends on no parameter that is trained, and on no input whose gradient is required.
 */
LS_API ls_status ls_net_backward_from(ls_net *net, const char *output, const ls_tensor *gradient);
/* Epoch and step key the random draws of dropout. ls_net_step sets them from the batch. */
LS_API ls_status ls_net_set_step(ls_net *net, int64_t epoch, int64_t step);

/* Results of the last forward: the sum of losses, and a metric by name, such as "top1" of
 * ls_net_config.loss (a fraction). They wait for the device. */
LS_API ls_status ls_net_loss(ls_net *net, double *loss);
LS_API ls_status ls_net_metric(ls_net *net, const char *name, double *value);

typedef struct ls_metric_value {
    const char *name; /* valid as long as the net */
    double value;     /* per image: a fraction for "top1" */
} ls_metric_value;

/* The loss and metrics of a batch that ls_net_step or ls_net_evaluate has run. */
typedef struct ls_results {
    int64_t epoch, step; /* of the batch */
    int64_t n;           /* number of images in the batch; 0 = no results */
    bool has_loss;       /* false where the net has no loss or the batch no labels */
    double loss;         /* the sum of losses, as ls_net_loss gives it; 0 if has_loss is false */
    double loss_weight;  /* what the mean `loss` was divided by: the mean over several batches is
                            (sum of loss_weight loss) / (sum of loss_weight). The sum of the class
                            weights of the labels that are not -1, if each loss is a cross-entropy
                            of the same labels with the same class weights; else n. 0 if has_loss is
                            false */
    int n_metrics;       /* in the order of the graph; 0 where the batch had no labels */
    ls_metric_value metrics[LS_MAX_METRICS];
    double gradient_norm; /* as ls_optimizer_gradient_norm gives it; 0 without clip_norm and loss
                             scaling, and in a step without an update */
    LS_RESERVED(8);
} ls_results;
/* The value of the metric of that name; 0 where there is none. */
LS_API double ls_results_metric(const ls_results *results, const char *name);

/* Returns the results of the oldest batch whose results were not returned yet, without waiting for
 * the device. On a GPU they are those of the previous batch, because the last one is still running.
 * On the CPU they are those of the last batch:
 *
 *     while (ls_loader_next(loader, &b)) {
 *         LS_TRY(ls_net_step(net, opt, &b, lr));
 *         LS_TRY(ls_net_results(net, &r));
 *         if (r.n > 0) ...
 *     }
 *     LS_TRY(ls_net_last_results(net, &r));
 *     if (r.n > 0) ...
 *
 * *out is all 0 if there are no results. ls_net_last_results waits and so also returns those of the
 * last batch. Only the results of the last two batches are kept. */
LS_API ls_status ls_net_results(ls_net *net, ls_results *out);
LS_API ls_status ls_net_last_results(ls_net *net, ls_results *out);

/* A named output, dense; the model's result is "output". Borrowed until the next forward or
 * close. */
LS_API const ls_tensor *ls_net_output(ls_net *net, const char *name);
/* The gradient of the loss with respect to a fed f32 input. ls_net_require_input_gradient must
 * precede the first backward. With loss scaling it is the gradient of the scaled loss. */
LS_API ls_status ls_net_require_input_gradient(ls_net *net, const char *input);
LS_API const ls_tensor *ls_net_input_gradient(ls_net *net, const char *input);

/* Parameters and buffers (running statistics) in the order of the graph. The tensors are borrowed
 * views into memory of the net: dense, in memory order (convolution weights [O,H,W,I]); valid as
 * long as the net. */
typedef struct ls_parameter_info {
    const char *name;
    ls_parameter_kind kind;
    ls_tensor *value;
    /* NULL for buffers and in inference nets; of the scaled loss if there is loss scaling. A
     * program may write to it between the backward pass and ls_optimizer_step; with several ranks
     * each must write the same. That of a frozen parameter is zero and must stay zero */
    ls_tensor *gradient;
    bool frozen;
    LS_RESERVED(4);
} ls_parameter_info;
/* Counts parameters and buffers, unlike ls_net_parameter_element_count. */
LS_API int64_t ls_net_parameter_count(const ls_net *net);
LS_API ls_parameter_info ls_net_parameter_at(const ls_net *net, int64_t i);
/* The value of a parameter or buffer; NULL and an error if the name is unknown. */
LS_API ls_tensor *ls_net_parameter(ls_net *net, const char *name);
/* The number of elements of all parameters, including frozen ones; buffers are not counted. */
LS_API int64_t ls_net_parameter_element_count(const ls_net *net);

/* Parameters whose name matches the pattern (as in a shell: * ? [..]) are frozen or unfrozen.
 * Frozen parameters have no gradient and no optimizer updates them. Takes effect at the next step.
 * A batch norm whose weight and bias are both frozen uses its running statistics in training, too,
 * and does not update them (PyTorch: eval mode of that module).
 * A pattern without a match is an error. The list of parameters that are frozen when the training
 * begins is part of a run's identity, so ls_checkpoint_load requires the same list. Then a program
 * may freeze and unfreeze, between epochs for example: a checkpoint has the present list, too, and
 * ls_checkpoint_load restores it. */
LS_API ls_status ls_net_freeze(ls_net *net, const char *pattern);
LS_API ls_status ls_net_unfreeze(ls_net *net, const char *pattern);

/* The loss scale of the next step, and the number of updates skipped after the net was built;
 * either may be NULL. LS_ERR_UNSUPPORTED for a net without loss scaling. Waits for the device. */
LS_API ls_status ls_net_loss_scale(ls_net *net, double *scale, int64_t *skipped);

/* A table of the layers: output shape, parameters, multiply-adds, bytes, and below each its
 * kernels, with the reason for their selection if it is not the heuristic; then the memory plan and
 * the precision. Lines have at most 80 columns where names and shapes allow it. The text is cut to
 * `size` and always terminated. Returns the length of the whole text, as snprintf does, or -1 on
 * error. */
LS_API int ls_net_describe(ls_net *net, char *buffer, size_t size);

typedef struct ls_net_memory {
    size_t parameter_bytes; /* parameters, buffers and compute weights */
    size_t gradient_bytes;  /* and of the sums over shards */
    size_t arena_bytes;     /* activations, gradients and workspaces: largest execution plan */
    size_t scratch_bytes;   /* per-thread scratch of the kernels */
    size_t unshared_bytes;  /* size of the arena if no two values shared memory */
    LS_RESERVED(8);
} ls_net_memory;
LS_API ls_net_memory ls_net_memory_usage(const ls_net *net);

LS_END_DECLARATIONS

#endif
