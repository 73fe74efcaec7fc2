/* select_fusion.c: selects whether a fusion (fuse_batch_norm.c) is used. The selection is stored
 * like that of a kernel: "norm_conv2d_statistics x=... fusion" is "fused" or "unfused". One from
 * the algorithm cache is followed. Else the cheaper side is used. With benchmark = on the sides are
 * timed: first the kernels of both sides (autotune.c), then each side as a whole. Otherwise, and if
 * no time is left, the backend's estimates decide. */
#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/text.h"
#include "nn/select/selector.h"
#include "nn/select/timing.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A library may fail to make a kernel that it listed. */
static bool can_be_made(const ls__program *p, const ls__instruction *in)
{
    ls__kernel *kernel;
    ls__why why;
    const ls_status status =
        ls__selector_open_kernel(p->env->selector, &in->op, in->node->name, &kernel, &why);
    if (status == LS_OK)
        kernel->close(kernel);
    else if (ls__forgive_missing_kernel(p->ctx, status))
        ls__inform(p->ctx, LS_LOG_NET, "batch norm stays unfused: %.*s",
                   LS__CUT(p->ctx->message, 500));
    return status == LS_OK;
}

static bool is_better(const ls__program *p, const ls__fusion_sides *f)
{
    double fused_ms = 0, apart_ms = 0;
    for (int i = 0; i < f->fused.n; i++) fused_ms += ls__cheapest_ms(p->ctx, &f->fused.list[i].op);
    for (int i = 0; i < f->apart.n; i++) apart_ms += ls__cheapest_ms(p->ctx, &f->apart.list[i].op);
    bool better = fused_ms <= apart_ms;
    for (int i = 0; i < f->fused.n && better; i++) better = can_be_made(p, &f->fused.list[i]);
    return better;
}

/* Time of one side, with the selected kernels or else the cheapest by the estimates. Errors are
 * dropped as in ls__timing_run. */
static ls_status time_side(ls__program *p, const ls__fusion_side *side, double *ms)
{
    ls__kernel *kernels[LS__MAX_FUSION_OPS];
    ls__op_memory memory;
    ls_status status = LS_OK;
    int n_open = 0;
    for (; n_open < side->n; n_open++) {
        ls__why why;
        const ls__instruction *in = &side->list[n_open];
        status = ls__selector_open_kernel(p->env->selector, &in->op, in->node->name,
                                          &kernels[n_open], &why);
        if (status == LS_OK) continue;
        (void)ls__forgive_missing_kernel(p->ctx, status);
        break;
    }
    if (n_open == side->n) {
        status = ls__timing_open(&memory, p->ctx, side->list, side->n);
        if (status == LS_OK) status = ls__timing_run(&memory, kernels, -1, ms);
        ls__op_memory_close(&memory);
    }
    while (n_open-- > 0) kernels[n_open]->close(kernels[n_open]);
    return status;
}

/* Cost by the estimates. A selected op may have no listed candidate. */
static double side_cost(const ls__program *p, const ls__fusion_side *side)
{
    double ms = 0;
    for (int i = 0; i < side->n; i++) {
        const double cost = ls__cheapest_ms(p->ctx, &side->list[i].op);
        if (cost < LS__IMPOSSIBLE_MS) ms += cost;
    }
    return ms;
}

typedef enum timing_result { TIMED, NOT_TIMED, NO_MEMORY } timing_result;

/* TIMED with *fused_ms INFINITY if that side can't be made or run; ctx->message is the reason.
 * NOT_TIMED if no time is left, or if the other side failed. */
static timing_result time_sides(ls__program *p, const ls__fusion_sides *f, double *fused_ms,
                                double *apart_ms)
{
    double *left = ls__autotune_left_ms(p);
    if (ls__autotune(p, f->fused.list, f->fused.n) != LS_OK ||
        ls__autotune(p, f->apart.list, f->apart.n) != LS_OK)
        return NOT_TIMED;
    const double cost = side_cost(p, &f->fused) + side_cost(p, &f->apart);
    if (ls__has_error(p->ctx) || ls__autotune_price_ms(p, cost) > *left) return NOT_TIMED;
    const double start = ls__now_ms();
    const ls_status apart = time_side(p, &f->apart, apart_ms);
    const ls_status fused = apart == LS_OK ? time_side(p, &f->fused, fused_ms) : LS_ERR_EARLIER;
    *left -= ls__now_ms() - start;
    if (apart == LS_ERR_MEMORY || fused == LS_ERR_MEMORY) return NO_MEMORY;
    if (fused != LS_OK) *fused_ms = INFINITY;
    return apart == LS_OK ? TIMED : NOT_TIMED;
}

/* Puts the selection into the algorithm cache. */
static void put_selection(ls__program *p, const ls__op *op, bool taken, const char *reason,
                          bool timed)
{
    char text[LS__FUSION_TEXT_SIZE];
    ls__selection selection = { .op = text };
    ls__fusion_text(op, text);
    snprintf(selection.kernel, sizeof selection.kernel, "%s", taken ? LS__FUSED : LS__UNFUSED);
    snprintf(selection.reason, sizeof selection.reason, "%s", reason);
    (void)ls__autotune_put(p->ctx, &selection, timed); /* the context keeps its error */
}

/* Compares times if time is left, else estimates. If memory was short, the selection is not put
 * into the algorithm cache, because the next net may have enough. */
static bool is_faster(ls__program *p, const ls__fusion_sides *f)
{
    char reason[LS__SELECTION_REASON_SIZE] = "heuristic";
    double fused_ms, apart_ms;
    const timing_result result = time_sides(p, f, &fused_ms, &apart_ms);
    const bool taken = result == TIMED ? fused_ms <= apart_ms : is_better(p, f);
    if (result == NO_MEMORY) return taken;
    if (result == TIMED && isinf(fused_ms)) {
        ls__inform(p->ctx, LS_LOG_NET, "batch norm stays unfused: %.*s",
                   LS__CUT(p->ctx->message, 500));
        snprintf(reason, sizeof reason, "the fused kernels failed");
    } else if (result == TIMED) {
        snprintf(reason, sizeof reason, "timed %.3g ms against %.3g ms",
                 taken ? fused_ms : apart_ms, taken ? apart_ms : fused_ms);
    }
    put_selection(p, &f->fused.list[0].op, taken, reason, result == TIMED);
    return taken;
}

/* Returns this program's earlier selection for the op, or NULL. */
static const ls__fusion *find_fusion(const ls__program *p, const ls__op *op)
{
    for (int i = 0; i < p->n_fusions; i++)
        if (ls__op_equal(&p->fusions[i].op, op)) return &p->fusions[i];
    return NULL;
}

/* True if the op has kernels. If a selected op has none, opening its kernel reports the error. */
static bool is_offered(const ls__program *p, const ls__instruction *in)
{
    char text[LS__OP_TEXT_SIZE];
    ls__op_text(&in->op, text, sizeof text);
    return ls__selector_find(p->env->selector, text) ||
           ls__cheapest_ms(p->ctx, &in->op) < LS__IMPOSSIBLE_MS;
}

/* Follows an earlier selection: of an equal op of this program, of the net, or of the algorithm
 * cache. If that is "unfused", candidates are not listed, because listing is slow. */
bool ls__select_fusion(ls__program *p, ls__fusion_sides *f)
{
    for (int i = 0; i < f->fused.n; i++) ls__instruction_fill(p, &f->fused.list[i]);
    for (int i = 0; i < f->apart.n; i++) ls__instruction_fill(p, &f->apart.list[i]);
    const ls__op *op = &f->fused.list[0].op;
    char text[LS__FUSION_TEXT_SIZE];
    ls__fusion_text(op, text);
    const ls__fusion *earlier = find_fusion(p, op);
    const ls__selection *selected = earlier ? NULL : ls__selector_find(p->env->selector, text);
    const bool refused =
        earlier ? !earlier->taken : selected && strcmp(selected->kernel, LS__FUSED) != 0;
    for (int i = 0; i < f->fused.n && !refused; i++)
        if (!is_offered(p, &f->fused.list[i])) return false;
    if (earlier) return earlier->taken;
    ls__fusion *fusion = &p->fusions[p->n_fusions++];
    fusion->op = *op;
    fusion->taken = selected ? !refused : p->timed ? is_faster(p, f) : is_better(p, f);
    return fusion->taken;
}
