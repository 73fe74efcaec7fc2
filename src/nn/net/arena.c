/* arena.c: the memory that all programs of a net share, and the error if it can't be allocated. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/compile/compile.h"
#include "nn/net/net_state.h"
#include <stdio.h>
#include <string.h>

/* The arena that a program like this one would need with another batch; SIZE_MAX if that batch
 * cannot be planned. */
static size_t arena_for(ls_net *net, const ls__program *like, int64_t batch)
{
    const int n = net->graph.inputs.n;
    const int64_t old_batch = like->input_specs[0].shape.dims[0];
    ls_spec *specs = ls__alloc(net->owned.ctx, (size_t)n * sizeof *specs);
    if (!specs) return SIZE_MAX;
    for (int i = 0; i < n; i++) {
        specs[i] = like->input_specs[i];
        if (specs[i].shape.dims[0] == old_batch) specs[i].shape.dims[0] = batch;
    }
    ls__program *program = NULL;
    net->selector.never_runs = true;
    const ls_status status =
        ls__compile(&net->env, &net->graph,
                    &(ls__compile_request){
                        .mode = like->mode, .gradients = like->gradients, .input_specs = specs },
                    &program);
    net->selector.never_runs = false;
    const size_t bytes = status == LS_OK ? ls__program_arena_bytes(program) : SIZE_MAX;
    ls__program_close(&program);
    ls__free(net->owned.ctx, specs);
    return bytes;
}

/* Allocates and frees, because free memory may be fragmented. */
bool ls__would_fit(ls__pool *pool, size_t bytes)
{
    if (bytes > ls__pool_free_bytes(pool)) return false;
    void *memory = ls__pool_allocate(pool, bytes);
    ls__pool_release(pool, memory);
    return memory != NULL;
}

/* The largest batch whose arena can be allocated, or 0; -1 if there was no memory to plan it.
 * Memory is nearly linear in the batch, so a line through two plans gives a close estimate. Under a
 * limit of the process, which may allow less than the free memory, the batch is halved until it
 * fits. */
static int64_t largest_batch(ls_net *net, const ls__program *program, size_t free)
{
    ls__pool *pool = net->owned.ctx->pool;
    enum { MAX_PLANS = 20 };
    int64_t fits = 0, too_large = program->input_specs[0].shape.dims[0];
    double bytes_per_image = (double)ls__program_arena_bytes(program) / (double)too_large;
    bool misled = ls__program_arena_bytes(program) <= free;
    for (int i = 0; i < MAX_PLANS && fits + 1 < too_large; i++) {
        int64_t batch = (int64_t)((double)free / bytes_per_image);
        if (batch <= fits) batch = fits + 1;
        if (batch >= too_large) batch = misled ? fits + (too_large - fits) / 2 : too_large - 1;
        const size_t bytes = arena_for(net, program, batch);
        if (bytes == SIZE_MAX) return fits > 0 ? fits : -1;
        if (ls__would_fit(pool, bytes)) {
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
    /* Planning the smaller batches may also have run out of memory. */
    if (ctx->error == LS_ERR_MEMORY) ctx->error = LS_OK;
    char advice[96];
    if (best > 0)
        snprintf(advice, sizeof advice, "the largest batch that fits is %lld", (long long)best);
    else
        strcpy(advice, best == 0 ? "not even a batch of 1 fits" : "a smaller batch may fit");
    return ls__fail(ctx, LS_ERR_MEMORY,
                    "net: out of device memory for activations and workspaces at batch %lld: %zu "
                    "bytes requested, %zu free, %zu cached; %s",
                    (long long)batch, ls__program_arena_bytes(program), free, cached, advice);
}

/* The next forward overwrites the arena's contents. */
void ls__drop_arena(ls_net *net)
{
    ls__pool_release(net->owned.ctx->pool, net->cache.arena);
    net->cache.arena = NULL;
    net->env.arena_bytes = 0;
    net->current = NULL;
    net->forward_done = false;
    net->cache.arena_generation++;
}

ls_status ls__fit_arena(ls_net *net, const ls__program *program)
{
    const size_t bytes = ls__program_arena_bytes(program);
    if (bytes <= net->env.arena_bytes && net->cache.arena) return LS_OK;
    ls_context *ctx = net->owned.ctx;
    ls__drop_arena(net);
    net->cache.arena = ls__pool_allocate(ctx->pool, bytes);
    if (!net->cache.arena) return report_out_of_memory(net, program);
    net->env.arena_bytes = bytes;
    return LS_OK;
}

void ls__bind_to_arena(ls_net *net, ls__program *program)
{
    const ls__net_blocks *blocks = &net->blocks;
    const size_t alignment = net->owned.ctx->device->backend->alignment;
    const size_t copy_bytes = net->env.arena_bytes / (size_t)program->n_copies;
    const ls__places places = {
        .starts = { [LS__PLACE_ARENA] = net->cache.arena,
                    [LS__PLACE_VALUES] = blocks->values,
                    [LS__PLACE_GRADIENTS] = blocks->gradients,
                    [LS__PLACE_COMPUTE_WEIGHTS] = blocks->compute_weights,
                    [LS__PLACE_LOSS_SCALE] = blocks->loss_scale,
                    [LS__PLACE_NORM_SUMS] = net->shards.norm_sums,
                    [LS__PLACE_SHARD_RESULTS] = net->shards.results },
        .strides = { [LS__PLACE_ARENA] = copy_bytes / alignment * alignment,
                     [LS__PLACE_GRADIENTS] = (size_t)blocks->gradient_stride * sizeof(float) },
    };
    ls__program_bind(program, &places, net->cache.arena_generation);
}
