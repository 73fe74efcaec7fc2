/* checkpoint_load.c: restoring from a checkpoint: everything is checked and read before anything is
 * changed. */
#include "run/checkpoint.h"

#include "base/error.h"
#include "base/floats.h"
#include "base/half.h"
#include "data/loader/loader.h"
#include "nn/net.h"
#include "optim/optimizer.h"
#include "run/algorithm_cache_file.h"
#include "io/safetensors.h"

#include <stdio.h>
#include <string.h>

typedef struct loading {
    ls_context *ctx;
    ls__bump *bump;
    const char *path;
    ls_tensor_file *file;
    ls__records net, optimizer;
    float *values; /* all elements to restore, in the order of records and our layout */
    ls__selections *selections; /* of the resumed run; NULL for a new run */
} loading;

/* ---- Checking ---- */

static ls_status fail_missing(const loading *l, const char *name)
{
    const char *first = ls_tensor_file_name(l->file, 0);
    return ls__fail(l->ctx, LS_ERR_MISMATCH, "'%s' has no tensor '%s'%s%s%s", l->path, name,
                    first ? "; it has '" : ", nor any other", first ? first : "",
                    first ? "' ..." : "");
}

/* True if a tensor of this type can be read into an f32 record. */
static bool readable(ls_dtype dtype, bool any_float)
{
    return dtype == LS_F32 || (any_float && (dtype == LS_BF16 || dtype == LS_F16));
}

/* Checks types and shapes of the records' tensors. The error names the first difference and counts
 * the others. */
static ls_status check_records(const loading *l, const ls__records *records, bool any_float)
{
    const ls__record *first = NULL;
    ls_spec first_spec = { 0 };
    int n_different = 0;
    for (int64_t i = 0; i < records->n; i++) {
        const ls__record *record = &records->items[i];
        ls_spec spec;
        if (!record->memory) continue;
        if (!ls_tensor_file_find(l->file, record->name, &spec)) {
            for (int64_t j = 0; j < ls_tensor_file_count(l->file); j++)
                if (strcmp(ls_tensor_file_name(l->file, j), record->name) == 0)
                    return ls__tensor_file_spec(l->file, record->name, &spec);
            return fail_missing(l, record->name);
        }
        if (readable(spec.dtype, any_float) && ls_shape_equal(&spec.shape, &record->spec.shape))
            continue;
        if (n_different++ > 0) continue;
        first = record;
        first_spec = spec;
    }
    if (!first) return LS_OK;
    char there[LS_SHAPE_TEXT_SIZE], here[LS_SHAPE_TEXT_SIZE], more[64] = "";
    if (n_different > 1) snprintf(more, sizeof(more), ", and %d more differ", n_different - 1);
    const ls_status status = readable(first_spec.dtype, any_float) ? LS_ERR_SHAPE : LS_ERR_TYPE;
    return ls__fail(l->ctx, status, "'%s': '%s' is %s %s there, %s %s here%s", l->path, first->name,
                    ls_dtype_name(first_spec.dtype),
                    ls_shape_text(&first_spec.shape, there, sizeof(there)),
                    ls_dtype_name(first->spec.dtype),
                    ls_shape_text(&first->spec.shape, here, sizeof(here)), more);
}

static bool has_record(const ls__records *records, const char *name)
{
    for (int64_t i = 0; i < records->n; i++)
        if (strcmp(records->items[i].name, name) == 0) return true;
    return false;
}

/* Fails if the file has a weight or buffer, or with `optimizer` a state, that no record names. */
static ls_status check_rest(const loading *l, const ls__records *records, bool optimizer)
{
    for (int64_t i = 0; i < ls_tensor_file_count(l->file); i++) {
        const char *name = ls_tensor_file_name(l->file, i);
        if (ls__is_optimizer_name(name) != optimizer || ls__is_torch_counter(name)) continue;
        if (has_record(records, name)) continue;
        return ls__fail(l->ctx, LS_ERR_MISMATCH, "'%s' has a tensor '%s', which the %s has not",
                        l->path, name, optimizer ? "optimizer" : "net");
    }
    return LS_OK;
}

/* Checks the file's digest, because a bit flip would change the resumed run. Files of other
 * programs have no digest. */
static ls_status check_digest(const loading *l, bool needed)
{
    const char *wrote = ls_tensor_file_metadata(l->file, LS__CHECKPOINT_DIGEST);
    if (!wrote && !needed) return LS_OK;
    if (!wrote)
        return ls__fail(l->ctx, LS_ERR_FORMAT,
                        "'%s' is no checkpoint of a run: its metadata has no '%s'", l->path,
                        LS__CHECKPOINT_DIGEST);
    ls_digest digest;
    char text[LS_DIGEST_TEXT_SIZE];
    LS_TRY(ls__tensor_file_digest(l->file, LS__CHECKPOINT_DIGEST, &digest));
    if (strcmp(ls_digest_text(digest, text), wrote) == 0) return LS_OK;
    return ls__fail(l->ctx, LS_ERR_FORMAT,
                    "'%s' is damaged, or was changed: the digest of its contents is %s, expected "
                    "%.40s",
                    l->path, text, wrote);
}

/* ---- Reading ---- */

/* Memory for the largest tensor in the file's layout. */
typedef struct raw_tensor {
    float *wide;
    uint16_t *half; /* if its dtype has 16 bits */
} raw_tensor;

static ls_status read_record(const loading *l, const ls__record *record, raw_tensor raw, float *out)
{
    ls_spec spec;
    LS_TRY(ls__tensor_file_spec(l->file, record->name, &spec));
    const size_t bytes = (size_t)record->count * ls_dtype_bytes(spec.dtype);
    float *const wide = record->transposed ? raw.wide : out;
    const bool half = spec.dtype != LS_F32;
    void *const in = half ? (void *)raw.half : wide;
    LS_TRY(ls__tensor_file_read_host(l->file, record->name, in, bytes));
    for (int64_t i = 0; half && i < record->count; i++)
        wide[i] =
            spec.dtype == LS_BF16 ? ls__bf16_to_f32(raw.half[i]) : ls__f16_to_f32(raw.half[i]);
    if (record->transposed) ls__weights_from_file(out, wide, &record->spec.shape);
    return LS_OK;
}

static int64_t count_elements(const ls__records *records)
{
    int64_t n = 0;
    for (int64_t i = 0; i < records->n; i++)
        if (records->items[i].memory) n += records->items[i].count;
    return n;
}

static ls_status read_all(loading *l)
{
    const ls__records *both[] = { &l->net, &l->optimizer };
    const int64_t largest =
        l->net.largest > l->optimizer.largest ? l->net.largest : l->optimizer.largest;
    const size_t bytes =
        (size_t)(count_elements(&l->net) + count_elements(&l->optimizer)) * sizeof(float);
    const raw_tensor raw = {
        .wide = ls__bump_alloc(l->bump, (size_t)largest * sizeof(float)),
        .half = ls__bump_alloc(l->bump, (size_t)largest * sizeof(uint16_t)),
    };
    l->values = ls__bump_alloc(l->bump, bytes);
    if (!raw.wide || !raw.half || !l->values) return ls__fail_memory(l->ctx, l->path, bytes);
    float *out = l->values;
    for (int b = 0; b < 2; b++) {
        for (int64_t i = 0; i < both[b]->n; i++) {
            const ls__record *record = &both[b]->items[i];
            if (!record->memory) continue;
            LS_TRY(read_record(l, record, raw, out));
            out += record->count;
        }
    }
    return LS_OK;
}

/* ---- Changing ---- */

static ls_status write_all(const loading *l)
{
    const ls__records *both[] = { &l->net, &l->optimizer };
    ls__device *device = l->ctx->device;
    const float *in = l->values;
    for (int b = 0; b < 2; b++) {
        for (int64_t i = 0; i < both[b]->n; i++) {
            const ls__record *record = &both[b]->items[i];
            if (!record->memory) continue;
            LS_TRY(device->backend->write(device, record->memory, in,
                                          (size_t)record->count * sizeof(float)));
            in += record->count;
        }
    }
    return LS_OK;
}

static ls_status set_bads(ls_loader *loader, const ls__bad_samples *bads)
{
    if (!loader || !bads->samples) return LS_OK;
    return ls__loader_set_bads(loader, bads->n, bads->samples, bads->reasons);
}

static ls_status apply(const loading *l, const ls__position *position, ls_training_state *state)
{
    LS_TRY(set_bads(state->loader, &position->of_loader));
    LS_TRY(set_bads(state->validation, &position->of_validation));
    if (state->schedule) LS_TRY(ls_schedule_set_state(state->schedule, position->schedule));
    if (state->optimizer)
        ls__optimizer_set_updates(state->optimizer, position->n_steps, position->skipped_before);
    LS_TRY(write_all(l));
    if (state->net)
        ls__net_use_gradients(state->net); /* the old gradients belong to other weights */
    state->epoch = position->epoch;
    state->step = position->step;
    state->best = position->best;
    return LS_OK;
}

/* ---- Calls ---- */

static ls_status open(loading *l, const char *call, const char *path)
{
    l->path = ls__checkpoint_path(l->ctx, l->bump, call, path);
    if (!l->path) return l->ctx->error;
    l->file = ls_tensor_file_open(l->ctx, l->path);
    return l->file ? LS_OK : l->ctx->error;
}

static ls_status read_kernels(const loading *l, ls__selections *out)
{
    const char *selections = ls_tensor_file_metadata(l->file, "kernels");
    if (!selections)
        return ls__fail(l->ctx, LS_ERR_FORMAT,
                        "'%s' has no kernel selections: its metadata has no 'kernels'", l->path);
    return ls__algorithm_cache_read(l->ctx, out, l->path, selections, true);
}

static ls_status load(loading *l, const char *path, ls_training_state *state)
{
    ls__position position;
    LS_TRY(open(l, "ls_checkpoint_load", path));
    LS_TRY(ls__records_of_net(l->bump, state->net, 0, &l->net));
    LS_TRY(ls__records_of_optimizer(l->bump, state->optimizer, &l->optimizer));
    LS_TRY(check_records(l, &l->net, false));
    if (state->net) LS_TRY(check_rest(l, &l->net, false));
    LS_TRY(check_digest(l, !state->force));
    LS_TRY(ls__metadata_check(l->bump, l->ctx, l->path, l->file, state, &position));
    LS_TRY(check_records(l, &l->optimizer, false));
    if (state->optimizer) LS_TRY(check_rest(l, &l->optimizer, true));
    LS_TRY(read_all(l));
    if (state->net && state->optimizer && !state->force) {
        LS_TRY(ls__selections_open(l->ctx, &l->selections));
        LS_TRY(read_kernels(l, l->selections));
        LS_TRY(ls__net_take_selections(state->net, l->path, &l->selections));
    }
    return apply(l, &position, state);
}

static ls_status load_weights(loading *l, const char *path, ls_net *net)
{
    LS_TRY(open(l, "ls_checkpoint_load_weights", path));
    LS_TRY(ls__records_of_net(l->bump, net, 0, &l->net));
    LS_TRY(check_records(l, &l->net, true));
    LS_TRY(check_rest(l, &l->net, false));
    LS_TRY(check_digest(l, false));
    LS_TRY(read_all(l));
    LS_TRY(write_all(l));
    ls__net_use_gradients(net);
    return LS_OK;
}

static void close(loading *l)
{
    ls_tensor_file_close(&l->file);
    ls__selections_close(&l->selections);
    ls__bump_close(l->bump);
}

ls_status ls_checkpoint_load(ls_training_state *state, const char *path)
{
    LS__DEFAULT_FLOATS;
    ls__bump bump;
    loading l = { .bump = &bump };
    LS_TRY(ls__state_context("ls_checkpoint_load", state, &l.ctx));
    ls__bump_open(&bump, l.ctx);
    const ls_status status = load(&l, path, state);
    close(&l);
    return status;
}

ls_status ls__checkpoint_check(ls_context *ctx, const char *path)
{
    LS__ENTER(ctx);
    loading l = { .ctx = ctx, .path = path, .file = ls_tensor_file_open(ctx, path) };
    const ls_status status = l.file ? check_digest(&l, true) : ctx->error;
    ls_tensor_file_close(&l.file);
    return status;
}

static ls_status load_plan(loading *l, const char *path)
{
    LS_TRY(open(l, "ls_checkpoint_load_algorithms", path));
    return read_kernels(l, l->ctx->selections);
}

ls_status ls_checkpoint_load_algorithms(ls_context *ctx, const char *path)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER(ctx);
    ls__bump bump;
    loading l = { .ctx = ctx, .bump = &bump };
    ls__bump_open(&bump, ctx);
    const ls_status status = load_plan(&l, path);
    close(&l);
    return status;
}

ls_status ls_checkpoint_load_weights(ls_net *net, const char *path)
{
    LS__DEFAULT_FLOATS;
    if (!net) return LS_ERR_EARLIER;
    ls__bump bump;
    loading l = { .ctx = ls_net_context(net), .bump = &bump };
    LS__ENTER(l.ctx);
    ls__bump_open(&bump, l.ctx);
    const ls_status status = load_weights(&l, path, net);
    close(&l);
    return status;
}
