/* choose.c: which kernel runs an instruction. The policy filters: strict leaves deterministic
 * kernels only. Among what is left, benchmark off takes the backend's cheapest estimate, benchmark
 * on the shortest measured time. Times vary, so each op is timed once, while the net is built, and
 * keeps its kernel in whatever is planned later: for other parameters frozen, or anew after the
 * cache has dropped it. Ops that come up only later go by the estimate. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/lower.h"
#include "nn/net_state.h"
#include "tensor/pool.h"

#include <string.h>
#include <time.h>

enum { TIMED_RUNS = 4 };

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

/* Shortest of a few runs over zeroed memory; negative when the kernel could not be made or run. */
static double measure(ls_context *ctx, const ls__op *op, const ls__candidate *candidate)
{
    ls__device *device = ctx->device;
    const ls__backend *backend = device->backend;
    void *buffers[LS__MAX_OPERANDS] = { NULL }, *workspace = NULL;
    ls__kernel *kernel = NULL;
    double best = -1;
    if (backend->kernel_open(device, op, candidate->name, &kernel) != LS_OK) return -1;
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i].shape.n_dims < 0) continue;
        const size_t bytes =
            (size_t)ls_shape_count(&op->operands[i].shape) * ls_dtype_bytes(op->operands[i].dtype);
        buffers[i] = ls__pool_allocate(ctx->pool, bytes);
        if (!buffers[i] || backend->clear(device, buffers[i], bytes) != LS_OK) goto done;
    }
    workspace = ls__pool_allocate(ctx->pool, kernel->workspace_bytes);
    if (!workspace) goto done;
    const ls__step step = { 0 };
    backend->begin(device);
    for (int run = 0; run < TIMED_RUNS; run++) {
        const double start = now_ms();
        if (kernel->run(kernel, buffers, workspace, &step) != LS_OK ||
            backend->wait(device) != LS_OK) {
            best = -1;
            break;
        }
        const double time = now_ms() - start;
        if (run == 1 || (run > 1 && time < best)) best = time; /* run 0 warms up */
    }
    backend->end(device);
done:
    ls__pool_release(ctx->pool, workspace);
    for (int i = 0; i < op->n_operands; i++) ls__pool_release(ctx->pool, buffers[i]);
    kernel->close(kernel);
    return best;
}

static int fastest(ls_context *ctx, const ls__op *op, const ls__candidate *candidates, int n,
                   int fallback)
{
    double best_time = -1;
    int best = fallback;
    for (int i = 0; i < n; i++) {
        const double time = measure(ctx, op, &candidates[i]);
        if (time < 0 || (best_time >= 0 && time >= best_time)) continue;
        best_time = time;
        best = i;
    }
    return best;
}

/* The name of the kernel that timing chose for an equal op; NULL when none was. */
static const char *timed_choice(const ls_net *net, const ls__op *op)
{
    for (int i = 0; i < net->n_choices; i++)
        if (memcmp(&net->choices[i].op, op, sizeof *op) == 0) return net->choices[i].kernel;
    return NULL;
}

static ls_status keep_choice(ls_net *net, const ls__op *op, const char *kernel)
{
    if (net->n_choices == net->choice_room) {
        const int room = net->choice_room ? 2 * net->choice_room : 64;
        ls__timed_choice *larger = ls__bump_grow(
            &net->graph.bump, net->choices, (size_t)net->n_choices, (size_t)room, sizeof *larger);
        if (!larger) return ls__fail_memory(net->graph.ctx, "net", (size_t)room * sizeof *larger);
        net->choices = larger;
        net->choice_room = room;
    }
    ls__timed_choice *choice = &net->choices[net->n_choices++];
    memcpy(&choice->op, op, sizeof *op);
    memcpy(choice->kernel, kernel, sizeof choice->kernel);
    return LS_OK;
}

static ls_status choose(ls__program *p, ls__instruction *in, bool timed)
{
    ls_context *ctx = p->ctx;
    ls__candidate candidates[LS__MAX_CANDIDATES];
    int n_found;
    int best = ls__choose_candidate(ctx, &in->op, candidates, &n_found);
    LS__ENTER(ctx);
    if (best < 0)
        return ls__node_fail(in->node, n_found ? LS_ERR_NONDETERMINISTIC : LS_ERR_UNSUPPORTED,
                             n_found ? "no kernel for %s on %s is deterministic; deterministic = "
                                       "warn or off allows others"
                                     : "there is no kernel for %s on %s",
                             ls__op_name(in->op.kind), ctx->device->backend->name);
    if (!candidates[best].deterministic && ctx->config.deterministic == LS_DETERMINISTIC_WARN)
        ls__warn(ctx, "%s '%s': kernel '%s' is not deterministic",
                 ls__node_kind_text(in->node->kind), in->node->name, candidates[best].name);
    int n_allowed = 0;
    while (n_allowed < n_found && candidates[n_allowed].name[0]) n_allowed++;
    const char *name = candidates[best].name;
    in->reason = n_allowed > 1 ? "heuristic" : "only";
    const char *known = timed_choice(p->net, &in->op);
    if (!known && timed && n_allowed > 1) {
        known = candidates[fastest(ctx, &in->op, candidates, n_allowed, best)].name;
        LS__ENTER(ctx);
        LS_TRY(keep_choice(p->net, &in->op, known));
    }
    if (known) {
        name = known;
        in->reason = "benchmark";
    }
    return ctx->device->backend->kernel_open(ctx->device, &in->op, name, &in->kernel);
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
