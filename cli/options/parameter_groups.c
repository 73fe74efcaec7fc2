/* parameter_groups.c: see parameter_groups.h. */
#include "options/parameter_groups.h"
#include <stdlib.h>
#include <string.h>

static const double MOST = 1e9; /* of both settings */

static bool fail(const char *group)
{
    return fail_with(
        false,
        "--param-groups: expected PATTERN:lr-scale=X,weight-decay=X (one of the two is "
        "enough) with numbers from 0 to %g, got '%s'",
        MOST, group);
}

/* Reads "lr-scale=X"; ends it with a 0 for the next. */
static bool read_setting(char *text, ls_parameter_group *out)
{
    char *value = strchr(text, '='), *end;
    if (!value) return false;
    *value++ = '\0';
    const double x = strtod(value, &end);
    const bool good = end != value && *end == '\0' && x >= 0 && x <= MOST;
    const float number = (float)x > 0 ? (float)x : LS_ZERO;
    if (strcmp(text, "lr-scale") == 0)
        out->lr_scale = number;
    else if (strcmp(text, "weight-decay") == 0)
        out->weight_decay = number;
    else
        return false;
    return good;
}

/* Reads one group, and cuts its text into the pattern and settings. */
static bool read_group(char *text, ls_parameter_group *out)
{
    char *settings = strrchr(text, ':');
    if (!settings || settings == text) return false;
    *settings++ = '\0';
    *out = (ls_parameter_group){ .pattern = text };
    for (char *one; (one = strsep(&settings, ","));)
        if (!read_setting(one, out)) return false;
    return true;
}

bool parameter_groups_read(const char *text, parameter_groups *out)
{
    char *rest = NULL, group[PARAMETER_GROUPS_SIZE];
    out->n = 0;
    if (!text) return true;
    if (strlen(text) >= PARAMETER_GROUPS_SIZE)
        return fail_with(false, "--param-groups: expected less than %d characters",
                         (int)PARAMETER_GROUPS_SIZE);
    strcpy(out->patterns, text);
    for (char *one = strtok_r(out->patterns, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        strcpy(group, one);
        if (out->n == MAX_PARAMETER_GROUPS)
            return fail_with(false, "--param-groups: expected at most %d groups",
                             (int)MAX_PARAMETER_GROUPS);
        if (!read_group(one, &out->items[out->n++])) return fail(group);
    }
    return out->n > 0 || fail(text);
}
