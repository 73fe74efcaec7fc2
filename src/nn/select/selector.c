/* selector.c: the selections of a net; see selector.h. */
#include "nn/select/selector.h"

#include "base/error.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

ls_status ls__selector_open(ls__selector *selector, ls_context *ctx)
{
    *selector = (ls__selector){ .ctx = ctx };
    LS_TRY(ls__selections_open(ctx, &selector->used));
    return ls__selections_open(ctx, &selector->tried);
}

void ls__selector_close(ls__selector *selector)
{
    ls__selections_close(&selector->used);
    ls__selections_close(&selector->cache);
    ls__selections_close(&selector->tried);
}

/* ---- Finding ---- */

const ls__selection *ls__selector_find(const ls__selector *s, const char *text)
{
    const ls__selection *found = ls__selections_find(s->used, text);
    if (found) return found;
    return ls__selections_find(s->cache ? s->cache : s->ctx->selections, text);
}

void ls__fusion_text(const ls__op *op, char *out)
{
    const size_t length = ls__op_text(op, out, LS__OP_TEXT_SIZE);
    snprintf(out + length, LS__FUSION_TEXT_SIZE - length, " fusion");
}

bool ls__is_weight_gradients(const char *text)
{
    return strncmp(text, LS__WEIGHT_GRADIENTS " ", sizeof LS__WEIGHT_GRADIENTS) == 0;
}

/* ---- Noting ---- */

ls_status ls__selector_note(ls__selector *s, const char *who, const ls__selection *selection)
{
    ls_context *ctx = s->ctx;
    if (ls__selections_find(s->used, selection->op)) return LS_OK;
    LS_TRY(ls__selections_put(ctx, s->used, selection));
    ls__selections_keep_sample(s->used, LS__MAX_SELECTIONS);
    ls__inform(ctx, LS_LOG_NET, "%s: %s (%s) for %s", who, selection->kernel, selection->reason,
               selection->op);
    return LS_OK;
}

ls_status ls__selector_note_kernel(ls__selector *s, const ls__op *op, const char *who,
                                   const ls__kernel *kernel, const ls__why *why)
{
    char text[LS__OP_TEXT_SIZE];
    if (!why->listed || ls__op_traits_of(op->kind)->unlisted) return LS_OK;
    ls__op_text(op, text, sizeof text);
    ls__selection selection = { .op = text, .derived = why->derived };
    memcpy(selection.kernel, kernel->name, sizeof selection.kernel);
    memcpy(selection.reason, why->reason, sizeof selection.reason);
    return ls__selector_note(s, who, &selection);
}

static ls_status note_fusion(ls__selector *s, const ls__fusion *fusion)
{
    char text[LS__FUSION_TEXT_SIZE];
    ls__selection selection = { .op = text, .reason = "heuristic", .derived = true };
    ls__fusion_text(&fusion->op, text);
    const ls__selection *selected = ls__selector_find(s, text);
    snprintf(selection.kernel, sizeof selection.kernel, "%s",
             fusion->taken ? LS__FUSED : LS__UNFUSED);
    if (selected) {
        selection.derived = selected->derived;
        memcpy(selection.reason, selected->reason, sizeof selection.reason);
    }
    return ls__selector_note(s, "batch_norm", &selection);
}

ls_status ls__selector_note_program(ls__selector *s, const ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        char who[LS__INSTRUCTION_NAME_SIZE];
        if (!in->kernel || in->skipped) continue;
        ls__instruction_name(in, who);
        LS_TRY(ls__selector_note_kernel(s, &in->op, who, in->kernel, &in->why));
    }
    for (int i = 0; i < p->n_fusions; i++) LS_TRY(note_fusion(s, &p->fusions[i]));
    if (s->fallback[0])
        ls__warn(s->ctx, LS_LOG_NET,
                 "net: all library kernels of %d op%s fail when they are run, and %s",
                 s->n_fallbacks, s->n_fallbacks == 1 ? "" : "s", s->fallback);
    s->fallback[0] = '\0';
    return LS_OK;
}

ls_status ls__selector_inherit(ls__selector *s)
{
    const ls__selections *all = s->ctx->selections;
    for (int i = 0; i < all->n; i++)
        if (all->items[i]->inherited) LS_TRY(ls__selections_put(s->ctx, s->used, all->items[i]));
    return LS_OK;
}

ls_status ls__selector_freeze(ls__selector *s)
{
    const ls__selections *all = s->ctx->selections;
    ls__selections *copy;
    LS_TRY(ls__selections_open(s->ctx, &copy));
    s->cache = copy;
    for (int i = 0; i < all->n; i++) LS_TRY(ls__selections_put(s->ctx, copy, all->items[i]));
    return LS_OK;
}

/* A copy of the net's list with the run's selections added. */
static ls_status join_selections(ls__selector *s, const ls__selections *run, ls__selections *out)
{
    ls_context *ctx = s->ctx;
    for (int i = 0; i < s->used->n; i++) LS_TRY(ls__selections_put(ctx, out, s->used->items[i]));
    for (int i = 0; i < run->n; i++)
        if (run->items[i]->inherited && !ls__selections_find(out, run->items[i]->op))
            LS_TRY(ls__selections_put(ctx, out, run->items[i]));
    ls__selections_keep_sample(out, LS__MAX_SELECTIONS);
    return LS_OK;
}

ls_status ls__selector_replace(ls__selector *s, const char *path, ls__selections **table)
{
    ls_context *ctx = s->ctx;
    ls__selections *joined;
    for (int i = 0; i < s->used->n; i++) {
        const ls__selection *here = s->used->items[i];
        if (ls__is_weight_gradients(here->op)) { /* no result depends on it */
            LS_TRY(ls__selections_put(ctx, *table, here));
            continue;
        }
        const ls__selection *there = ls__selections_find(*table, here->op);
        if (there && strcmp(there->kernel, here->kernel) != 0)
            return ls__fail(ctx, LS_ERR_MISMATCH,
                            "'%s' was saved by another run: kernels.%.*s is '%s' there, '%s' here",
                            path, LS__CUT(here->op, 400), there->kernel, here->kernel);
    }
    LS_TRY(ls__selections_open(ctx, &joined));
    const ls_status status = join_selections(s, *table, joined);
    if (status != LS_OK) {
        ls__selections_close(&joined);
        return status;
    }
    ls__selections_close(&s->used);
    ls__selections_close(&s->cache);
    s->used = joined;
    s->cache = *table;
    *table = NULL;
    return LS_OK;
}

/* ---- Failures ---- */

bool ls__forgive_failed_run(ls_context *ctx)
{
    /* Waiting detects a lost device. */
    if (!ctx->unusable) (void)ctx->device->backend->wait(ctx->device);
    if (!ls__has_error(ctx) || ctx->unusable) return false;
    ls_context_clear_error(ctx);
    return true;
}
