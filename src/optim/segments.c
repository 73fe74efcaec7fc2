/* segments.c: segments of the parameter block: consecutive trained parameters with one weight decay
 * and learning rate. Gaps between parameters are zero in every block, and every update keeps zeros,
 * so a segment may include them. */
#include "base/alloc.h"
#include "optim/optimizer.h"

/* Clears the gradients that a parameter accumulated before it was frozen. A lost device fails in
 * the step. */
static void drop_accumulated(const ls_optimizer *opt, const ls__parameter *parameter)
{
    ls__device *device = opt->owned.ctx->device;
    if (opt->sum)
        (void)device->backend->clear(device, opt->sum + parameter->offset,
                                     (size_t)parameter->count * sizeof(float));
}

static void find_own_segments(ls_optimizer *opt)
{
    const ls__part *own = &opt->partition.own;
    opt->n_own_segments = 0;
    for (int64_t i = 0; i < opt->n_segments; i++) {
        ls__segment s = opt->segments[i];
        int64_t begin = s.offset - own->begin, end = begin + s.count;
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
        if (parameter->kind == LS_PARAMETER_BUFFER) continue;
        if (parameter->frozen) {
            drop_accumulated(opt, parameter);
            continue;
        }
        const ls_parameter_group own = ls__groups_of(&opt->groups, &opt->options.decay, parameter);
        ls__segment *last = opt->n_segments > 0 ? &opt->segments[opt->n_segments - 1] : NULL;
        if (last && run_end == parameter->offset && last->weight_decay == own.weight_decay &&
            last->lr_scale == own.lr_scale) {
            last->count = parameter->offset + parameter->count - last->offset;
        } else {
            opt->segments[opt->n_segments++] = (ls__segment){ parameter->offset, parameter->count,
                                                              own.weight_decay, own.lr_scale };
        }
        run_end = parameter->offset +
                  (int64_t)ls__round_up((size_t)parameter->count, LS__PARAMETER_ALIGNMENT);
    }
    find_own_segments(opt);
}
