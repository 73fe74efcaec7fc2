/* safetensors_read.c: a safetensors file, checked as a whole when it is opened, so that a truncated
 * or foreign file is rejected before anything changes. */
#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "io/safetensors.h"
#include "tensor/tensor.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

/* One tensor of the file. Its texts belong to the JSON. */
typedef struct entry {
    const char *name;
    const char *dtype;
    int64_t begin, end; /* from the file's start */
    ls_spec spec;
    const char *obstacle; /* why it is not supported, or NULL */
} entry;

struct ls_tensor_file {
    ls__owned owned;
    char *path;
    int fd;
    int64_t file_bytes, data_start;
    json_t *root;
    const json_t *metadata; /* an object of strings, or NULL */
    entry *entries;         /* by name */
    int64_t n_parameters;
};

/* Unsupported types of the format, to check their sizes. */
static const struct {
    const char *name;
    size_t bytes;
} foreign_types[] = {
    { "BOOL", 1 }, { "I8", 1 },  { "F8_E5M2", 1 }, { "F8_E4M3", 1 }, { "I16", 2 },
    { "U16", 2 },  { "U32", 4 }, { "F64", 8 },     { "U64", 8 },     { "C64", 8 }
};

static ls_status fail_format(const ls_tensor_file *file, const char *format, ...) LS_PRINTF(2, 3);
static ls_status fail_format(const ls_tensor_file *file, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return ls__fail(file->owned.ctx, LS_ERR_FORMAT, "'%s' is no safetensors file: %s", file->path,
                    text);
}

static ls_status fail_read(const ls_tensor_file *file, int error)
{
    char reason[LS__ERRNO_TEXT_SIZE];
    return ls__fail(file->owned.ctx, ls__file_status(error), "reading '%s': %s", file->path,
                    ls__errno_text(error, reason, sizeof(reason)));
}

static ls_status read_at(const ls_tensor_file *file, void *out, size_t bytes, int64_t offset)
{
    char *at = out;
    while (bytes > 0) {
        const ssize_t n = pread(file->fd, at, bytes, (off_t)offset);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
            offset += n;
        } else if (n == 0) {
            return ls__fail(file->owned.ctx, LS_ERR_IO, "reading '%s': cut while it was open",
                            file->path);
        } else if (errno != EINTR) {
            return fail_read(file, errno);
        }
    }
    return LS_OK;
}

static ls_status open_file(ls_tensor_file *file)
{
    char reason[LS__ERRNO_TEXT_SIZE];
    const ls_status status =
        ls__open_regular(file->path, O_RDONLY, &file->fd, &file->file_bytes, reason);
    return status == LS_OK
               ? LS_OK
               : ls__fail(file->owned.ctx, status, "reading '%s': %s", file->path, reason);
}

/* Reads and parses the JSON. */
static ls_status read_header(ls_tensor_file *file)
{
    ls_context *ctx = file->owned.ctx;
    uint64_t length = 0;
    if (file->file_bytes < (int64_t)sizeof(length)) {
        return fail_format(file, "it has %" PRId64 " bytes", file->file_bytes);
    }
    LS_TRY(read_at(file, &length, sizeof(length), 0));
    const uint64_t rest = (uint64_t)file->file_bytes - sizeof(length);
    if (length < 2 || length > rest || length > LS__SAFETENSORS_MAX_HEADER) {
        return fail_format(file,
                           "header of %" PRIu64 " bytes, wanted 2 to %" PRIu64
                           " (the file's rest) and at most %d",
                           length, rest, LS__SAFETENSORS_MAX_HEADER);
    }
    char *text = ls__alloc(ctx, (size_t)length);
    if (!text) return ls__fail_memory(ctx, file->path, (size_t)length);
    ls_status status = read_at(file, text, (size_t)length, sizeof(length));
    if (status == LS_OK && *text != '{') {
        status = fail_format(file, "the header does not begin with '{'");
    }
    if (status == LS_OK) {
        json_error_t error;
        LS__IN_C_LOCALE;
        file->root = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &error);
        /* jansson reports only some failed allocations; the others leave no error text */
        if (!file->root &&
            (*error.text == '\0' || json_error_code(&error) == json_error_out_of_memory)) {
            status = ls__fail_memory(ctx, file->path, (size_t)length);
        } else if (!file->root) {
            status = fail_format(file, "header: %s at byte %d", error.text, error.position);
        }
    }
    ls__free(ctx, text);
    file->data_start = (int64_t)(sizeof(length) + length);
    return status;
}

static ls_status check_metadata(ls_tensor_file *file)
{
    json_t *metadata = json_object_get(file->root, LS__SAFETENSORS_METADATA);
    if (!metadata) return LS_OK;
    if (!json_is_object(metadata)) {
        return fail_format(file, LS__SAFETENSORS_METADATA " is no object");
    }
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value)) return fail_format(file, "metadata '%.100s' is no text", key);
    }
    file->metadata = metadata;
    return LS_OK;
}

/* Bytes of one element; 0 for an unknown type. Sets spec and obstacle. */
static size_t resolve_type(entry *e)
{
    for (int i = 0; i < LS_N_DTYPES; i++) {
        if (strcmp(e->dtype, ls_dtype_name((ls_dtype)i)) != 0) continue;
        e->spec.dtype = (ls_dtype)i;
        return ls_dtype_bytes((ls_dtype)i);
    }
    e->obstacle = "type";
    for (size_t i = 0; i < sizeof(foreign_types) / sizeof(foreign_types[0]); i++) {
        if (strcmp(e->dtype, foreign_types[i].name) == 0) return foreign_types[i].bytes;
    }
    return 0;
}

/* A number of elements or bytes: false unless an integer >= 0. */
static bool get_count(const json_t *value, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = json_integer_value(value);
    return true;
}

static ls_status parse_shape(const ls_tensor_file *file, entry *e, const json_t *dims,
                             size_t *count)
{
    const size_t n_dims = json_array_size(dims);
    bool empty = false;
    *count = 1;
    for (size_t i = 0; i < n_dims; i++) {
        int64_t n;
        if (!get_count(json_array_get(dims, i), &n)) {
            return fail_format(file, "tensor '%.100s': dimension %zu is no number of elements",
                               e->name, i);
        }
        empty = empty || n == 0;
        if (n > 0 && !ls__mul_size(*count, (size_t)n, count)) {
            return fail_format(file, "tensor '%.100s': more than 2^64 elements", e->name);
        }
        if (i < LS_MAX_DIMS) e->spec.shape.dims[i] = n;
    }
    if (empty) *count = 0;
    if (n_dims > LS_MAX_DIMS) {
        e->obstacle = "number of dimensions";
    } else {
        e->spec.shape.n_dims = (int)n_dims;
    }
    return LS_OK;
}

static ls_status parse_entry(const ls_tensor_file *file, entry *e, const char *name,
                             const json_t *record)
{
    const json_t *dtype = json_object_get(record, "dtype");
    const json_t *dims = json_object_get(record, "shape");
    const json_t *offsets = json_object_get(record, "data_offsets");
    int64_t begin, end;
    *e = (entry){ .name = name, .dtype = json_string_value(dtype) };
    if (!e->dtype || !json_is_array(dims) || json_array_size(offsets) != 2 ||
        json_object_size(record) != 3) {
        return fail_format(file,
                           "tensor '%.100s': wanted a dtype, a shape, two data_offsets and "
                           "nothing else",
                           name);
    }
    const int64_t data_bytes = file->file_bytes - file->data_start;
    if (!get_count(json_array_get(offsets, 0), &begin) ||
        !get_count(json_array_get(offsets, 1), &end) || begin > end || end > data_bytes) {
        return fail_format(file,
                           "tensor '%.100s': wanted data_offsets 0 <= begin <= end <= %" PRId64,
                           name, data_bytes);
    }
    size_t count = 0, bytes = 0;
    LS_TRY(parse_shape(file, e, dims, &count));
    const size_t element_bytes = resolve_type(e);
    const size_t wanted = (size_t)(end - begin);
    if (element_bytes > 0 && (!ls__mul_size(count, element_bytes, &bytes) || bytes != wanted)) {
        return fail_format(file, "tensor '%.100s': %zu elements of %.20s in %zu bytes", name, count,
                           e->dtype, wanted);
    }
    e->begin = file->data_start + begin;
    e->end = file->data_start + end;
    return LS_OK;
}

static int compare_places(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static ls_status parse_entries(ls_tensor_file *file)
{
    const size_t n = json_object_size(file->root) - (file->metadata ? 1 : 0);
    file->entries = ls__alloc(file->owned.ctx, n * sizeof(entry));
    if (!file->entries) return ls__fail_memory(file->owned.ctx, file->path, n * sizeof(entry));

    const char *name;
    json_t *record;
    json_object_foreach(file->root, name, record)
    {
        if (record == file->metadata) continue;
        LS_TRY(parse_entry(file, &file->entries[file->n_parameters], name, record));
        file->n_parameters++;
    }
    /* without holes or overlaps, from the header's end to the file's */
    qsort(file->entries, n, sizeof(entry), compare_places);
    int64_t place = file->data_start;
    for (size_t i = 0; i < n; i++) {
        const entry *e = &file->entries[i];
        if (e->begin != place) {
            return fail_format(file, "tensor '%.100s' begins at byte %" PRId64 ", wanted %" PRId64,
                               e->name, e->begin, place);
        }
        place = e->end;
    }
    if (place != file->file_bytes) {
        return fail_format(file, "tensors end at byte %" PRId64 " of %" PRId64, place,
                           file->file_bytes);
    }
    qsort(file->entries, n, sizeof(entry), compare_names);
    return LS_OK;
}

static void close_owned(ls__owned *self)
{
    ls_tensor_file *file = (ls_tensor_file *)self;
    if (file->fd >= 0) close(file->fd);
    json_decref(file->root);
    ls__free(self->ctx, file->entries);
    ls__free(self->ctx, file->path);
    ls__free(self->ctx, file);
}

ls_tensor_file *ls_tensor_file_open(ls_context *ctx, const char *path)
{
    LS__ENTER_NULL(ctx);
    if (!path) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_tensor_file_open: path is NULL");
        return NULL;
    }
    ls_tensor_file *file = ls__zalloc(ctx, sizeof(*file));
    if (!file) {
        ls__fail_memory(ctx, path, sizeof(*file));
        return NULL;
    }
    file->fd = -1;
    ls__own(ctx, &file->owned, close_owned);
    file->path = ls__strdup(ctx, path);
    ls_status status = file->path ? LS_OK : ls__fail_memory(ctx, path, strlen(path) + 1);
    if (status == LS_OK) status = open_file(file);
    if (status == LS_OK) status = read_header(file);
    if (status == LS_OK) status = check_metadata(file);
    if (status == LS_OK) status = parse_entries(file);
    if (status != LS_OK) ls_tensor_file_close(&file);
    return file;
}

void ls_tensor_file_close(ls_tensor_file **file)
{
    if (!file || !*file) return;
    ls_tensor_file *f = *file;
    *file = NULL;
    ls__disown_and_close(&f->owned);
}

int64_t ls_tensor_file_count(const ls_tensor_file *file)
{
    return file ? file->n_parameters : 0;
}

const char *ls_tensor_file_name(const ls_tensor_file *file, int64_t i)
{
    return file && i >= 0 && i < file->n_parameters ? file->entries[i].name : NULL;
}

static const entry *find(const ls_tensor_file *file, const char *name)
{
    if (!file || !name) return NULL;
    const entry key = { .name = name };
    return bsearch(&key, file->entries, (size_t)file->n_parameters, sizeof(key), compare_names);
}

bool ls_tensor_file_find(const ls_tensor_file *file, const char *name, ls_spec *spec)
{
    const entry *e = find(file, name);
    if (!e || e->obstacle) return false;
    if (spec) *spec = e->spec;
    return true;
}

const char *ls_tensor_file_metadata(const ls_tensor_file *file, const char *key)
{
    return file && key ? json_string_value(json_object_get(file->metadata, key)) : NULL;
}

/* The tensor's entry; NULL and an error on failure. */
static const entry *find_loadable(const ls_tensor_file *file, const char *name)
{
    ls_context *ctx = file->owned.ctx;
    const entry *e = find(file, name);
    if (!e) {
        ls__fail(ctx, LS_ERR_NOT_FOUND, "'%s' has no tensor '%s'", file->path, name ? name : "");
    } else if (e->obstacle) {
        ls__fail(ctx, LS_ERR_UNSUPPORTED, "'%s': tensor '%s' (%.20s) has a %s that we do not have",
                 file->path, name, e->dtype, e->obstacle);
        e = NULL;
    }
    return e;
}

static ls_status read_elements(const ls_tensor_file *file, const entry *e, ls_tensor *out)
{
    void *data = ls_tensor_data(out);
    if (data) return read_at(file, data, out->bytes, e->begin);
    char buffer[LS__SAFETENSORS_CHUNK];
    for (size_t done = 0; done < out->bytes;) {
        const size_t rest = out->bytes - done;
        const size_t n = rest < sizeof(buffer) ? rest : sizeof(buffer);
        LS_TRY(read_at(file, buffer, n, e->begin + (int64_t)done));
        LS_TRY(ls__table(out)->write(out->owned.ctx->device, (char *)out->data + done, buffer, n));
        done += n;
    }
    return LS_OK;
}

ls_tensor *ls_tensor_file_load(ls_tensor_file *file, const char *name)
{
    LS__ENTER_NULL(file ? file->owned.ctx : NULL);
    const entry *e = find_loadable(file, name);
    if (!e) return NULL;
    ls_tensor *tensor = ls_tensor_open(file->owned.ctx, e->spec.dtype, e->spec.shape);
    if (tensor && read_elements(file, e, tensor) != LS_OK) ls_tensor_close(&tensor);
    return tensor;
}

ls_status ls_tensor_file_read(ls_tensor_file *file, const char *name, ls_tensor *out)
{
    LS__ENTER(file ? file->owned.ctx : NULL);
    LS__ENTER(out ? out->owned.ctx : NULL);
    ls_context *ctx = file->owned.ctx;
    const entry *e = find_loadable(file, name);
    if (!e) return ctx->error;
    if (e->spec.dtype != out->dtype || !ls_shape_equal(&e->spec.shape, &out->shape)) {
        char text[2][LS_SHAPE_TEXT_SIZE];
        return ls__fail(
            ctx, e->spec.dtype != out->dtype ? LS_ERR_TYPE : LS_ERR_SHAPE,
            "'%s': tensor '%s' is %s %s, wanted %s %s", file->path, name,
            ls_dtype_name(e->spec.dtype), ls_shape_text(&e->spec.shape, text[0], sizeof(text[0])),
            ls_dtype_name(out->dtype), ls_shape_text(&out->shape, text[1], sizeof(text[1])));
    }
    return read_elements(file, e, out);
}

/* ---- For src/run ---- */

ls_status ls__tensor_file_spec(const ls_tensor_file *file, const char *name, ls_spec *out)
{
    const entry *e = find_loadable(file, name);
    if (!e) return file->owned.ctx->error;
    *out = e->spec;
    return LS_OK;
}

ls_status ls__tensor_file_read_host(const ls_tensor_file *file, const char *name, void *out,
                                    size_t bytes)
{
    const entry *e = find_loadable(file, name);
    if (!e) return file->owned.ctx->error;
    if ((size_t)(e->end - e->begin) != bytes) {
        return ls__fail(file->owned.ctx, LS_ERR_SHAPE,
                        "'%s': tensor '%s' has %" PRId64 " bytes, wanted %zu", file->path, name,
                        e->end - e->begin, bytes);
    }
    return read_at(file, out, bytes, e->begin);
}

ls_status ls__tensor_file_digest(const ls_tensor_file *file, const char *but, ls_digest *out)
{
    ls_context *ctx = file->owned.ctx;
    ls__digest_sum sum = { { 0, 0 } };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)file->metadata, key, value)
    {
        if (strcmp(key, but) != 0) ls__tensors_digest_text(&sum, key, json_string_value(value));
    }
    size_t largest = 1;
    for (int64_t i = 0; i < file->n_parameters; i++) {
        const size_t bytes = (size_t)(file->entries[i].end - file->entries[i].begin);
        if (bytes > largest) largest = bytes;
    }
    void *elements = ls__alloc(ctx, largest);
    if (!elements) return ls__fail_memory(ctx, file->path, largest);
    ls_status status = LS_OK;
    for (int64_t i = 0; i < file->n_parameters && status == LS_OK; i++) {
        const entry *e = &file->entries[i];
        const size_t bytes = (size_t)(e->end - e->begin);
        status = read_at(file, elements, bytes, e->begin);
        if (status == LS_OK) ls__tensors_digest_elements(&sum, e->name, &e->spec, elements, bytes);
    }
    ls__free(ctx, elements);
    *out = ls__tensors_digest_finish(&sum);
    return status;
}
