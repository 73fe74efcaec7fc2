/* parameter_groups.c: see settings.h. */
#include "run/settings.h"

#include "base/c_locale.h"
#include <stdlib.h>
#include <string.h>

static const double MAX_SCALE = 1e9; /* of both settings */

static bool fail(ls_context *ctx, const char *group)
{
    return ls__refuse(
        ctx,
        "--param-groups: expected PATTERN:lr-scale=X,weight-decay=X (one of the two is "
        "enough) with numbers from 0 to %g, got '%s'",
        MAX_SCALE, group);
}

/* Reads "lr-scale=X"; ends it with a 0 for the next. */
static bool read_setting(char *text, ls_parameter_group *out)
{
    LS__IN_C_LOCALE; /* for strtod */
    char *value = strchr(text, '='), *end;
    if (!value) return false;
    *value++ = '\0';
    const double x = strtod(value, &end);
    const bool ok = end != value && *end == '\0' && x >= 0 && x <= MAX_SCALE;
    const float number = (float)x > 0 ? (float)x : LS_ZERO;
    if (strcmp(text, "lr-scale") == 0)
        out->lr_scale = number;
    else if (strcmp(text, "weight-decay") == 0)
        out->weight_decay = number;
    else
        return false;
    return ok;
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

bool ls__parameter_groups_read(ls_context *ctx, const char *text, ls__parameter_groups *out)
{
    char *rest = NULL, group[LS__PARAMETER_GROUPS_SIZE];
    out->n = 0;
    if (!text) return true;
    if (strlen(text) >= LS__PARAMETER_GROUPS_SIZE)
        return ls__refuse(ctx, "--param-groups: expected less than %d characters",
                          (int)LS__PARAMETER_GROUPS_SIZE);
    strcpy(out->patterns, text);
    for (char *one = strtok_r(out->patterns, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        strcpy(group, one);
        if (out->n == LS__MAX_PARAMETER_GROUPS)
            return ls__refuse(ctx, "--param-groups: expected at most %d groups",
                              (int)LS__MAX_PARAMETER_GROUPS);
        if (!read_group(one, &out->items[out->n++])) return fail(ctx, group);
    }
    return out->n > 0 || fail(ctx, text);
}
