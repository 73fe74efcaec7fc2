/* ops.h: the ops that a backend runs: their kinds with formulas and traits, operands, settings. */
#ifndef LS_BACKEND_OPS_H
#define LS_BACKEND_OPS_H

#include "arith/activation.h"
#include "comm/merges.h"
#include <lockstep/tensor.h>

/* One operand of an op: a dense tensor. Images are N,H,W,C. */
typedef struct ls__operand {
    ls_dtype dtype;
    ls_shape shape;
} ls__operand;

/* The settings of an op that kernel selection may depend on: a member of ls__op_settings. */
typedef enum ls__op_config {
    LS__CONFIG_NONE,
    LS__CONFIG_CONV,
    LS__CONFIG_POOL,
    LS__CONFIG_NORM,
    LS__CONFIG_ADD,
    LS__CONFIG_LINEAR,
    LS__CONFIG_CONCAT,
    LS__CONFIG_TOP_K
} ls__op_config;

/* The properties of an op kind in every backend: one row of LS__OP_LIST. Lists contain names of
 * operands, separated by spaces. */
typedef struct ls__op_traits {
    const char *name;       /* "conv2d_backward_data" */
    const char *operands;   /* in order, inputs before "->"; "x?" may be absent */
    const char *half;       /* operands that may be bf16 or f16 instead of f32: all have one type */
    const char *mutates;    /* inputs that the op updates */
    const char *in_place;   /* "y=a y=b": y may be written into a's memory, or into b's */
    bool in_place_unshared; /* only if no other input shares that memory */
    bool optional;          /* a backend may have no kernel */
    bool unlisted;          /* no selection: its operands' shapes depend on the number of ranks */
    bool multiplies;        /* activations by weights: tf32 applies, and the work is counted */
    bool weight_gradient;   /* may run concurrently with the rest of the backward pass */
    bool cheap_to_recompute; /* the first output; convolutions only with few multiplications */
    bool all_shards; /* runs for all shards of a batch before the next op does for any of them */
    ls__op_config config;
} ls__op_traits;

/* X(NAME, text, operands, traits...). An absent operand's pointer is NULL and its shape has n_dims
 * -1. Operands are f32 unless stated otherwise. dX is the gradient of the loss with respect to X.
 * Arithmetic is f32 for 16-bit operands, too. */
#define LS__OP_LIST(X)                                                                             \
    /* y = x, of any type and as many elements in any shape. It has no kernel: both share memory,  \
     * or the device copies */                                                                     \
    X(COPY, "copy", "x -> y", .half = "x y", .cheap_to_recompute = true)                           \
    /* y = x in another type: f32 to bf16 or f16, or back; any shape */                            \
    X(CAST, "cast", "x -> y", .cheap_to_recompute = true)                                          \
    /* y = (x / 255 - mean[c]) / std[c]; x u8 [N,H,W,C], C <= 4, y [N,H,W,D], D >= C: y's channels \
     * from C on are 0 */                                                                          \
    X(NORMALIZE, "normalize", "x -> y", .half = "y", .cheap_to_recompute = true)                   \
    /* w [O,kh,kw,I/groups], b [O] */                                                              \
    X(CONV2D, "conv2d", "x w b? -> y", .half = "x w b y", .multiplies = true,                      \
      .cheap_to_recompute = true, .config = LS__CONFIG_CONV)                                       \
    X(CONV2D_BACKWARD_DATA, "conv2d_backward_data", "dy w -> dx", .half = "dy w dx",               \
      .multiplies = true, .config = LS__CONFIG_CONV)                                               \
    X(CONV2D_BACKWARD_WEIGHTS, "conv2d_backward_weights", "x dy -> dw db?", .half = "x dy",        \
      .multiplies = true, .weight_gradient = true, .config = LS__CONFIG_CONV)                      \
    /* x [N,I], w [O,I], b [O]; y = relu?(x w^T + b) */                                            \
    X(LINEAR, "linear", "x w b? -> y", .half = "x w b y", .multiplies = true,                      \
      .config = LS__CONFIG_LINEAR)                                                                 \
    X(LINEAR_BACKWARD_DATA, "linear_backward_data", "dy w -> dx", .half = "dy w dx",               \
      .multiplies = true)                                                                          \
    X(LINEAR_BACKWARD_WEIGHTS, "linear_backward_weights", "x dy -> dw db?", .half = "x dy",        \
      .multiplies = true, .weight_gradient = true)                                                 \
    /* y = activation((x - mean) * invstd * scale + shift + add?), with mean and invstd of the     \
     * batch. running = (1 - momentum) running + momentum batch, with the unbiased variance */     \
    X(BATCH_NORM, "batch_norm", "x scale shift running_mean running_var add? -> y mean invstd",    \
      .half = "x add y", .mutates = "running_mean running_var", .cheap_to_recompute = true,        \
      .config = LS__CONFIG_NORM)                                                                   \
    X(BATCH_NORM_EVAL, "batch_norm_eval", "x scale shift running_mean running_var add? -> y",      \
      .half = "x add y", .config = LS__CONFIG_NORM)                                                \
    /* dadd = activation gradient of (y, dy1 + dy2?). If dadd is present, dx may be computed from  \
     * the stored dadd. shift is present if y = activation(x's norm) without an addend: the same   \
     * device's kernel can then recompute y from x to the bit instead of reading it */             \
    X(BATCH_NORM_BACKWARD, "batch_norm_backward",                                                  \
      "x y? dy1 dy2? scale mean invstd shift? -> dx dscale dshift dadd?",                          \
      .half = "x y dy1 dy2 dx dadd", .in_place = "dx=dy1 dx=dy2 dadd=dy1 dadd=dy2",                \
      .in_place_unshared = true, .config = LS__CONFIG_NORM)                                        \
    /* The optional ops: shares of a batch norm, if the neighbouring convolutions compute the      \
     * rest. The convolution before it also writes the sums of y and of its squares over N, H and  \
     * W. NORM_FINALIZE turns them into the norm of each channel, x a + b. Either NORM_APPLY       \
     * applies it, or the convolution after it applies it and the ReLU to its own input, and       \
     * relu(x a + b) is never stored. All but x, y, w, dz: [C]. Sums are f32, of y before or after \
     * rounding; each kernel always uses the same of the two */                                    \
    X(CONV2D_STATISTICS, "conv2d_statistics", "x w -> y sum squares", .half = "x w y",             \
      .optional = true, .multiplies = true, .config = LS__CONFIG_CONV)                             \
    /* y = conv(relu(x a + b)) */                                                                  \
    X(NORM_CONV2D_STATISTICS, "norm_conv2d_statistics", "x a b w -> y sum squares",                \
      .half = "x a b w y", .optional = true, .multiplies = true, .config = LS__CONFIG_CONV)        \
    /* dw of NORM_CONV2D_STATISTICS */                                                             \
    X(NORM_CONV2D_BACKWARD_WEIGHTS, "norm_conv2d_backward_weights", "x a b dy -> dw",              \
      .half = "x a b dy", .optional = true, .multiplies = true, .weight_gradient = true,           \
      .config = LS__CONFIG_CONV)                                                                   \
    /* dz of y = conv(relu(z)), z = (x - mean) * invstd * scale + shift; the gradients of the      \
     * norm; p, q, r for NORM_BACKWARD_APPLY */                                                    \
    X(NORM_CONV2D_BACKWARD_DATA, "norm_conv2d_backward_data",                                      \
      "dy w x mean invstd scale shift -> dz dscale dshift p q r", .half = "dy w x dz",             \
      .optional = true, .multiplies = true, .config = LS__CONFIG_CONV)                             \
    /* from the sums over `count` values: a = invstd * scale, b = shift - mean * a; running        \
     * statistics as BATCH_NORM's */                                                               \
    X(NORM_FINALIZE, "norm_finalize",                                                              \
      "sum squares scale shift running_mean running_var -> mean invstd a b", .half = "a b",        \
      .mutates = "running_mean running_var", .optional = true)                                     \
    /* BATCH_NORM's y from its saved results; equal to the bit if the kernels have one name */     \
    X(NORM_APPLY, "norm_apply", "x mean invstd scale shift add? -> y", .half = "x add y",          \
      .optional = true, .cheap_to_recompute = true, .config = LS__CONFIG_NORM)                     \
    /* dx = p dz + q x + r */                                                                      \
    X(NORM_BACKWARD_APPLY, "norm_backward_apply", "dz x p q r -> dx", .half = "dz x dx",           \
      .in_place = "dx=dz", .optional = true)                                                       \
    /* A batch norm with the statistics of the whole batch: shares of it that run shard by shard.  \
     * Each shard writes row step.shard of moments or products [shards,4,C], which are the sums of \
     * arith/norm_sums.h over N, H and W. The op after it adds the first step.n_shards rows in a   \
     * binary tree; step.n_samples times `count` values make a channel. Moments are the sums of x  \
     * and of x^2 */                                                                               \
    X(NORM_MOMENTS, "norm_moments", "x moments -> ", .half = "x", .mutates = "moments",            \
      .all_shards = true)                                                                          \
    /* running statistics as BATCH_NORM's */                                                       \
    X(NORM_STATISTICS, "norm_statistics", "moments running_mean running_var -> mean invstd",       \
      .mutates = "running_mean running_var")                                                       \
    /* dz = activation gradient of (y, dy1 + dy2?); y and shift as in BATCH_NORM_BACKWARD. dscale  \
     * and dshift are the shard's. Products are the sums of dz and of dz (x - mean) invstd */      \
    X(NORM_BACKWARD_PRODUCTS, "norm_backward_products",                                            \
      "x y? dy1 dy2? scale mean invstd shift? products -> dscale dshift dz?",                      \
      .half = "x y dy1 dy2 dz", .mutates = "products", .in_place = "dz=dy1 dz=dy2",                \
      .in_place_unshared = true, .all_shards = true, .config = LS__CONFIG_NORM)                    \
    /* for NORM_BACKWARD_APPLY */                                                                  \
    X(NORM_BACKWARD_COEFFICIENTS, "norm_backward_coefficients",                                    \
      "products scale mean invstd -> p q r")                                                       \
    /* any shape */                                                                                \
    X(RELU, "relu", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)        \
    X(RELU_BACKWARD, "relu_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")        \
    /* y = relu?(a + b) */                                                                         \
    X(ADD, "add", "a b -> y", .half = "a b y", .in_place = "y=a y=b", .cheap_to_recompute = true,  \
      .config = LS__CONFIG_ADD)                                                                    \
    /* arith/activation.h has these functions */                                                   \
    X(RELU6, "relu6", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)      \
    X(RELU6_BACKWARD, "relu6_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")      \
    X(SIGMOID, "sigmoid", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)  \
    X(SIGMOID_BACKWARD, "sigmoid_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")  \
    X(TANH, "tanh", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)        \
    X(TANH_BACKWARD, "tanh_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")        \
    X(SILU, "silu", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)        \
    X(SILU_BACKWARD, "silu_backward", "x dy -> dx", .half = "x dy dx", .in_place = "dx=dy")        \
    X(GELU, "gelu", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)        \
    X(GELU_BACKWARD, "gelu_backward", "x dy -> dx", .half = "x dy dx", .in_place = "dx=dy")        \
    X(HARD_SIGMOID, "hard_sigmoid", "x -> y", .half = "x y", .in_place = "y=x",                    \
      .cheap_to_recompute = true)                                                                  \
    X(HARD_SIGMOID_BACKWARD, "hard_sigmoid_backward", "x dy -> dx", .half = "x dy dx",             \
      .in_place = "dx=dy")                                                                         \
    X(HARD_SWISH, "hard_swish", "x -> y", .half = "x y", .in_place = "y=x",                        \
      .cheap_to_recompute = true)                                                                  \
    X(HARD_SWISH_BACKWARD, "hard_swish_backward", "x dy -> dx", .half = "x dy dx",                 \
      .in_place = "dx=dy")                                                                         \
    X(EXP, "exp", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)          \
    X(EXP_BACKWARD, "exp_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")          \
    X(LOG, "log", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)          \
    X(LOG_BACKWARD, "log_backward", "x dy -> dx", .half = "x dy dx", .in_place = "dx=dy")          \
    X(SQRT, "sqrt", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)        \
    X(SQRT_BACKWARD, "sqrt_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")        \
    X(ABS, "abs", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)          \
    X(ABS_BACKWARD, "abs_backward", "x dy -> dx", .half = "x dy dx", .in_place = "dx=dy")          \
    X(LEAKY_RELU, "leaky_relu", "x -> y", .half = "x y", .in_place = "y=x",                        \
      .cheap_to_recompute = true)                                                                  \
    X(LEAKY_RELU_BACKWARD, "leaky_relu_backward", "y dy -> dx", .half = "y dy dx",                 \
      .in_place = "dx=dy")                                                                         \
    /* y = a b; also its gradients: da = dy b, db = dy a */                                        \
    X(MUL, "mul", "a b -> y", .half = "a b y", .in_place = "y=a y=b", .cheap_to_recompute = true)  \
    /* x, y [N,H,W,C] or [N,C]: y = e^x / sum e^x, the sum over a place's channels */              \
    X(SOFTMAX, "softmax", "x -> y", .half = "x y")                                                 \
    X(SOFTMAX_BACKWARD, "softmax_backward", "y dy -> dx", .half = "y dy dx")                       \
    /* x [N,H,W,C] or [N,C], mean, invstd [instances,groups]: y = (x - mean) * invstd * scale +    \
     * shift, with the statistics of an instance (an image, or a place) and a group of channels */ \
    X(GROUP_NORM, "group_norm", "x scale shift -> y mean invstd", .half = "x y")                   \
    X(GROUP_NORM_BACKWARD, "group_norm_backward", "x dy scale mean invstd -> dx dscale dshift",    \
      .half = "x dy dx")                                                                           \
    /* x [N,H,W,C] or [N,C], y [N,H,W,D] or [N,D]: y's channels from `offset` on are x's, the      \
     * others are rest's, or 0. dx = dy's C channels from `offset` on. A concatenation is a chain  \
     * of these: `rest` is the result of the previous one */                                       \
    X(CONCAT, "concat", "x rest? -> y", .half = "x rest y", .in_place = "y=rest",                  \
      .config = LS__CONFIG_CONCAT)                                                                 \
    X(CONCAT_BACKWARD, "concat_backward", "dy -> dx", .half = "dy dx",                             \
      .config = LS__CONFIG_CONCAT)                                                                 \
    /* y [N,H,W,D] = x [N,H,W,C], then channels of 0; dx = dy's first C channels */                \
    X(PAD_CHANNELS, "pad_channels", "x -> y", .half = "x y", .cheap_to_recompute = true)           \
    X(PAD_CHANNELS_BACKWARD, "pad_channels_backward", "dy -> dx", .half = "dy dx")                 \
    /* index u8 (windows of up to 255 elements) or i32: position of the first maximum in its       \
     * window */                                                                                   \
    X(MAX_POOL, "max_pool", "x -> y index?", .half = "x y", .cheap_to_recompute = true,            \
      .config = LS__CONFIG_POOL)                                                                   \
    X(MAX_POOL_BACKWARD, "max_pool_backward", "dy index -> dx", .half = "dy dx",                   \
      .config = LS__CONFIG_POOL)                                                                   \
    X(AVG_POOL, "avg_pool", "x -> y", .half = "x y", .cheap_to_recompute = true,                   \
      .config = LS__CONFIG_POOL)                                                                   \
    X(AVG_POOL_BACKWARD, "avg_pool_backward", "dy -> dx", .half = "dy dx",                         \
      .config = LS__CONFIG_POOL)                                                                   \
    /* x [N,H,W,C], y [N,C] */                                                                     \
    X(GLOBAL_AVG_POOL, "global_avg_pool", "x -> y", .half = "x y")                                 \
    X(GLOBAL_AVG_POOL_BACKWARD, "global_avg_pool_backward", "dy -> dx", .half = "dy dx")           \
    /* y = x / (1 - p) or 0, drawn for each element, for each image or once; any shape */          \
    X(DROPOUT, "dropout", "x -> y", .half = "x y", .in_place = "y=x")                              \
    X(DROPOUT_BACKWARD, "dropout_backward", "dy -> dx", .half = "dy dx", .in_place = "dx=dy")      \
    /* logits [N,K], labels i32 [N], weights [K]; loss [1] = weighted mean; lse [N,2] = the row's  \
     * largest logit, log of the sum of exp(logit - largest); total [1] = sum of weights */        \
    X(CROSS_ENTROPY, "cross_entropy", "logits labels weights? -> loss lse total",                  \
      .half = "logits")                                                                            \
    /* dlogits = gradient of the loss, times dloss [1] */                                          \
    X(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward",                                            \
      "logits labels weights? lse total dloss -> dlogits", .half = "logits dlogits")               \
    /* The losses of targets [N,K]: the mean over rows, or over all elements. weights [K]; lse as  \
     * CROSS_ENTROPY's */                                                                          \
    X(SOFT_CROSS_ENTROPY, "soft_cross_entropy", "logits targets weights? -> loss lse",             \
      .half = "logits")                                                                            \
    X(SOFT_CROSS_ENTROPY_BACKWARD, "soft_cross_entropy_backward",                                  \
      "logits targets weights? lse dloss -> dlogits", .half = "logits dlogits")                    \
    X(BINARY_CROSS_ENTROPY, "binary_cross_entropy", "logits targets weights? -> loss",             \
      .half = "logits")                                                                            \
    X(BINARY_CROSS_ENTROPY_BACKWARD, "binary_cross_entropy_backward",                              \
      "logits targets weights? dloss -> dlogits", .half = "logits dlogits")                        \
    X(MSE, "mse", "x targets -> loss", .half = "x")                                                \
    X(MSE_BACKWARD, "mse_backward", "x targets dloss -> dx", .half = "x dx")                       \
    /* f32 [1]: the number of rows whose label is among the k largest */                           \
    X(TOP_K, "top_k", "logits labels -> count", .half = "logits", .config = LS__CONFIG_TOP_K)      \
    /* grad_scaler [3]: the loss scale, updates since it last changed, updates skipped. dloss [1]  \
     * = weight [1] times share [1] / total [1], or 0 if total is 0, times the loss scale */       \
    X(LOSS_SCALE, "loss_scale", "weight share? total? grad_scaler? -> dloss")                      \
    /* gradient accumulation over whole blocks. sum = gradient after an update, later sum +        \
     * gradient. gradient = its mean with the batches in sum: (sum + gradient) / their number */   \
    X(GRADIENT_SUM, "gradient_sum", "gradient sum -> ", .mutates = "sum")                          \
    X(GRADIENT_MEAN, "gradient_mean", "gradient sum -> ", .mutates = "gradient")                   \
    /* the sum over the shards of a batch, in a binary tree: a call for each shard, in order. x    \
     * [n], of this shard, is multiplied by weight [1]. The first step.n_sums rows of sums [k,n]   \
     * are sums of earlier shards; the last step.n_merged of them are added, the last one first,   \
     * and the result replaces them. For the last shard it is y [n], divided by total [1] unless   \
     * that is 0 */                                                                                \
    X(SHARD_SUM, "shard_sum", "x weight? total? sums -> y", .mutates = "sums", .in_place = "y=x",  \
      .unlisted = true)                                                                            \
    /* rows [n,count], sums of shards in other ranks, too, which are added up as `merges` says.    \
     * The sums that are left replace the first rows; or, with y [count], the only one is divided  \
     * by total [1] unless that is 0 */                                                            \
    X(TREE_SUM, "tree_sum", "rows total? -> y?", .mutates = "rows", .unlisted = true)              \
    /* running = (1 - momentum) running + sum / step.n_shards, unless momentum is 0. All [n].      \
     * sum: of momentum times the statistics of each shard */                                      \
    X(RUNNING_STATISTICS, "running_statistics", "sum momentum running -> ", .mutates = "running")  \
    /* norm [1] = L2 norm of x's segments, in fixed order, divided by the loss scale */            \
    X(L2_NORM, "l2_norm", "x grad_scaler? -> norm")                                                \
    /* optimizer passes over a whole block. With norm [1], gradients are scaled by min(1,          \
     * clip_norm / (norm + 1e-6)) unless clip_norm is 0. With grad_scaler, gradients are divided   \
     * by the loss scale, skipped updates do not count, and nothing changes if norm is not finite. \
     * Then gradients are limited to +-clip_value unless it is 0 */                                \
    X(SGD, "sgd", "parameter gradient momentum? norm? grad_scaler? -> ",                           \
      .mutates = "parameter momentum")                                                             \
    X(ADAM, "adam", "parameter gradient exp_avg exp_avg_sq norm? grad_scaler? -> ",                \
      .mutates = "parameter exp_avg exp_avg_sq")                                                   \
    X(RMSPROP, "rmsprop",                                                                          \
      "parameter gradient square_avg grad_avg? momentum? norm? grad_scaler? -> ",                  \
      .mutates = "parameter square_avg grad_avg momentum")                                         \
    /* after an update: average = parameter after the first one, later average + (1 - decay)       \
     * (parameter - average), unless the update was skipped */                                     \
    X(EMA, "ema", "parameter average norm? grad_scaler? -> ", .mutates = "average")                \
    /* after an update: if norm is not finite, halves the loss scale, to 2^-24 at least, and       \
     * counts the update as skipped; otherwise doubles it every growth_interval updates, to 2^24   \
     * at most */                                                                                  \
    X(LOSS_SCALE_UPDATE, "loss_scale_update", "norm grad_scaler -> ", .mutates = "grad_scaler")

/* The elements of a dropout that share one draw. */
typedef enum ls__dropout_unit {
    LS__DROPOUT_ELEMENT,
    LS__DROPOUT_IMAGE, /* dims[0] of them */
    LS__DROPOUT_BATCH
} ls__dropout_unit;

typedef enum ls__op_kind {
#define LS__OP_ENUM(name, ...) LS__OP_##name,
    LS__OP_LIST(LS__OP_ENUM)
#undef LS__OP_ENUM
        LS__N_OPS
} ls__op_kind;

enum { LS__MAX_OPERANDS = 13 };

/* A range of the parameter block with one weight decay and one learning rate. Lists of them ascend
 * and do not overlap. An optimizer does not change elements outside of all ranges. */
typedef struct ls__segment {
    int64_t offset, count; /* elements */
    float weight_decay;
    float lr_scale; /* multiplies the step's learning rate */
} ls__segment;

/* The settings of the ops over the parameter block. */
typedef struct ls__block_settings {
    const ls__segment *segments; /* owned by the optimizer, which outlives the kernel */
    const int64_t *n_segments;   /* may change between steps */
    float clip_norm, clip_value; /* 0 = none */
} ls__block_settings;

/* The settings of an op. */
typedef union ls__op_settings {
    struct {
        int64_t kernel[2], stride[2], padding[2], dilation[2]; /* height, width */
        int64_t groups;
        int64_t padding_channels; /* The last channels of x and w that are 0 and exist only for
                                     alignment. They do not count as work. */
    } conv;                       /* *CONV2D* */
    struct {
        int64_t kernel[2], stride[2], padding[2];
    } pool; /* *_POOL* */
    struct {
        float epsilon, momentum;
        ls__activation activation;
        int64_t count; /* of values in a channel; NORM_FINALIZE; of one sample: NORM_STATISTICS,
                          NORM_BACKWARD_COEFFICIENTS */
    } norm;            /* BATCH_NORM*, NORM_* */
    struct {
        float epsilon;
        int64_t groups; /* of the layer, 0: layer norm; kernels read the shape of mean */
    } group_norm;       /* GROUP_NORM* */
    struct {
        bool relu;
    } add, linear; /* ADD, LINEAR */
    struct {
        float slope; /* >= 0 */
    } leaky_relu;    /* LEAKY_RELU* */
    struct {
        int64_t offset; /* channels */
    } concat;           /* CONCAT* */
    struct {
        float mean[4], std[4];
    } normalize;
    struct {
        float probability;
        uint32_t layer; /* The draws are those of stream DROPOUT, this layer, the step's epoch and
                           step, sample = unit / 4, word = unit % 4. A unit (an element, or more of
                           them) is kept if uniform(word) >= probability. Units are counted from the
                           batch's first sample: x's begin at ls__dropout_first_unit. */
        ls__dropout_unit unit;
    } dropout;
    struct {
        float label_smoothing;
    } loss;
    struct {
        int64_t k;
    } top_k;
    ls__block_settings block; /* L2_NORM; the first member of the next three */
    struct {
        ls__block_settings block;
        float momentum, dampening;
        bool nesterov;
    } sgd;
    struct {
        ls__block_settings block;
        float beta1, beta2, epsilon;
        bool decoupled; /* AdamW */
    } adam;
    struct {
        ls__block_settings block;
        float alpha, epsilon, momentum;
    } rmsprop;
    struct {
        float decay;
    } ema;
    struct {
        int64_t growth_interval; /* updates */
    } loss_scale;                /* LOSS_SCALE_UPDATE */
    ls__merges merges;           /* TREE_SUM */
} ls__op_settings;

typedef struct ls__op {
    ls__op_kind kind;
    int n_operands; /* including absent ones */
    ls__operand operands[LS__MAX_OPERANDS];
    bool tf32; /* *CONV2D*, LINEAR*: f32 operands may be rounded to tf32's 10 bits of mantissa */
    ls__op_settings u;
} ls__op;

/* The row of an op kind. A kind out of range has the name "no op" and no operands. */
const ls__op_traits *ls__op_traits_of(ls__op_kind kind);
const char *ls__op_name(ls__op_kind kind);

/* Operand i of an op kind; false after the last one. */
typedef struct ls__operand_role {
    const char *name; /* not terminated */
    int length;
    bool output;
    bool mutated;     /* an input that the op updates */
    bool may_be_half; /* bf16 or f16 instead of f32, except for CAST */
} ls__operand_role;
bool ls__op_operand(ls__op_kind kind, int i, ls__operand_role *out);
/* The number of operands before "->". */
int ls__op_inputs(ls__op_kind kind);
/* Pair i of `in_place`, as operands; false after the last one. */
bool ls__op_in_place(ls__op_kind kind, int i, int *output, int *input);

static inline bool ls__is_absent(const ls__operand *operand)
{
    return operand->shape.n_dims < 0;
}

static inline bool ls__is_half(const ls__operand *operand)
{
    return !ls__is_absent(operand) && (operand->dtype == LS_BF16 || operand->dtype == LS_F16);
}

static inline bool ls__op_is_optional(ls__op_kind kind)
{
    return ls__op_traits_of(kind)->optional;
}

/* True for convolutions of both directions, fused or not. */
static inline bool ls__op_is_convolution(ls__op_kind kind)
{
    return ls__op_traits_of(kind)->config == LS__CONFIG_CONV;
}

/* The number of adjacent elements of one unit of a dropout. */
static inline int64_t ls__dropout_unit_elements(const ls__op *op)
{
    const ls_shape *x = &op->operands[0].shape;
    const int64_t count = ls_shape_element_count(x);
    return op->u.dropout.unit == LS__DROPOUT_ELEMENT ? 1
           : op->u.dropout.unit == LS__DROPOUT_BATCH ? count
                                                     : count / x->dims[0];
}

/* The index in the batch of the first unit of a dropout's x. */
static inline int64_t ls__dropout_first_unit(const ls__op *op, int64_t first_sample)
{
    const ls_shape *x = &op->operands[0].shape;
    return op->u.dropout.unit == LS__DROPOUT_ELEMENT
               ? first_sample * (ls_shape_element_count(x) / x->dims[0])
           : op->u.dropout.unit == LS__DROPOUT_BATCH ? 0
                                                     : first_sample;
}

/* All that kernel selection may depend on, as one line:
 *
 *   conv2d x=128x32x32x64 w=128x3x3x64 b=- y=128x16x16x128 stride=2x2 padding=1x1
 *
 * Operands as in the op list: "u8:" and the like if not f32, "-" if absent; then settings other
 * than the defaults. Settings that no kernel's availability depends on are omitted: epsilon,
 * probabilities, learning rates. Returns the length. LS__OP_TEXT_SIZE is enough for every op,
 * because the product of a shape's sizes is below 2^63. */
enum { LS__OP_TEXT_SIZE = 1536 };
size_t ls__op_text(const ls__op *op, char *buffer, size_t size);

/* True if the ops have equal kinds, operands, tf32 and settings of ls__op_config: no kernel
 * selection and no estimated cost tells them apart. */
bool ls__op_equal(const ls__op *a, const ls__op *b);

/* The floating-point operations of a convolution or a linear layer, whatever its kernel: two per
 * product, padded pixels included, padding_channels excluded; 0 for other ops. And the bytes of all
 * operands. */
double ls__op_flops(const ls__op *op);
double ls__op_bytes(const ls__op *op);

#endif
