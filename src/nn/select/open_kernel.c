/* open_kernel.c: selects the kernel of an op, in the order of selector.h. The policy filters
 * candidates: strict allows deterministic kernels only. A library's kernel runs once before a
 * program uses it, because a library may make a kernel that fails when it is run. */
#include "base/error.h"
#include "base/text.h"
#include "backend/pool.h"
#include "nn/select/selector.h"
#include "nn/select/timing.h"
#include <stdio.h>
#include <string.h>

enum { ORIGIN_SIZE = LS__SELECTION_REASON_SIZE + 24 };

int ls__list_candidates(ls_context *ctx, const ls__op *op, ls__candidate *out, int *n_found)
{
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n = ctx->device->backend->candidates(ctx->device, op, found, LS__MAX_CANDIDATES);
    const ls_deterministic policy = ctx->config.deterministic;
    int n_allowed = 0, n_deterministic = 0;
    for (int i = 0; i < n; i++) n_deterministic += found[i].deterministic;
    const bool others =
        policy == LS_DETERMINISTIC_OFF || (policy == LS_DETERMINISTIC_WARN && n_deterministic == 0);
    for (int i = 0; i < n; i++)
        if (found[i].deterministic || others) out[n_allowed++] = found[i];
    *n_found = n;
    return n_allowed;
}

int ls__cheapest(const ls__candidate *candidates, int n)
{
    int best = n > 0 ? 0 : -1;
    for (int i = 1; i < n; i++)
        if (candidates[i].cost_ms < candidates[best].cost_ms) best = i;
    return best;
}

double ls__cheapest_ms(ls_context *ctx, const ls__op *op)
{
    ls__candidate allowed[LS__MAX_CANDIDATES];
    int n_found;
    const int best = ls__cheapest(allowed, ls__list_candidates(ctx, op, allowed, &n_found));
    return best < 0 ? LS__IMPOSSIBLE_MS : allowed[best].cost_ms;
}

static int candidate_index(const ls__candidate *candidates, int n, const char *kernel)
{
    for (int i = 0; i < n; i++)
        if (strcmp(candidates[i].name, kernel) == 0) return i;
    return -1;
}

/* The origin of a selection, for errors about its kernel: "which the algorithm cache names". */
static void origin(const ls__selection *selection, char *out, size_t size)
{
    const bool of_file = strcmp(selection->reason, "algorithm cache") == 0 ||
                         strcmp(selection->reason, "checkpoint") == 0;
    snprintf(out, size, of_file ? "which the %s names" : "selected before (%s)", selection->reason);
}

/* The error for a selected kernel, usually from a file, that is not an allowed candidate. */
static ls_status fail_selected(ls_context *ctx, const ls__op *op, const char *who,
                               const ls__selection *selection)
{
    ls__candidate all[LS__MAX_CANDIDATES];
    const int n = ctx->device->backend->candidates(ctx->device, op, all, LS__MAX_CANDIDATES);
    char names[256] = "", from[ORIGIN_SIZE];
    ls__text list = { names, sizeof names, 0 };
    origin(selection, from, sizeof from);
    if (candidate_index(all, n, selection->kernel) >= 0)
        return ls__fail(ctx, LS_ERR_NONDETERMINISTIC,
                        "%s: kernel '%s', %s, is not deterministic; deterministic = off allows "
                        "it: %.*s",
                        who, selection->kernel, from, LS__CUT(selection->op, 400));
    for (int i = 0; i < n; i++) ls__text_put(&list, "%s'%s'", i ? ", " : "", all[i].name);
    return ls__fail(ctx, LS_ERR_NOT_FOUND, "%s: there is no kernel '%s', %s; there are %s for %.*s",
                    who, selection->kernel, from, names, LS__CUT(selection->op, 400));
}

bool ls__forgive_missing_kernel(ls_context *ctx, ls_status status)
{
    if (status != LS_ERR_UNSUPPORTED && status != LS_ERR_NOT_FOUND) return false;
    ls_context_clear_error(ctx);
    return true;
}

/* Opens a selected kernel without listing candidates. *kernel stays NULL if the list is necessary:
 * the kernel can't be opened, or it is not deterministic. */
static ls_status open_by_name(ls_context *ctx, const ls__op *op, const char *name,
                              ls__kernel **kernel)
{
    const ls_status status = ctx->device->backend->kernel_open(ctx->device, op, name, kernel);
    if (status != LS_OK) {
        *kernel = NULL;
        return ls__forgive_missing_kernel(ctx, status) ? LS_OK : status;
    }
    if (!(*kernel)->nondeterministic || ctx->config.deterministic == LS_DETERMINISTIC_OFF)
        return LS_OK;
    (*kernel)->close(*kernel);
    *kernel = NULL;
    return LS_OK;
}

/* ---- Trials ---- */

/* Runs over zeros. If memory is short, the kernel does not run and *ran stays false. */
static ls_status run_once(ls_context *ctx, const ls__op *op, ls__kernel *kernel, bool *ran)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    const ls__step step = { 0 };
    ls__instruction in = { .op = *op };
    ls__op_memory memory;
    for (int i = 0; i < op->n_operands; i++) in.operands[i] = i;
    ls_status status = ls__op_memory_open(&memory, ctx, &in, 1, LS__ZEROS);
    if (status == LS_OK) status = ls__op_memory_set_workspace(&memory, &kernel);
    if (status == LS_OK) {
        *ran = true;
        backend->begin(device);
        status = kernel->run(kernel, memory.buffers[0], memory.workspace, &step);
        if (status == LS_OK) status = backend->wait(device);
        backend->end(device);
    } else if (status == LS_ERR_MEMORY) {
        status = LS_OK;
        ls_context_clear_error(ctx);
    }
    ls__op_memory_close(&memory);
    return status;
}

static const ls__selection *find_tried(ls__selector *s, const ls__op *op)
{
    char text[LS__OP_TEXT_SIZE];
    ls__op_text(op, text, sizeof text);
    return ls__selections_find(s->tried, text);
}

static ls_status put_tried(ls__selector *s, const ls__op *op, const ls__kernel *kernel)
{
    char text[LS__OP_TEXT_SIZE];
    ls__selection selection = { .op = text };
    ls__op_text(op, text, sizeof text);
    memcpy(selection.kernel, kernel->name, sizeof selection.kernel);
    const ls_status status = ls__selections_put(s->ctx, s->tried, &selection);
    ls__selections_keep_recent(s->tried, LS__MAX_SELECTIONS);
    return status;
}

/* Runs an `unproven` kernel once, unless it has run for an equal op of the net or its program never
 * runs. */
static ls_status run_unproven(ls__selector *s, const ls__op *op, ls__kernel *kernel)
{
    if (!kernel->unproven || s->never_runs) return LS_OK;
    const ls__selection *tried = find_tried(s, op);
    if (tried && strcmp(tried->kernel, kernel->name) == 0) return LS_OK;
    bool ran = false;
    LS_TRY(run_once(s->ctx, op, kernel, &ran));
    return ran ? put_tried(s, op, kernel) : LS_OK;
}

/* Runs the kernel once if it is a library's. If it fails, it is closed and *kernel is NULL; the
 * status is LS_ERR_UNSUPPORTED if another kernel may work. `selected` may be NULL. */
static ls_status try_kernel(ls__selector *s, const ls__op *op, const char *who,
                            const ls__selection *selected, ls__kernel **kernel)
{
    ls_context *ctx = s->ctx;
    char name[LS__KERNEL_NAME_SIZE];
    ls_status status = run_unproven(s, op, *kernel);
    if (status == LS_OK) return LS_OK;
    memcpy(name, (*kernel)->name, sizeof name);
    (*kernel)->close(*kernel);
    *kernel = NULL;
    if (status == LS_ERR_MEMORY || !ls__forgive_failed_run(ctx)) return status;
    char reason[sizeof ctx->message], from[ORIGIN_SIZE] = "";
    memcpy(reason, ctx->message, sizeof reason);
    if (selected) origin(selected, from, sizeof from);
    return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: kernel '%s'%s%s%s fails when it is run: %s", who,
                    name, selected ? ", " : "", from, selected ? "," : "", reason);
}

/* Counts an op whose library kernels all fail when they are run; equal ops then skip them. On
 * failure the kernel is closed. */
static ls_status note_fallback(ls__selector *s, const ls__op *op, const char *failure,
                               ls__kernel **kernel)
{
    if (find_tried(s, op)) return LS_OK;
    const ls_status status = put_tried(s, op, *kernel);
    if (s->n_fallbacks++ == 0)
        ls__snprintf(s->fallback, sizeof s->fallback, "slow '%s' runs instead: %.*s",
                     (*kernel)->name, LS__CUT(failure, 300));
    if (status == LS_OK) return LS_OK;
    (*kernel)->close(*kernel);
    *kernel = NULL;
    return status;
}

/* ---- Opening ---- */

ls_status ls__selector_open_best(ls__selector *s, const ls__op *op, const char *who,
                                 ls__candidate *candidates, int *n, ls__kernel **kernel,
                                 int *chosen)
{
    ls_context *ctx = s->ctx;
    char failed[sizeof s->fallback] = "";
    for (;;) {
        /* the kernel that ran for an equal op was the best one */
        const ls__selection *tried = find_tried(s, op);
        int best = tried ? candidate_index(candidates, *n, tried->kernel) : -1;
        if (best < 0) best = ls__cheapest(candidates, *n);
        *chosen = best;
        ls_status status =
            ctx->device->backend->kernel_open(ctx->device, op, candidates[best].name, kernel);
        const bool made = status == LS_OK;
        const char *failure = made ? "fails when it is run" : "can't be made";
        if (made) status = try_kernel(s, op, who, NULL, kernel);
        if (status == LS_OK && failed[0] && !(*kernel)->unproven)
            return note_fallback(s, op, failed, kernel);
        if (status == LS_OK || *n == 1 || !ls__forgive_missing_kernel(ctx, status)) return status;
        if (made) snprintf(failed, sizeof failed, "%.*s", LS__CUT(ctx->message, 500));
        ls__inform(ctx, LS_LOG_NET, "%s: %s %s, another is used: %.*s", who, candidates[best].name,
                   failure, LS__CUT(ctx->message, 500));
        --*n;
        memmove(&candidates[best], &candidates[best + 1], (size_t)(*n - best) * sizeof *candidates);
    }
}

ls_status ls__selector_open_kernel(ls__selector *s, const ls__op *op, const char *who,
                                   ls__kernel **kernel, ls__why *why)
{
    ls_context *ctx = s->ctx;
    const ls__backend *backend = ctx->device->backend;
    ls__candidate candidates[LS__MAX_CANDIDATES];
    char text[LS__OP_TEXT_SIZE];
    int n_found, chosen;
    ls__op_text(op, text, sizeof text);
    const ls__selection *selected = ls__selector_find(s, text);
    *why = (ls__why){ .listed = true, .derived = !selected || selected->derived };
    if (selected) memcpy(why->reason, selected->reason, sizeof why->reason);
    *kernel = NULL;
    if (selected && backend->lists_slowly) LS_TRY(open_by_name(ctx, op, selected->kernel, kernel));
    if (*kernel) return try_kernel(s, op, who, selected, kernel);

    int n_allowed = ls__list_candidates(ctx, op, candidates, &n_found);
    if (ls__has_error(ctx)) return ctx->error;
    if (n_allowed == 0)
        return ls__fail(ctx, n_found ? LS_ERR_NONDETERMINISTIC : LS_ERR_UNSUPPORTED,
                        n_found ? "%s: no kernel for %s on %s is deterministic; deterministic = "
                                  "warn or off allows others"
                                : "%s: there is no kernel for %s on %s",
                        who, ls__op_name(op->kind), backend->name);
    why->listed = n_found > 1;
    if (selected) {
        chosen = candidate_index(candidates, n_allowed, selected->kernel);
        if (chosen < 0) return fail_selected(ctx, op, who, selected);
        LS_TRY(backend->kernel_open(ctx->device, op, candidates[chosen].name, kernel));
        LS_TRY(try_kernel(s, op, who, selected, kernel));
    } else {
        snprintf(why->reason, sizeof why->reason, "%s", n_allowed > 1 ? "heuristic" : "only");
        LS_TRY(ls__selector_open_best(s, op, who, candidates, &n_allowed, kernel, &chosen));
    }
    if (!candidates[chosen].deterministic && ctx->config.deterministic == LS_DETERMINISTIC_WARN)
        ls__warn(ctx, LS_LOG_NET, "%s: kernel '%s' is not deterministic", who,
                 candidates[chosen].name);
    return LS_OK;
}

/* Replaces the kernel by the same one for the parts. */
static ls_status open_part(ls_context *ctx, ls__op *op, int n_blocks, const ls__block *blocks,
                           ls__call *call)
{
    char name[LS__KERNEL_NAME_SIZE];
    snprintf(name, sizeof name, "%s", call->kernel->name);
    call->kernel->close(call->kernel);
    call->kernel = NULL;
    for (int i = 0; i < n_blocks; i++)
        if (blocks[i].memory) op->operands[i].shape = blocks[i].shape;
    if (ls_shape_element_count(&blocks[0].shape) == 0) return LS_OK;
    return ctx->device->backend->kernel_open(ctx->device, op, name, &call->kernel);
}

ls_status ls__selector_open_call(ls__selector *s, ls__op *op, const char *who, const char *name,
                                 int n_blocks, const ls__block *blocks, ls__call *call)
{
    ls__why why;
    ls__pool *pool = s->ctx->pool;
    op->n_operands = n_blocks;
    *call = (ls__call){ .kind = ls__op_name(op->kind),
                        .name = name,
                        .op = op,
                        .n_inputs = ls__op_inputs(op->kind),
                        .updates = true };
    for (int i = 0; i < n_blocks; i++) {
        const bool given = blocks[i].memory != NULL;
        const ls_shape *shape = blocks[i].whole.n_dims ? &blocks[i].whole : &blocks[i].shape;
        call->buffers[i] = blocks[i].memory;
        op->operands[i].dtype = LS_F32;
        op->operands[i].shape = given ? *shape : (ls_shape){ .n_dims = -1 };
    }
    LS_TRY(ls__selector_open_kernel(s, op, who, &call->kernel, &why));
    LS_TRY(ls__selector_note_kernel(s, op, who, call->kernel, &why));
    if (blocks[0].whole.n_dims && !ls_shape_equal(&blocks[0].whole, &blocks[0].shape))
        LS_TRY(open_part(s->ctx, op, n_blocks, blocks, call));
    if (!call->kernel) return LS_OK;
    const size_t bytes = call->kernel->workspace_bytes;
    if (bytes == 0) return LS_OK;
    call->workspace = ls__pool_allocate(pool, bytes);
    return call->workspace ? LS_OK : ls__pool_fail(pool, bytes, "%s: a workspace", who);
}

void ls__call_close(ls_context *ctx, ls__call *call)
{
    if (call->kernel) call->kernel->close(call->kernel);
    ls__pool_release(ctx->pool, call->workspace);
}
