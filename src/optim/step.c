/* step.c: the steps of an optimizer: updates of the trained parameters, and batches whose gradients
 * are only summed. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "optim/optimizer.h"

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

static void use_gradients(const ls_optimizer *opt)
{
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    for (int64_t i = 0; i < blocks.n_parameters; i++)
        if (ls__is_trained_by(opt->parameters, &blocks.parameters[i]))
            ls__net_use_gradient(opt->net, i);
}

static void update_done(ls__update *update)
{
    ls_optimizer *opt = update->optimizer;
    opt->has_norm = update->norm != NULL;
    update->n_steps++;
    set_accumulated(opt, 0);
    use_gradients(opt);
}

static void accumulation_done(ls__update *update)
{
    set_accumulated(update->optimizer, update->n_accumulated + 1);
    use_gradients(update->optimizer);
}

static void measurement_done(ls__update *update)
{
    (void)update;
}

void ls__optimizer_open_updates(ls_optimizer *opt)
{
    opt->update = (ls__update){ .net = opt->net,
                                .optimizer = opt,
                                .calls = opt->calls,
                                .serial = ls__net_number_update(opt->net),
                                .prepare = update_prepare,
                                .done = update_done };
    opt->measurement = (ls__update){ .net = opt->net,
                                     .optimizer = opt,
                                     .calls = &opt->norm_call,
                                     .prepare = update_prepare,
                                     .done = measurement_done };
    if (opt->options.accumulate > 1)
        opt->accumulation = (ls__update){ .net = opt->net,
                                          .optimizer = opt,
                                          .serial = ls__net_number_update(opt->net),
                                          .prepare = update_prepare,
                                          .done = accumulation_done };
}

const ls__parameter *ls__optimizer_find_used(const ls_optimizer *opt)
{
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    for (int64_t i = 0; i < blocks.n_parameters; i++) {
        const ls__parameter *parameter = &blocks.parameters[i];
        if (!parameter->has_gradient && !parameter->frozen &&
            ls__is_trained_by(opt->parameters, parameter))
            return parameter;
    }
    return NULL;
}

static ls_status expect_gradients(const ls_optimizer *opt, const char *call)
{
    LS__ENTER(opt->owned.ctx);
    const ls__parameter *used = ls__optimizer_find_used(opt);
    const bool has_gradients = ls__net_has_gradients(opt->net);
    if (!used && has_gradients) return LS_OK;
    if (used && has_gradients)
        return ls__fail(opt->owned.ctx, LS_ERR_INVALID,
                        "%s: there are no gradients to use; call ls_net_backward first (an update "
                        "has already used that of '%s')",
                        call, used->name);
    return ls__fail(opt->owned.ctx, LS_ERR_INVALID,
                    "%s: there are no gradients to use; call ls_net_backward first", call);
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
    if (!opt) return LS_ERR_EARLIER;
    LS_TRY(refuse_averages(opt, "ls_optimizer_step"));
    LS_TRY(expect_gradients(opt, "ls_optimizer_step"));
    return ls__net_update(opt->net, "ls_optimizer_step", &opt->update, lr);
}

ls_status ls_optimizer_accumulate(ls_optimizer *opt)
{
    static const char call[] = "ls_optimizer_accumulate";
    LS__DEFAULT_FLOATS;
    if (!opt) return LS_ERR_EARLIER;
    LS_TRY(refuse_averages(opt, call));
    LS__ENTER(opt->owned.ctx);
    if (!opt->sum)
        return ls__fail(opt->owned.ctx, LS_ERR_INVALID,
                        "%s: the optimizer's accumulate is %lld, expected more than 1", call,
                        (long long)opt->options.accumulate);
    LS_TRY(expect_gradients(opt, call));
    return ls__net_update(opt->net, call, &opt->accumulation, 0);
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
