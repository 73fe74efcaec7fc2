/* optimizer.h: the common part of all optimizers: state blocks, segments of the parameter block,
 * clipping. */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include "nn/net/net.h"
#include "optim/config.h"
#include <lockstep/optim.h>

/* ---- groups.c: which learning rate and weight decay a parameter has ---- */

/* The defaults that groups replace, and the scope of weight decay. */
typedef struct ls__group_defaults {
    float weight_decay;
    ls_weight_decay_scope weight_decay_scope;
} ls__group_defaults;

/* Copies of a config's groups with all fields set. */
typedef struct ls__groups {
    ls_parameter_group *items;
    int n;
} ls__groups;

/* Whether an optimizer trains the parameter: `pattern` matches its name; NULL matches all. */
bool ls__is_trained_by(const char *pattern, const ls__parameter *parameter);
/* Checks and copies the groups of a config, for the parameters that `pattern` matches. */
ls_status ls__groups_open(ls_net *net, const char *call, const char *pattern,
                          const ls_parameter_group *groups, int n,
                          const ls__group_defaults *defaults, ls__groups *out);
void ls__groups_close(ls_context *ctx, ls__groups *groups);

/* A parameter's own group, with its weight decay as the scope has it; else the defaults. */
ls_parameter_group ls__groups_of(const ls__groups *groups, const ls__group_defaults *defaults,
                                 const ls__parameter *parameter);

/* ---- partition.c ---- */

typedef struct ls__part {
    int64_t begin, count; /* elements of the block of parameters */
} ls__part;

/* ls_context_config.partition_optimizer (ZeRO stage 1: Rajbhandari et al. 2020): the block of
 * parameters is cut into one part per rank. A rank holds the optimizer's states of its part alone,
 * updates the part, and sends it to all. Updates are element by element, so their bits do not
 * depend on the parts. */
typedef struct ls__partition {
    ls_context *ctx;
    ls__part own;    /* with one rank, or without partition_optimizer: ls_optimizer.range */
    ls__part *parts; /* per rank; NULL without several parts */
    ls__exchange *exchanges[LS__MAX_LEVELS]; /* send the own part of the values to all ranks */
    int n_exchanges;
} ls__partition;

/* values: the block of parameters, of `count` elements. range: of the optimizer's. */
ls_status ls__partition_open(ls_context *ctx, float *values, int64_t count, ls__part range,
                             ls__partition *out);
void ls__partition_close(ls__partition *partition);

/* Makes a call of a step for each of n_exchanges. */
void ls__partition_make_calls(const ls__partition *partition, ls__call *calls);
/* Runs these exchanges now. */
ls_status ls__partition_exchange(const ls__partition *partition, const char *what);

/* ---- Optimizers ---- */

/* Three of a kind, and the gradients of earlier batches. */
enum { LS__MAX_STATES = 4 };

/* The properties of one kind of optimizer. */
typedef struct ls__optimizer_kind {
    const char *name, *call; /* "sgd", "ls_sgd" */
    int n_states;
    const char *state_names[LS__MAX_STATES];
    void (*settings)(const ls__op *op, ls__setting_fn put, void *user);
} ls__optimizer_kind;

typedef struct ls__optimizer_options {
    ls__group_defaults decay;
    const ls_parameter_group *groups; /* of the config; NULL after opening */
    int n_groups;
    const char *parameters; /* a pattern of names; NULL = all */
    float clip_norm, clip_value, ema_decay;
    int64_t accumulate;     /* batches per update; at least 1 */
    unsigned absent_states; /* bit i: the op's state i is absent */
} ls__optimizer_options;

/* The gradients' mean, their norm, the update, the moving averages of parameters and of buffers,
 * the loss scale, the exchange of updated parameters; the gradients' sum. */
enum { LS__MAX_UPDATE_CALLS = 7 + LS__MAX_LEVELS };

struct ls_optimizer {
    ls__owned owned; /* first */
    ls_net *net;
    ls__update update;       /* the calls of a step */
    ls__update accumulation; /* those of a batch without an update; none unless accumulate > 1 */
    ls__update measurement;  /* the gradients' norm alone; opened when it is first used */
    const ls__optimizer_kind *kind;
    ls__optimizer_options options;
    char *parameters; /* the options' pattern */
    ls__groups groups;
    ls__part range;    /* of the block: the least that has all parameters of the optimizer */
    ls__part averaged; /* of the block: the buffers with moving averages */
    ls__partition partition;
    int n_states; /* in use */
    const char *state_names[LS__MAX_STATES];
    ls__op ops[LS__MAX_UPDATE_CALLS];
    ls__call calls[LS__MAX_UPDATE_CALLS]; /* of the ops, in execution order */
    ls__op norm_op;                       /* of the measurement */
    ls__call norm_call;
    ls__op settings;               /* the op with the kind's settings */
    float *states[LS__MAX_STATES]; /* device memory: of the own part of the parameters, but
                                      "accumulated" of the whole range */
    float *sum;                    /* the state "accumulated"; NULL unless accumulate > 1 */
    float *average; /* device memory: of the own part, then of the buffers; NULL without
                       ema_decay */
    float *whole[LS__MAX_STATES + 1]; /* device memory: the states, then the averages, of the net's
                                         whole block, while a checkpoint is saved or loaded */
    float *exchange;           /* device memory through which ls_optimizer_swap_ema exchanges */
    bool holds_average;        /* the net holds the averages, and `average` what it had */
    float *norm;               /* device memory, one element; NULL = not needed */
    ls_tensor *views;          /* LS__MAX_STATES per parameter */
    ls__segment *segments;     /* of the range, from its beginning; capacity: one per parameter */
    ls__segment *own_segments; /* the same of the own part, from its beginning */
    int64_t n_segments, n_own_segments, frozen_version;
    int64_t skipped_before; /* updates skipped by loss scaling before this optimizer was opened.
                               update.n_steps counts them too, because kernels subtract all
                               skipped updates from it */
    bool has_norm;          /* an update has run */
};

/* Opens opt->measurement. */
ls_status ls__optimizer_open_measurement(ls_optimizer *opt);
/* Makes an optimizer, and checks its options. `op` holds the kind's settings except `block`; it is
 * copied. Its operands are: parameters, gradients, the states, norm?, loss_scale? */
ls_optimizer *ls__optimizer_open(ls_net *net, const ls__optimizer_kind *kind,
                                 const ls__optimizer_options *options, const ls__op *op);

/* Device memory of state i of a parameter, or for i = n_states of its average, also of a buffer's;
 * while the whole states are open, in these. NULL if the optimizer has none of it. */
float *ls__optimizer_state(const ls_optimizer *opt, int i, const ls__parameter *parameter);

/* ---- segments.c ---- */

/* Sets the optimizer's parameters, its range and `averaged`. */
ls_status ls__optimizer_find_ranges(ls_optimizer *opt, const char *pattern);
/* Finds the segments of the parameters that are not frozen. Clears the accumulated gradients of
 * those that are. */
void ls__optimizer_find_segments(ls_optimizer *opt);

/* ---- step.c ---- */

/* Fills update and accumulation, without their calls. */
void ls__optimizer_open_updates(ls_optimizer *opt);
/* Sets ls_optimizer_step_count, skipped_before and the number of accumulated batches. */
void ls__optimizer_set_updates(ls_optimizer *opt, int64_t steps, int64_t skipped_before,
                               int64_t accumulated);
/* The first of the optimizer's parameters whose gradient is missing or used; NULL = none. */
const ls__parameter *ls__optimizer_find_used(const ls_optimizer *opt);
/* The calls of ls_net_step for this batch: an update, or an accumulation. */
ls__update *ls__optimizer_update_of(ls_optimizer *opt, const ls_batch *batch);
/* The learning rate of a step of the loader. Schedules count updates. */
double ls__optimizer_lr(const ls_optimizer *opt, const ls_schedule *schedule, int64_t epoch,
                        int64_t step);
/* The number of updates in an epoch of n_steps batches. */
int64_t ls__optimizer_updates_per_epoch(const ls_optimizer *opt, int64_t n_steps);

/* ---- moving_averages.c ---- */

/* Averaged values and their averages, in device memory. */
typedef struct ls__averaged {
    float *values, *average; /* [count] */
    int64_t count;
} ls__averaged;
/* The maximum number of elements that are exchanged at a time. */
enum { LS__AVERAGES_EXCHANGED = 1 << 18 };

/* Range 0: the own part of the parameters; range 1: the averaged buffers. */
enum { LS__AVERAGED_RANGES = 2 };
ls__averaged ls__averaged_range(const ls_optimizer *opt, int i);
/* Before the first update, copies the weights to the averages, because weights may have been loaded
 * after the optimizer was opened. After it, does nothing. */
ls_status ls__optimizer_begin_average(ls_optimizer *opt);
/* ls_optimizer_swap_ema, also while the context has an error; LS_OK without a moving average. */
ls_status ls__optimizer_swap_ema(ls_optimizer *opt);
/* Reads the number of updates that the net's loss scaling has skipped. */
ls_status ls__optimizer_read_skipped(ls_net *net, int64_t *skipped);

/* ---- partition.c: partitioned states in checkpoints. Without partition: nothing to do. ---- */

/* Allocates the whole states; a checkpoint is read into them, or rank 0 collects them. */
ls_status ls__optimizer_open_whole(ls_optimizer *opt);
void ls__optimizer_drop_whole(ls_optimizer *opt);
/* Fills the whole states of rank 0. All ranks call it. */
ls_status ls__optimizer_collect(ls_optimizer *opt);
/* Keeps the own part of the whole states, and drops them. */
ls_status ls__optimizer_take_whole(ls_optimizer *opt);
/* The whole state i, or for i = n_states the whole averages, laid out like the net's block; NULL if
 * that has no parts, or is not open. */
float *ls__optimizer_whole(const ls_optimizer *opt, int i);

/* All settings of the optimizer, with its net's loss scaling. */
void ls__optimizer_settings(const ls_optimizer *opt, ls__setting_fn put, void *user);

#endif
