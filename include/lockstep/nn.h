/* nn.h: layers. A model is a C function that takes an input node and returns an output node;
 * ls_net_build (net.h) calls it once.
 *
 * Every layer call checks its shapes and appends one node to the graph. On failure it keeps the
 * error in the context and returns NULL; if an input is NULL, it only returns NULL, so calls can be
 * nested. Nodes and names belong to the graph. `name` is copied and prefixed by the open scopes:
 * "layer1.0.conv1". NULL config = all defaults. Shapes: N images, height H, width W, C channels, in
 * memory order. */
#ifndef LOCKSTEP_NN_H
#define LOCKSTEP_NN_H

#include <lockstep/tensor.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_graph ls_graph;
typedef struct ls_node ls_node;
typedef ls_node *(*ls_model_fn)(ls_graph *graph, ls_node *input, const void *options);

LS_API ls_shape ls_node_shape(const ls_node *node);
LS_API ls_context *ls_graph_context(ls_graph *graph);

/* Prefixes the names of the layers up to ls_scope_end, printf style:
 * ls_scope(g, "layer%d.%d", i, j) ... ls_scope_end(g). */
LS_API void ls_scope(ls_graph *graph, const char *format, ...) LS_PRINTF(2, 3);
LS_API void ls_scope_end(ls_graph *graph);

/* An additional input, fed by name with ls_net_feed. f32, or i32 for labels. dims[0] is the batch.
 */
LS_API ls_node *ls_input(ls_graph *graph, const char *name, ls_spec spec);
/* An additional output, read by name with ls_net_output. Returns node. */
LS_API ls_node *ls_output(ls_graph *graph, const char *name, ls_node *node);
/* An additional loss: a node of one element; the net minimises the sum of weight * loss. weight 0
 * = 1. Returns node. */
LS_API ls_node *ls_loss(ls_graph *graph, const char *name, ls_node *node, float weight);
/* A metric: a node of one F32 element that holds a count over the batch, such as that of ls_top_k.
 * It is reported by name, divided by the number of images. At most LS_MAX_METRICS, including those
 * of the config loss. Returns node. */
enum { LS_MAX_METRICS = 8 };
LS_API ls_node *ls_metric(ls_graph *graph, const char *name, ls_node *node);

typedef enum ls_init {
    LS_INIT_DEFAULT,        /* the layer's default, stated with the layer */
    LS_INIT_HE_FAN_OUT,     /* normal, std sqrt(2 / fan_out) (He et al. 2015, "Delving deep") */
    LS_INIT_HE_FAN_IN,      /* normal, std sqrt(2 / fan_in) */
    LS_INIT_XAVIER,         /* uniform, limit sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010) */
    LS_INIT_UNIFORM_FAN_IN, /* uniform, limit 1 / sqrt(fan_in): PyTorch's default for linear and
                               conv */
    LS_INIT_ZERO,
    LS_INIT_ONE
} ls_init;

typedef struct ls_conv2d_config {
    int kernel, kernel_w;     /* height and width; kernel_w 0 = kernel. kernel 0 = 1 */
    int stride, stride_w;     /* stride 0 = 1; stride_w 0 = stride */
    int padding, padding_w;   /* zeros on each side; padding_w 0 = padding, LS_NONE = 0 */
    int dilation, dilation_w; /* dilation 0 = 1; dilation_w 0 = dilation */
    int groups;               /* 0 = 1 */
    bool bias;                /* initially uniform, limit 1 / sqrt(fan_in), as in PyTorch */
    ls_init init;             /* of the weight; default: He normal, fan out */
} ls_conv2d_config;
/* x [N,H,W,C] -> [N,H',W',channels], H' = (H + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
 * Parameters: <name>.weight [channels,kernel,kernel_w,C/groups], <name>.bias [channels].
 * An infinite or NaN input makes every output whose window contains it infinite or NaN. With a
 * Winograd kernel (see ls_net_describe) other outputs of the same 4x4 tiles may become so too. */
LS_API ls_node *ls_conv2d(ls_graph *graph, const char *name, ls_node *x, int64_t channels,
                          const ls_conv2d_config *config);

typedef struct ls_batch_norm_config {
    float epsilon;  /* 0 = 1e-5 */
    float momentum; /* 0 = 0.1: running = (1 - momentum) running + momentum batch; variance unbiased
                     */
    bool zero_scale; /* initial scale 0 instead of 1 (Goyal et al. 2017, section 5.1) */
} ls_batch_norm_config;
/* x [N,H,W,C] or [N,C]: per channel (x - mean) / sqrt(variance + epsilon) * weight + bias; batch
 * statistics (biased variance) in training, running statistics in evaluation (Ioffe & Szegedy
 * 2015). Parameters: <name>.weight, .bias [C]; buffers: <name>.running_mean, .running_var [C]. */
LS_API ls_node *ls_batch_norm(ls_graph *graph, const char *name, ls_node *x,
                              const ls_batch_norm_config *config);

/* max(x, 0), in place when no other node reads x. */
LS_API ls_node *ls_relu(ls_graph *graph, ls_node *x);
/* 1 / (1 + e^-x) of each element; x of any shape. */
LS_API ls_node *ls_sigmoid(ls_graph *graph, ls_node *x);

typedef struct ls_linear_config {
    bool no_bias;
    ls_init init; /* of the weight; default: uniform, limit 1 / sqrt(fan_in), as PyTorch's. The bias
                     always begins so */
} ls_linear_config;
/* x [N,I] -> [N,features], x W^T + b. Parameters: <name>.weight [features,I], <name>.bias
 * [features]. */
LS_API ls_node *ls_linear(ls_graph *graph, const char *name, ls_node *x, int64_t features,
                          const ls_linear_config *config);

typedef struct ls_pool_config {
    int kernel, stride,
        padding; /* square; stride 0 = kernel. Averages count padded zeros, as PyTorch by default */
} ls_pool_config;
LS_API ls_node *ls_max_pool(ls_graph *graph, ls_node *x, const ls_pool_config *config);
LS_API ls_node *ls_avg_pool(ls_graph *graph, ls_node *x, const ls_pool_config *config);
LS_API ls_node *ls_global_avg_pool(ls_graph *graph, ls_node *x); /* [N,H,W,C] -> [N,C] */

LS_API ls_node *ls_add(ls_graph *graph, ls_node *a, ls_node *b); /* same shape */
LS_API ls_node *ls_mul(ls_graph *graph, ls_node *a, ls_node *b); /* same shape; a b, by element */
/* Concatenates n nodes along their channels, in order: [N,H,W,C_i] -> [N,H,W,sum of C_i], or
 * [N,C_i] -> [N,sum of C_i]. A node may be given more than once. n is 1 to LS_MAX_CONCAT_INPUTS,
 * else LS_ERR_INVALID. LS_ERR_SHAPE if any dimension other than the channels differs. */
enum { LS_MAX_CONCAT_INPUTS = 32 };
LS_API ls_node *ls_concat(ls_graph *graph, int n, ls_node *const *nodes);
/* [N,H,W,C] -> [N,H,W,channels], channels >= C: the added channels are zeros. */
LS_API ls_node *ls_pad_channels(ls_graph *graph, ls_node *x, int64_t channels);
LS_API ls_node *ls_flatten(ls_graph *graph,
                           ls_node *x); /* [N,...] -> [N,product], in memory order */

/* In training, each element is 0 with this probability, else divided by (1 - probability)
 * (Srivastava et al. 2014). */
LS_API ls_node *ls_dropout(ls_graph *graph, ls_node *x, float probability);

typedef struct ls_cross_entropy_config {
    float
        label_smoothing; /* in [0,1): target (1 - s) one-hot + s / classes (Szegedy et al. 2016) */
    const float *
        class_weights; /* one per class, copied; NULL = all 1. The mean is weighted, as PyTorch's */
} ls_cross_entropy_config;
/* Mean softmax cross-entropy: logits [N,K], labels i32 [N] -> [1]. A label of -1 is left out of the
 * mean; where all labels are -1, loss and gradient are 0 (PyTorch: NaN). */
LS_API ls_node *ls_cross_entropy(ls_graph *graph, ls_node *logits, ls_node *labels,
                                 const ls_cross_entropy_config *config);

/* The number of rows, of N, whose label is among the k largest logits, counted on the device ->
 * [1]. A row counts if fewer than k other logits are greater than or equal to the label's, so ties
 * count against it. No gradient. */
LS_API ls_node *ls_top_k(ls_graph *graph, ls_node *logits, ls_node *labels, int k);

/* ---- Custom parameters and ops ---- */

typedef enum ls_parameter_kind {
    LS_PARAMETER_WEIGHT,
    LS_PARAMETER_BIAS, /* like LS_PARAMETER_NORM, without weight decay with LS_DECAY_WEIGHTS */
    LS_PARAMETER_NORM,
    LS_PARAMETER_BUFFER /* running statistics: not trained; not for ls_parameter */
} ls_parameter_kind;
/* A trained f32 tensor, an input of ls_op. fan_in and fan_out are taken from the shape
 * [out,...,in]. Default init: He normal, fan out, for weights, 0 for biases, 1 for norms. */
LS_API ls_node *ls_parameter(ls_graph *graph, const char *name, ls_shape shape,
                             ls_parameter_kind kind, ls_init init);

enum { LS_MAX_OP_INPUTS = 5 };
/* The arguments of a user's callback: dense f32 (or i32) arrays in logical order, in device memory.
 */
typedef struct ls_op_call {
    int n_inputs;
    const void *inputs[LS_MAX_OP_INPUTS];
    const ls_spec *input_specs;
    void *output; /* forward: the callback writes it. backward: the forward's output, read-only */
    ls_spec output_spec;
    const float *output_gradient;             /* backward only */
    float *input_gradients[LS_MAX_OP_INPUTS]; /* backward only: the callback writes all of each;
                                                 NULL = not needed */
    bool training;
    void *user;
    void *stream; /* the device's cudaStream_t for the work; NULL on the CPU */
} ls_op_call;
typedef struct ls_op_config {
    const char *kind; /* for messages and ls_net_describe: "swish"; required */
    ls_spec output;   /* f32; required. If dims[0] equals dims[0] of an input, it changes with the
                         batch size */
    ls_status (*forward)(const ls_op_call *call);  /* required */
    ls_status (*backward)(const ls_op_call *call); /* NULL = no gradient flows through */
    void *user;                                    /* passed to both; must outlive the net */
    const char *settings; /* all settings that change results, as text: "version 2, slope 0.1";
                             copied. It is part of a run's identity, like the kind: a checkpoint
                             with other settings is rejected. May be NULL */
    bool capturable; /* for CUDA: true promises that the callbacks only submit work to the stream,
                        the same work in each call; they do not wait, allocate or copy to the
                        memory. Steps with this op are then captured as CUDA graphs, and a replay
                        does not call the callbacks. If false, nets with this op run op by op.
                        Ignored on the CPU */
} ls_op_config;
/* The callbacks run on the thread that steps the net, one at a time. A status other than LS_OK ends
 * the step with that status. */
LS_API ls_node *ls_op(ls_graph *graph, const char *name, int n_inputs, ls_node *const *inputs,
                      const ls_op_config *config);

LS_END_DECLARATIONS

#endif
