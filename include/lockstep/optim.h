/* optim.h: optimizers, learning-rate schedules, clipping. Conventions are PyTorch's. */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include <lockstep/net.h>

LS_BEGIN_DECLARATIONS

/* ---- Optimizers: one pass over the net's parameter block. The net must stay open. Frozen
 * parameters and their state do not change. ----
 *
 * Errors: LS_ERR_INVALID names the field, its value and what was expected; LS_ERR_MEMORY. A field
 * that would have no effect is an error. config NULL = all defaults. */

typedef enum ls_decay {
    LS_DECAY_ALL,    /* every parameter, as PyTorch's default */
    LS_DECAY_WEIGHTS /* not biases, nor scale and bias of normalisation */
} ls_decay;

/* m = momentum m + (1 - dampening) g, in the first update m = g; p = p - lr m, or with nesterov
 * p = p - lr (g + momentum m). Without momentum p = p - lr g. */
typedef struct ls_sgd_config {
    float momentum;
    float dampening; /* only with momentum and without nesterov */
    bool nesterov;
    float weight_decay; /* L2: added to the gradient as weight_decay * parameter */
    ls_decay decay;
    float clip_norm; /* > 0: gradients are scaled so that their global L2 norm is at most this,
                        before weight decay; frozen parameters do not count */
} ls_sgd_config;
LS_API ls_optimizer *ls_sgd(ls_net *net, const ls_sgd_config *config);

/* m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; with t the number of the update, from
 * 1: p = p - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).
 * Adam (Kingma & Ba 2015) adds weight_decay * parameter to the gradient: L2, which the division by
 * sqrt(v) then weakens where gradients are large. AdamW (Loshchilov & Hutter 2019) multiplies the
 * parameter by 1 - lr * weight_decay instead, independently of the gradient's statistics. */
typedef struct ls_adam_config {
    float beta1;        /* in [0,1); 0 = 0.9; LS_ZERO */
    float beta2;        /* in [0,1); 0 = 0.999; LS_ZERO */
    float epsilon;      /* 0 = 1e-8 */
    float weight_decay; /* 0 = none in ls_adam, 0.01 in ls_adamw; LS_ZERO */
    ls_decay decay;
    float clip_norm; /* as above */
} ls_adam_config;
LS_API ls_optimizer *ls_adam(ls_net *net, const ls_adam_config *config);
LS_API ls_optimizer *ls_adamw(ls_net *net, const ls_adam_config *config);

LS_API void ls_optimizer_close(ls_optimizer **opt);
/* One update from the net's gradients with this learning rate (>= 0). Each backward pass allows one
 * update: LS_ERR_INVALID if there are no gradients or they were already used. */
LS_API ls_status ls_optimizer_step(ls_optimizer *opt, double lr);
/* The number of updates, one count for all parameters: Adam's t plus the updates that loss scaling
 * has skipped. */
LS_API int64_t ls_optimizer_step_count(const ls_optimizer *opt);
LS_API ls_status ls_optimizer_set_step_count(ls_optimizer *opt, int64_t steps); /* when restoring */
/* Global L2 norm of the gradients in the last step, before clipping, without the loss scale: not
 * finite when the update was skipped. Only with clip_norm or loss scaling. */
LS_API ls_status ls_optimizer_gradient_norm(ls_optimizer *opt, double *norm);
LS_API const char *ls_optimizer_name(const ls_optimizer *opt); /* "sgd", "adam", "adamw" */

/* State tensors for checkpoints: one f32 tensor per state and parameter, borrowed views into the
 * optimizer's blocks, named "momentum", "exp_avg", "exp_avg_sq". */
LS_API int ls_optimizer_state_count(const ls_optimizer *opt);
LS_API const char *ls_optimizer_state_name(const ls_optimizer *opt, int state);
LS_API ls_tensor *ls_optimizer_state(ls_optimizer *opt, int state, const char *parameter);

/* ---- Schedules: the learning rate (lr) as a pure function of (epoch, step); epochs, and the steps
 * in an epoch, are counted from 0. Only ls_schedule_reduce_on_plateau has a state: the reported
 * metrics. ----
 *
 * steps_per_epoch (ls_loader_step_count) is required where the learning rate changes in each step:
 * with warm-up, in ls_schedule_cosine without by_epoch, and in ls_schedule_one_cycle. Errors are
 * those of the optimizers. */

typedef struct ls_schedule ls_schedule;

/* Linear warm-up. With W = epochs * steps_per_epoch, step i = 0, 1, ... W - 1 has
 * lr (start + (1 - start) i / W), where lr is the schedule's first learning rate: the first step
 * has start * lr, and step W has lr. After the warm-up the schedule begins with its epoch 0, so
 * milestones and periods are counted from the end of the warm-up. */
typedef struct ls_schedule_warmup {
    int epochs;
    float start; /* 0 = 0.01; LS_ZERO */
} ls_schedule_warmup;

typedef struct ls_schedule_constant_config {
    double lr;
    int64_t steps_per_epoch;
    ls_schedule_warmup warmup;
} ls_schedule_constant_config;
LS_API ls_schedule *ls_schedule_constant(ls_context *ctx,
                                         const ls_schedule_constant_config *config);

/* lr gamma^floor(epoch / step_size) */
typedef struct ls_schedule_step_config {
    double lr;
    int step_size; /* required */
    double gamma;  /* 0 = 0.1 */
    int64_t steps_per_epoch;
    ls_schedule_warmup warmup;
} ls_schedule_step_config;
LS_API ls_schedule *ls_schedule_step(ls_context *ctx, const ls_schedule_step_config *config);

/* lr gamma^(number of milestones <= epoch) */
typedef struct ls_schedule_multi_step_config {
    double lr;
    const int *milestones; /* epochs above 0, ascending; copied */
    int n_milestones;
    double gamma; /* 0 = 0.1 */
    int64_t steps_per_epoch;
    ls_schedule_warmup warmup;
} ls_schedule_multi_step_config;
LS_API ls_schedule *ls_schedule_multi_step(ls_context *ctx,
                                           const ls_schedule_multi_step_config *config);

/* lr gamma^epoch */
typedef struct ls_schedule_exponential_config {
    double lr;
    double gamma; /* per epoch; required */
    int64_t steps_per_epoch;
    ls_schedule_warmup warmup;
} ls_schedule_exponential_config;
LS_API ls_schedule *ls_schedule_exponential(ls_context *ctx,
                                            const ls_schedule_exponential_config *config);

/* Cosine annealing (Loshchilov & Hutter 2017) without restarts: min_lr +
 * (max_lr - min_lr) (1 + cos(pi t / T)) / 2, with t counted in steps. After T the learning rate
 * stays at min_lr; in PyTorch's CosineAnnealingLR it increases again. */
typedef struct ls_schedule_cosine_config {
    double max_lr, min_lr;
    int epochs; /* warm-up included: T = epochs - warmup_epochs, in steps */
    int warmup_epochs;
    float warmup_start; /* 0 = 0.01; LS_ZERO */
    int64_t steps_per_epoch;
    bool by_epoch; /* t and T are counted in epochs: the learning rate changes between epochs only,
                      as in PyTorch's usual loop */
} ls_schedule_cosine_config;
LS_API ls_schedule *ls_schedule_cosine(ls_context *ctx, const ls_schedule_cosine_config *config);

/* min_lr + (lr - min_lr) (1 - epoch / T)^power, T = epochs - warmup.epochs. After T the learning
 * rate stays at min_lr. */
typedef struct ls_schedule_polynomial_config {
    double lr, min_lr;
    double power; /* 0 = 1 */
    int epochs;   /* warm-up included */
    int64_t steps_per_epoch;
    ls_schedule_warmup warmup;
} ls_schedule_polynomial_config;
LS_API ls_schedule *ls_schedule_polynomial(ls_context *ctx,
                                           const ls_schedule_polynomial_config *config);

/* One cycle (Smith & Topin 2019), two cosine phases as in PyTorch's OneCycleLR: max_lr / div_factor
 * -> max_lr -> max_lr / div_factor / final_div_factor, step by step. It has no other warm-up than
 * pct_start. */
typedef struct ls_schedule_one_cycle_config {
    double max_lr;
    double pct_start;                    /* fraction of the steps in which the learning rate
                                            increases; 0 = 0.3 */
    double div_factor, final_div_factor; /* 0 = 25, 1e4 */
    int epochs;
    int64_t steps_per_epoch;
} ls_schedule_one_cycle_config;
LS_API ls_schedule *ls_schedule_one_cycle(ls_context *ctx,
                                          const ls_schedule_one_cycle_config *config);

/* Multiplies the learning rate by gamma when the reported metric has not improved for more than
 * `patience` epochs; the next `cooldown` epochs are then not counted. The metric improves if it is
 * below best * (1 - threshold), or above best * (1 + threshold) with maximize, as in PyTorch; NaN
 * is no improvement. There is no counterpart of PyTorch's eps, which suppresses small changes of
 * the learning rate. */
typedef struct ls_schedule_plateau_config {
    double lr, min_lr;
    double gamma; /* below 1; 0 = 0.1 */
    int patience; /* 0 = 10; LS_NONE */
    int cooldown;
    double threshold; /* relative, below 1; 0 = 1e-4; LS_ZERO */
    bool maximize;    /* the metric is better when larger */
    int64_t steps_per_epoch;
    ls_schedule_warmup warmup;
} ls_schedule_plateau_config;
LS_API ls_schedule *ls_schedule_reduce_on_plateau(ls_context *ctx,
                                                  const ls_schedule_plateau_config *config);

LS_API void ls_schedule_close(ls_schedule **schedule);
/* The learning rate of one step; 0 for NULL. */
LS_API double ls_schedule_lr(const ls_schedule *schedule, int64_t epoch, int64_t step);
/* Reports the validation metric of an epoch. Only ls_schedule_reduce_on_plateau uses it; other
 * schedules ignore it. */
LS_API ls_status ls_schedule_report(ls_schedule *schedule, double metric);
/* The state that results from the reports, for checkpoints: at most LS_SCHEDULE_STATE numbers. */
enum { LS_SCHEDULE_STATE = 4 };
LS_API void ls_schedule_get_state(const ls_schedule *schedule, double state[LS_SCHEDULE_STATE]);
LS_API ls_status ls_schedule_set_state(ls_schedule *schedule,
                                       const double state[LS_SCHEDULE_STATE]);

LS_END_DECLARATIONS

#endif
