/* groups.h: parameter groups: which learning rate and weight decay a parameter has. */
#ifndef LS_OPTIM_GROUPS_H
#define LS_OPTIM_GROUPS_H

#include "nn/net/net.h"
#include <lockstep/optim.h>

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

/* Checks and copies the groups of a config. */
ls_status ls__groups_open(ls_net *net, const char *call, const ls_parameter_group *groups, int n,
                          const ls__group_defaults *defaults, ls__groups *out);
void ls__groups_close(ls_context *ctx, ls__groups *groups);

/* A parameter's own group, with its weight decay as the scope has it; else the defaults. */
ls_parameter_group ls__groups_of(const ls__groups *groups, const ls__group_defaults *defaults,
                                 const ls__parameter *parameter);

#endif
