/* parameter_groups.h: the text of --param-groups. */
#ifndef LS_RUN_PARAMETER_GROUPS_H
#define LS_RUN_PARAMETER_GROUPS_H

#include <lockstep/optim.h>

enum { LS__MAX_PARAMETER_GROUPS = 32, LS__PARAMETER_GROUPS_SIZE = 2048 };

typedef struct ls__parameter_groups {
    ls_parameter_group items[LS__MAX_PARAMETER_GROUPS];
    int n;
    char patterns[LS__PARAMETER_GROUPS_SIZE]; /* the items' */
} ls__parameter_groups;

/* Reads "PATTERN:lr-scale=X,weight-decay=X ..."; NULL = no groups. False with the error. */
bool ls__parameter_groups_read(ls_context *ctx, const char *text, ls__parameter_groups *out);

#endif
