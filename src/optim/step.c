/* step.c: the steps of an optimizer: updates of the trained parameters, and batches whose gradients
 * are only summed. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

/* ---- Segments: consecutive trained parameters with one weight decay and learning rate. Gaps
 * between parameters are zero in every block, and every update keeps zeros, so a segment may
 * include them. ---- */

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

/* ---- Updates ---- */

static void set_accumulated(ls_optimizer *opt, int64_t n)
{
    opt->update.n_accumulated = opt->accumulation.n_accumulated = n;
}

static void update_prepare(ls__update *update)
{
    ls_optimizer *opt = update->optimizer;
    if (opt->frozen_version != ls__net_get_blocks(opt->net).frozen_version)
        ls__optimizer_find_segments(opt);
}

static void update_done(ls__update *update)
{
    ls_optimizer *opt = update->optimizer;
    opt->has_norm = opt->norm != NULL;
    update->n_steps++;
    set_accumulated(opt, 0);
    ls__net_use_gradients(opt->net);
}

static void accumulation_done(ls__update *update)
{
    set_accumulated(update->optimizer, update->n_accumulated + 1);
    ls__net_use_gradients(update->net);
}

void ls__optimizer_open_updates(ls_optimizer *opt)
{
    opt->update = (ls__update){ .net = opt->net,
                                .optimizer = opt,
                                .calls = opt->calls,
                                .serial = ls__net_number_update(opt->net),
                                .prepare = update_prepare,
                                .done = update_done };
    if (opt->options.accumulate > 1)
        opt->accumulation = (ls__update){ .net = opt->net,
                                          .optimizer = opt,
                                          .serial = ls__net_number_update(opt->net),
                                          .prepare = update_prepare,
                                          .done = accumulation_done };
}

ls__update *ls__optimizer_update_of(ls_optimizer *opt, const ls_batch *batch)
{
    const bool is_due = opt->update.n_accumulated + 1 >= opt->options.accumulate;
    return is_due || (batch && batch->is_last) ? &opt->update : &opt->accumulation;
}

double ls__optimizer_lr(const ls_optimizer *opt, const ls_schedule *schedule, int64_t epoch,
                        int64_t step)
{
    return ls_schedule_lr(schedule, epoch, step / opt->options.accumulate);
}

int64_t ls__optimizer_updates_per_epoch(const ls_optimizer *opt, int64_t n_steps)
{
    return (n_steps + opt->options.accumulate - 1) / opt->options.accumulate;
}

static ls_status refuse_averages(const ls_optimizer *opt, const char *call)
{
    if (!opt || !opt->holds_average) return LS_OK;
    LS__ENTER(opt->owned.ctx);
    return ls__fail(opt->owned.ctx, LS_ERR_INVALID,
                    "%s: the net holds the moving averages; call ls_optimizer_swap_ema first",
                    call);
}

ls_status ls_net_step(ls_net *net, ls_optimizer *opt, const ls_batch *batch, double lr)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(refuse_averages(opt, "ls_net_step"));
    if (!net && opt) return ls__fail_null(opt->owned.ctx, "ls_net_step", "net");
    ls__update *update = opt ? ls__optimizer_update_of(opt, batch) : NULL;
    return ls__net_step(net, "ls_net_step", update, batch, lr);
}

ls_status ls_optimizer_step(ls_optimizer *opt, double lr)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(refuse_averages(opt, "ls_optimizer_step"));
    return opt ? ls__net_update(opt->net, "ls_optimizer_step", &opt->update, lr) : LS_ERR_EARLIER;
}

ls_status ls_optimizer_accumulate(ls_optimizer *opt)
{
    static const char call[] = "ls_optimizer_accumulate";
    LS__DEFAULT_FLOATS;
    if (!opt) return LS_ERR_EARLIER;
    LS_TRY(refuse_averages(opt, call));
    LS__ENTER(opt->owned.ctx);
    if (opt->sum) return ls__net_update(opt->net, call, &opt->accumulation, 0);
    return ls__fail(opt->owned.ctx, LS_ERR_INVALID,
                    "%s: the optimizer's accumulate is %lld, expected more than 1", call,
                    (long long)opt->options.accumulate);
}

ls_status ls_optimizer_set_step_count(ls_optimizer *opt, int64_t steps)
{
    if (!opt) return LS_ERR_EARLIER;
    LS__ENTER(opt->owned.ctx);
    const ls__field fields[] = { { "steps", (double)steps, LS__COUNT } };
    LS_TRY(ls__check_fields(opt->owned.ctx, "ls_optimizer_set_step_count", fields, 1));
    int64_t skipped;
    LS_TRY(ls__optimizer_read_skipped(opt->net, &skipped));
    ls__optimizer_set_updates(opt, steps, skipped, 0);
    return LS_OK;
}

void ls__optimizer_set_updates(ls_optimizer *opt, int64_t steps, int64_t skipped_before,
                               int64_t accumulated)
{
    opt->skipped_before = skipped_before;
    opt->update.n_steps = steps + skipped_before;
    set_accumulated(opt, accumulated);
}
