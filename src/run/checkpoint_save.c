/* checkpoint_save.c: writing a checkpoint. */
#include "run/checkpoint.h"

#include "base/context.h"
#include "base/error.h"
#include "tensor/backend.h"
#include "tensor/safetensors.h"

typedef struct writing {
    ls__device *device;
    ls__records net, optimizer;
    float *copy; /* of a tensor on the host, where the device's memory is elsewhere */
    float *turned;
} writing;

static const ls__record *record_at(const writing *w, int64_t i)
{
    return i < w->net.n ? &w->net.items[i] : &w->optimizer.items[i - w->net.n];
}

static ls_status put(void *user, int64_t i, ls__atomic_file *file)
{
    const writing *w = user;
    const ls__record *record = record_at(w, i);
    if (!record->memory) return ls__atomic_file_write(file, &record->number, sizeof record->number);
    const size_t bytes = (size_t)record->count * sizeof(float);
    const float *elements = record->memory;
    if (w->copy) {
        LS_TRY(w->device->backend->read(w->device, w->copy, record->memory, bytes));
        elements = w->copy;
    }
    if (record->transposed) {
        ls__weights_to_file(w->turned, elements, &record->spec.shape);
        elements = w->turned;
    }
    return ls__atomic_file_write(file, elements, bytes);
}

static ls_status write(ls_context *ctx, ls__bump *bump, const char *path, writing *w,
                       const char *const *metadata)
{
    const int64_t n = w->net.n + w->optimizer.n;
    const int64_t largest =
        w->net.largest > w->optimizer.largest ? w->net.largest : w->optimizer.largest;
    const size_t bytes = (size_t)largest * sizeof(float);
    w->turned = ls__bump_alloc(bump, bytes);
    if (!ctx->device->backend->host_memory) w->copy = ls__bump_alloc(bump, bytes);
    const char **names = ls__bump_alloc(bump, (size_t)n * sizeof *names);
    ls_spec *specs = ls__bump_alloc(bump, (size_t)n * sizeof *specs);
    if (!w->turned || !names || !specs || (!w->copy && !ctx->device->backend->host_memory))
        return ls__fail_memory(ctx, "ls_checkpoint_save", bytes);
    for (int64_t i = 0; i < n; i++) {
        names[i] = record_at(w, i)->name;
        specs[i] = record_at(w, i)->spec;
    }
    return ls__tensors_write(ctx, path, n, names, specs, put, w, metadata);
}

static ls_status save(ls_context *ctx, ls__bump *bump, const char *path, const ls_state *state)
{
    static const char call[] = "ls_checkpoint_save";
    if (state->epoch < 0 || state->step < 0)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: epoch %lld, step %lld; wanted none below 0", call,
                        (long long)state->epoch, (long long)state->step);
    path = ls__checkpoint_path(ctx, bump, call, path);
    if (!path) return ctx->error;
    writing w = { .device = ctx->device };
    const char *const *metadata;
    LS_TRY(ls__records_of_net(bump, state->net, ls_optimizer_steps(state->optimizer), &w.net));
    LS_TRY(ls__records_of_optimizer(bump, state->optimizer, &w.optimizer));
    LS_TRY(ls__metadata_make(bump, ctx, state, &metadata));
    return write(ctx, bump, path, &w, metadata);
}

ls_status ls_checkpoint_save(const char *path, const ls_state *state)
{
    ls_context *ctx;
    LS_TRY(ls__state_context("ls_checkpoint_save", state, &ctx));
    ls__bump bump;
    ls__bump_open(&bump, ctx);
    const ls_status status = save(ctx, &bump, path, state);
    ls__bump_close(&bump);
    return status;
}
