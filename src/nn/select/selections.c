/* selections.c: a net's list of the kernels that its programs have used, and what it takes over
 * from the context's table and from checkpoints; see choose.c. */
#include "base/error.h"
#include "nn/net_state.h"
#include <stdio.h>
#include <string.h>

ls_status ls__net_note(ls_net *net, const char *who, const ls__choice *choice)
{
    ls_context *ctx = net->owned.ctx;
    if (ls__choices_find(net->choices, choice->op)) return LS_OK;
    LS_TRY(ls__choices_put(ctx, net->choices, choice));
    ls__choices_keep_sample(net->choices, LS__MAX_CHOICES);
    ls__inform(ctx, "%s: %s (%s) for %s", who, choice->kernel, choice->reason, choice->op);
    return LS_OK;
}

ls_status ls__net_note_choice(ls_net *net, const ls__op *op, const char *who,
                              const ls__kernel *kernel, const ls__why *why)
{
    char text[LS__OP_TEXT_SIZE];
    if (!why->listed) return LS_OK;
    ls__op_text(op, text, sizeof text);
    ls__choice choice = { .op = text, .derived = why->derived };
    memcpy(choice.kernel, kernel->name, sizeof choice.kernel);
    memcpy(choice.reason, why->reason, sizeof choice.reason);
    return ls__net_note(net, who, &choice);
}

static ls_status note_fusion(ls_net *net, const ls__fusion *fusion)
{
    const ls__choice *settled = ls__net_settled_fusion(net, &fusion->op);
    char text[LS__FUSION_TEXT_SIZE];
    ls__choice choice = { .op = text, .reason = "heuristic", .derived = true };
    ls__fusion_text(&fusion->op, text);
    snprintf(choice.kernel, sizeof choice.kernel, "%s", fusion->taken ? LS__FUSED : LS__UNFUSED);
    if (settled) {
        choice.derived = settled->derived;
        memcpy(choice.reason, settled->reason, sizeof choice.reason);
    }
    return ls__net_note(net, "batch_norm", &choice);
}

ls_status ls__net_note_choices(ls_net *net, const ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        char who[LS__INSTRUCTION_NAME_SIZE];
        if (!in->kernel || in->skipped) continue;
        ls__instruction_name(in, who);
        LS_TRY(ls__net_note_choice(net, &in->op, who, in->kernel, &in->why));
    }
    for (int i = 0; i < p->n_fusions; i++) LS_TRY(note_fusion(net, &p->fusions[i]));
    if (net->fallback[0])
        ls__warn(net->owned.ctx,
                 "net: all library kernels of %d op%s fail when they are run, and %s",
                 net->n_fallbacks, net->n_fallbacks == 1 ? "" : "s", net->fallback);
    net->fallback[0] = '\0';
    return ls__program_note_overlap(net, p);
}

ls_status ls__net_inherit_choices(ls_net *net)
{
    const ls__choices *known = net->owned.ctx->choices;
    for (int i = 0; i < known->n; i++)
        if (known->items[i]->inherited)
            LS_TRY(ls__choices_put(net->owned.ctx, net->choices, known->items[i]));
    return LS_OK;
}

ls_status ls__net_keep_known(ls_net *net)
{
    const ls__choices *all = net->owned.ctx->choices;
    ls__choices *known;
    LS_TRY(ls__choices_open(net->owned.ctx, &known));
    net->known = known;
    for (int i = 0; i < all->n; i++) LS_TRY(ls__choices_put(net->owned.ctx, known, all->items[i]));
    return LS_OK;
}

/* A copy of the net's list with what the run has used beside it. */
static ls_status join(ls_net *net, const ls__choices *run, ls__choices *out)
{
    ls_context *ctx = net->owned.ctx;
    for (int i = 0; i < net->choices->n; i++)
        LS_TRY(ls__choices_put(ctx, out, net->choices->items[i]));
    for (int i = 0; i < run->n; i++)
        if (run->items[i]->inherited && !ls__choices_find(out, run->items[i]->op))
            LS_TRY(ls__choices_put(ctx, out, run->items[i]));
    ls__choices_keep_sample(out, LS__MAX_CHOICES);
    return LS_OK;
}

ls_status ls__net_take_choices(ls_net *net, const char *path, ls__choices **table)
{
    ls_context *ctx = net->owned.ctx;
    ls__choices *joined;
    for (int i = 0; i < net->choices->n; i++) {
        const ls__choice *here = net->choices->items[i];
        if (ls__is_weight_gradients(here->op)) { /* no bit depends on it: it stays */
            LS_TRY(ls__choices_put(ctx, *table, here));
            continue;
        }
        const ls__choice *there = ls__choices_find(*table, here->op);
        if (there && strcmp(there->kernel, here->kernel) != 0)
            return ls__fail(
                ctx, LS_ERR_MISMATCH,
                "'%s' was saved by another run: kernels.%.400s is '%s' there, '%s' here", path,
                here->op, there->kernel, here->kernel);
    }
    LS_TRY(ls__choices_open(ctx, &joined));
    const ls_status status = join(net, *table, joined);
    if (status != LS_OK) {
        ls__choices_close(&joined);
        return status;
    }
    ls__choices_close(&net->choices);
    ls__choices_close(&net->known);
    net->choices = joined;
    net->known = *table;
    *table = NULL;
    return LS_OK;
}
