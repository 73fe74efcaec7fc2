/* checkpoint_save.c: writing a checkpoint. */
#include "checkpoint/checkpoint.h"

#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "comm/agree.h"
#include "backend/backend.h"
#include "data/loader/loader.h"
#include "io/safetensors.h"
#include "optim/optimizer.h"

#include <string.h>

typedef struct writing {
    ls__device *device;
    ls__saved_tensors tensors;
    float *copy; /* host copy of a tensor, if the device has its own memory */
    float *transposed;
} writing;

/* A tensor's elements in the file's layout; valid until the next call. */
static ls_status elements_of(const writing *w, const ls__saved_tensor *tensor, const void **out,
                             size_t *bytes)
{
    *out = &tensor->number;
    *bytes = sizeof tensor->number;
    if (!tensor->memory) return LS_OK;
    const float *elements = tensor->memory;
    *bytes = (size_t)tensor->count * sizeof(float);
    if (w->copy) {
        LS_TRY(w->device->backend->read(w->device, w->copy, tensor->memory, *bytes));
        elements = w->copy;
    }
    if (tensor->channels) {
        const int64_t n = tensor->spec.shape.dims[0], channels = tensor->channels;
        ls__transpose(w->transposed, elements, n, tensor->count / (n * channels), channels);
        elements = w->transposed;
    }
    *out = elements;
    return LS_OK;
}

static ls_status put(void *user, int64_t i, ls__atomic_file *file)
{
    const void *elements;
    size_t bytes;
    const writing *w = user;
    LS_TRY(elements_of(w, &w->tensors.items[i], &elements, &bytes));
    return ls__atomic_file_write(file, elements, bytes);
}

/* Adds the digest of the rest of the file to the metadata. The metadata precede the tensors in the
 * file, so this reads all elements once before they are written. */
static ls_status seal(ls_context *ctx, ls__bump *bump, const writing *w,
                      const char *const **metadata)
{
    size_t n = 0;
    ls__digest_sum sum = { { 0, 0 } };
    for (; (*metadata)[n]; n += 2)
        ls__tensors_digest_text(&sum, (*metadata)[n], (*metadata)[n + 1]);
    for (int64_t i = 0; i < w->tensors.n; i++) {
        const ls__saved_tensor *tensor = &w->tensors.items[i];
        const void *elements;
        size_t bytes;
        LS_TRY(elements_of(w, tensor, &elements, &bytes));
        ls__tensors_digest_elements(&sum, tensor->name, &tensor->spec, elements, bytes);
    }
    const char **sealed = ls__bump_alloc(bump, (n + 3) * sizeof *sealed);
    char *text = ls__bump_alloc(bump, LS_DIGEST_TEXT_SIZE);
    if (!sealed || !text) return ls__fail_memory(ctx, "ls_checkpoint_save", n * sizeof *sealed);
    memcpy(sealed, *metadata, n * sizeof *sealed);
    sealed[n] = LS__CHECKPOINT_DIGEST;
    sealed[n + 1] = ls_digest_text(ls__digest_finish(&sum, 0), text);
    sealed[n + 2] = NULL;
    *metadata = sealed;
    return LS_OK;
}

static ls_status write_tensors(ls_context *ctx, ls__bump *bump, const char *path, writing *w,
                               const char *const *metadata)
{
    const int64_t n = w->tensors.n;
    const size_t bytes = (size_t)w->tensors.largest * sizeof(float);
    w->transposed = ls__bump_alloc(bump, bytes);
    if (!ctx->device->backend->host_memory) w->copy = ls__bump_alloc(bump, bytes);
    const char **names = ls__bump_alloc(bump, (size_t)n * sizeof *names);
    ls_spec *specs = ls__bump_alloc(bump, (size_t)n * sizeof *specs);
    if (!w->transposed || !names || !specs || (!w->copy && !ctx->device->backend->host_memory))
        return ls__fail_memory(ctx, "ls_checkpoint_save", bytes);
    for (int64_t i = 0; i < n; i++) {
        names[i] = w->tensors.items[i].name;
        specs[i] = w->tensors.items[i].spec;
    }
    LS_TRY(seal(ctx, bump, w, &metadata));
    return ls__tensors_write(ctx, path, ls__atomic_file_replace, n, names, specs, put, w, metadata);
}

static ls_status save(ls_context *ctx, ls__bump *bump, const char *path,
                      const ls_training_state *state)
{
    static const char call[] = "ls_checkpoint_save";
    if (state->epoch < 0 || state->step < 0)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: epoch %lld, step %lld, expected none below 0",
                        call, (long long)state->epoch, (long long)state->step);
    path = ls__checkpoint_path(ctx, bump, call, path);
    if (!path) return ctx->error;
    writing w = { .device = ctx->device };
    const char *const *metadata;
    const ls__optimizers optimizers = ls__optimizers_of(state);
    LS_TRY(ls__saved_tensors_list(bump, ctx, state->net, &optimizers, false, &w.tensors));
    LS_TRY(ls__metadata_make(bump, ctx, state, &metadata));
    return write_tensors(ctx, bump, path, &w, metadata);
}

static ls_status write_checkpoint(ls_context *ctx, const ls_training_state *state, const char *path)
{
    ls__bump bump;
    ls__bump_open(&bump, ctx);
    const ls_status status = save(ctx, &bump, path, state);
    ls__bump_close(&bump);
    return status;
}

/* What rank 0 writes and other ranks hold. */
static ls_status share(const ls_training_state *state)
{
    if (state->loader) LS_TRY(ls__loader_share_bads(state->loader));
    if (state->validation) LS_TRY(ls__loader_share_bads(state->validation));
    const ls__optimizers optimizers = ls__optimizers_of(state);
    for (int64_t i = 0; i < optimizers.n; i++) LS_TRY(ls__optimizer_collect(optimizers.items[i]));
    return LS_OK;
}

ls_status ls_checkpoint_save(const ls_training_state *state, const char *path)
{
    LS__DEFAULT_FLOATS;
    ls_context *ctx = NULL;
    ls_status status = ls__state_context("ls_checkpoint_save", state, &ctx);
    const ls__optimizers optimizers =
        status == LS_OK ? ls__optimizers_of(state) : (ls__optimizers){ 0 };
    for (int64_t i = 0; i < optimizers.n && status == LS_OK; i++) {
        status = ls__optimizer_begin_average(optimizers.items[i]);
        if (status == LS_OK && ls__is_first_rank(ctx))
            status = ls__optimizer_open_whole(optimizers.items[i]);
    }
    if (ctx && ctx->comm) status = ls__ranks_agree(ctx, NULL);
    if (status == LS_OK) status = share(state);
    if (status == LS_OK) {
        if (ls__is_first_rank(ctx)) (void)write_checkpoint(ctx, state, path);
        status = ls__ranks_agree(ctx, NULL);
    }
    for (int64_t i = 0; i < optimizers.n; i++) ls__optimizer_drop_whole(optimizers.items[i]);
    return status;
}
