/* optimizer.h: what the optimizers have in common: state blocks beside the parameter block,
 * segments, clipping. */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include "nn/net.h"
#include "optim/config.h"
#include <lockstep/optim.h>

enum { LS__MAX_STATES = 2 };

/* What a kind of optimizer brings. */
typedef struct ls__optimizer_kind {
    const char *name, *call; /* "sgd", "ls_sgd" */
    ls__op_kind op;          /* operands: parameter, gradient, the states, norm?, scaler? */
    int n_states;            /* that the op has */
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
    ls__update update; /* what a step runs */
    const ls__optimizer_kind *kind;
    float weight_decay, clip_norm;
    ls_decay decay;
    int n_states; /* that are used: all of the kind's, or none */
    ls__op ops[LS__N_PARTS];
    ls__call calls[LS__N_PARTS];   /* of those parts that it has, in order of running */
    float *states[LS__MAX_STATES]; /* device memory, as long as the parameters' block */
    float *norm;                   /* device memory, one element; NULL where nothing needs it */
    ls_tensor *views;              /* LS__MAX_STATES per entry */
    ls__segment *segments;         /* room for one per entry */
    int64_t n_segments, frozen_version;
    int64_t skipped_before; /* updates that the net's loss scaling had skipped before this optimizer
                               began: update.n_steps counts them, too, since kernels take all that
                               were skipped from it */
    bool has_norm;          /* a step has been done */
};

typedef struct ls__optimizer_options {
    float weight_decay, clip_norm;
    ls_decay decay;
    bool stateless; /* the op's states are absent */
} ls__optimizer_options;

/* Makes an optimizer. `op` holds the kind's own numbers, but for clip_norm and segments; it is
 * copied. */
ls_optimizer *ls__optimizer_open(ls_net *net, const ls__optimizer_kind *kind,
                                 const ls__optimizer_options *options, const ls__op *op);

/* Device memory of a state, laid out like the parameters' block. */
float *ls__optimizer_state_block(const ls_optimizer *opt, int state);

/* Updates that had been skipped before the first that ls_optimizer_step_count counts; setting both.
 */
int64_t ls__optimizer_skipped_before(const ls_optimizer *opt);
void ls__optimizer_set_updates(ls_optimizer *opt, int64_t steps, int64_t skipped_before);

/* All that tells two optimizers of one kind apart, its net's loss scaling included. */
void ls__optimizer_settings(const ls_optimizer *opt, ls__setting_fn put, void *user);

#endif
