/* checkpoint_export.c: writes the weights of a checkpoint, or of another file, for PyTorch. */
#include "checkpoint/weight_names.h"

#include "base/error.h"
#include "base/floats.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "io/json.h"

#include <string.h>

static const char call[] = "ls_checkpoint_export";

typedef struct exporting {
    ls_context *ctx;
    ls__bump bump;
    const char *path;
    ls_tensor_file *file;
    int64_t n;
    const char **names;
    ls_spec *specs;
    const ls__tensor_header **tensors; /* of the file */
    json_t *flattened;                 /* of a checkpoint's metadata, or NULL */
    void *elements, *transposed;       /* room for the largest tensor */
} exporting;

static size_t bytes_of(const ls_spec *spec)
{
    return (size_t)ls_shape_element_count(&spec->shape) * ls_dtype_bytes(spec->dtype);
}

static ls_status put(void *user, int64_t i, ls__atomic_file *out)
{
    const exporting *e = user;
    const ls__tensor_header *t = e->tensors[i];
    const int64_t *d = t->spec.shape.dims;
    const int64_t channels = ls__json_get_integer(e->flattened, t->name);
    LS_TRY(t->obstacle ? ls__tensor_file_read_f32(e->file, t, e->elements)
                       : ls__tensor_file_read_host(e->file, t, e->elements));
    if (channels) ls__transpose(e->transposed, e->elements, d[0], d[1] / channels, channels);
    return ls__atomic_file_write(out, channels ? e->transposed : e->elements,
                                 bytes_of(&e->specs[i]));
}

/* Reads from a checkpoint which weights' columns are to be permuted. */
static ls_status read_flattened(exporting *e)
{
    const char *text = ls_tensor_file_metadata(e->file, LS__CHECKPOINT_FLATTENED), *name;
    if (!text || !ls_tensor_file_metadata(e->file, LS__CHECKPOINT_DIGEST)) return LS_OK;
    json_t *channels;
    e->flattened = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    bool ok = json_is_object(e->flattened);
    json_object_foreach(e->flattened, name, channels)
    {
        const ls__tensor_header *t = ls__tensor_file_get(e->file, name);
        const int64_t n = json_integer_value(channels);
        ok = ok && n > 0 && t && t->spec.dtype == LS_F32 && !t->obstacle &&
             t->spec.shape.n_dims == 2 && t->spec.shape.dims[1] % n == 0;
    }
    if (ok) return LS_OK;
    return ls__fail(e->ctx, LS_ERR_FORMAT, "'%s': unusable '%s' in its metadata: %.*s", e->path,
                    LS__CHECKPOINT_FLATTENED, LS__CUT(text, 100));
}

/* Lists all tensors but the optimizer's. F64, which is the only obstacle here, becomes F32. */
static ls_status list(exporting *e)
{
    const size_t max = (size_t)ls_tensor_file_tensor_count(e->file);
    const char *prefix = ls__wrapper_prefix(&e->bump, e->file);
    if (!prefix) return ls__fail_memory(e->ctx, call, 0);
    size_t largest = 0;
    e->names = ls__bump_alloc(&e->bump, max * sizeof(*e->names));
    e->specs = ls__bump_alloc(&e->bump, max * sizeof(*e->specs));
    e->tensors = ls__bump_alloc(&e->bump, max * sizeof(*e->tensors));
    if (!e->names || !e->specs || !e->tensors)
        return ls__fail_memory(e->ctx, call, max * sizeof(*e->specs));
    for (size_t i = 0; i < max; i++) {
        const ls__tensor_header *t = &e->file->tensors[i];
        const char *name = t->name + strlen(prefix);
        ls_spec spec = { LS_F32, t->spec.shape };
        if (ls__is_optimizer_name(name)) continue;
        if (!t->obstacle || !ls__tensor_header_is_float(t))
            LS_TRY(ls__tensor_file_spec(e->file, t->name, &spec));
        if (bytes_of(&spec) > largest) largest = bytes_of(&spec);
        e->names[e->n] = name;
        e->specs[e->n] = spec;
        e->tensors[e->n++] = t;
    }
    e->elements = ls__bump_alloc(&e->bump, largest);
    e->transposed = e->flattened ? ls__bump_alloc(&e->bump, largest) : NULL;
    const bool ok = e->elements && (e->transposed || !e->flattened);
    return ok ? LS_OK : ls__fail_memory(e->ctx, call, largest);
}

/* What a checkpoint says about its model, so that the file can be used without naming it again. */
static const char *const model_keys[] = {
    "model", "stem", "shortcuts", "dropout", "crop",  "resize", "exif",       "decode",
    "loss",  "mean", "std",       "classes", "depth", "alpha",  "resize_mode"
};
enum { N_MODEL_KEYS = sizeof(model_keys) / sizeof(model_keys[0]) };

static ls_status export(exporting *e, const char *out)
{
    const char *metadata[2 * N_MODEL_KEYS + 3] = { "format",
                                                   "pt" }; /* as transformers expects it */
    e->file = ls_tensor_file_open(e->ctx, e->path);
    if (!e->file) return e->ctx->error;
    LS_TRY(ls__checkpoint_check_digest(e->ctx, e->path, e->file, false));
    LS_TRY(read_flattened(e));
    LS_TRY(list(e));
    for (int i = 0, n = 2; i < N_MODEL_KEYS; i++) {
        const char *value = ls_tensor_file_metadata(e->file, model_keys[i]);
        if (value) metadata[n++] = model_keys[i], metadata[n++] = value;
    }
    return ls__tensors_write(e->ctx, out, ls__atomic_file_open, e->n, e->names, e->specs, put, e,
                             metadata);
}

ls_status ls_checkpoint_export(ls_context *ctx, const char *path, const char *out,
                               int64_t *tensor_count)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER(ctx);
    if (!path || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is NULL", call, path ? "out" : "path");
    exporting e = { .ctx = ctx, .path = path };
    ls__bump_open(&e.bump, ctx);
    const ls_status status = export(&e, out);
    if (status == LS_OK && tensor_count) *tensor_count = e.n;
    json_decref(e.flattened);
    ls_tensor_file_close(&e.file);
    ls__bump_close(&e.bump);
    return status;
}
