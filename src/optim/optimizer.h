/* optimizer.h: what the optimizers have in common: state blocks beside the parameter block,
 * segments, clipping. */
#ifndef LS_OPTIM_OPTIMIZER_H
#define LS_OPTIM_OPTIMIZER_H

#include "nn/net.h"
#include <lockstep/optim.h>

enum { LS__MAX_STATES = 2 };

/* What a kind of optimizer brings. The op's kind and config; its operands are parameter, gradient,
 * the states, the norm. */
typedef struct ls__optimizer_rules {
    const char *name;
    int n_state_operands; /* of the op, used or not */
    int n_states;
    const char *state_names[LS__MAX_STATES];
    float weight_decay, clip_norm;
    ls_decay decay;
} ls__optimizer_rules;

typedef struct ls__optimizer {
    ls_optimizer base; /* first */
    ls__optimizer_rules rules;
    ls__op op;
    ls__kernel *kernel, *norm_kernel;
    void *workspace, *norm_workspace; /* device memory */
    float *states[LS__MAX_STATES];    /* device memory, as long as the parameters' block */
    float *norm;                      /* device memory, one element; NULL without clipping */
    ls_tensor *views;                 /* n_states views per entry */
    ls__segment *segments;            /* room for one per entry */
    int64_t n_segments, frozen_version;
    int64_t n_steps;
} ls__optimizer;

/* Makes an optimizer. `op` has kind and config but for segments; it is copied. */
ls_optimizer *ls__optimizer_open(ls_net *net, const ls__optimizer_rules *rules, const ls__op *op);

/* The value of a config field whose zero means `fallback` and whose LS_ZERO means zero. */
float ls__or_default(float value, float fallback);
/* Keeps an error that names call, field and value unless low <= value < high. */
bool ls__in_range(ls_context *ctx, const char *call, const char *field, double value, double low,
                  double high);

#endif
