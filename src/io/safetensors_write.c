/* safetensors_write.c: tensors to a safetensors file: a length of 8 bytes, that much JSON, then the
 * elements of all tensors without holes. https://huggingface.co/docs/safetensors */
#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "tensor/tensor.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

typedef struct tensor_header {
    const char *name;
    ls_spec spec;
    int64_t index; /* in the caller's lists */
} tensor_header;

/* Larger element types first, so that each tensor is aligned to its elements; then by name. */
static int compare_tensors(const void *a, const void *b)
{
    const tensor_header *x = a, *y = b;
    const size_t x_bytes = ls_dtype_bytes(x->spec.dtype);
    const size_t y_bytes = ls_dtype_bytes(y->spec.dtype);
    if (x_bytes != y_bytes) return x_bytes > y_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Names and specs as a sorted list in new memory. */
static ls_status sort_tensors(ls_context *ctx, const char *path, int64_t n,
                              const char *const *names, const ls_spec *specs, tensor_header **out)
{
    size_t bytes;
    if (!ls__mul_size((size_t)n, sizeof(tensor_header), &bytes)) bytes = SIZE_MAX;
    tensor_header *tensors = *out = ls__alloc(ctx, bytes);
    if (!tensors) return ls__fail_memory(ctx, path, bytes);
    for (int64_t i = 0; i < n; i++) tensors[i] = (tensor_header){ names[i], specs[i], i };
    qsort(tensors, (size_t)n, sizeof(*tensors), compare_tensors);
    return LS_OK;
}

/* Adds a value to an object; a duplicate key and one that is not UTF-8 are errors. Takes over the
 * reference to value; NULL = LS_ERR_MEMORY. */
static ls_status add_member(ls_context *ctx, const char *path, json_t *object, const char *what,
                            const char *key, json_t *value)
{
    if (!ls__utf8_is_valid(key)) {
        json_decref(value);
        return ls__fail(ctx, LS_ERR_INVALID, "writing '%s': a name of its %s is not UTF-8", path,
                        what);
    }
    if (json_object_get(object, key)) {
        json_decref(value);
        return ls__fail(ctx, LS_ERR_INVALID, "writing '%s': there are two %s '%s'", path, what,
                        key);
    }
    if (!value) return ls__fail_memory(ctx, path, 0);
    return json_object_set_new(object, key, value) == 0 ? LS_OK : ls__fail_memory(ctx, path, 0);
}

static ls_status add_metadata(ls_context *ctx, const char *path, json_t *root,
                              const char *const *metadata)
{
    json_t *map = json_object();
    LS_TRY(add_member(ctx, path, root, "tensors", LS__SAFETENSORS_METADATA, map));
    for (; *metadata; metadata += 2) {
        if (!metadata[1])
            return ls__fail(ctx, LS_ERR_INVALID, "writing '%s': metadata '%s' has no value", path,
                            metadata[0]);
        if (!ls__utf8_is_valid(metadata[1]))
            return ls__fail(ctx, LS_ERR_INVALID,
                            "writing '%s': metadata '%s': the value is not UTF-8", path,
                            metadata[0]);
        LS_TRY(add_member(ctx, path, map, "metadata", metadata[0], json_string(metadata[1])));
    }
    return LS_OK;
}

static ls_status add_tensor(ls_context *ctx, const char *path, json_t *root, const tensor_header *t,
                            size_t *offset)
{
    const ls_shape *shape = &t->spec.shape;
    const size_t begin = *offset;
    const size_t count = (size_t)ls_shape_element_count(shape);
    size_t bytes;
    if (!ls__mul_size(count, ls_dtype_bytes(t->spec.dtype), &bytes) ||
        !ls__add_size(begin, bytes, offset) || *offset > INT64_MAX)
        return ls__fail(ctx, LS_ERR_INVALID, "writing '%s': more than 2^63 bytes", path);
    json_t *dims = json_array();
    bool complete = dims != NULL;
    for (int i = 0; i < shape->n_dims && complete; i++)
        complete = json_array_append_new(dims, json_integer(shape->dims[i])) == 0;
    if (!complete) {
        json_decref(dims);
        return ls__fail_memory(ctx, path, 0);
    }
    json_t *value =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", ls_dtype_name(t->spec.dtype), "shape", dims,
                  "data_offsets", (json_int_t)begin, (json_int_t)*offset);
    return add_member(ctx, path, root, "tensors", t->name, value);
}

static ls_status make_header(ls_context *ctx, const char *path, int64_t n,
                             const tensor_header *tensors, const char *const *metadata,
                             json_t **root)
{
    *root = json_object();
    if (!*root) return ls__fail_memory(ctx, path, 0);
    if (metadata) LS_TRY(add_metadata(ctx, path, *root, metadata));
    size_t offset = 0;
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(tensors[i].name, LS__SAFETENSORS_METADATA) == 0)
            return ls__fail(ctx, LS_ERR_INVALID, "writing '%s': no tensor can have the name '%s'",
                            path, tensors[i].name);
        LS_TRY(add_tensor(ctx, path, *root, &tensors[i], &offset));
    }
    return LS_OK;
}

static ls_status write_header(ls_context *ctx, const char *path, ls__atomic_file *file,
                              const json_t *root)
{
    /* The object's end, then spaces up to a multiple of 8 bytes. The number of writes is the same
     * for every length, because tests interrupt a run at each of its calls. */
    static const char end[] = "}       ";
    char *text;
    size_t length;
    if (!ls__json_dump(ctx, root, JSON_COMPACT, &text, &length))
        return ls__fail_memory(ctx, path, length);
    const uint64_t padded = ls__round_up(length, 8);
    ls_status status = LS_OK;
    if (padded > LS__SAFETENSORS_MAX_HEADER)
        status = ls__fail(ctx, LS_ERR_INVALID,
                          "writing '%s': names and metadata take %zu bytes, at most %d are "
                          "allowed",
                          path, length, LS__SAFETENSORS_MAX_HEADER);
    if (status == LS_OK) status = ls__atomic_file_write(file, &padded, sizeof(padded));
    if (status == LS_OK) status = ls__atomic_file_write(file, text, length - 1);
    if (status == LS_OK) status = ls__atomic_file_write(file, end, padded - length + 1);
    ls__free(ctx, text);
    return status;
}

ls_status ls__tensors_write(ls_context *ctx, const char *path, ls__open_file_fn open, int64_t n,
                            const char *const *names, const ls_spec *specs, ls__put_elements_fn put,
                            void *user, const char *const *metadata)
{
    tensor_header *tensors = NULL;
    json_t *root = NULL;
    ls__atomic_file *file = NULL;
    ls_status status = sort_tensors(ctx, path, n, names, specs, &tensors);
    if (status == LS_OK) status = make_header(ctx, path, n, tensors, metadata, &root);
    if (status == LS_OK) status = open(ctx, path, &file);
    if (status == LS_OK) status = write_header(ctx, path, file, root);
    for (int64_t i = 0; i < n && status == LS_OK; i++) status = put(user, tensors[i].index, file);
    status = ls__atomic_file_finish(&file, status);
    json_decref(root);
    ls__free(ctx, tensors);
    return status;
}

/* ---- Digests ---- */

/* The position of a text or tensor in a digest is the hash of its name, so that the order in the
 * file does not matter. */
enum { SEED_OF_TEXTS = 1, SEED_OF_TENSORS };

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return ls__hash(text, strlen(text), seed);
}

void ls__tensors_digest_text(ls__digest_sum *sum, const char *key, const char *value)
{
    ls__digest_word(sum, hash_text(value, 0), hash_text(key, SEED_OF_TEXTS));
}

void ls__tensors_digest_elements(ls__digest_sum *sum, const char *name, const ls_spec *spec,
                                 const void *elements, size_t bytes)
{
    const size_t dims = (size_t)spec->shape.n_dims * sizeof(*spec->shape.dims);
    const uint64_t type = hash_text(ls_dtype_name(spec->dtype), 0);
    const uint64_t shape = ls__hash(spec->shape.dims, dims, type);
    ls__digest_word(sum, ls__hash(elements, bytes, shape), hash_text(name, SEED_OF_TENSORS));
}

/* ---- Tensors ---- */

static ls_status put_tensor(void *user, int64_t i, ls__atomic_file *file)
{
    const ls_tensor *tensor = ((const ls_tensor *const *)user)[i];
    const void *data = ls_tensor_data_const(tensor);
    if (data) return ls__atomic_file_write(file, data, tensor->bytes);
    char buffer[LS__SAFETENSORS_CHUNK];
    for (size_t done = 0; done < tensor->bytes;) {
        const size_t rest = tensor->bytes - done;
        const size_t n = rest < sizeof(buffer) ? rest : sizeof(buffer);
        LS_TRY(ls__table(tensor)->read(tensor->owned.ctx->device, buffer,
                                       (const char *)tensor->data + done, n));
        LS_TRY(ls__atomic_file_write(file, buffer, n));
        done += n;
    }
    return LS_OK;
}

static ls_status check_arguments(ls_context *ctx, const char *path, int64_t n,
                                 const char *const *names, const ls_tensor *const *tensors)
{
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "ls_tensors_save: path is NULL");
    if (n < 0 || (n > 0 && (!names || !tensors)))
        return ls__fail(ctx, LS_ERR_INVALID, "ls_tensors_save: got %" PRId64 " tensors%s", n,
                        n < 0 ? "" : ", but names or tensors is NULL");
    for (int64_t i = 0; i < n; i++) {
        if (!names[i] || !tensors[i])
            return ls__fail(ctx, LS_ERR_INVALID,
                            "ls_tensors_save: the %s of tensor %" PRId64 " is NULL",
                            names[i] ? "memory" : "name", i);
        if (tensors[i]->owned.ctx != ctx)
            return ls__fail(ctx, LS_ERR_MISMATCH,
                            "ls_tensors_save: tensor '%s' belongs to another context", names[i]);
    }
    return LS_OK;
}

ls_status ls_tensors_save(ls_context *ctx, const char *path, int64_t n, const char *const *names,
                          const ls_tensor *const *tensors, const char *const *metadata)
{
    LS__ENTER(ctx);
    LS_TRY(check_arguments(ctx, path, n, names, tensors));
    size_t bytes;
    if (!ls__mul_size((size_t)n, sizeof(ls_spec), &bytes)) bytes = SIZE_MAX;
    ls_spec *specs = ls__alloc(ctx, bytes);
    if (!specs) return ls__fail_memory(ctx, "ls_tensors_save", bytes);
    for (int64_t i = 0; i < n; i++) specs[i] = (ls_spec){ tensors[i]->dtype, tensors[i]->shape };
    const ls_status status = ls__tensors_write(ctx, path, ls__atomic_file_open, n, names, specs,
                                               put_tensor, (void *)tensors, metadata);
    ls__free(ctx, specs);
    return status;
}
