/* net_plans.c: programs kept by mode and input shapes, least recently used out, all over one arena;
 * and the report when the arena does not fit. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "nn/net_state.h"
#include "nn/select/trial.h"
#include "nn/select/autotune.h"
#include "backend/pool.h"

#include <stdio.h>
#include <string.h>

static bool same_specs(const ls_spec *a, const ls_spec *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i].dtype != b[i].dtype || !ls_shape_equal(&a[i].shape, &b[i].shape)) return false;
    return true;
}

static void forget(ls_net *net, int i)
{
    if (net->current == net->programs[i]) {
        net->current = NULL;
        net->forward_done = false;
    }
    ls__program_close(&net->programs[i]);
    net->programs[i] = net->programs[--net->n_programs];
}

void ls__net_drop_training_programs(ls_net *net)
{
    for (int i = net->n_programs - 1; i >= 0; i--)
        if (net->programs[i]->gradients) forget(net, i);
}

/* ---- Out of memory ---- */

/* Sets the batch of every input that has the given one. */
static void set_batch(ls_spec *specs, const ls_spec *from, int n, int64_t old_batch, int64_t batch)
{
    for (int i = 0; i < n; i++) {
        specs[i] = from[i];
        if (specs[i].shape.dims[0] == old_batch) specs[i].shape.dims[0] = batch;
    }
}

/* The arena that a batch would need, or SIZE_MAX when that batch cannot be planned. */
static size_t arena_for(ls_net *net, ls_mode mode, bool gradients, const ls_spec *wanted,
                        int64_t old_batch, int64_t batch)
{
    const int n = net->graph.inputs.n;
    ls_spec *specs = ls__alloc(net->owned.ctx, (size_t)n * sizeof *specs);
    if (!specs) return SIZE_MAX;
    set_batch(specs, wanted, n, old_batch, batch);
    ls__program *program = NULL;
    net->plans_only = true;
    const ls_status status =
        ls__program_open(net, &net->graph, mode, gradients, specs, false, &program);
    net->plans_only = false;
    const size_t bytes = status == LS_OK ? program->arena_bytes : SIZE_MAX;
    ls__program_close(&program);
    ls__free(net->owned.ctx, specs);
    return bytes;
}

/* Tries it: what a device says to be free may not be there in one piece. */
static bool would_fit(ls__pool *pool, size_t bytes)
{
    if (bytes > ls__pool_free_bytes(pool)) return false;
    void *memory = ls__pool_allocate(pool, bytes);
    ls__pool_release(pool, memory);
    return memory != NULL;
}

/* The largest batch whose arena could be had: 0 when none can. Memory grows by nearly the same
 * number of bytes with each image, so a line through two plans points close to the answer; by
 * halves where less is to be had than what is said to be free, under a limit of the process's. */
static int64_t largest_batch(ls_net *net, const ls__program *program, size_t free)
{
    ls__pool *pool = net->owned.ctx->pool;
    enum { MAX_PLANS = 20 };
    int64_t fits = 0, too_large = program->input_specs[0].shape.dims[0];
    const int64_t asked = too_large;
    double bytes_per_image = (double)program->arena_bytes / (double)asked;
    bool misled = program->arena_bytes <= free;
    for (int i = 0; i < MAX_PLANS && fits + 1 < too_large; i++) {
        int64_t batch = (int64_t)((double)free / bytes_per_image);
        if (batch <= fits) batch = fits + 1;
        if (batch >= too_large) batch = misled ? fits + (too_large - fits) / 2 : too_large - 1;
        const size_t bytes =
            arena_for(net, program->mode, program->gradients, program->input_specs, asked, batch);
        if (bytes == SIZE_MAX) break;
        if (would_fit(pool, bytes)) {
            fits = batch;
        } else {
            too_large = batch;
            misled = misled || bytes <= free;
        }
        bytes_per_image = (double)bytes / (double)batch;
    }
    return fits;
}

static ls_status report_out_of_memory(ls_net *net, const ls__program *program)
{
    ls_context *ctx = net->owned.ctx;
    const size_t free = ls__pool_free_bytes(ctx->pool);
    const size_t cached = ls__pool_stats(ctx->pool).cached_bytes;
    const int64_t batch = program->input_specs[0].shape.dims[0];
    const int64_t best = largest_batch(net, program, free);
    /* Planning the smaller batches may have failed for want of memory, too. */
    if (ctx->error == LS_ERR_MEMORY) ctx->error = LS_OK;
    char advice[96];
    if (best > 0)
        snprintf(advice, sizeof advice, "the largest batch that fits is %lld", (long long)best);
    else
        snprintf(advice, sizeof advice, "not even a batch of 1 fits");
    return ls__fail(ctx, LS_ERR_MEMORY,
                    "net: out of device memory for activations and workspaces at batch %lld: %zu "
                    "bytes asked, %zu free, %zu cached; %s",
                    (long long)batch, program->arena_bytes, free, cached, advice);
}

/* Whatever lies in the arena is over with the next forward. */
static void drop_arena(ls_net *net)
{
    ls__pool_release(net->owned.ctx->pool, net->arena);
    net->arena = NULL;
    net->arena_bytes = 0;
    net->current = NULL;
    net->forward_done = false;
    net->arena_generation++;
}

static ls_status fit_arena(ls_net *net, const ls__program *program)
{
    if (program->arena_bytes <= net->arena_bytes && net->arena) return LS_OK;
    ls_context *ctx = net->owned.ctx;
    drop_arena(net);
    net->arena = ls__pool_allocate(ctx->pool, program->arena_bytes);
    if (!net->arena) return report_out_of_memory(net, program);
    net->arena_bytes = program->arena_bytes;
    return LS_OK;
}

/* ---- Gradients of weights beside the rest, by time ---- */

/* Is there something to decide, in a program whose kernels were timed? Users' ops are not called
 * before a step. */
static bool is_open(const ls__program *p)
{
    for (int i = p->n_forward; i < p->n_instructions; i++)
        if (p->instructions[i].custom) return false;
    return p->timed && p->has_tuning_budget && p->tuning_left_ms > 0 &&
           p->ctx->selections->n_timed > 0 && !ls__program_settled_overlap(p) &&
           ls__program_can_overlap(p);
}

/* Opens a program that overlaps, and times it where there is memory and time. */
static ls_status time_overlap(ls_net *net, const ls__program *p, ls__program **side,
                              double *main_ms, double *side_ms)
{
    const double start = ls__now_ms();
    LS_TRY(ls__program_open(net, &net->graph, p->mode, p->gradients, p->input_specs, false, side));
    drop_arena(net);
    if (!would_fit(net->owned.ctx->pool, (*side)->arena_bytes)) return LS_OK;
    LS_TRY(fit_arena(net, *side));
    ls__program_bind(*side, net->arena, net->arena_generation);
    return ls__program_time_overlap(*side, p->tuning_left_ms - (ls__now_ms() - start), main_ms,
                                    side_ms);
}

/* Puts the program that overlaps in the place of one that does not, if it is faster. Nothing is
 * decided where it can't be timed. */
static ls_status choose_overlap(ls_net *net, ls__program **program)
{
    ls__program *p = *program, *side = NULL;
    double main_ms = -1, side_ms = -1;
    if (!is_open(p)) return LS_OK;
    LS_TRY(ls__program_settle_overlap(p, true, "timed"));
    ls_status status = time_overlap(net, p, &side, &main_ms, &side_ms);
    const bool forgiven = status != LS_OK && ls__forgive_failed_run(net->owned.ctx);
    if (forgiven)
        ls__inform(net->owned.ctx, "net: gradients of weights can't be timed: %.500s",
                   ls_context_message(net->owned.ctx));
    if (forgiven) status = LS_OK;
    const bool timed = status == LS_OK && side_ms >= 0;
    const bool faster = timed && side_ms < LS__CLEARLY_FASTER * main_ms;
    ls__program_forget_overlap(p);
    if (timed) {
        char reason[LS__SELECTION_REASON_SIZE];
        snprintf(reason, sizeof reason, "timed %.3g ms against %.3g ms", faster ? side_ms : main_ms,
                 faster ? main_ms : side_ms);
        status = ls__program_settle_overlap(p, faster, reason);
    }
    if (status == LS_OK && faster) {
        *program = side;
        side = p;
    }
    drop_arena(net); /* it may be larger than what is needed now */
    ls__program_close(&side);
    return status == LS_OK ? fit_arena(net, *program) : status;
}

/* ---- The cache ---- */

static void make_room(ls_net *net)
{
    while (net->n_programs >= net->max_programs) {
        int oldest = 0;
        for (int i = 1; i < net->n_programs; i++)
            if (net->programs[i]->last_used < net->programs[oldest]->last_used) oldest = i;
        forget(net, oldest);
    }
}

ls_status ls__net_program(ls_net *net, ls_mode mode, const ls_spec *input_specs, bool timed,
                          ls__program **out)
{
    const int n_inputs = net->graph.inputs.n;
    ls__program *program = NULL;
    for (int i = 0; i < net->n_programs && !program; i++)
        if (net->programs[i]->mode == mode &&
            same_specs(net->programs[i]->input_specs, input_specs, n_inputs))
            program = net->programs[i];
    if (!program) {
        const bool gradients = mode == LS_TRAIN && !net->config.inference;
        LS_TRY(ls__program_open(net, &net->graph, mode, gradients, input_specs, timed, &program));
        ls_status status = fit_arena(net, program);
        if (status == LS_OK) status = choose_overlap(net, &program);
        if (status == LS_OK) status = ls__net_note_selections(net, program);
        if (status != LS_OK) {
            ls__program_close(&program);
            return status;
        }
        make_room(net);
        net->programs[net->n_programs++] = program;
    }
    LS_TRY(fit_arena(net, program)); /* an earlier, larger one may have failed and left none */
    program->last_used = ++net->clock;
    ls__program_bind(program, net->arena, net->arena_generation);
    *out = program;
    return LS_OK;
}
