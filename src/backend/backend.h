/* backend.h: the contract between the core and a backend (src/cpu, src/cuda). The core offers ops,
 * a backend lists the kernels it has for each and runs them. Calls are asynchronous by contract:
 * run queues, events tell, wait waits; on the CPU run has finished when it returns.
 *
 * A backend includes this header and base/ only. */
#ifndef LS_BACKEND_BACKEND_H
#define LS_BACKEND_BACKEND_H

#include "base/hash.h"
#include "base/strict_math.h"
#include <lockstep/random.h>
#include <lockstep/tensor.h>

typedef struct ls__device ls__device;
typedef struct ls__kernel ls__kernel;

/* One operand of an op. Activations of rank 4 may lie in a private layout: memory order
 * [N][C/block][H][W][block]. block = C is N,H,W,C itself, the layout of every tensor that a program
 * can touch; 1 is N,C,H,W; 8 or 16 is what some CPU kernels want. block divides C. For other ranks
 * block is 0: dense. */
typedef struct ls__operand {
    ls_dtype dtype;
    ls_shape shape; /* logical: [N,H,W,C] whatever the block */
    int64_t block;
} ls__operand;

/* The member of ls__op's union `u` that an op uses. */
typedef enum ls__op_config {
    LS__CONFIG_NONE,
    LS__CONFIG_CONV,
    LS__CONFIG_POOL,
    LS__CONFIG_NORM,
    LS__CONFIG_NORM_STATISTICS, /* `norm`, whose relu is ignored */
    LS__CONFIG_ADD,
    LS__CONFIG_LINEAR,
    LS__CONFIG_CONCAT,
    LS__CONFIG_NORMALIZE,
    LS__CONFIG_DROPOUT,
    LS__CONFIG_LOSS,
    LS__CONFIG_TOP_K,
    LS__CONFIG_L2_NORM,
    LS__CONFIG_SGD,
    LS__CONFIG_ADAM,
    LS__CONFIG_LOSS_SCALE
} ls__op_config;

/* How an op's activations may lie. */
typedef enum ls__op_layouts {
    LS__LAYOUTS_EQUAL, /* all in one layout */
    LS__LAYOUTS_MIXED, /* each in its own */
    /* Each in its own, because their channels differ. Layout selection may also run the op in other
     * layouts, between reorders. At most two of them may have different channels. */
    LS__LAYOUTS_SELECTED
} ls__op_layouts;

/* All facts about an op kind that do not depend on a backend: one row of LS__OP_LIST. Operands are
 * given by name, separated by spaces. */
typedef struct ls__op_traits {
    const char *name;     /* "conv2d_backward_data" */
    const char *operands; /* in order, inputs before "->"; "x?" may be absent */
    const char *half;    /* operands that may be bf16 or f16 instead of f32, all of an op's alike */
    const char *mutates; /* inputs that the op updates */
    const char *in_place; /* "y=a y=b": y may be written into a's memory, or into b's */
    /* An in-place result needs an input whose memory no other input shares. */
    bool in_place_unshared;
    bool optional;           /* a backend may have no kernel */
    bool multiplies;         /* activations by weights: tf32 applies, and the work is counted */
    bool weight_gradient;    /* may run beside the rest of the backward part */
    bool cheap_to_recompute; /* the first output; a convolution only if its products are few */
    ls__op_layouts layouts;
    ls__op_config config;
} ls__op_traits;

/* X(NAME, text, operands, traits...). An absent operand's pointer is NULL and its shape has n_dims
 * -1. All are f32 unless said otherwise. dX is the gradient of the loss by X. What is computed
 * between reading and writing 16-bit operands is f32. */
#define LS__OP_LIST(X)                                                                             \
    /* y = x in another block */                                                                   \
    X(REORDER, "reorder", "x -> y", .half = "x y", .layouts = LS__LAYOUTS_MIXED,                   \
      .cheap_to_recompute = true)                                                                  \
    /* y = x in another type: f32 to bf16 or f16, or back; any shape, both in one block */         \
    X(CAST, "cast", "x -> y", .cheap_to_recompute = true)                                          \
    /* y = (x / 255 - mean[c]) / std[c]; x u8 [N,H,W,C], y [N,H,W,D], D >= C: y's channels         \
     * from C on are 0 */                                                                          \
    X(NORMALIZE, "normalize", "x -> y", .half = "y", .layouts = LS__LAYOUTS_MIXED,                 \
      .cheap_to_recompute = true, .config = LS__CONFIG_NORMALIZE)                                  \
    /* w [O,kh,kw,I/groups], b [O] */                                                              \
    X(CONV2D, "conv2d", "x w b? -> y", .half = "x w b y", .multiplies = true,                      \
      .layouts = LS__LAYOUTS_SELECTED, .cheap_to_recompute = true, .config = LS__CONFIG_CONV)      \
    X(CONV2D_BACKWARD_DATA, "conv2d_backward_data", "dy w -> dx", .half = "dy w dx",               \
      .multiplies = true, .layouts = LS__LAYOUTS_SELECTED, .config = LS__CONFIG_CONV)              \
    X(CONV2D_BACKWARD_WEIGHTS, "conv2d_backward_weights", "x dy -> dw db?", .half = "x dy",        \
      .multiplies = true, .weight_gradient = true, .layouts = LS__LAYOUTS_SELECTED,                \
      .config = LS__CONFIG_CONV)                                                                   \
    /* x [N,I], w [O,I], b [O]; y = relu?(x w^T + b) */                                            \
    X(LINEAR, "linear", "x w b? -> y", .half = "x w b y", .multiplies = true,                      \
      .config = LS__CONFIG_LINEAR)                                                                 \
    X(LINEAR_BACKWARD_DATA, "linear_backward_data", "dy w -> dx", .half = "dy w dx",               \
      .multiplies = true)                                                                          \
    X(LINEAR_BACKWARD_WEIGHTS, "linear_backward_weights", "x dy -> dw db?", .half = "x dy",        \
      .multiplies = true, .weight_gradient = true)                                                 \
    /* y = relu?((x - mean) * invstd * scale + shift + add?); mean, invstd of the batch are saved; \
     * running statistics are updated in place: running = (1 - momentum) running + momentum batch, \
     * variance unbiased */                                                                        \
    X(BATCH_NORM, "batch_norm", "x scale shift running_mean running_var add? -> y mean invstd",    \
      .half = "x add y", .mutates = "running_mean running_var", .cheap_to_recompute = true,        \
      .config = LS__CONFIG_NORM)                                                                   \
    X(BATCH_NORM_EVAL, "batch_norm_eval", "x scale shift running_mean running_var add? -> y",      \
      .half = "x add y", .config = LS__CONFIG_NORM)                                                \
    /* dy = dy1 + dy2?, through relu where y > 0; dadd = dy after relu, and where dadd is present, \
     * dx may be computed from dadd as it is stored. shift is present with relu where nothing was  \
     * added to y: a kernel of the device that computed y can then recompute y from x, to the bit, \
     * and need not read it */                                                                     \
    X(BATCH_NORM_BACKWARD, "batch_norm_backward",                                                  \
      "x y? dy1 dy2? scale mean invstd shift? -> dx dscale dshift dadd?",                          \
      .half = "x y dy1 dy2 dx dadd", .in_place = "dx=dy1 dx=dy2 dadd=dy1 dadd=dy2",                \
      .in_place_unshared = true, .config = LS__CONFIG_NORM)                                        \
    /* The optional ops: the parts of a batch norm whose neighbouring convolutions compute some of \
     * it. The convolution before it also writes the sums of y and of its squares over N, H and W; \
     * NORM_FINALIZE turns them into the norm of each channel, x a + b. Either NORM_APPLY applies  \
     * that, or the convolution after it applies it, with the ReLU, to its input: then             \
     * relu(x a + b) is never written. All but x, y, w, dz: [C]. Sums are f32, of y as it is       \
     * stored or before rounding: each kernel always takes the same of the two */                  \
    X(CONV2D_STATISTICS, "conv2d_statistics", "x w -> y sum squares", .half = "x w y",             \
      .optional = true, .multiplies = true, .layouts = LS__LAYOUTS_SELECTED,                       \
      .config = LS__CONFIG_CONV)                                                                   \
    /* y = conv(relu(x a + b)) */                                                                  \
    X(NORM_CONV2D_STATISTICS, "norm_conv2d_statistics", "x a b w -> y sum squares",                \
      .half = "x a b w y", .optional = true, .multiplies = true, .layouts = LS__LAYOUTS_SELECTED,  \
      .config = LS__CONFIG_CONV)                                                                   \
    /* dw of NORM_CONV2D_STATISTICS */                                                             \
    X(NORM_CONV2D_BACKWARD_WEIGHTS, "norm_conv2d_backward_weights", "x a b dy -> dw",              \
      .half = "x a b dy", .optional = true, .multiplies = true, .weight_gradient = true,           \
      .layouts = LS__LAYOUTS_SELECTED, .config = LS__CONFIG_CONV)                                  \
    /* dz of y = conv(relu(z)), z = (x - mean) * invstd * scale + shift; the norm's gradients, and \
     * p, q, r, which give its dx */                                                               \
    X(NORM_CONV2D_BACKWARD_DATA, "norm_conv2d_backward_data",                                      \
      "dy w x mean invstd scale shift -> dz dscale dshift p q r", .half = "dy w x dz",             \
      .optional = true, .multiplies = true, .layouts = LS__LAYOUTS_SELECTED,                       \
      .config = LS__CONFIG_CONV)                                                                   \
    /* from the sums over `count` values: a = invstd * scale, b = shift - mean * a; running        \
     * statistics as BATCH_NORM's */                                                               \
    X(NORM_FINALIZE, "norm_finalize",                                                              \
      "sum squares scale shift running_mean running_var -> mean invstd a b", .half = "a b",        \
      .mutates = "running_mean running_var", .optional = true,                                     \
      .config = LS__CONFIG_NORM_STATISTICS)                                                        \
    /* BATCH_NORM's y from what it saved: to the bit where kernels have one name */                \
    X(NORM_APPLY, "norm_apply", "x mean invstd scale shift add? -> y", .half = "x add y",          \
      .optional = true, .cheap_to_recompute = true, .config = LS__CONFIG_NORM)                     \
    /* dx = p dz + q x + r */                                                                      \
    X(NORM_BACKWARD_APPLY, "norm_backward_apply", "dz x p q r -> dx", .half = "dz x dx",           \
      .in_place = "dx=dz", .optional = true)                                                       \
    /* any shape */                                                                                \
    X(RELU, "relu", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)        \
    X(RELU_BACKWARD, "relu_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")        \
    /* y = relu?(a + b) */                                                                         \
    X(ADD, "add", "a b -> y", .half = "a b y", .in_place = "y=a y=b", .cheap_to_recompute = true,  \
      .config = LS__CONFIG_ADD)                                                                    \
    X(SIGMOID, "sigmoid", "x -> y", .half = "x y", .in_place = "y=x", .cheap_to_recompute = true)  \
    X(SIGMOID_BACKWARD, "sigmoid_backward", "y dy -> dx", .half = "y dy dx", .in_place = "dx=dy")  \
    /* y = a b; also the gradients of that: da = dy b, db = dy a */                                \
    X(MUL, "mul", "a b -> y", .half = "a b y", .in_place = "y=a y=b", .cheap_to_recompute = true)  \
    /* x [N,H,W,C] or [N,C], y [N,H,W,D] or [N,D]: y's channels from `offset` on are x's, the      \
     * others are rest's, or 0; dx = dy's C channels from `offset` on. A concatenation is a chain  \
     * of these: each input goes into the result of the one before it */                           \
    X(CONCAT, "concat", "x rest? -> y", .half = "x rest y", .in_place = "y=rest",                  \
      .layouts = LS__LAYOUTS_SELECTED, .config = LS__CONFIG_CONCAT)                                \
    X(CONCAT_BACKWARD, "concat_backward", "dy -> dx", .half = "dy dx",                             \
      .layouts = LS__LAYOUTS_SELECTED, .config = LS__CONFIG_CONCAT)                                \
    /* x [N,H,W,C], y [N,H,W,D], D >= C: y's channels from C on are 0; dx = dy's first C channels  \
     */                                                                                            \
    X(PAD_CHANNELS, "pad_channels", "x -> y", .half = "x y", .layouts = LS__LAYOUTS_SELECTED,      \
      .cheap_to_recompute = true)                                                                  \
    X(PAD_CHANNELS_BACKWARD, "pad_channels_backward", "dy -> dx", .half = "dy dx",                 \
      .layouts = LS__LAYOUTS_SELECTED)                                                             \
    /* index u8 (kernel of up to 255 places) or i32: place in the window, row by row, of the first \
     * maximum */                                                                                  \
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
    /* y = x / (1 - p) or 0, drawn per logical element; any shape */                               \
    X(DROPOUT, "dropout", "x -> y", .half = "x y", .in_place = "y=x",                              \
      .config = LS__CONFIG_DROPOUT)                                                                \
    X(DROPOUT_BACKWARD, "dropout_backward", "dy -> dx", .half = "dy dx", .in_place = "dx=dy",      \
      .config = LS__CONFIG_DROPOUT)                                                                \
    /* logits [N,K], labels i32 [N], weights [K]; loss [1] = weighted mean; lse [N,2] = the row's  \
     * largest logit, log of the sum of exp(logit - largest); total [1] = sum of weights */        \
    X(CROSS_ENTROPY, "cross_entropy", "logits labels weights? -> loss lse total",                  \
      .half = "logits", .config = LS__CONFIG_LOSS)                                                 \
    /* dlogits = gradient of loss, times the scalar dloss [1] */                                   \
    X(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward",                                            \
      "logits labels weights? lse total dloss -> dlogits", .half = "logits dlogits",               \
      .config = LS__CONFIG_LOSS)                                                                   \
    /* the number of rows that have their label among the k largest: f32 [1] */                    \
    X(TOP_K, "top_k", "logits labels -> count", .half = "logits", .config = LS__CONFIG_TOP_K)      \
    /* scaler [3]: the loss scale, updates since it last changed, updates skipped. dloss [1] =     \
     * weight [1] times the loss scale */                                                          \
    X(LOSS_SCALE, "loss_scale", "weight scaler -> dloss")                                          \
    /* norm [1] = L2 norm of x's segments, in fixed order, divided by the loss scale */            \
    X(L2_NORM, "l2_norm", "x scaler? -> norm", .config = LS__CONFIG_L2_NORM)                       \
    /* optimizer passes over a whole block; norm? [1]: gradients are scaled by min(1, clip / (norm \
     * + 1e-6)) unless clip is 0. scaler?: gradients are divided by the loss scale; skipped        \
     * updates do not count; and where norm is not finite nothing is changed */                    \
    X(SGD, "sgd", "parameter gradient momentum? norm? scaler? -> ",                                \
      .mutates = "parameter momentum", .config = LS__CONFIG_SGD)                                   \
    X(ADAM, "adam", "parameter gradient exp_avg exp_avg_sq norm? scaler? -> ",                     \
      .mutates = "parameter exp_avg exp_avg_sq", .config = LS__CONFIG_ADAM)                        \
    /* after an update: halves the loss scale where norm is not finite, to 2^-24 at least, and     \
     * counts the update as skipped; otherwise doubles it, to 2^24 at most, every so many updates  \
     */                                                                                            \
    X(LOSS_SCALE_UPDATE, "loss_scale_update", "norm scaler -> ", .mutates = "scaler",              \
      .config = LS__CONFIG_LOSS_SCALE)

typedef enum ls__op_kind {
#define LS__OP_ENUM(name, ...) LS__OP_##name,
    LS__OP_LIST(LS__OP_ENUM)
#undef LS__OP_ENUM
        LS__N_OPS
} ls__op_kind;

enum { LS__MAX_OPERANDS = 13 };

/* A stretch of the parameter block that is treated alike by an optimizer. Lists of them ascend and
 * do not overlap. Elements outside of all are left alone. */
typedef struct ls__segment {
    int64_t offset, count; /* elements */
    float weight_decay;
} ls__segment;

typedef struct ls__op {
    ls__op_kind kind;
    int n_operands; /* including absent ones */
    ls__operand operands[LS__MAX_OPERANDS];
    bool tf32; /* *CONV2D*, LINEAR*: factors of f32 may be rounded to tf32's 10 bits of mantissa */
    union {
        struct {
            int64_t kernel[2], stride[2], padding[2], dilation[2]; /* height, width */
            int64_t groups;
            int64_t padding_channels; /* so many of the last channels of x, and of w, are 0 and
                                         only there for alignment: they do not count as work */
        } conv;                       /* *CONV2D* */
        struct {
            int64_t kernel[2], stride[2], padding[2];
        } pool; /* *_POOL* */
        struct {
            float epsilon, momentum;
            bool relu;
            int64_t count; /* of values in a channel; NORM_FINALIZE */
        } norm;            /* BATCH_NORM*, NORM_FINALIZE, NORM_APPLY */
        struct {
            bool relu;
        } add; /* ADD */
        struct {
            bool relu;
        } linear; /* LINEAR */
        struct {
            int64_t offset; /* channels */
        } concat;           /* CONCAT* */
        struct {
            float mean[4], std[4];
        } normalize;
        struct {
            float probability;
            uint32_t layer; /* names the draws: stream DROPOUT, this layer, the step's epoch and
                               step, sample = element / 4, word element % 4; kept where
                               uniform(word) >= probability */
        } dropout;
        struct {
            float label_smoothing;
        } loss;
        struct {
            int64_t k;
        } top_k;
        struct {
            const ls__segment *segments;
            const int64_t *n_segments;
        } l2_norm;
        struct {
            float momentum, dampening, clip_norm;
            bool nesterov;
            const ls__segment *segments; /* owned by the optimizer, which outlives the kernel */
            const int64_t *n_segments;   /* may change between steps */
        } sgd;
        struct {
            float beta1, beta2, epsilon, clip_norm;
            bool decoupled; /* AdamW */
            const ls__segment *segments;
            const int64_t *n_segments;
        } adam;
        struct {
            int64_t growth_interval; /* updates */
        } loss_scale;                /* LOSS_SCALE_UPDATE */
    } u;
} ls__op;

/* Numbers of the step that is run, the only thing that changes from step to step besides the
 * buffers' contents. Kernels that can be recorded read them when they run, not when they are
 * queued. */
typedef struct ls__step {
    uint64_t seed;
    int64_t epoch, step;
    double lr;              /* learning rate */
    int64_t optimizer_step; /* updates done before this one, with those that were skipped */
} ls__step;

/* A kernel that could run an op. */
enum { LS__KERNEL_NAME_SIZE = 128, LS__MAX_CANDIDATES = 72 };
typedef struct ls__candidate {
    char name[LS__KERNEL_NAME_SIZE]; /* "onednn jit:avx2", "reference": unique among an op's
                                        candidates */
    bool deterministic;
    double cost_ms; /* the backend's estimate, to compare candidates, blocks and reorders; on the
                       CPU for one thread, whatever their number: a choice must not depend on it */
} ls__candidate;

/* A kernel made for one op; backends extend it by putting it first in a struct of their own. */
struct ls__kernel {
    char name[LS__KERNEL_NAME_SIZE];
    bool nondeterministic;  /* as its candidate says; what repeats its bits is the rule */
    bool unproven;          /* a library's: that it could be made does not show that it runs */
    float error_bound;      /* largest error of a result, relative to the largest result, where the
                               kernel rounds more than a sum in f32 does; else 0 */
    size_t workspace_bytes; /* planned memory that run needs, contents do not survive */
    /* buffers: one pointer per operand, NULL for absent ones, aligned to 16 bytes at least; none
     * overlap but where the op list says "may". workspace: aligned to the backend's `alignment`. */
    ls_status (*run)(ls__kernel *kernel, void *const *buffers, void *workspace,
                     const ls__step *step);
    void (*close)(ls__kernel *kernel);
};

typedef struct ls__event ls__event;
/* Work that was queued once and can be queued again by one call. */
typedef struct ls__captured ls__captured;

/* Where work is queued. What is queued in one stream is done in order; two of them know nothing of
 * each other but by stream_wait. Everything goes to COMPUTE that is not said to go to COPY, or to
 * SIDE by launch_in. */
typedef enum ls__stream {
    LS__STREAM_COMPUTE,
    LS__STREAM_COPY,
    LS__STREAM_SIDE,
    LS__N_STREAMS
} ls__stream;

enum { LS__HAS_TF32 = 1, LS__HAS_BF16 = 2, LS__HAS_F16 = 4 };

typedef struct ls__backend {
    const char *name; /* "cpu" */

    /* Opens device number `index` for ctx (threads, policy from ctx->config). */
    ls_status (*open)(ls_context *ctx, int index, ls__device **out);
    void (*close)(ls__device *device);

    /* "cpu, 2 threads, AVX2, oneDNN 2.6.3". Valid as long as the device. */
    const char *(*describe)(const ls__device *device);
    int (*threads)(const ls__device *device);
    /* What results may depend on beside the kernels' names: "oneDNN 2.6.3", the numeric libraries
     * with their versions, and "AVX2, oneDNN AVX2, caches 32 KiB, 512 KiB, 32768 KiB", the kind of
     * processor. Valid as long as the device. */
    const char *(*libraries)(const ls__device *device);
    const char *(*processor)(const ls__device *device);
    /* "NVIDIA driver 580.65.06": whoever runs the device for us, which changes no bit that the two
     * above do not tell. NULL where there is none. */
    const char *(*driver)(const ls__device *device);

    /* Raw memory, aligned to 64 bytes; the pool sits above. NULL when there is none. release waits
     * for work that uses it. segment_bytes is what the pool asks for at least, and multiples of it
     * where it can; 0: as small as it comes. */
    size_t segment_bytes;
    /* Of activations and workspaces in planned memory: a power of two, at most what the pool gives.
     */
    size_t alignment;
    void *(*allocate)(ls__device *device, size_t bytes);
    void (*release)(ls__device *device, void *memory, size_t bytes);
    /* Host memory for asynchronous copies: pinned for a GPU, plain on the CPU. Allocation is slow,
     * so it is pooled too. NULL when there is none. */
    void *(*host_allocate)(ls__device *device, size_t bytes);
    void (*host_release)(ls__device *device, void *memory, size_t bytes);
    /* Bytes that allocate could still give, best guess; 0 where it can't be told. */
    size_t (*free_bytes)(ls__device *device);
    /* Whether the host may read device memory directly. */
    bool host_memory;
    /* Bits: LS__HAS_TF32: ops may have tf32 set; LS__HAS_BF16, LS__HAS_F16: operands may be of that
     * type. */
    unsigned precisions;
    /* Optional: whether products of that type, bf16 or f16, are made of f32's, with no gain in
     * speed. */
    bool (*emulates)(const ls__device *device, ls_dtype dtype);

    /* Optional: convolutions of 16-bit operands are faster where x's channels are a multiple of
     * this, so that each pixel is aligned; 0: any number of channels is as good. NORMALIZE then
     * gives images for such a convolution more channels (layer_input.c). */
    int64_t (*channel_multiple)(const ls__device *device);

    /* Copies between host and device memory, in the order of runs; finished on return. */
    ls_status (*read)(ls__device *device, void *host, const void *memory, size_t bytes);
    ls_status (*write)(ls__device *device, void *memory, const void *host, size_t bytes);
    /* The same to host memory of host_allocate, but queued. */
    ls_status (*download)(ls__device *device, void *host, const void *memory, size_t bytes);
    /* From host memory of host_allocate, beside the runs: after what had been queued when `after`
     * was recorded (NULL: after nothing) and before what is queued from now on. Then records
     * `done`. */
    ls_status (*upload)(ls__device *device, void *memory, const void *host, size_t bytes,
                        ls__event *after, ls__event *done);
    /* Device to device, and fill with a byte; queued. */
    ls_status (*copy)(ls__device *device, void *dst, const void *src, size_t bytes);
    ls_status (*clear)(ls__device *device, void *memory, size_t bytes);

    /* Element-wise work on dense tensors; queued. Conversions as ls_tensor_cast says. */
    ls_status (*cast)(ls__device *device, ls_dtype to, void *dst, ls_dtype from, const void *src,
                      int64_t count);
    /* Adds to *sum, in device memory, the bytes that stand at byte offset `offset` (a multiple of
     * 8) of the whole, as ls__digest_bytes does; queued. */
    ls_status (*digest)(ls__device *device, const void *memory, size_t bytes, uint64_t offset,
                        ls__digest_sum *sum);
    /* out[i] = *scalars[i], n of them, all f32 in device memory; queued. */
    ls_status (*gather)(ls__device *device, float *out, const float *const *scalars, int n);

    /* The blocks worth considering for an activation of shape [N,H,W,C]; C itself first. Returns
     * how many (<= max). */
    int (*blocks)(const ls__device *device, const ls_shape *shape, int64_t *out, int max);
    /* The kernels that could run op exactly as its operands are laid out, best guess first. 0 when
     * there is none; all ops have one at block C (except where the shape is beyond the backend:
     * then the error is kept in ctx). */
    int (*candidates)(ls__device *device, const ls__op *op, ls__candidate *out, int max);
    /* Does listing take long, milliseconds for an op? Then a kernel that was settled before is made
     * by its name alone. */
    bool lists_slowly;
    /* Makes the kernel of that name. LS_ERR_NOT_FOUND: no kernel has that name. LS_ERR_UNSUPPORTED:
     * the kernel can't run op, or is unavailable. After both, another kernel may do. */
    ls_status (*kernel_open)(ls__device *device, const ls__op *op, const char *name,
                             ls__kernel **out);
    /* Bytes of per-thread scratch that kernels made so far share (outside of the planned memory).
     */
    size_t (*scratch_bytes)(const ls__device *device);

    /* Around each program: nothing may be allocated between. */
    void (*begin)(ls__device *device);
    void (*end)(ls__device *device);

    ls_status (*event_open)(ls__device *device, ls__event **out);
    ls_status (*event_record)(ls__device *device, ls__event *event);
    ls_status (*event_wait)(ls__device *device, ls__event *event);
    void (*event_close)(ls__device *device, ls__event *event);
    /* What is queued in `waiting` from now on is done after all that is queued in `awaited` now. In
     * a recording, see below, the two are COMPUTE and SIDE: SIDE is recorded once it waits for
     * COMPUTE, which must wait for SIDE before the recording ends. */
    ls_status (*stream_wait)(ls__device *device, ls__stream waiting, ls__stream awaited);
    /* Optional: kernels that are run from now on are queued in COMPUTE or SIDE. NULL where there is
     * no SIDE that computes while COMPUTE does. */
    void (*launch_in)(ls__device *device, ls__stream stream);
    /* Waits for all that was queued, in all streams. */
    ls_status (*wait)(ls__device *device);
    /* Optional, both or neither: the device's own clock. timer_stop waits for what has been queued
     * in COMPUTE since timer_start, and gives the milliseconds that it took the device. */
    ls_status (*timer_start)(ls__device *device);
    ls_status (*timer_stop)(ls__device *device, double *ms);

    /* Optional, all four or none: between capture_begin and capture_end what kernels and copies
     * queue is not done but recorded, with the buffers it has then. Inside nothing may be waited
     * for, allocated or released, no host memory copied, and kernels are run with this step alone.
     * capture_end must follow whatever failed between; then, and when it fails itself, *out is
     * NULL. Kernels must have been run once before they are recorded: libraries finish their
     * opening then. captured_launch queues all of it for another step. It must not be
     * launched once a kernel in it has been closed. */
    ls_status (*capture_begin)(ls__device *device, const ls__step *step);
    ls_status (*capture_end)(ls__device *device, ls__captured **out);
    ls_status (*captured_launch)(ls__device *device, ls__captured *recording, const ls__step *step);
    void (*captured_close)(ls__device *device, ls__captured *recording);

    /* Optional, both or neither: what is queued between belongs to this name, in a profiler's
     * image. Ranges nest. */
    void (*range_push)(ls__device *device, const char *name);
    void (*range_pop)(ls__device *device);

    /* LS__STREAM_COMPUTE itself, for ops of the user's own: a cudaStream_t; NULL on the CPU. */
    void *(*stream)(ls__device *device);
} ls__backend;

/* Backends' devices begin with this. */
struct ls__device {
    const ls__backend *backend;
    ls_context *ctx;
};

/* An op kind's row. A kind out of range has the name "no op" and no operands. */
const ls__op_traits *ls__op_traits_of(ls__op_kind kind);
const char *ls__op_name(ls__op_kind kind);

/* Operand i in the kind's row; false past the last one. */
typedef struct ls__operand_role {
    const char *name; /* not terminated */
    int length;
    bool output;
    bool mutated;     /* an input that the op updates */
    bool may_be_half; /* bf16 or f16 instead of f32; a cast's types have a rule of their own */
} ls__operand_role;
bool ls__op_operand(ls__op_kind kind, int i, ls__operand_role *out);
/* How many operands stand before "->". */
int ls__op_inputs(ls__op_kind kind);
/* Pair i of the kind's in_place, as operands: `output` may be written into `input`'s memory. False
 * past the last one. */
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

/* Is it a convolution, in either direction, fused with something or not? */
static inline bool ls__op_is_convolution(ls__op_kind kind)
{
    return ls__op_traits_of(kind)->config == LS__CONFIG_CONV;
}

/* What the choice of a kernel may depend on, as one line:
 *
 *   conv2d x=128x32x32x64/8 w=128x3x3x64 b=- y=128x16x16x128/8 stride=2x2 padding=1x1
 *
 * Operands as in the op list, "u8:" and the like where they are not f32, "/8" where activations lie
 * in another block than C, "-" where they are absent; then settings that are not the usual ones.
 * Numbers that no kernel's being there depends on are left out: epsilon, probabilities, rates.
 * Returns the length; LS__OP_TEXT_SIZE is enough for every op, since the product of a shape's sizes
 * is below 2^63. */
enum { LS__OP_TEXT_SIZE = 1536 };
size_t ls__op_text(const ls__op *op, char *buffer, size_t size);

/* What an op asks for, however a kernel does it: the floating-point operations of a convolution or
 * a linear layer, two for each product of its definition, those with padded pixels among them,
 * those with padding_channels not; 0 for other ops. And the bytes of all operands, each once. */
double ls__op_flops(const ls__op *op);
double ls__op_bytes(const ls__op *op);

#endif
