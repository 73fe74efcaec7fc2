/* safetensors_read.c: a safetensors file, checked as a whole when it is opened, so that a truncated
 * or foreign file is rejected before anything changes. */
#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* file->data. Names and types of tensors belong to the JSON. */
typedef struct safetensors {
    json_t *root;
    const json_t *metadata; /* an object of strings, or NULL */
    int64_t data_start;
} safetensors;

/* Reads and parses the JSON. */
static ls_status read_header(ls_tensor_file *file)
{
    ls_context *ctx = file->owned.ctx;
    safetensors *s = file->data;
    uint64_t length = 0;
    if (file->file_bytes < (int64_t)sizeof(length))
        return ls__tensor_file_fail(file, "it has %" PRId64 " bytes", file->file_bytes);
    LS_TRY(ls__tensor_file_read_at(file, &length, sizeof(length), 0));
    const uint64_t rest = (uint64_t)file->file_bytes - sizeof(length);
    if (length < 2 || length > rest || length > LS__SAFETENSORS_MAX_HEADER)
        return ls__tensor_file_fail(file,
                                    "header of %" PRIu64 " bytes, expected 2 to %" PRIu64
                                    " (the file's rest) and at most %d",
                                    length, rest, LS__SAFETENSORS_MAX_HEADER);
    char *text = ls__alloc(ctx, (size_t)length);
    if (!text) return ls__fail_memory(ctx, file->path, (size_t)length);
    ls_status status = ls__tensor_file_read_at(file, text, (size_t)length, sizeof(length));
    if (status == LS_OK && *text != '{')
        status = ls__tensor_file_fail(file, "the header does not begin with '{'");
    if (status == LS_OK) {
        json_error_t error;
        LS__IN_C_LOCALE;
        s->root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
        /* jansson reports only some failed allocations; the others leave no error text */
        if (!s->root &&
            (*error.text == '\0' || json_error_code(&error) == json_error_out_of_memory))
            status = ls__fail_memory(ctx, file->path, (size_t)length);
        else if (!s->root)
            status =
                ls__tensor_file_fail(file, "header: %s at byte %d", error.text, error.position);
    }
    ls__free(ctx, text);
    s->data_start = (int64_t)(sizeof(length) + length);
    return status;
}

static ls_status check_metadata(ls_tensor_file *file)
{
    safetensors *s = file->data;
    json_t *metadata = json_object_get(s->root, LS__SAFETENSORS_METADATA);
    if (!metadata) return LS_OK;
    if (!json_is_object(metadata))
        return ls__tensor_file_fail(file, LS__SAFETENSORS_METADATA " is no object");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return ls__tensor_file_fail(file, "metadata '%.*s' is no text", LS__CUT(key, 100));
    }
    s->metadata = metadata;
    return LS_OK;
}

/* A number of elements or bytes: false unless an integer >= 0. */
static bool get_count(const json_t *value, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = json_integer_value(value);
    return true;
}

static ls_status parse_shape(const ls_tensor_file *file, ls__tensor_header *t, const json_t *dims,
                             size_t *count)
{
    const size_t n_dims = json_array_size(dims);
    bool empty = false;
    *count = 1;
    for (size_t i = 0; i < n_dims; i++) {
        int64_t n;
        if (!get_count(json_array_get(dims, i), &n))
            return ls__tensor_file_fail(file,
                                        "tensor '%.*s': dimension %zu is no number of elements",
                                        LS__CUT(t->name, 100), i);
        empty = empty || n == 0;
        if (n > 0 && !ls__mul_size(*count, (size_t)n, count))
            return ls__tensor_file_fail(file, "tensor '%.*s': more than 2^64 elements",
                                        LS__CUT(t->name, 100));
        if (i < LS_MAX_DIMS) t->spec.shape.dims[i] = n;
    }
    if (empty) *count = 0;
    if (n_dims > LS_MAX_DIMS)
        t->obstacle = "number of dimensions";
    else
        t->spec.shape.n_dims = (int)n_dims;
    return LS_OK;
}

static ls_status parse_tensor(const ls_tensor_file *file, ls__tensor_header *t, const char *name,
                              const json_t *value)
{
    const safetensors *s = file->data;
    const json_t *dtype = json_object_get(value, "dtype");
    const json_t *dims = json_object_get(value, "shape");
    const json_t *offsets = json_object_get(value, "data_offsets");
    int64_t begin, end;
    *t = (ls__tensor_header){ .name = name, .dtype = json_string_value(dtype) };
    if (!t->dtype || !json_is_array(dims) || json_array_size(offsets) != 2 ||
        json_object_size(value) != 3)
        return ls__tensor_file_fail(
            file,
            "tensor '%.*s': expected a dtype, a shape, two data_offsets and "
            "nothing else",
            LS__CUT(name, 100));
    const int64_t data_bytes = file->file_bytes - s->data_start;
    if (!get_count(json_array_get(offsets, 0), &begin) ||
        !get_count(json_array_get(offsets, 1), &end) || begin > end || end > data_bytes)
        return ls__tensor_file_fail(
            file, "tensor '%.*s': expected data_offsets 0 <= begin <= end <= %" PRId64,
            LS__CUT(name, 100), data_bytes);
    size_t count = 0, bytes = 0;
    ls__tensor_header_set_type(t);
    LS_TRY(parse_shape(file, t, dims, &count));
    const size_t data_size = (size_t)(end - begin);
    if (t->element_bytes > 0 &&
        (!ls__mul_size(count, t->element_bytes, &bytes) || bytes != data_size))
        return ls__tensor_file_fail(file, "tensor '%.*s': %zu elements of %.*s in %zu bytes",
                                    LS__CUT(name, 100), count, LS__CUT(t->dtype, 20), data_size);
    t->begin = s->data_start + begin;
    t->end = s->data_start + end;
    return LS_OK;
}

static int compare_places(const void *a, const void *b)
{
    const ls__tensor_header *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static ls_status parse_tensors(ls_tensor_file *file)
{
    const safetensors *s = file->data;
    const size_t n = json_object_size(s->root) - (s->metadata ? 1 : 0);
    file->tensors = ls__bump_alloc(&file->bump, n * sizeof(ls__tensor_header));
    if (!file->tensors)
        return ls__fail_memory(file->owned.ctx, file->path, n * sizeof(ls__tensor_header));

    const char *name;
    json_t *value;
    json_object_foreach(s->root, name, value)
    {
        if (value == s->metadata) continue;
        LS_TRY(parse_tensor(file, &file->tensors[file->n_tensors], name, value));
        file->n_tensors++;
    }
    /* No holes or overlaps from the header's end to the file's. */
    qsort(file->tensors, n, sizeof(ls__tensor_header), compare_places);
    int64_t place = s->data_start;
    for (size_t i = 0; i < n; i++) {
        const ls__tensor_header *t = &file->tensors[i];
        if (t->begin != place)
            return ls__tensor_file_fail(
                file, "tensor '%.*s' begins at byte %" PRId64 ", expected %" PRId64,
                LS__CUT(t->name, 100), t->begin, place);
        place = t->end;
    }
    if (place != file->file_bytes)
        return ls__tensor_file_fail(file, "tensors end at byte %" PRId64 " of %" PRId64, place,
                                    file->file_bytes);
    return LS_OK;
}

static ls_status read_range(const ls_tensor_file *file, const ls__tensor_header *t, void *out,
                            size_t bytes, int64_t offset)
{
    return ls__tensor_file_read_at(file, out, bytes, t->begin + offset);
}

static void close_format(ls_tensor_file *file)
{
    const safetensors *s = file->data;
    if (s) json_decref(s->root);
}

static const ls__tensor_format safetensors_format = { .name = "safetensors file",
                                                      .read = read_range,
                                                      .close = close_format };

ls_status ls__safetensors_parse(ls_tensor_file *file)
{
    file->format = &safetensors_format;
    file->data = ls__bump_alloc(&file->bump, sizeof(safetensors));
    if (!file->data) return ls__fail_memory(file->owned.ctx, file->path, sizeof(safetensors));
    LS_TRY(read_header(file));
    LS_TRY(check_metadata(file));
    return parse_tensors(file);
}

/* ---- Metadata, which other formats do not have ---- */

static json_t *metadata_of(const ls_tensor_file *file)
{
    if (!file || file->format != &safetensors_format) return NULL;
    return (json_t *)((const safetensors *)file->data)->metadata;
}

const char *ls_tensor_file_metadata(const ls_tensor_file *file, const char *key)
{
    return key ? json_string_value(json_object_get(metadata_of(file), key)) : NULL;
}

static void digest_metadata(const ls_tensor_file *file, const char *but, ls__digest_sum *sum)
{
    const char *key;
    json_t *value;
    json_object_foreach(metadata_of(file), key, value)
    {
        if (strcmp(key, but) != 0) ls__tensors_digest_text(sum, key, json_string_value(value));
    }
}

ls_status ls__tensor_file_digest(const ls_tensor_file *file, const char *but, ls_digest *out)
{
    ls_context *ctx = file->owned.ctx;
    ls__digest_sum sum = { { 0, 0 } };
    digest_metadata(file, but, &sum);
    size_t largest = 1;
    for (int64_t i = 0; i < file->n_tensors; i++) {
        const size_t bytes = (size_t)(file->tensors[i].end - file->tensors[i].begin);
        if (bytes > largest) largest = bytes;
    }
    void *elements = ls__alloc(ctx, largest);
    if (!elements) return ls__fail_memory(ctx, file->path, largest);
    ls_status status = LS_OK;
    for (int64_t i = 0; i < file->n_tensors && status == LS_OK; i++) {
        const ls__tensor_header *t = &file->tensors[i];
        const size_t bytes = (size_t)(t->end - t->begin);
        status = file->format->read(file, t, elements, bytes, 0);
        if (status == LS_OK) ls__tensors_digest_elements(&sum, t->name, &t->spec, elements, bytes);
    }
    ls__free(ctx, elements);
    *out = ls__digest_finish(&sum, 0);
    return status;
}
