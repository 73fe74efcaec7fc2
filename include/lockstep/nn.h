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
/* For a model function whose options or input it can't use: keeps the error in the context, unless
 * there is one already, and returns NULL. printf style. */
LS_API ls_node *ls_graph_fail(ls_graph *graph, ls_status status, const char *format, ...)
    LS_PRINTF(3, 4);

/* Prefixes the names of the layers up to ls_scope_end, printf style:
 * ls_scope_begin(g, "layer%d.%d", i, j) ... ls_scope_end(g). */
LS_API void ls_scope_begin(ls_graph *graph, const char *format, ...) LS_PRINTF(2, 3);
LS_API void ls_scope_end(ls_graph *graph);

/* An additional input, fed by name with ls_net_feed: f32, or i32 for labels; dims[0] = batch. */
LS_API ls_node *ls_input(ls_graph *graph, const char *name, ls_spec spec);
/* An additional output, read by name with ls_net_output. Returns node. */
LS_API ls_node *ls_output(ls_graph *graph, const char *name, ls_node *node);
/* An additional loss: a node of one element; the net minimizes the sum of weight * loss. `weight`
 * 0 means 1. Returns node. */
LS_API ls_node *ls_loss(ls_graph *graph, const char *name, ls_node *node, float weight);
/* A metric: a node of one F32 element that holds a count over the batch, such as the result of
 * ls_top_k_correct. It is reported by name, divided by the number of images. At most
 * LS_MAX_METRICS, including those that ls_net_config.loss adds. Returns node. */
enum { LS_MAX_METRICS = 8 };
LS_API ls_node *ls_metric(ls_graph *graph, const char *name, ls_node *node);

typedef enum ls_init {
    LS_INIT_DEFAULT,        /* the layer's default, stated with the layer */
    LS_INIT_HE_FAN_OUT,     /* normal, std sqrt(2 / fan_out) (He et al. 2015, "Delving deep") */
    LS_INIT_HE_FAN_IN,      /* normal, std sqrt(2 / fan_in) */
    LS_INIT_XAVIER,         /* uniform, limit sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010) */
    LS_INIT_UNIFORM_FAN_IN, /* uniform, limit 1 / sqrt(fan_in): PyTorch's default for linear and
                               conv */
    LS_INIT_NORMAL,         /* normal, std 0.01 (Krizhevsky et al. 2012) */
    LS_INIT_ZERO,
    LS_INIT_ONE
} ls_init;

typedef struct ls_conv2d_config {
    int kernel, kernel_w;     /* height and width; kernel_w 0 = kernel. kernel 0 = 1 */
    int stride, stride_w;     /* stride 0 = 1; stride_w 0 = stride */
    int padding, padding_w;   /* zeros on each side; padding_w 0 = padding, LS_ZERO_INT = 0 */
    int dilation, dilation_w; /* dilation 0 = 1; dilation_w 0 = dilation */
    int groups;               /* 0 = 1 */
    bool bias;                /* default: no bias (PyTorch: True) */
    ls_init init;             /* of the weight; default: He normal, fan out */
    ls_init bias_init;        /* default: uniform, limit 1 / sqrt(fan_in), as in PyTorch */
    LS_RESERVED(4);
} ls_conv2d_config;
/* x [N,H,W,C] -> [N,H',W',channels], H' = (H + 2 padding - dilation (kernel - 1) - 1) / stride + 1.
 * Parameters: <name>.weight [channels,kernel,kernel_w,C/groups], <name>.bias [channels].
 * An infinite or NaN input makes every output whose window contains it infinite or NaN. With a
 * Winograd kernel (see ls_net_describe) other outputs of the same 4x4 tiles may become so too. */
LS_API ls_node *ls_conv2d(ls_graph *graph, const char *name, ls_node *x, int64_t channels,
                          const ls_conv2d_config *config);

typedef struct ls_batch_norm_config {
    float epsilon;   /* 0 = 1e-5 */
    float momentum;  /* 0 = 0.1: running = (1 - momentum) * running + momentum * batch; running_var
                        takes the unbiased variance of the batch */
    bool zero_scale; /* the weight is initially 0 instead of 1 (Goyal et al. 2017, section 5.1) */
    LS_RESERVED(4);
} ls_batch_norm_config;
/* x [N,H,W,C] or [N,C]: per channel (x - mean) / sqrt(variance + epsilon) * weight + bias; batch
 * statistics (biased variance) in training, running statistics in evaluation (Ioffe & Szegedy
 * 2015). Parameters: <name>.weight, .bias [C]; buffers: <name>.running_mean, .running_var [C]. */
LS_API ls_node *ls_batch_norm(ls_graph *graph, const char *name, ls_node *x,
                              const ls_batch_norm_config *config);

typedef struct ls_layer_norm_config {
    float epsilon; /* 0 = 1e-5 */
    LS_RESERVED(4);
} ls_layer_norm_config;
/* x [N,H,W,C] or [N,C]: (x - mean) / sqrt(variance + epsilon) * weight + bias, with the mean and
 * the biased variance over the channels of each pixel (Ba et al. 2016; torch.nn.LayerNorm(C) of
 * channels-last tensors). Parameters: <name>.weight, .bias [C]. */
LS_API ls_node *ls_layer_norm(ls_graph *graph, const char *name, ls_node *x,
                              const ls_layer_norm_config *config);

typedef struct ls_group_norm_config {
    float epsilon; /* 0 = 1e-5 */
    LS_RESERVED(4);
} ls_group_norm_config;
/* The same with statistics over all pixels of an image and C / groups adjacent channels (Wu & He
 * 2018; torch.nn.GroupNorm). LS_ERR_SHAPE if groups does not divide C. */
LS_API ls_node *ls_group_norm(ls_graph *graph, const char *name, ls_node *x, int64_t groups,
                              const ls_group_norm_config *config);

/* x [N,H,W,C] or [N,C]: e^x / sum of e^x over the channels. ls_cross_entropy takes logits, and
 * needs no softmax before it. */
LS_API ls_node *ls_softmax(ls_graph *graph, ls_node *x);

/* Functions of each element; x of any shape. */
LS_API ls_node *ls_relu(ls_graph *graph, ls_node *x);    /* max(x, 0) */
LS_API ls_node *ls_relu6(ls_graph *graph, ls_node *x);   /* min(max(x, 0), 6) */
LS_API ls_node *ls_sigmoid(ls_graph *graph, ls_node *x); /* 1 / (1 + e^-x) */
LS_API ls_node *ls_tanh(ls_graph *graph, ls_node *x);
LS_API ls_node *ls_silu(ls_graph *graph, ls_node *x); /* x sigmoid(x), also called swish */
/* x P(x), P the distribution function of the standard normal distribution (Hendrycks & Gimpel
 * 2016); PyTorch: approximate='none'. */
LS_API ls_node *ls_gelu(ls_graph *graph, ls_node *x);
/* x for x >= 0, slope x below (torch.nn.LeakyReLU; its default slope is 0.01). LS_ERR_INVALID for a
 * slope below 0. */
LS_API ls_node *ls_leaky_relu(ls_graph *graph, ls_node *x, float slope);
LS_API ls_node *ls_hard_sigmoid(ls_graph *graph, ls_node *x); /* min(max(x + 3, 0), 6) / 6 */
LS_API ls_node *ls_hard_swish(ls_graph *graph, ls_node *x);   /* x min(max(x + 3, 0), 6) / 6 */
LS_API ls_node *ls_exp(ls_graph *graph, ls_node *x);          /* 0 where it would be subnormal */
LS_API ls_node *ls_log(ls_graph *graph, ls_node *x);
LS_API ls_node *ls_sqrt(ls_graph *graph, ls_node *x);
LS_API ls_node *ls_abs(ls_graph *graph, ls_node *x); /* its gradient at 0 is 0 */

typedef struct ls_linear_config {
    bool no_bias;
    ls_init init, bias_init; /* of the weight and the bias; default: uniform, limit 1 /
                                sqrt(fan_in), as in PyTorch */
    LS_RESERVED(4);
} ls_linear_config;
/* x [N,I] -> [N,features], x W^T + b. Parameters: <name>.weight [features,I], <name>.bias
 * [features]. */
LS_API ls_node *ls_linear(ls_graph *graph, const char *name, ls_node *x, int64_t features,
                          const ls_linear_config *config);

typedef struct ls_pool_config {
    int kernel, stride, padding; /* the same in both directions; kernel: required; stride 0 =
                                    kernel. ls_avg_pool counts the padded zeros (PyTorch:
                                    count_include_pad=True); ls_max_pool ignores the padding */
    LS_RESERVED(4);
} ls_pool_config;
LS_API ls_node *ls_max_pool(ls_graph *graph, ls_node *x, const ls_pool_config *config);
LS_API ls_node *ls_avg_pool(ls_graph *graph, ls_node *x, const ls_pool_config *config);
LS_API ls_node *ls_global_avg_pool(ls_graph *graph, ls_node *x); /* [N,H,W,C] -> [N,C] */
/* [N,H,W,C] -> [N,side,side,C]: averages of windows of equal size, as torch.nn.AdaptiveAvgPool2d.
 * With H = W = side it is x. LS_ERR_UNSUPPORTED unless H and W are the same multiple of side,
 * LS_ERR_INVALID for a side below 1. */
LS_API ls_node *ls_adaptive_avg_pool(ls_graph *graph, ls_node *x, int64_t side);

LS_API ls_node *ls_add(ls_graph *graph, ls_node *a, ls_node *b); /* same shape */
LS_API ls_node *ls_mul(ls_graph *graph, ls_node *a,
                       ls_node *b); /* same shape; element-wise product */
/* Concatenates n nodes along their channels, in order: [N,H,W,C_i] -> [N,H,W,sum of C_i], or
 * [N,C_i] -> [N,sum of C_i]. A node may be given more than once. n is 1 to LS_MAX_CONCAT_INPUTS,
 * else LS_ERR_INVALID. LS_ERR_SHAPE if any dimension other than the channels differs. */
enum { LS_MAX_CONCAT_INPUTS = 32 };
LS_API ls_node *ls_concat(ls_graph *graph, int n, ls_node *const *nodes);
/* [N,H,W,C] -> [N,H,W,channels], channels >= C: the added channels are zeros. */
LS_API ls_node *ls_pad_channels(ls_graph *graph, ls_node *x, int64_t channels);
LS_API ls_node *ls_flatten(ls_graph *graph,
                           ls_node *x); /* [N,...] -> [N,product], in memory order */

/* In training, each element is set to 0 with probability `probability`; the others are divided by
 * (1 - probability) (Srivastava et al. 2014). */
LS_API ls_node *ls_dropout(ls_graph *graph, ls_node *x, float probability);

typedef enum ls_stochastic_depth_mode {
    LS_STOCHASTIC_DEPTH_ROW,  /* one draw for each image */
    LS_STOCHASTIC_DEPTH_BATCH /* one draw for the batch */
} ls_stochastic_depth_mode;
/* In training, each image of x [N,...] is set to 0 with probability `probability`, or all of them
 * are; the others are divided by (1 - probability). For the branch of a residual block (Huang et
 * al. 2016, "Deep networks with stochastic depth"; torchvision.ops.stochastic_depth). */
LS_API ls_node *ls_stochastic_depth(ls_graph *graph, ls_node *x, float probability,
                                    ls_stochastic_depth_mode mode);

typedef struct ls_cross_entropy_config {
    float
        label_smoothing; /* in [0,1): target (1 - s) one-hot + s / classes (Szegedy et al. 2016) */
    const float *class_weights; /* one per class, copied; NULL = all 1. The mean is weighted, as in
                                   PyTorch */
    LS_RESERVED(4);
} ls_cross_entropy_config;
/* Mean softmax cross-entropy: logits [N,K], labels i32 [N] -> [1]. Rows with label -1 are ignored
 * (PyTorch: ignore_index); where all labels are -1, loss and gradient are 0 (PyTorch: NaN).
 *
 * Instead of labels it also takes targets f32 [N,K], the probabilities of the classes: the mean
 * over the rows of -sum over k of W[k] t[k] log p[k], with t = (1 - s) target + s / K; so, as in
 * PyTorch, class weights W do not change the divisor N. Targets of this and the next two losses
 * must be an ls_input (LS_ERR_INVALID), and have no gradient. */
LS_API ls_node *ls_cross_entropy(ls_graph *graph, ls_node *logits, ls_node *labels,
                                 const ls_cross_entropy_config *config);

typedef struct ls_binary_cross_entropy_config {
    const float *positive_weights; /* one per class, >= 0, copied; NULL = all 1. They multiply the
                                      term of target 1 (PyTorch: pos_weight) */
    LS_RESERVED(4);
} ls_binary_cross_entropy_config;
/* Binary cross-entropy of sigmoid(logits), for samples of several classes at once: logits [N,K],
 * targets f32 [N,K] in [0,1] -> [1], the mean over all elements of
 * -(w t log sigmoid(x) + (1 - t) log(1 - sigmoid(x))), computed as
 * (1 - t) x + (1 + (w - 1) t) (log(1 + e^-|x|) + max(-x, 0)), without overflow (PyTorch:
 * BCEWithLogitsLoss). */
LS_API ls_node *ls_binary_cross_entropy(ls_graph *graph, ls_node *logits, ls_node *targets,
                                        const ls_binary_cross_entropy_config *config);

/* x [N,K], targets f32 [N,K] -> [1]: the mean over all elements of (x - target)^2, for regression
 * (PyTorch: MSELoss). ls_flatten makes [N,K] of other shapes. */
LS_API ls_node *ls_mse(ls_graph *graph, ls_node *x, ls_node *targets);

/* Counts the rows whose label is among the k largest logits: logits [N,K], labels i32 [N] -> [1]. A
 * row counts if fewer than k other logits are greater than or equal to the label's, so ties count
 * against it. No gradient. */
LS_API ls_node *ls_top_k_correct(ls_graph *graph, ls_node *logits, ls_node *labels, int k);

/* ---- Custom parameters and ops ---- */

typedef enum ls_parameter_kind {
    LS_PARAMETER_WEIGHT,
    LS_PARAMETER_BIAS,  /* no weight decay with LS_WEIGHT_DECAY_WEIGHTS */
    LS_PARAMETER_NORM,  /* no weight decay with LS_WEIGHT_DECAY_WEIGHTS */
    LS_PARAMETER_BUFFER /* running statistics: not trained; not for ls_parameter */
} ls_parameter_kind;
/* A trainable f32 tensor, which can be an input of ls_custom_op. fan_in and fan_out are taken from
 * the shape [out,...,in]. Default init: weights He normal, fan out; biases 0; norms 1. */
LS_API ls_node *ls_parameter(ls_graph *graph, const char *name, ls_shape shape,
                             ls_parameter_kind kind, ls_init init);

enum { LS_MAX_CUSTOM_OP_INPUTS = 5 };
/* The arguments of a custom op's callback: dense f32 (or i32) arrays in logical order, in device
 * memory. */
typedef struct ls_custom_op_call {
    int n_inputs;
    const void *inputs[LS_MAX_CUSTOM_OP_INPUTS];
    const ls_spec *input_specs;
    void *output; /* forward: the callback writes it. backward: the output of forward, read-only */
    ls_spec output_spec;
    const float *output_gradient;                    /* backward only */
    float *input_gradients[LS_MAX_CUSTOM_OP_INPUTS]; /* backward only: the callback writes all of
                                                        each; NULL = not needed */
    bool training;
    void *user;
    void *stream; /* the device's cudaStream_t for the work; NULL on the CPU */
} ls_custom_op_call;
typedef struct ls_custom_op_config {
    const char *kind; /* for messages and ls_net_describe: "swish"; required */
    ls_spec output;   /* f32; required, or infer. If dims[0] equals dims[0] of an input, it changes
                         with the batch size */
    ls_status (*forward)(const ls_custom_op_call *call);  /* required */
    ls_status (*backward)(const ls_custom_op_call *call); /* NULL = not differentiable */
    void *user;                                           /* passed to both; must outlive the net */
    const char *settings; /* all settings that change results, as text: "version 2, slope 0.1";
                             copied. It is part of a run's identity, like the kind: a checkpoint
                             with other settings is rejected. May be NULL */
    bool capturable; /* for CUDA: true promises that the callbacks only submit work to the stream,
                        the same work in each call; they do not synchronize, allocate, or copy to
                        or from host memory. Steps with this op are then captured as CUDA graphs,
                        and a replay does not call the callbacks. If false, nets with this op run op
                        by op. Ignored on the CPU */
    /* In place of `output`: sets *output, an f32 shape, for inputs of these shapes, as they are in
     * the model and in each batch. Must depend on its arguments alone; it may run several times */
    ls_status (*infer)(int n_inputs, const ls_spec *inputs, ls_spec *output, void *user);
    LS_RESERVED(7);
} ls_custom_op_config;
/* The callbacks run one at a time, in the thread that calls ls_net_step, ls_net_evaluate,
 * ls_net_forward or ls_net_backward. A status other than LS_OK ends the step with that status. */
LS_API ls_node *ls_custom_op(ls_graph *graph, const char *name, int n_inputs,
                             ls_node *const *inputs, const ls_custom_op_config *config);

LS_END_DECLARATIONS

#endif
