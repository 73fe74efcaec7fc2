/* checkpoint_load.c: restoring from a checkpoint: everything is checked and read before anything is
 * changed. */
#include "checkpoint/checkpoint.h"

#include "base/error.h"
#include "base/floats.h"
#include "data/loader/loader.h"
#include "nn/net/net.h"
#include "optim/optimizer.h"
#include "checkpoint/algorithm_cache_file.h"
#include "io/safetensors.h"

#include <stdio.h>
#include <string.h>

typedef struct loading {
    ls_context *ctx;
    ls_training_state *state; /* its members are to be restored */
    ls__bump bump;
    const char *path;
    ls_tensor_file *file;
    ls__saved_tensors tensors;
    float *values; /* all elements to restore, in the order of tensors and our layout */
    ls__selections *selections; /* of the resumed run; NULL for a new run */
} loading;

/* ---- Checking ---- */

/* The error about a tensor that is missing, or whose header is malformed. */
static ls_status fail_missing(const loading *l, const char *name)
{
    ls_spec spec;
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(l->file); i++)
        if (strcmp(ls_tensor_file_name(l->file, i), name) == 0)
            return ls__tensor_file_spec(l->file, name, &spec);
    const char *first = ls_tensor_file_name(l->file, 0);
    return ls__fail(l->ctx, LS_ERR_MISMATCH, "'%s' has no tensor '%s'%s%s%s", l->path, name,
                    first ? "; it has '" : ", nor any other", first ? first : "",
                    first ? "' ..." : "");
}

static bool has_tensor(const ls__saved_tensors *tensors, const char *name)
{
    for (int64_t i = 0; i < tensors->n; i++)
        if (strcmp(tensors->items[i].name, name) == 0) return true;
    return false;
}

/* Checks names, types and shapes of the optimizer's tensors, or else of the net's. An error about
 * types or shapes names the first difference and counts the others. */
static ls_status check_tensors(const loading *l, bool optimizer)
{
    const int64_t begin = optimizer ? l->tensors.n_net : 0;
    const int64_t end = optimizer ? l->tensors.n : l->tensors.n_net;
    const ls__saved_tensor *first = NULL;
    ls_spec first_spec = { 0 };
    int n_different = 0;
    for (int64_t i = begin; i < end; i++) {
        const ls__saved_tensor *tensor = &l->tensors.items[i];
        ls_spec spec;
        if (!tensor->memory) continue;
        if (!ls_tensor_file_find(l->file, tensor->name, &spec))
            return fail_missing(l, tensor->name);
        if (spec.dtype == LS_F32 && ls_shape_equal(&spec.shape, &tensor->spec.shape)) continue;
        if (n_different++ > 0) continue;
        first = tensor;
        first_spec = spec;
    }
    if (first) {
        char there[LS_SHAPE_TEXT_SIZE], here[LS_SHAPE_TEXT_SIZE], more[64] = "";
        if (n_different > 1) snprintf(more, sizeof(more), ", and %d more differ", n_different - 1);
        const ls_status status = first_spec.dtype == LS_F32 ? LS_ERR_SHAPE : LS_ERR_TYPE;
        return ls__fail(l->ctx, status, "'%s': '%s' is %s %s there, %s %s here%s", l->path,
                        first->name, ls_dtype_name(first_spec.dtype),
                        ls_shape_text(&first_spec.shape, there, sizeof(there)),
                        ls_dtype_name(first->spec.dtype),
                        ls_shape_text(&first->spec.shape, here, sizeof(here)), more);
    }
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(l->file); i++) {
        const char *name = ls_tensor_file_name(l->file, i);
        if (ls__is_optimizer_name(name) != optimizer || ls__is_torch_counter(name) ||
            has_tensor(&l->tensors, name))
            continue;
        return ls__fail(l->ctx, LS_ERR_MISMATCH, "'%s' has a tensor '%s', which the %s has not",
                        l->path, name, optimizer ? "optimizer" : "net");
    }
    return LS_OK;
}

/* ---- Restoring ---- */

static ls_status set_bads(ls_loader *loader, const ls__bad_samples *bads)
{
    if (!loader || !bads->samples) return LS_OK;
    return ls__loader_set_bads(loader, bads->n, bads->samples, bads->reasons);
}

static ls_status apply(const loading *l, const ls__position *position)
{
    ls_training_state *state = l->state;
    LS_TRY(set_bads(state->loader, &position->of_loader));
    LS_TRY(set_bads(state->validation, &position->of_validation));
    if (state->schedule) LS_TRY(ls_schedule_set_state(state->schedule, position->schedule));
    const ls__optimizers optimizers = ls__optimizers_of(state);
    for (int64_t i = 0; i < optimizers.n; i++)
        ls__optimizer_set_updates(optimizers.items[i], position->n_steps[i],
                                  position->skipped_before, position->accumulated[i]);
    LS_TRY(ls__saved_tensors_write(l->ctx, &l->tensors, l->values));
    for (int64_t i = 0; i < optimizers.n; i++)
        LS_TRY(ls__optimizer_take_whole(optimizers.items[i]));
    if (state->net) {
        ls__net_use_gradients(state->net); /* the old gradients belong to other weights */
        if (*position->weights) ls__net_set_weights_digest(state->net, position->weights);
        if (optimizers.n > 0) ls__net_begin(state->net);
        if (position->frozen) LS_TRY(ls__net_set_frozen(state->net, position->frozen));
    }
    state->epoch = position->epoch;
    state->step = position->step;
    state->best = position->best;
    return LS_OK;
}

/* ---- Calls ---- */

static ls_status read_kernels(const loading *l, ls__selections *out)
{
    const char *selections = ls_tensor_file_metadata(l->file, "kernels");
    if (!selections)
        return ls__fail(l->ctx, LS_ERR_FORMAT,
                        "'%s' has no kernel selections: its metadata has no 'kernels'", l->path);
    return ls__algorithm_cache_read(l->ctx, out, l->path, selections, true);
}

/* Opens the file and calls `read`, then releases everything. */
static ls_status with_file(loading *l, const char *call, const char *path,
                           ls_status (*read)(loading *l))
{
    ls__bump_open(&l->bump, l->ctx);
    l->path = ls__checkpoint_path(l->ctx, &l->bump, call, path);
    l->file = l->path ? ls_tensor_file_open(l->ctx, l->path) : NULL;
    const ls_status status = l->file ? read(l) : l->ctx->error;
    ls_tensor_file_close(&l->file);
    ls__selections_close(&l->selections);
    ls__bump_close(&l->bump);
    return status;
}

static ls_status load(loading *l)
{
    const ls_training_state *state = l->state;
    const ls__optimizers optimizers = ls__optimizers_of(state);
    ls__position position;
    for (int64_t i = 0; i < optimizers.n; i++)
        LS_TRY(ls__optimizer_open_whole(optimizers.items[i]));
    LS_TRY(ls__saved_tensors_list(&l->bump, l->ctx, state->net, &optimizers, false, &l->tensors));
    if (state->net) LS_TRY(check_tensors(l, false));
    LS_TRY(ls__checkpoint_check_digest(l->ctx, l->path, l->file, !state->force));
    LS_TRY(ls__metadata_check(&l->bump, l->ctx, l->path, l->file, state, &position));
    if (optimizers.n > 0) LS_TRY(check_tensors(l, true));
    LS_TRY(ls__saved_tensors_read(&l->bump, l->ctx, l->file, &l->tensors, &l->values));
    if (state->net && optimizers.n > 0 && !state->force) {
        LS_TRY(ls__selections_open(l->ctx, &l->selections));
        LS_TRY(read_kernels(l, l->selections));
        LS_TRY(ls__selector_replace(ls__net_selector(state->net), l->path, &l->selections));
    }
    return apply(l, &position);
}

ls_status ls_checkpoint_load(ls_training_state *state, const char *path)
{
    static const char call[] = "ls_checkpoint_load";
    LS__DEFAULT_FLOATS;
    loading l = { .state = state };
    LS_TRY(ls__state_context(call, state, &l.ctx));
    const ls_status status = with_file(&l, call, path, load);
    const ls__optimizers optimizers = ls__optimizers_of(state);
    for (int64_t i = 0; i < optimizers.n; i++) ls__optimizer_drop_whole(optimizers.items[i]);
    return status;
}

static ls_status load_algorithms(loading *l)
{
    return read_kernels(l, l->ctx->selections);
}

ls_status ls_checkpoint_load_algorithms(ls_context *ctx, const char *path)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER(ctx);
    return with_file(&(loading){ .ctx = ctx }, "ls_checkpoint_load_algorithms", path,
                     load_algorithms);
}

static ls_status check(loading *l)
{
    return ls__checkpoint_check_digest(l->ctx, l->path, l->file, true);
}

ls_status ls__checkpoint_check(ls_context *ctx, const char *path)
{
    LS__ENTER(ctx);
    return with_file(&(loading){ .ctx = ctx }, "ls__checkpoint_check", path, check);
}
