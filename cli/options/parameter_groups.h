/* parameter_groups.h: the text of --param-groups. */
#ifndef LS_CLI_OPTIONS_PARAMETER_GROUPS_H
#define LS_CLI_OPTIONS_PARAMETER_GROUPS_H

#include "cli.h"

enum { MAX_PARAMETER_GROUPS = 32, PARAMETER_GROUPS_SIZE = 2048 };

typedef struct parameter_groups {
    ls_parameter_group items[MAX_PARAMETER_GROUPS];
    int n;
    char patterns[PARAMETER_GROUPS_SIZE]; /* the items' */
} parameter_groups;

/* Reads "PATTERN:lr-scale=X,weight-decay=X ..."; NULL = no groups. On failure prints the reason. */
bool parameter_groups_read(const char *text, parameter_groups *out);

#endif
