/* optim.h: optimizers, learning-rate schedules, clipping. Conventions are PyTorch's. */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include <lockstep/net.h>

/* ---- Optimizers: one pass over the net's parameter block. The net must stay open. ---- */

typedef enum ls_decay {
    LS_DECAY_ALL,    /* every parameter, as PyTorch's default */
    LS_DECAY_WEIGHTS /* not biases, nor scale and bias of normalisation */
} ls_decay;

typedef struct ls_sgd_config {
    float momentum;
    float dampening;
    bool nesterov;
    float weight_decay; /* L2: added to the gradient as weight_decay * parameter */
    ls_decay decay;
    float clip_norm; /* > 0: gradients are scaled so that their global L2 norm is at most this */
} ls_sgd_config;
LS_API ls_optimizer *ls_sgd(ls_net *net, const ls_sgd_config *config);

/* Adam (Kingma & Ba 2015) adds weight_decay * parameter to the gradient: L2, which the division by
 * sqrt(v) then weakens where gradients are large. AdamW (Loshchilov & Hutter 2019) multiplies the
 * parameter by 1 - rate * weight_decay instead, decoupled from the gradient's statistics. */
typedef struct ls_adam_config {
    float beta1;        /* 0 = 0.9; LS_ZERO = zero */
    float beta2;        /* 0 = 0.999; LS_ZERO = zero */
    float epsilon;      /* 0 = 1e-8 */
    float weight_decay; /* ls_adamw: 0 = 0.01; LS_ZERO = none */
    ls_decay decay;
    float clip_norm;
} ls_adam_config;
LS_API ls_optimizer *ls_adam(ls_net *net, const ls_adam_config *config);
LS_API ls_optimizer *ls_adamw(ls_net *net, const ls_adam_config *config);

LS_API void ls_optimizer_close(ls_optimizer **opt);
/* One update from the net's gradients at this learning rate. */
LS_API ls_status ls_optimizer_step(ls_optimizer *opt, double rate);
LS_API int64_t ls_optimizer_steps(const ls_optimizer *opt);
LS_API ls_status ls_optimizer_set_steps(ls_optimizer *opt, int64_t steps); /* when restoring */
/* Global L2 norm of the gradients in the last step with clip_norm, before clipping. */
LS_API ls_status ls_optimizer_gradient_norm(ls_optimizer *opt, double *norm);
LS_API const char *ls_optimizer_name(const ls_optimizer *opt); /* "sgd", "adam", "adamw" */

/* State tensors for checkpoints: one f32 tensor per state and parameter, borrowed views into the
 * optimizer's blocks, named "momentum", "exp_avg", "exp_avg_sq". */
LS_API int ls_optimizer_states(const ls_optimizer *opt);
LS_API const char *ls_optimizer_state_name(const ls_optimizer *opt, int state);
LS_API ls_tensor *ls_optimizer_state(ls_optimizer *opt, int state, const char *parameter);

/* ---- Schedules: the rate as a pure function of (epoch, step), epochs and steps counted from 0.
 * ---- */

typedef struct ls_schedule ls_schedule;

/* Linear warm-up, common to all: during the first warmup_epochs the rate rises from warmup_start *
 * (base rate) to the schedule's own value, step by step; the schedule's own clock starts after it.
 */
typedef struct ls_warmup {
    int epochs;
    float start; /* fraction; 0 = 0.01 */
} ls_warmup;

typedef struct ls_constant_config {
    double rate;
    int64_t steps_per_epoch;
    ls_warmup warmup;
} ls_constant_config;
LS_API ls_schedule *ls_constant(ls_context *ctx, const ls_constant_config *config);

typedef struct ls_step_config {
    double rate;
    int every_epochs; /* required */
    double gamma;     /* 0 = 0.1 */
    int64_t steps_per_epoch;
    ls_warmup warmup;
} ls_step_config;
LS_API ls_schedule *ls_step_decay(ls_context *ctx, const ls_step_config *config);

typedef struct ls_multi_step_config {
    double rate;
    const int *milestones; /* epochs, ascending; copied */
    int n_milestones;
    double gamma; /* 0 = 0.1 */
    int64_t steps_per_epoch;
    ls_warmup warmup;
} ls_multi_step_config;
LS_API ls_schedule *ls_multi_step(ls_context *ctx, const ls_multi_step_config *config);

typedef struct ls_exponential_config {
    double rate;
    double gamma; /* per epoch; required */
    int64_t steps_per_epoch;
    ls_warmup warmup;
} ls_exponential_config;
LS_API ls_schedule *ls_exponential(ls_context *ctx, const ls_exponential_config *config);

/* Cosine annealing (Loshchilov & Hutter 2017): from peak to floor over `epochs`, warm-up included,
 * step by step. */
typedef struct ls_cosine_config {
    double peak, floor;
    int epochs;
    int warmup_epochs;
    float warmup_start; /* 0 = 0.01 */
    int64_t steps_per_epoch;
    bool by_epoch; /* the rate changes between epochs only, as PyTorch's usual loop */
} ls_cosine_config;
LS_API ls_schedule *ls_cosine(ls_context *ctx, const ls_cosine_config *config);

typedef struct ls_polynomial_config {
    double rate, floor;
    double power; /* 0 = 1 */
    int epochs;
    int64_t steps_per_epoch;
    ls_warmup warmup;
} ls_polynomial_config;
LS_API ls_schedule *ls_polynomial(ls_context *ctx, const ls_polynomial_config *config);

/* One cycle (Smith & Topin 2019), two cosine phases as PyTorch's OneCycleLR: peak / div -> peak ->
 * peak / div / final_div. */
typedef struct ls_one_cycle_config {
    double peak;
    double rise;           /* share of the steps spent rising; 0 = 0.3 */
    double div, final_div; /* 0 = 25, 1e4 */
    int epochs;
    int64_t steps_per_epoch;
} ls_one_cycle_config;
LS_API ls_schedule *ls_one_cycle(ls_context *ctx, const ls_one_cycle_config *config);

/* Multiplies the rate by gamma when the reported metric has not improved for more than `patience`
 * epochs. */
typedef struct ls_plateau_config {
    double rate, floor;
    double gamma; /* 0 = 0.1 */
    int patience; /* 0 = 10; -1 = none */
    int cooldown;
    double threshold; /* relative; 0 = 1e-4 */
    bool maximize;    /* the metric is better when larger */
    int64_t steps_per_epoch;
    ls_warmup warmup;
} ls_plateau_config;
LS_API ls_schedule *ls_reduce_on_plateau(ls_context *ctx, const ls_plateau_config *config);

LS_API void ls_schedule_close(ls_schedule **schedule);
/* The rate for one step; 0 for NULL. */
LS_API double ls_schedule_rate(const ls_schedule *schedule, int64_t epoch, int64_t step);
/* Tells an epoch's validation metric; only ls_reduce_on_plateau listens, others ignore it. */
LS_API ls_status ls_schedule_report(ls_schedule *schedule, double metric);
/* The state that reports have left, for checkpoints: at most LS_SCHEDULE_STATE numbers. */
enum { LS_SCHEDULE_STATE = 4 };
LS_API void ls_schedule_get_state(const ls_schedule *schedule, double state[LS_SCHEDULE_STATE]);
LS_API ls_status ls_schedule_set_state(ls_schedule *schedule,
                                       const double state[LS_SCHEDULE_STATE]);

#endif
