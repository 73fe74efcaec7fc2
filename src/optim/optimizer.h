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
    ls__op_kind op;          /* operands: parameter, gradient, the states, norm? */
    int n_states;            /* that the op has */
    const char *state_names[LS__MAX_STATES];
    void (*settings)(const ls__op *op, ls__setting_fn put, void *user);
} ls__optimizer_kind;

typedef struct ls__optimizer {
    ls_optimizer base; /* first */
    const ls__optimizer_kind *kind;
    float weight_decay, clip_norm;
    ls_decay decay;
    int n_states; /* that are used: all of the kind's, or none */
    ls__op op, norm_op;
    ls__kernel *kernel, *norm_kernel;
    void *workspace, *norm_workspace; /* device memory */
    float *states[LS__MAX_STATES];    /* device memory, as long as the parameters' block */
    float *norm;                      /* device memory, one element; NULL without clipping */
    ls_tensor *views;                 /* LS__MAX_STATES per entry */
    ls__segment *segments;            /* room for one per entry */
    int64_t n_segments, frozen_version;
    bool has_norm; /* a step has been done */
} ls__optimizer;

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

/* All that tells two optimizers of one kind apart. */
void ls__optimizer_settings(const ls_optimizer *opt, ls__setting_fn put, void *user);

#endif
