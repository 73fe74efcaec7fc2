/* choose.c: which kernel runs an op. The policy filters: strict leaves deterministic kernels only.
 * Among what is left, in this order:
 *
 *   what the net has used for an equal op before: that never changes in a net's life
 *   what the context's table says: from a plan file, from a checkpoint, or timed for another net
 *   with benchmark on and while the net is built, the one that was fastest in a few runs; the table
 *   takes it
 *   the one that the backend thinks cheapest
 *
 * Times vary, so choices made by timing are part of a run's identity, and stored in its
 * checkpoints. Nothing is timed after the build: ops that come up only then go by the estimate. */
#include "base/error.h"
#include "base/text.h"
#include "nn/lower.h"
#include "nn/net_state.h"
#include "tensor/pool.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A kernel's time is the shortest of so many runs after one that warms up, or of more, as long as
 * all of them take less than SHORT_MS. */
enum { TIMED_RUNS = 3, MOST_TIMED_RUNS = 20 };
static const double SHORT_MS = 0.5;
/* Kernels whose estimate is so many times the best one's are not tried: the estimates are not that
 * wrong, and the plain-C reference is there for every op. */
static const double HOPELESS = 8;
/* One that the first timed run shows to be slower than this many times the best is given up. */
static const double SLOWER = 1.5;
/* The estimate's choice stays unless another one takes less than this share of its time: smaller
 * differences are noise. */
static const double CLEARLY_FASTER = 0.97;

int ls__choose_candidate(ls_context *ctx, const ls__op *op, ls__candidate *out, int *n_found)
{
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n = ctx->device->backend->candidates(ctx->device, op, found, LS__MAX_CANDIDATES);
    int n_allowed = 0, n_deterministic = 0;
    for (int i = 0; i < n; i++) n_deterministic += found[i].deterministic;
    for (int i = 0; i < n; i++) {
        const bool off = ctx->config.deterministic == LS_DETERMINISTIC_OFF;
        const bool last_resort =
            ctx->config.deterministic == LS_DETERMINISTIC_WARN && n_deterministic == 0;
        if (found[i].deterministic || off || last_resort) out[n_allowed++] = found[i];
    }
    *n_found = n;
    int best = n_allowed > 0 ? 0 : -1;
    for (int i = 1; i < n_allowed; i++)
        if (out[i].cost_ms < out[best].cost_ms) best = i;
    for (int i = n_allowed; i < n; i++) out[i].name[0] = 0;
    return best;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Runs the kernel until its time is known: see the numbers at the top. Negative when it fails. */
static double time_runs(ls__device *device, ls__kernel *kernel, void *const *buffers,
                        void *workspace, double best_known)
{
    const ls__step step = { 0 };
    double best = -1, sum = 0;
    for (int run = 0; run <= MOST_TIMED_RUNS; run++) {
        const double start = now_ms();
        if (kernel->run(kernel, buffers, workspace, &step) != LS_OK ||
            device->backend->wait(device) != LS_OK)
            return -1;
        const double time = now_ms() - start;
        if (run == 0) continue;
        if (best < 0 || time < best) best = time;
        sum += time;
        const bool hopeless = best_known >= 0 && best > SLOWER * best_known;
        if (hopeless || (run >= TIMED_RUNS && sum > SHORT_MS)) break;
    }
    return best;
}

/* Time of a candidate over zeroed memory; negative when it could not be made or run. */
static double measure(ls_context *ctx, const ls__op *op, const char *name, double best_known)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    void *buffers[LS__MAX_OPERANDS] = { NULL }, *workspace = NULL;
    ls__kernel *kernel = NULL;
    double time = -1;
    if (backend->kernel_open(device, op, name, &kernel) != LS_OK) return -1;
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i].shape.n_dims < 0) continue;
        const size_t bytes =
            (size_t)ls_shape_count(&op->operands[i].shape) * ls_dtype_bytes(op->operands[i].dtype);
        buffers[i] = ls__pool_allocate(ctx->pool, bytes);
        if (!buffers[i] || backend->clear(device, buffers[i], bytes) != LS_OK) goto done;
    }
    workspace = ls__pool_allocate(ctx->pool, kernel->workspace_bytes);
    if (!workspace) goto done;
    backend->begin(device);
    time = time_runs(device, kernel, buffers, workspace, best_known);
    backend->end(device);
done:
    ls__pool_release(ctx->pool, workspace);
    for (int i = 0; i < op->n_operands; i++) ls__pool_release(ctx->pool, buffers[i]);
    kernel->close(kernel);
    return time;
}

/* The fastest of the candidates that are worth a try, as a choice for the context's table; no
 * kernel in it when there is nothing to compare. `cheapest` is the estimate's. */
static ls__choice choose_by_time(ls_context *ctx, const ls__op *op, const char *text,
                                 const ls__candidate *candidates, int n, int cheapest)
{
    ls__choice choice = { .op = text };
    int n_tried = 0, best = -1;
    double best_time = -1;
    for (int i = -1; i < n; i++) { /* the estimate's first */
        const ls__candidate *c = &candidates[i < 0 ? cheapest : i];
        if (i == cheapest || c->cost_ms > HOPELESS * candidates[cheapest].cost_ms) continue;
        const double time = measure(ctx, op, c->name, best_time);
        if (time < 0) continue;
        n_tried++;
        if (best_time >= 0 && time >= CLEARLY_FASTER * best_time) continue;
        best_time = time;
        best = i < 0 ? cheapest : i;
    }
    if (n_tried < 2) return choice;
    memcpy(choice.kernel, candidates[best].name, sizeof choice.kernel);
    snprintf(choice.reason, sizeof choice.reason, "timed %.3g ms of %d candidates", best_time,
             n_tried);
    return choice;
}

/* What was settled for the op: by this net's past, by the context's table, or now by timing. *found
 * is NULL when nothing was. */
static ls_status settled_choice(ls_net *net, const ls__op *op, const char *text, bool timed,
                                const ls__candidate *allowed, int n_allowed, int cheapest,
                                const ls__choice **found)
{
    ls_context *ctx = net->owned.ctx;
    *found = ls__choices_find(net->choices, text);
    if (*found) return LS_OK;
    *found = ls__choices_find(ctx->choices, text);
    if (*found && (*found)->added > net->choices_known_to) *found = NULL;
    if (*found || !timed || n_allowed < 2) return LS_OK;
    const ls__choice choice = choose_by_time(ctx, op, text, allowed, n_allowed, cheapest);
    LS__ENTER(ctx);
    if (!choice.kernel[0]) return LS_OK;
    LS_TRY(ls__choices_put(ctx, ctx->choices, &choice));
    ls__choices_keep_recent(ctx->choices, LS__MAX_CHOICES);
    ctx->choices->n_timed++;
    *found = ls__choices_find(ctx->choices, text);
    return LS_OK;
}

static int index_of(const ls__candidate *candidates, int n, const char *kernel)
{
    for (int i = 0; i < n; i++)
        if (strcmp(candidates[i].name, kernel) == 0) return i;
    return -1;
}

/* A settled choice that is not among those allowed: it came from a file. */
static ls_status fail_settled(ls_context *ctx, const ls__op *op, const char *who,
                              const ls__choice *choice)
{
    ls__candidate all[LS__MAX_CANDIDATES];
    const int n = ctx->device->backend->candidates(ctx->device, op, all, LS__MAX_CANDIDATES);
    char names[256] = "";
    ls__text list = { names, sizeof names, 0 };
    if (index_of(all, n, choice->kernel) >= 0)
        return ls__fail(ctx, LS_ERR_NONDETERMINISTIC,
                        "%s: kernel '%s', which the %s asks for, is not deterministic; "
                        "deterministic = off allows it: %.400s",
                        who, choice->kernel, choice->reason, choice->op);
    for (int i = 0; i < n; i++) ls__text_put(&list, "%s'%s'", i ? ", " : "", all[i].name);
    return ls__fail(ctx, LS_ERR_NOT_FOUND,
                    "%s: there is no kernel '%s', which the %s asks for; there are %s for %.400s",
                    who, choice->kernel, choice->reason, names, choice->op);
}

ls_status ls__net_open_kernel(ls_net *net, const ls__op *op, const char *who, bool timed,
                              ls__kernel **kernel, ls__why *why)
{
    ls_context *ctx = net->owned.ctx;
    ls__candidate candidates[LS__MAX_CANDIDATES];
    char text[LS__OP_TEXT_SIZE];
    int n_found, n_allowed = 0;
    const int cheapest = ls__choose_candidate(ctx, op, candidates, &n_found);
    LS__ENTER(ctx);
    if (cheapest < 0)
        return ls__fail(ctx, n_found ? LS_ERR_NONDETERMINISTIC : LS_ERR_UNSUPPORTED,
                        n_found ? "%s: no kernel for %s on %s is deterministic; deterministic = "
                                  "warn or off allows others"
                                : "%s: there is no kernel for %s on %s",
                        who, ls__op_name(op->kind), ctx->device->backend->name);
    while (n_allowed < n_found && candidates[n_allowed].name[0]) n_allowed++;
    ls__op_text(op, text, sizeof text);
    const ls__choice *settled;
    LS_TRY(settled_choice(net, op, text, timed, candidates, n_allowed, cheapest, &settled));
    const int chosen = settled ? index_of(candidates, n_allowed, settled->kernel) : cheapest;
    if (chosen < 0) return fail_settled(ctx, op, who, settled);
    *why = (ls__why){ .listed = n_found > 1, .derived = !settled || settled->derived };
    snprintf(why->reason, sizeof why->reason, "%s", n_allowed > 1 ? "heuristic" : "only");
    if (settled) memcpy(why->reason, settled->reason, sizeof why->reason);
    if (!candidates[chosen].deterministic && ctx->config.deterministic == LS_DETERMINISTIC_WARN)
        ls__warn(ctx, "%s: kernel '%s' is not deterministic", who, candidates[chosen].name);
    return ctx->device->backend->kernel_open(ctx->device, op, candidates[chosen].name, kernel);
}

/* ---- A net's list ---- */

ls_status ls__net_note_choice(ls_net *net, const ls__op *op, const char *who,
                              const ls__kernel *kernel, const ls__why *why)
{
    ls_context *ctx = net->owned.ctx;
    char text[LS__OP_TEXT_SIZE];
    if (!why->listed) return LS_OK;
    ls__op_text(op, text, sizeof text);
    if (ls__choices_find(net->choices, text)) return LS_OK;
    ls__choice choice = { .op = text, .derived = why->derived };
    memcpy(choice.kernel, kernel->name, sizeof choice.kernel);
    memcpy(choice.reason, why->reason, sizeof choice.reason);
    LS_TRY(ls__choices_put(ctx, net->choices, &choice));
    ls__choices_keep_sample(net->choices, LS__MAX_CHOICES);
    ls__inform(ctx, "%s: %s (%s) for %s", who, choice.kernel, choice.reason, text);
    return LS_OK;
}

/* "conv2d 'layer1.0.conv1'" */
static void name_instruction(const ls__instruction *in, char *out, size_t size)
{
    snprintf(out, size, "%s '%s'", ls__node_kind_text(in->node->kind), in->node->name);
}

ls_status ls__net_note_choices(ls_net *net, const ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        char who[LS__MAX_NAME + 64];
        if (!in->kernel || in->skipped) continue;
        name_instruction(in, who, sizeof who);
        LS_TRY(ls__net_note_choice(net, &in->op, who, in->kernel, &in->why));
    }
    return LS_OK;
}

ls_status ls__net_inherit_choices(ls_net *net)
{
    const ls__choices *known = net->owned.ctx->choices;
    for (int i = 0; i < known->n; i++)
        if (known->items[i]->inherited)
            LS_TRY(ls__choices_put(net->owned.ctx, net->choices, known->items[i]));
    return LS_OK;
}

/* ---- All of a program ---- */

static ls_status choose(ls__program *p, ls__instruction *in, bool timed)
{
    char who[LS__MAX_NAME + 64];
    name_instruction(in, who, sizeof who);
    return ls__net_open_kernel(p->net, &in->op, who, timed, &in->kernel, &in->why);
}

bool ls__reorder_is_identity(const ls__program *p, const ls__instruction *in)
{
    if (in->custom || in->op.kind != LS__OP_REORDER) return false;
    const ls__value *x = &p->values[in->operands[0]], *y = &p->values[in->operands[1]];
    return x->shape.n_dims != 4 || y->shape.n_dims != 4 || x->block == y->block;
}

ls_status ls__program_choose(ls__program *p, bool timed)
{
    timed = timed && p->ctx->config.benchmark == LS_BENCHMARK_ON;
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction *in = &p->instructions[i];
        ls__instruction_fill(p, in);
        if (!in->custom && !ls__reorder_is_identity(p, in)) LS_TRY(choose(p, in, timed));
    }
    return LS_OK;
}
