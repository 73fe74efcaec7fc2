/* groups.c: parameter groups: which learning rate and weight decay a parameter has. */
#include "optim/optimizer.h"

#include "base/alloc.h"
#include "base/error.h"
#include <fnmatch.h>
#include <math.h>
#include <string.h>

bool ls__is_trained_by(const char *pattern, const ls__parameter *parameter)
{
    return parameter->kind != LS_PARAMETER_BUFFER &&
           (!pattern || fnmatch(pattern, parameter->name, 0) == 0);
}

/* The index of the last group whose pattern matches; -1 = none. */
static int find_group(const ls_parameter_group *groups, int n, const ls__parameter *parameter)
{
    if (parameter->kind == LS_PARAMETER_BUFFER) return -1;
    for (int i = n - 1; i >= 0; i--)
        if (fnmatch(groups[i].pattern, parameter->name, 0) == 0) return i;
    return -1;
}

static bool decays(const ls__group_defaults *defaults, const ls__parameter *parameter)
{
    return defaults->weight_decay_scope == LS_WEIGHT_DECAY_ALL ||
           parameter->kind == LS_PARAMETER_WEIGHT;
}

static bool is_set(float value)
{
    return value != 0 || signbit(value);
}

static ls_status check_group_values(ls_context *ctx, const char *call, const ls_parameter_group *g)
{
    const ls__field fields[] = { { "lr_scale of a group", (double)g->lr_scale, LS__NOT_NEGATIVE },
                                 { "weight_decay of a group", (double)g->weight_decay,
                                   LS__NOT_NEGATIVE } };
    if (!g->pattern) return ls__fail(ctx, LS_ERR_INVALID, "%s: a group's pattern is NULL", call);
    if (!is_set(g->lr_scale) && !is_set(g->weight_decay))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: group '%s' has no effect: it sets neither lr_scale nor weight_decay",
                        call, g->pattern);
    return ls__check_fields(ctx, call, fields, 2);
}

/* Fails if group i has no effect on any parameter. */
static ls_status check_members(ls_net *net, const char *call, const char *trained,
                               const ls_parameter_group *groups, int n, int i,
                               const ls__group_defaults *defaults)
{
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    ls_context *ctx = ls_net_context(net);
    const char *pattern = groups[i].pattern;
    bool matches = false, has_members = false, has_decay = false, is_trained = false;
    for (int64_t p = 0; p < blocks.n_parameters; p++) {
        const ls__parameter *parameter = &blocks.parameters[p];
        if (!ls__is_trained_by(trained, parameter)) continue;
        matches |= find_group(&groups[i], 1, parameter) == 0;
        if (find_group(groups, n, parameter) != i) continue;
        has_members = true;
        is_trained |= !parameter->frozen;
        has_decay |= decays(defaults, parameter);
    }
    char names[LS__NAMES_TEXT_SIZE];
    if (!matches)
        return ls__fail(
            ctx, LS_ERR_NOT_FOUND, "%s: group '%s': the %s has no parameter whose name matches; %s",
            call, pattern, trained ? "optimizer" : "net",
            ls__nearest_parameters(blocks.n_parameters, blocks.parameters, false, pattern, names));
    if (!has_members)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: group '%s' has no effect: all parameters that it matches belong to "
                        "later groups",
                        call, pattern);
    if (!is_trained)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: group '%s' has no effect: all its parameters are frozen", call,
                        pattern);
    if (is_set(groups[i].weight_decay) && !has_decay)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: group '%s': weight_decay has no effect, because weight_decay_scope "
                        "excludes all its parameters",
                        call, pattern);
    return LS_OK;
}

static ls_status copy_groups(ls_context *ctx, const char *call, const ls_parameter_group *groups,
                             int n, const ls__group_defaults *defaults, ls__groups *out)
{
    const size_t bytes = (size_t)n * sizeof(*out->items);
    out->items = ls__zalloc(ctx, bytes);
    if (!out->items) return ls__fail_memory(ctx, call, bytes);
    out->n = n;
    for (int i = 0; i < n; i++) {
        out->items[i] = (ls_parameter_group){ .pattern = ls__strdup(ctx, groups[i].pattern),
                                              .lr_scale = ls__or_default(groups[i].lr_scale, 1),
                                              .weight_decay = ls__or_default(
                                                  groups[i].weight_decay, defaults->weight_decay) };
        if (!out->items[i].pattern) return ls__fail_memory(ctx, call, strlen(groups[i].pattern));
    }
    return LS_OK;
}

ls_status ls__groups_open(ls_net *net, const char *call, const char *pattern,
                          const ls_parameter_group *groups, int n,
                          const ls__group_defaults *defaults, ls__groups *out)
{
    ls_context *ctx = ls_net_context(net);
    *out = (ls__groups){ 0 };
    if (n < 0 || (n > 0) != (groups != NULL))
        return ls__fail(ctx, LS_ERR_INVALID, "%s: n_groups is %d, but groups is %s", call, n,
                        groups ? "set" : "NULL");
    for (int i = 0; i < n; i++) LS_TRY(check_group_values(ctx, call, &groups[i]));
    for (int i = 0; i < n; i++) LS_TRY(check_members(net, call, pattern, groups, n, i, defaults));
    return n > 0 ? copy_groups(ctx, call, groups, n, defaults, out) : LS_OK;
}

void ls__groups_close(ls_context *ctx, ls__groups *groups)
{
    for (int i = 0; i < groups->n; i++) ls__free(ctx, (void *)groups->items[i].pattern);
    ls__free(ctx, groups->items);
    *groups = (ls__groups){ 0 };
}

ls_parameter_group ls__groups_of(const ls__groups *groups, const ls__group_defaults *defaults,
                                 const ls__parameter *parameter)
{
    const int i = find_group(groups->items, groups->n, parameter);
    ls_parameter_group out = { .lr_scale = 1, .weight_decay = defaults->weight_decay };
    if (i >= 0) out = groups->items[i];
    if (!decays(defaults, parameter)) out.weight_decay = 0;
    return out;
}
