/* selections.c: a net's list of the kernels that its programs have used, and what it takes over
 * from the context's table and from checkpoints; see choose.c. */
#include "base/error.h"
#include "nn/net_state.h"
#include <stdio.h>
#include <string.h>

ls_status ls__net_note(ls_net *net, const char *who, const ls__selection *selection)
{
    ls_context *ctx = net->owned.ctx;
    if (ls__selections_find(net->selections, selection->op)) return LS_OK;
    LS_TRY(ls__selections_put(ctx, net->selections, selection));
    ls__selections_keep_sample(net->selections, LS__MAX_SELECTIONS);
    ls__inform(ctx, "%s: %s (%s) for %s", who, selection->kernel, selection->reason, selection->op);
    return LS_OK;
}

ls_status ls__net_note_selection(ls_net *net, const ls__op *op, const char *who,
                                 const ls__kernel *kernel, const ls__why *why)
{
    char text[LS__OP_TEXT_SIZE];
    if (!why->listed) return LS_OK;
    ls__op_text(op, text, sizeof text);
    ls__selection selection = { .op = text, .derived = why->derived };
    memcpy(selection.kernel, kernel->name, sizeof selection.kernel);
    memcpy(selection.reason, why->reason, sizeof selection.reason);
    return ls__net_note(net, who, &selection);
}

static ls_status note_fusion(ls_net *net, const ls__fusion *fusion)
{
    const ls__selection *settled = ls__net_find_fusion_selection(net, &fusion->op);
    char text[LS__FUSION_TEXT_SIZE];
    ls__selection selection = { .op = text, .reason = "heuristic", .derived = true };
    ls__fusion_text(&fusion->op, text);
    snprintf(selection.kernel, sizeof selection.kernel, "%s",
             fusion->taken ? LS__FUSED : LS__UNFUSED);
    if (settled) {
        selection.derived = settled->derived;
        memcpy(selection.reason, settled->reason, sizeof selection.reason);
    }
    return ls__net_note(net, "batch_norm", &selection);
}

ls_status ls__net_note_selections(ls_net *net, const ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        char who[LS__INSTRUCTION_NAME_SIZE];
        if (!in->kernel || in->skipped) continue;
        ls__instruction_name(in, who);
        LS_TRY(ls__net_note_selection(net, &in->op, who, in->kernel, &in->why));
    }
    for (int i = 0; i < p->n_fusions; i++) LS_TRY(note_fusion(net, &p->fusions[i]));
    if (net->fallback[0])
        ls__warn(net->owned.ctx,
                 "net: all library kernels of %d op%s fail when they are run, and %s",
                 net->n_fallbacks, net->n_fallbacks == 1 ? "" : "s", net->fallback);
    net->fallback[0] = '\0';
    return ls__program_note_overlap(net, p);
}

ls_status ls__net_inherit_selections(ls_net *net)
{
    const ls__selections *known = net->owned.ctx->selections;
    for (int i = 0; i < known->n; i++)
        if (known->items[i]->inherited)
            LS_TRY(ls__selections_put(net->owned.ctx, net->selections, known->items[i]));
    return LS_OK;
}

ls_status ls__net_keep_known(ls_net *net)
{
    const ls__selections *all = net->owned.ctx->selections;
    ls__selections *known;
    LS_TRY(ls__selections_open(net->owned.ctx, &known));
    net->known = known;
    for (int i = 0; i < all->n; i++)
        LS_TRY(ls__selections_put(net->owned.ctx, known, all->items[i]));
    return LS_OK;
}

/* A copy of the net's list with what the run has used beside it. */
static ls_status join(ls_net *net, const ls__selections *run, ls__selections *out)
{
    ls_context *ctx = net->owned.ctx;
    for (int i = 0; i < net->selections->n; i++)
        LS_TRY(ls__selections_put(ctx, out, net->selections->items[i]));
    for (int i = 0; i < run->n; i++)
        if (run->items[i]->inherited && !ls__selections_find(out, run->items[i]->op))
            LS_TRY(ls__selections_put(ctx, out, run->items[i]));
    ls__selections_keep_sample(out, LS__MAX_SELECTIONS);
    return LS_OK;
}

ls_status ls__net_take_selections(ls_net *net, const char *path, ls__selections **table)
{
    ls_context *ctx = net->owned.ctx;
    ls__selections *joined;
    for (int i = 0; i < net->selections->n; i++) {
        const ls__selection *here = net->selections->items[i];
        if (ls__is_weight_gradients(here->op)) { /* no bit depends on it: it stays */
            LS_TRY(ls__selections_put(ctx, *table, here));
            continue;
        }
        const ls__selection *there = ls__selections_find(*table, here->op);
        if (there && strcmp(there->kernel, here->kernel) != 0)
            return ls__fail(
                ctx, LS_ERR_MISMATCH,
                "'%s' was saved by another run: kernels.%.400s is '%s' there, '%s' here", path,
                here->op, there->kernel, here->kernel);
    }
    LS_TRY(ls__selections_open(ctx, &joined));
    const ls_status status = join(net, *table, joined);
    if (status != LS_OK) {
        ls__selections_close(&joined);
        return status;
    }
    ls__selections_close(&net->selections);
    ls__selections_close(&net->known);
    net->selections = joined;
    net->known = *table;
    *table = NULL;
    return LS_OK;
}
