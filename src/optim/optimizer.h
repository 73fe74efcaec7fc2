/* optimizer.h: the common part of all optimizers: state blocks, segments of the parameter block,
 * clipping. */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include "nn/net.h"
#include "optim/config.h"
#include <lockstep/optim.h>

enum { LS__MAX_STATES = 2 };

/* The properties of one kind of optimizer. */
typedef struct ls__optimizer_kind {
    const char *name, *call; /* "sgd", "ls_sgd" */
    ls__op_kind op;          /* operands: parameter, gradient, the states, norm?, loss_scale? */
    int n_states;            /* of the op */
    const char *state_names[LS__MAX_STATES];
    void (*settings)(const ls__op *op, ls__setting_fn put, void *user);
} ls__optimizer_kind;

/* The ops that an update may have. */
typedef enum ls__optimizer_part {
    LS__PART_NORM,
    LS__PART_UPDATE,
    LS__PART_SCALE,
    LS__N_PARTS
} ls__optimizer_part;

struct ls_optimizer {
    ls__owned owned; /* first */
    ls_net *net;
    ls__update update; /* the calls of a step */
    const ls__optimizer_kind *kind;
    float weight_decay, clip_norm;
    ls_decay decay;
    int n_states; /* in use: all of the kind's, or none */
    ls__op ops[LS__N_PARTS];
    ls__call calls[LS__N_PARTS];   /* of its parts, in execution order */
    float *states[LS__MAX_STATES]; /* device memory, of the parameter block's size */
    float *norm;                   /* device memory, one element; NULL = not needed */
    ls_tensor *views;              /* LS__MAX_STATES per parameter */
    ls__segment *segments;         /* room for one per parameter */
    int64_t n_segments, frozen_version;
    int64_t skipped_before; /* updates skipped by loss scaling before this optimizer was opened.
                               update.n_steps counts them too, because kernels subtract all
                               skipped updates from it */
    bool has_norm;          /* an update has run */
};

typedef struct ls__optimizer_options {
    float weight_decay, clip_norm;
    ls_decay decay;
    bool stateless; /* the op's states are absent */
} ls__optimizer_options;

/* Makes an optimizer. `op` holds the kind's settings except clip_norm and segments; it is
 * copied. */
ls_optimizer *ls__optimizer_open(ls_net *net, const ls__optimizer_kind *kind,
                                 const ls__optimizer_options *options, const ls__op *op);

/* Device memory of a state, laid out like the parameter block. */
float *ls__optimizer_state_block(const ls_optimizer *opt, int state);

/* The number of updates skipped before the first that ls_optimizer_step_count counts; then a setter
 * of both. */
int64_t ls__optimizer_skipped_before(const ls_optimizer *opt);
void ls__optimizer_set_updates(ls_optimizer *opt, int64_t steps, int64_t skipped_before);

/* All settings of the optimizer, with its net's loss scaling. */
void ls__optimizer_settings(const ls_optimizer *opt, ls__setting_fn put, void *user);

#endif
