/* optim.h: optimizers, learning-rate schedules, clipping. Conventions are PyTorch's. */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include <lockstep/net.h>

LS_BEGIN_DECLARATIONS

/* ---- Optimizers. The net must stay open. Frozen parameters and their state do not change. ----
 *
 * Errors: LS_ERR_INVALID names the field, its value and what was expected; LS_ERR_MEMORY. A field
 * that would have no effect is an error, except weight_decay_scope and steps_per_epoch. config NULL
 * = all defaults. */

typedef enum ls_weight_decay_scope {
    LS_WEIGHT_DECAY_ALL,    /* every parameter, as PyTorch's default */
    LS_WEIGHT_DECAY_WEIGHTS /* weights only, not biases and batch norm parameters */
} ls_weight_decay_scope;

/* Parameters with a learning rate or a weight decay of their own. A parameter belongs to the last
 * group whose pattern matches its name. Errors: LS_ERR_NOT_FOUND if a pattern matches no parameter;
 * LS_ERR_INVALID if a group has no effect, for example because later groups match all of its
 * parameters, or because all of them are frozen when the optimizer is opened. */
typedef struct ls_parameter_group {
    const char *pattern; /* as in a shell (* ? [..]), like "fc.*"; required */
    float lr_scale;      /* multiplies the learning rate of each step; 0 = 1; LS_ZERO = 0 */
    float weight_decay;  /* replaces the optimizer's, where weight_decay_scope includes the
                            parameter; 0 = the optimizer's; LS_ZERO = 0 */
    LS_RESERVED(4);
} ls_parameter_group;

/* m = momentum m + (1 - dampening) g, in the first update m = g; p = p - lr m, or with nesterov
 * p = p - lr (g + momentum m). Without momentum p = p - lr g. */
typedef struct ls_sgd_config {
    float momentum;
    float dampening; /* only with momentum and without nesterov */
    bool nesterov;
    float weight_decay; /* L2: added to the gradient as weight_decay * parameter */
    ls_weight_decay_scope weight_decay_scope;
    const ls_parameter_group *groups; /* n_groups of them, copied; NULL = none */
    int n_groups;
    float clip_norm;    /* > 0: gradients are scaled so that their global L2 norm is at most this,
                           before weight decay; frozen parameters do not count */
    float clip_value;   /* > 0: then each element of the gradients is limited to +-clip_value */
    float ema_decay;    /* > 0: keeps moving averages of the weights, see ls_optimizer_swap_ema; in
                           [0,1) */
    int64_t accumulate; /* gradient accumulation: batches per update, see below; 0 = 1 */
    const char *parameters; /* the pattern of the names of the parameters that this optimizer
                               trains, as in a group; see below; copied; NULL = all */
    LS_RESERVED(7);
} ls_sgd_config;
LS_API ls_optimizer *ls_sgd(ls_net *net, const ls_sgd_config *config);

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; with t the number of the update, from
 * 1: p = p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
 * Adam (Kingma & Ba 2015) adds weight_decay * parameter to the gradient: L2, which the division by
 * sqrt(v) then weakens where gradients are large. AdamW (Loshchilov & Hutter 2019) multiplies the
 * parameter by 1 - lr * weight_decay instead, independently of the gradient's statistics. */
typedef struct ls_adam_config {
    float beta1;        /* in [0,1); 0 = 0.9; LS_ZERO = 0 */
    float beta2;        /* in [0,1); 0 = 0.999; LS_ZERO = 0 */
    float epsilon;      /* 0 = 1e-8 */
    float weight_decay; /* 0 = none in ls_adam, 0.01 in ls_adamw; LS_ZERO = 0 */
    ls_weight_decay_scope weight_decay_scope;
    const ls_parameter_group *groups; /* as above */
    int n_groups;
    float clip_norm, clip_value, ema_decay; /* as above */
    int64_t accumulate;                     /* as above */
    const char *parameters;                 /* as above */
    LS_RESERVED(7);
} ls_adam_config;
LS_API ls_optimizer *ls_adam(ls_net *net, const ls_adam_config *config);
LS_API ls_optimizer *ls_adamw(ls_net *net, const ls_adam_config *config);

/* RMSprop (Tieleman & Hinton 2012): v = alpha v + (1 - alpha) g^2; d = g / (sqrt(v) + epsilon), or
 * with centered a = alpha a + (1 - alpha) g; d = g / (sqrt(v - a^2) + epsilon). p = p - lr d, or
 * with momentum m = momentum m + d; p = p - lr m. */
typedef struct ls_rmsprop_config {
    float alpha;   /* in [0,1); 0 = 0.99; LS_ZERO = 0 */
    float epsilon; /* 0 = 1e-8 */
    float momentum;
    bool centered;
    float weight_decay; /* L2, as in ls_sgd */
    ls_weight_decay_scope weight_decay_scope;
    const ls_parameter_group *groups; /* as above */
    int n_groups;
    float clip_norm, clip_value, ema_decay; /* as above */
    int64_t accumulate;                     /* as above */
    const char *parameters;                 /* as above */
    LS_RESERVED(7);
} ls_rmsprop_config;
LS_API ls_optimizer *ls_rmsprop(ls_net *net, const ls_rmsprop_config *config);

/* Runs forward, backward and update on one batch. opt NULL = forward and backward only. An
 * optimizer with `accumulate` updates in some of the steps only (see below). Errors:
 * LS_ERR_SHAPE if batch->n is neither 0 nor the number of images; those of ls_net_feed;
 * LS_ERR_INVALID if another call is running on the net, because one thread at a time may use it.
 *
 * With shards of ls_context_config above 1, a batch of N samples is cut into that many shards:
 * shard s has samples floor(N s / shards) to floor(N (s + 1) / shards) - 1. Forward and backward
 * run for one shard after the other, in the memory of one; batch norms use the statistics of their
 * shard. With weight w of a shard = the sum of the class weights of its labels that are not -1 (for
 * other losses than cross-entropy of labels: its number of samples), gradients and losses are (sum
 * of w x) / (sum of w), metrics are those of the batch, and running statistics are updated once, by
 * the mean of the shards'. The sums run over a binary tree of shard numbers. Random draws are those
 * of the whole batch. Then there is one update. ls_net_build requires a batch size that is a
 * multiple of shards, and no custom op, one loss (or several losses of targets), each a
 * cross-entropy, binary cross-entropy or mean squared error; ls_net_step alone trains such a net,
 * and after it ls_net_output fails. All else is LS_ERR_UNSUPPORTED. Evaluation and inference have
 * no shards.
 *
 * With sync_batch_norm of ls_context_config, batch norms use the statistics of the whole batch, in
 * both directions, and running statistics are updated by these: the results are those of one shard,
 * except for the order of sums. Then the shards that this process computes run at the same time,
 * from one batch norm to the next, each in memory of its own.
 *
 * With several ranks (context.h) each of them calls it with a batch of the same size, and computes
 * its shards: of the batch it reads only their samples, those of ls_loader_next. Then the ranks add
 * up their results, so that all have the same gradients, losses, metrics and weights. A batch with
 * fewer samples than shards is LS_ERR_UNSUPPORTED. LS_ERR_TIMEOUT names the ranks that this one
 * waited for. */
LS_API ls_status ls_net_step(ls_net *net, ls_optimizer *opt, const ls_batch *batch, double lr);

/* Gradient accumulation, with `accumulate` N above 1: ls_net_step updates only on every N-th batch,
 * and on a batch with is_last. The update takes the mean of the gradients of all batches since the
 * previous one, as the PyTorch recipe that divides each loss by the number of batches; a last,
 * smaller group of an epoch is divided by its own number (as timm). Weight decay, clipping, moving
 * averages and loss scaling act in the update only. Batch norms take their statistics from each
 * batch. The learning rate of the other batches is not used. The sum is in the order of the
 * batches. After ls_net_step the net's gradients are those of the batch, or in an update the mean.
 * Costs memory for one more block of gradients, the state "accumulated". A schedule should count
 * updates: ls_schedule_lr(schedule, batch.epoch, batch.step / N), with (steps + N - 1) / N steps
 * per epoch, as ls_trainer does. */

/* Several optimizers of one net, each for the parameters that its pattern `parameters` matches:
 *
 *     LS_TRY(ls_net_step(net, NULL, &batch, 0));
 *     LS_TRY(ls_optimizer_step(encoder, 1e-4));
 *     LS_TRY(ls_optimizer_step(decoder, 1e-3));
 *
 * Clipping, the gradients' norm, moving averages (of parameters and buffers whose names match) and
 * accumulated gradients are those of the optimizer's own parameters. LS_ERR_NOT_FOUND if no
 * parameter matches. LS_ERR_UNSUPPORTED with loss scaling, whose scale belongs to all parameters;
 * and for ema_decay and `accumulate` unless what matches is one range in the order of the net, and
 * ema_decay with partition_optimizer. */

LS_API void ls_optimizer_close(ls_optimizer **opt);
/* One update from the net's gradients, and those of ls_optimizer_accumulate, with this learning
 * rate (>= 0). Each backward pass allows one update of each parameter: LS_ERR_INVALID if there are
 * no gradients, or if the gradient of one of the optimizer's parameters was already used. */
LS_API ls_status ls_optimizer_step(ls_optimizer *opt, double lr);
/* Instead of an update: keeps the net's gradients for the next update, which takes the mean. The
 * caller selects the number of batches. LS_ERR_INVALID as ls_optimizer_step, and without
 * `accumulate` above 1. */
LS_API ls_status ls_optimizer_accumulate(ls_optimizer *opt);
/* The number of updates, including those that loss scaling has skipped (Adam's t does not count
 * these). There is one count for all parameters. */
LS_API int64_t ls_optimizer_step_count(const ls_optimizer *opt);
/* When restoring. Accumulated gradients are dropped. */
LS_API ls_status ls_optimizer_set_step_count(ls_optimizer *opt, int64_t steps);
/* Global L2 norm of the gradients of the optimizer's parameters that are not frozen, before
 * clipping, without the loss scale: of those that no update has used yet, else of those in the last
 * update (not finite when it was skipped). Waits for the device. Without clip_norm and loss scaling
 * this call computes it, so that it costs nothing elsewhere. LS_ERR_INVALID if the net has no
 * gradients. */
LS_API ls_status ls_optimizer_gradient_norm(ls_optimizer *opt, double *norm);
LS_API const char *ls_optimizer_name(
    const ls_optimizer *opt); /* "sgd", "adam", "adamw", "rmsprop" */

/* Exponential moving averages of all parameters and buffers, for optimizers with ema_decay. Until
 * the first update, and after it, an average is the value itself; after each later update
 * average = ema_decay average + (1 - ema_decay) value. Updates that loss scaling skips do not
 * change it. As torchvision's ExponentialMovingAverage, which averages the buffers, too
 * (use_buffers).
 *
 * Exchanges the net's values with their averages: call it before an evaluation of the averages, and
 * again after it. In between, updates and checkpoints with the optimizer are LS_ERR_INVALID. Frozen
 * parameters are averaged, too: the average of a constant is the constant. */
LS_API ls_status ls_optimizer_swap_ema(ls_optimizer *opt);

/* State tensors for checkpoints: one f32 tensor per state and parameter, borrowed views into memory
 * of the optimizer, named "momentum", "exp_avg", "exp_avg_sq", "square_avg", "grad_avg",
 * "accumulated" (the sum of the gradients of the batches since the last update; directly after an
 * update it has no meaning). */
LS_API int ls_optimizer_state_count(const ls_optimizer *opt);
LS_API const char *ls_optimizer_state_name(const ls_optimizer *opt, int state);
LS_API ls_tensor *ls_optimizer_state(ls_optimizer *opt, int state, const char *parameter);

/* ---- Schedules: the learning rate (lr) as a pure function of (epoch, step); epochs, and the steps
 * in an epoch, are counted from 0. Only LS_SCHEDULE_REDUCE_ON_PLATEAU has a state: the reported
 * metrics. Errors are those of the optimizers. ---- */

typedef struct ls_schedule ls_schedule;

typedef enum ls_schedule_kind {
    /* Cosine annealing (Loshchilov & Hutter 2017) without restarts: min_lr +
     * (lr - min_lr) (1 + cos(pi t / T)) / 2, with T = epochs - warmup_epochs; t and T are counted
     * in steps, or with by_epoch in epochs. After T the learning rate stays at min_lr; in PyTorch's
     * CosineAnnealingLR it increases again. */
    LS_SCHEDULE_COSINE,
    LS_SCHEDULE_CONSTANT,
    LS_SCHEDULE_STEP,        /* lr gamma^floor(epoch / step_size) */
    LS_SCHEDULE_EXPONENTIAL, /* lr gamma^epoch */
    /* min_lr + (lr - min_lr) (1 - epoch / T)^power, T = epochs - warmup_epochs; then min_lr */
    LS_SCHEDULE_POLYNOMIAL,
    /* One cycle (Smith & Topin 2019), two cosine phases as in PyTorch's OneCycleLR: lr / div_factor
     * -> lr -> lr / div_factor / final_div_factor, step by step; pct_start is its warm-up. */
    LS_SCHEDULE_ONE_CYCLE,
    /* Multiplies the learning rate by gamma when the reported metric has not improved for more than
     * `patience` epochs; the `cooldown` epochs after such a reduction are not counted. The metric
     * improves if it is below best * (1 - threshold), or above best * (1 + threshold) with
     * maximize; NaN is no improvement. PyTorch: ReduceLROnPlateau with factor = gamma, mode = 'max'
     * if maximize, and eps = 0. */
    LS_SCHEDULE_REDUCE_ON_PLATEAU,
    LS_SCHEDULE_MULTI_STEP, /* lr gamma^(number of milestones <= epoch) */
    /* Cosine annealing with warm restarts (Loshchilov & Hutter 2017): cosines from lr to min_lr,
     * the first of t_0 epochs, each of the next t_mult times as long as the one before it; in
     * steps, or with by_epoch in epochs. PyTorch: CosineAnnealingWarmRestarts. */
    LS_SCHEDULE_COSINE_RESTARTS,
    LS_SCHEDULE_CUSTOM /* lr factor(epoch, step). PyTorch: LambdaLR */
} ls_schedule_kind;

/* Linear warm-up: with W = warmup_epochs * steps_per_epoch, step i = 0, 1, ... W - 1 has
 * lr (warmup_start + (1 - warmup_start) i / W). After the warm-up the schedule begins with its
 * epoch 0, so milestones and periods are counted from the end of the warm-up. */
typedef struct ls_schedule_config {
    ls_schedule_kind kind;
    double lr;               /* required; the maximum learning rate of the schedule */
    int64_t steps_per_epoch; /* ls_loader_step_count, or updates (see accumulate); required where
                                the learning rate changes in each step: in a warm-up, for cosine and
                                cosine restarts without by_epoch, one cycle */
    int64_t warmup_epochs;   /* not for one cycle */
    double warmup_start;     /* 0 = 0.01; LS_ZERO = 0 */
    int64_t epochs;          /* cosine, polynomial, one cycle: required; warm-up included */
    bool by_epoch;           /* cosine, cosine restarts: the learning rate changes between epochs
                                only, as in PyTorch's usual loop */
    int64_t t_0, t_mult;     /* cosine restarts: epochs, required; 0 = 1 */
    double min_lr;           /* cosine, cosine restarts, polynomial, reduce on plateau */
    double gamma;            /* step, multi-step, reduce on plateau (below 1): 0 = 0.1;
                                exponential: required */
    int64_t step_size;       /* step: required */
    const int *milestones;   /* multi-step: epochs above 0, ascending; copied */
    int64_t n_milestones;
    double power;                        /* polynomial: 0 = 1 */
    double pct_start;                    /* one cycle: fraction of the steps in which the learning
                                            rate increases; 0 = 0.3 */
    double div_factor, final_div_factor; /* one cycle: 0 = 25, 1e4 */
    int64_t patience, cooldown;          /* reduce on plateau; patience: 0 = 10; LS_ZERO_INT = 0 */
    double threshold; /* reduce on plateau: relative, below 1; 0 = 1e-4; LS_ZERO = 0 */
    bool maximize;    /* reduce on plateau: the metric is better when larger */
    /* custom, required: a pure function, because a run that resumes calls it for later steps alone.
     * It returns a factor of lr, at least 0; epoch and step as in ls_schedule_lr, but from the end
     * of the warm-up */
    double (*factor)(int64_t epoch, int64_t step, void *user);
    void *user;           /* custom: passed to it; must outlive the schedule */
    const char *settings; /* custom, required: the function and all that its results depend on, as
                             text: "inverse square root, version 1"; copied. It is part of a run's
                             identity, so that a run does not resume with another function */
    LS_RESERVED(5);
} ls_schedule_config;
LS_API ls_schedule *ls_schedule_open(ls_context *ctx, const ls_schedule_config *config);

LS_API void ls_schedule_close(ls_schedule **schedule);
/* The learning rate of one step; 0 for NULL. */
LS_API double ls_schedule_lr(const ls_schedule *schedule, int64_t epoch, int64_t step);
/* Reports the validation metric of an epoch; only LS_SCHEDULE_REDUCE_ON_PLATEAU uses it. */
LS_API ls_status ls_schedule_report(ls_schedule *schedule, double metric);
/* The state of the schedule, for checkpoints. */
enum { LS_SCHEDULE_STATE_SIZE = 4 };
LS_API void ls_schedule_get_state(const ls_schedule *schedule,
                                  double state[LS_SCHEDULE_STATE_SIZE]);
LS_API ls_status ls_schedule_set_state(ls_schedule *schedule,
                                       const double state[LS_SCHEDULE_STATE_SIZE]);

LS_END_DECLARATIONS

#endif
