/* tensor_file.c: reads from a file of tensors of any format; see tensor_file.h. */
#include "io/tensor_file.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "arith/half.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "tensor/tensor.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Element types of the formats that ls_dtype lacks. */
static const struct {
    const char *name;
    size_t bytes;
} foreign_types[] = {
    { "BOOL", 1 }, { "I8", 1 },  { "F8_E5M2", 1 }, { "F8_E4M3", 1 }, { "I16", 2 },
    { "U16", 2 },  { "U32", 4 }, { "F64", 8 },     { "U64", 8 },     { "C64", 8 }
};
static const char UNSUPPORTED_TYPE[] = "type";

/* ---- Errors and bytes ---- */

ls_status ls__tensor_file_fail(const ls_tensor_file *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const ls_status status = ls__fail_v(file->owned.ctx, LS_ERR_FORMAT, format, args);
    va_end(args);
    ls__error_in(file->owned.ctx, "'%s' is no %s", file->path, file->format->name);
    return status;
}

ls_status ls__tensor_file_fail_read(const ls_tensor_file *file, ls_status status,
                                    const char *reason)
{
    return ls__fail(file->owned.ctx, status, "reading '%s': %s", file->path, reason);
}

ls_status ls__tensor_file_read_at(const ls_tensor_file *file, void *out, size_t bytes,
                                  int64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(file->fd, (char *)out + done, bytes - done, offset + (off_t)done);
        const int error = errno;
        char text[LS__ERRNO_TEXT_SIZE];
        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            return ls__tensor_file_fail_read(file, LS_ERR_IO, "truncated while it was open");
        else if (error != EINTR)
            return ls__tensor_file_fail_read(file, ls__file_status(error),
                                             ls__errno_text(error, text, sizeof(text)));
    }
    return LS_OK;
}

void ls__tensor_header_set_type(ls__tensor_header *t)
{
    for (int i = 0; i < LS_N_DTYPES; i++) {
        if (strcmp(t->dtype, ls_dtype_name((ls_dtype)i)) != 0) continue;
        t->spec.dtype = (ls_dtype)i;
        t->element_bytes = ls_dtype_bytes((ls_dtype)i);
        return;
    }
    t->obstacle = UNSUPPORTED_TYPE;
    for (size_t i = 0; i < sizeof(foreign_types) / sizeof(foreign_types[0]); i++)
        if (strcmp(t->dtype, foreign_types[i].name) == 0) t->element_bytes = foreign_types[i].bytes;
}

/* ---- Names ---- */

int ls__tensor_header_compare(const void *a, const void *b)
{
    return strcmp(((const ls__tensor_header *)a)->name, ((const ls__tensor_header *)b)->name);
}

int64_t ls_tensor_file_tensor_count(const ls_tensor_file *file)
{
    return file ? file->n_tensors : 0;
}

const char *ls_tensor_file_name(const ls_tensor_file *file, int64_t i)
{
    return file && i >= 0 && i < file->n_tensors ? file->tensors[i].name : NULL;
}

const ls__tensor_header *ls__tensor_file_get(const ls_tensor_file *file, const char *name)
{
    if (!file || !name) return NULL;
    const ls__tensor_header key = { .name = name };
    return bsearch(&key, file->tensors, (size_t)file->n_tensors, sizeof(key),
                   ls__tensor_header_compare);
}

bool ls_tensor_file_find(const ls_tensor_file *file, const char *name, ls_spec *spec)
{
    const ls__tensor_header *t = ls__tensor_file_get(file, name);
    if (!t || t->obstacle) return false;
    if (spec) *spec = t->spec;
    return true;
}

/* NULL and an error where the tensor is missing or not supported. */
static const ls__tensor_header *find_loadable(const ls_tensor_file *file, const char *name)
{
    ls_context *ctx = file->owned.ctx;
    const ls__tensor_header *t = ls__tensor_file_get(file, name);
    if (t && !t->obstacle) return t;
    if (t)
        ls__fail(ctx, LS_ERR_UNSUPPORTED, "'%s': tensor '%s' (%.*s) has an unsupported %s",
                 file->path, name, LS__CUT(t->dtype, 20), t->obstacle);
    else
        ls__fail(ctx, LS_ERR_NOT_FOUND, "'%s' has no tensor '%s'", file->path, name ? name : "");
    return NULL;
}

/* ---- Elements ---- */

/* Copies the elements of a strided tensor from its bytes in the storage, in the order of indices.
 */
static void gather(const ls__tensor_header *t, unsigned char *out, const unsigned char *in)
{
    const ls_shape *shape = &t->spec.shape;
    const size_t size = t->element_bytes;
    int64_t index[LS_MAX_DIMS] = { 0 }, at = 0;
    for (int64_t n = ls_shape_element_count(shape); n > 0; n--, out += size) {
        memcpy(out, in + (size_t)at * size, size);
        for (int i = shape->n_dims - 1; i >= 0; i--) {
            at += t->strides[i];
            if (++index[i] < shape->dims[i]) break;
            at -= index[i] * t->strides[i];
            index[i] = 0;
        }
    }
}

ls_status ls__tensor_file_read_host(const ls_tensor_file *file, const ls__tensor_header *t,
                                    void *out)
{
    const size_t bytes = (size_t)(t->end - t->begin);
    if (!t->strided) return file->format->read(file, t, out, bytes, 0);
    void *in = ls__alloc(file->owned.ctx, bytes);
    if (!in) return ls__fail_memory(file->owned.ctx, file->path, bytes);
    const ls_status status = file->format->read(file, t, in, bytes, 0);
    if (status == LS_OK) gather(t, out, in);
    ls__free(file->owned.ctx, in);
    return status;
}

static ls_status read_strided_to_device(const ls_tensor_file *file, const ls__tensor_header *t,
                                        const ls_tensor *out)
{
    void *elements = ls__alloc(file->owned.ctx, out->bytes);
    if (!elements) return ls__fail_memory(file->owned.ctx, file->path, out->bytes);
    ls_status status = ls__tensor_file_read_host(file, t, elements);
    if (status == LS_OK)
        status = ls__table(out)->write(out->owned.ctx->device, out->data, elements, out->bytes);
    ls__free(file->owned.ctx, elements);
    return status;
}

static ls_status read_elements(const ls_tensor_file *file, const ls__tensor_header *t,
                               ls_tensor *out)
{
    void *data = ls_tensor_data(out);
    if (data) return ls__tensor_file_read_host(file, t, data);
    if (t->strided) return read_strided_to_device(file, t, out);
    char buffer[LS__SAFETENSORS_CHUNK];
    for (size_t done = 0; done < out->bytes;) {
        const size_t rest = out->bytes - done;
        const size_t n = rest < sizeof(buffer) ? rest : sizeof(buffer);
        LS_TRY(file->format->read(file, t, buffer, n, (int64_t)done));
        LS_TRY(ls__table(out)->write(out->owned.ctx->device, (char *)out->data + done, buffer, n));
        done += n;
    }
    return LS_OK;
}

ls_tensor *ls_tensor_file_load(ls_tensor_file *file, const char *name)
{
    LS__ENTER_NULL(file ? file->owned.ctx : NULL);
    const ls__tensor_header *t = find_loadable(file, name);
    if (!t) return NULL;
    ls_tensor *tensor = ls_tensor_open(file->owned.ctx, t->spec.dtype, t->spec.shape);
    if (tensor && read_elements(file, t, tensor) != LS_OK) ls_tensor_close(&tensor);
    return tensor;
}

ls_status ls_tensor_file_read(ls_tensor_file *file, const char *name, ls_tensor *out)
{
    LS__ENTER(file ? file->owned.ctx : NULL);
    LS__ENTER(out ? out->owned.ctx : NULL);
    ls_context *ctx = file->owned.ctx;
    const ls__tensor_header *t = find_loadable(file, name);
    if (!t) return ctx->error;
    if (t->spec.dtype != out->dtype || !ls_shape_equal(&t->spec.shape, &out->shape)) {
        char text[2][LS_SHAPE_TEXT_SIZE];
        return ls__fail(
            ctx, t->spec.dtype != out->dtype ? LS_ERR_TYPE : LS_ERR_SHAPE,
            "'%s': tensor '%s' is %s %s, expected %s %s", file->path, name,
            ls_dtype_name(t->spec.dtype), ls_shape_text(&t->spec.shape, text[0], sizeof(text[0])),
            ls_dtype_name(out->dtype), ls_shape_text(&out->shape, text[1], sizeof(text[1])));
    }
    return read_elements(file, t, out);
}

/* ---- For src/run ---- */

ls_status ls__tensor_file_spec(const ls_tensor_file *file, const char *name, ls_spec *out)
{
    const ls__tensor_header *t = find_loadable(file, name);
    if (!t) return file->owned.ctx->error;
    *out = t->spec;
    return LS_OK;
}

bool ls__tensor_header_is_float(const ls__tensor_header *t)
{
    if (t->obstacle) return t->obstacle == UNSUPPORTED_TYPE && strcmp(t->dtype, "F64") == 0;
    return t->spec.dtype == LS_F32 || t->spec.dtype == LS_F16 || t->spec.dtype == LS_BF16;
}

ls_status ls__tensor_file_read_f32(const ls_tensor_file *file, const ls__tensor_header *t,
                                   float *out)
{
    if (t->element_bytes == sizeof(float)) return ls__tensor_file_read_host(file, t, out);
    const int64_t n = ls_shape_element_count(&t->spec.shape);
    const size_t bytes = (size_t)n * t->element_bytes;
    void *raw = ls__alloc(file->owned.ctx, bytes);
    if (!raw) return ls__fail_memory(file->owned.ctx, file->path, bytes);
    const ls_status status = ls__tensor_file_read_host(file, t, raw);
    const uint16_t *half = raw;
    const double *f64 = raw;
    const bool wide = t->element_bytes == sizeof(double);
    const bool bf16 = !wide && t->spec.dtype == LS_BF16;
    for (int64_t i = 0; i < n && status == LS_OK; i++)
        out[i] = wide ? (float)f64[i] : bf16 ? ls__bf16_to_f32(half[i]) : ls__f16_to_f32(half[i]);
    ls__free(file->owned.ctx, raw);
    return status;
}
