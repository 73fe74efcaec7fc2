/* segments.c: the parameters that an optimizer trains: the range of the net's block that has them,
 * and its segments. */
#include "optim/optimizer.h"

#include "base/alloc.h"
#include "base/error.h"
#include <fnmatch.h>
#include <string.h>

/* ---- Ranges ---- */

/* The least range of the block that has all parameters, or all buffers, whose name matches.
 * *between: one in it that does not match; NULL = none. */
static ls__part find_range(const ls__net_blocks *blocks, const char *pattern, bool buffers,
                           const ls__parameter **between)
{
    ls__part out = { 0 };
    const ls__parameter *other = NULL;
    *between = NULL;
    for (int64_t i = 0; i < blocks->n_parameters; i++) {
        const ls__parameter *p = &blocks->parameters[i];
        if ((p->kind == LS_PARAMETER_BUFFER) != buffers) continue;
        if (fnmatch(pattern, p->name, 0) != 0) {
            if (out.count > 0) other = p;
            continue;
        }
        if (other) *between = other;
        if (out.count == 0) out.begin = p->offset;
        out.count = p->offset + p->count - out.begin;
    }
    return out;
}

static ls_status check_pattern(const ls_optimizer *opt)
{
    ls_context *ctx = opt->owned.ctx;
    const char *call = opt->kind->call, *pattern = opt->parameters;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    char names[LS__NAMES_TEXT_SIZE];
    if (opt->range.count == 0)
        return ls__fail(
            ctx, LS_ERR_NOT_FOUND, "%s: the net has no parameter whose name matches '%s'; %s", call,
            pattern,
            ls__nearest_parameters(blocks.n_parameters, blocks.parameters, false, pattern, names));
    if (blocks.loss_scale)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "%s: parameters is '%s', but the net's loss scale belongs to all "
                        "parameters; expected NULL",
                        call, pattern);
    if (opt->options.ema_decay > 0 && ctx->comm && ctx->config.partition_optimizer)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "%s: parameters is '%s', and partition_optimizer keeps moving averages of "
                        "all parameters only",
                        call, pattern);
    return LS_OK;
}

ls_status ls__optimizer_find_ranges(ls_optimizer *opt, const char *pattern)
{
    ls_context *ctx = opt->owned.ctx;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const ls__optimizer_options *options = &opt->options;
    opt->range = (ls__part){ 0, blocks.parameter_elements };
    opt->averaged =
        (ls__part){ blocks.parameter_elements, blocks.block_elements - blocks.parameter_elements };
    if (!pattern) return LS_OK;
    opt->parameters = ls__strdup(ctx, pattern);
    if (!opt->parameters) return ls__fail_memory(ctx, opt->kind->call, strlen(pattern));
    const ls__parameter *parameter, *buffer;
    opt->range = find_range(&blocks, pattern, false, &parameter);
    opt->averaged = find_range(&blocks, pattern, true, &buffer);
    LS_TRY(check_pattern(opt));
    const ls__parameter *between = parameter ? parameter : options->ema_decay > 0 ? buffer : NULL;
    if (!between || (options->ema_decay == 0 && options->accumulate == 1)) return LS_OK;
    return ls__fail(
        ctx, LS_ERR_UNSUPPORTED,
        "%s: with %s, what '%s' matches must be one range in the order of the net; '%s' "
        "is between",
        opt->kind->call, options->ema_decay > 0 ? "ema_decay" : "accumulate", pattern,
        between->name);
}

/* ---- Segments: consecutive trained parameters with one weight decay and learning rate. Gaps
 * between parameters are zero in every block, and every update keeps zeros, so a segment may
 * include them. ---- */

/* Clears the gradients that a parameter accumulated before it was frozen. A lost device fails in
 * the step. */
static void drop_accumulated(const ls_optimizer *opt, const ls__parameter *parameter)
{
    ls__device *device = opt->owned.ctx->device;
    if (opt->sum)
        (void)device->backend->clear(device, opt->sum + parameter->offset - opt->range.begin,
                                     (size_t)parameter->count * sizeof(float));
}

static void find_own_segments(ls_optimizer *opt)
{
    const ls__part *own = &opt->partition.own;
    opt->n_own_segments = 0;
    for (int64_t i = 0; i < opt->n_segments; i++) {
        ls__segment s = opt->segments[i];
        int64_t begin = opt->range.begin + s.offset - own->begin, end = begin + s.count;
        if (begin < 0) begin = 0;
        if (end > own->count) end = own->count;
        s.offset = begin;
        s.count = end - begin;
        if (s.count > 0) opt->own_segments[opt->n_own_segments++] = s;
    }
}

void ls__optimizer_find_segments(ls_optimizer *opt)
{
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    opt->frozen_version = blocks.frozen_version;
    opt->n_segments = 0;
    int64_t run_end = -1; /* end of the last segment's parameter, with its gap */
    for (int64_t i = 0; i < blocks.n_parameters; i++) {
        const ls__parameter *parameter = &blocks.parameters[i];
        if (!ls__is_trained_by(opt->parameters, parameter)) continue;
        if (parameter->frozen) {
            drop_accumulated(opt, parameter);
            continue;
        }
        const ls_parameter_group own = ls__groups_of(&opt->groups, &opt->options.decay, parameter);
        ls__segment *last = opt->n_segments > 0 ? &opt->segments[opt->n_segments - 1] : NULL;
        const int64_t offset = parameter->offset - opt->range.begin;
        if (last && run_end == offset && last->weight_decay == own.weight_decay &&
            last->lr_scale == own.lr_scale) {
            last->count = offset + parameter->count - last->offset;
        } else {
            opt->segments[opt->n_segments++] =
                (ls__segment){ offset, parameter->count, own.weight_decay, own.lr_scale };
        }
        run_end = offset + (int64_t)ls__round_up((size_t)parameter->count, LS__PARAMETER_ALIGNMENT);
    }
    find_own_segments(opt);
}
