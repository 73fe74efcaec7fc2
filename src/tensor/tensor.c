/* tensor.c: dense tensors: memory, transfer, conversion. */
#include "tensor/tensor.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/minmax.h"
#include "arith/half.h"
#include "backend/pool.h"
#include <math.h>
#include <string.h>

static ls_context *context_of(const ls_tensor *tensor)
{
    return tensor ? tensor->owned.ctx : NULL;
}

static ls__device *device_of(const ls_tensor *tensor)
{
    return tensor->owned.ctx->device;
}

static void close_owned(ls__owned *self)
{
    ls_tensor *tensor = (ls_tensor *)self;
    ls_context *ctx = self->ctx;
    ls__pool_release(ctx->pool, tensor->data);
    ls__free(ctx, tensor);
}

/* A tensor with undefined elements. */
static ls_tensor *open_unset(ls_context *ctx, const char *call, ls_dtype dtype, ls_shape shape)
{
    if ((unsigned)dtype >= LS_N_DTYPES) {
        ls__fail(ctx, LS_ERR_TYPE, "%s: there is no data type %d", call, (int)dtype);
        return NULL;
    }
    char text[LS_SHAPE_TEXT_SIZE];
    const int64_t count = ls_shape_element_count(&shape);
    if (count < 0 || (uint64_t)count > PTRDIFF_MAX / ls_dtype_bytes(dtype)) {
        ls__fail(ctx, LS_ERR_SHAPE, "%s: shape %s with %d dimensions: %s", call,
                 ls_shape_text(&shape, text, sizeof(text)), shape.n_dims,
                 "expected at most 6, none negative, in fewer than 2^63 bytes");
        return NULL;
    }
    ls_tensor *tensor = ls__zalloc(ctx, sizeof(*tensor));
    if (!tensor) {
        ls__fail_memory(ctx, call, sizeof(*tensor));
        return NULL;
    }
    const size_t bytes = (size_t)count * ls_dtype_bytes(dtype);
    tensor->data = ls__pool_allocate(ctx->pool, bytes);
    if (!tensor->data) {
        ls__pool_fail(ctx->pool, bytes, "%s: %s %s", call, ls_dtype_name(dtype),
                      ls_shape_text(&shape, text, sizeof(text)));
        ls__free(ctx, tensor);
        return NULL;
    }
    tensor->dtype = dtype;
    tensor->shape = shape;
    tensor->count = count;
    tensor->bytes = bytes;
    ls__own(ctx, &tensor->owned, close_owned);
    return tensor;
}

ls_tensor *ls_tensor_open(ls_context *ctx, ls_dtype dtype, ls_shape shape)
{
    LS__ENTER_NULL(ctx);
    ls_tensor *tensor = open_unset(ctx, "ls_tensor_open", dtype, shape);
    if (tensor && ls__table(tensor)->clear(ctx->device, tensor->data, tensor->bytes) != LS_OK)
        ls_tensor_close(&tensor);
    return tensor;
}

ls_tensor *ls_tensor_from_data(ls_context *ctx, ls_dtype dtype, ls_shape shape, const void *data)
{
    LS__ENTER_NULL(ctx);
    ls_tensor *tensor = open_unset(ctx, "ls_tensor_from_data", dtype, shape);
    if (!tensor) return NULL;
    const ls_status status =
        data || tensor->bytes == 0
            ? ls__table(tensor)->write(ctx->device, tensor->data, data, tensor->bytes)
            : ls__fail(ctx, LS_ERR_INVALID, "ls_tensor_from_data: data is NULL");
    if (status != LS_OK) ls_tensor_close(&tensor);
    return tensor;
}

void ls_tensor_close(ls_tensor **tensor)
{
    if (!tensor || !*tensor) return;
    if (!(*tensor)->view) ls__disown_and_close(&(*tensor)->owned);
    *tensor = NULL;
}

void ls__tensor_view(ls_context *ctx, ls_tensor *out, ls_dtype dtype, ls_shape shape, void *data)
{
    *out = (ls_tensor){ .owned.ctx = ctx, .dtype = dtype, .shape = shape, .data = data };
    out->count = ls_shape_element_count(&shape);
    out->bytes = (size_t)out->count * ls_dtype_bytes(dtype);
    out->view = true;
}

ls_dtype ls_tensor_dtype(const ls_tensor *tensor)
{
    return tensor ? tensor->dtype : LS_F32;
}

const ls_shape *ls_tensor_shape(const ls_tensor *tensor)
{
    return tensor ? &tensor->shape : NULL;
}

int64_t ls_tensor_element_count(const ls_tensor *tensor)
{
    return tensor ? tensor->count : 0;
}

size_t ls_tensor_bytes(const ls_tensor *tensor)
{
    return tensor ? tensor->bytes : 0;
}

const void *ls_tensor_data_const(const ls_tensor *tensor)
{
    return tensor && ls__table(tensor)->host_memory ? tensor->data : NULL;
}

void *ls_tensor_data(ls_tensor *tensor)
{
    return tensor && ls__table(tensor)->host_memory ? tensor->data : NULL;
}

static ls_status check_transfer(const ls_tensor *tensor, const char *call, const void *host,
                                size_t bytes)
{
    if (bytes != tensor->bytes)
        return ls__fail(context_of(tensor), LS_ERR_INVALID, "%s: got %zu bytes, the tensor has %zu",
                        call, bytes, tensor->bytes);
    if (!host && bytes > 0)
        return ls__fail(context_of(tensor), LS_ERR_INVALID, "%s: host memory is NULL", call);
    return LS_OK;
}

ls_status ls_tensor_read(const ls_tensor *tensor, void *out, size_t bytes)
{
    LS__ENTER(context_of(tensor));
    LS_TRY(check_transfer(tensor, "ls_tensor_read", out, bytes));
    return ls__table(tensor)->read(device_of(tensor), out, tensor->data, bytes);
}

ls_status ls_tensor_write(ls_tensor *tensor, const void *data, size_t bytes)
{
    LS__ENTER(context_of(tensor));
    LS_TRY(check_transfer(tensor, "ls_tensor_write", data, bytes));
    tensor->checked_classes = 0;
    return ls__table(tensor)->write(device_of(tensor), tensor->data, data, bytes);
}

ls_status ls__tensor_check_pair(const char *call, const ls_tensor *a, const ls_tensor *b,
                                bool same_type)
{
    LS__ENTER(context_of(a));
    LS__ENTER(context_of(b));
    ls_context *ctx = context_of(a);
    if (ctx != context_of(b))
        return ls__fail(ctx, LS_ERR_MISMATCH, "%s: the tensors belong to different contexts", call);
    if (same_type && a->dtype != b->dtype)
        return ls__fail(ctx, LS_ERR_TYPE, "%s: the tensors are %s and %s", call,
                        ls_dtype_name(a->dtype), ls_dtype_name(b->dtype));
    if (!ls_shape_equal(&a->shape, &b->shape)) {
        char text[2][LS_SHAPE_TEXT_SIZE];
        return ls__fail(ctx, LS_ERR_SHAPE, "%s: the tensors have shapes %s and %s", call,
                        ls_shape_text(&a->shape, text[0], sizeof(text[0])),
                        ls_shape_text(&b->shape, text[1], sizeof(text[1])));
    }
    return LS_OK;
}

ls_status ls_tensor_copy(ls_tensor *dst, const ls_tensor *src)
{
    LS_TRY(ls__tensor_check_pair("ls_tensor_copy", dst, src, true));
    if (dst->data == src->data) return LS_OK;
    dst->checked_classes = 0;
    LS_TRY(ls__table(dst)->copy(device_of(dst), dst->data, src->data, src->bytes));
    dst->checked_classes = src->checked_classes;
    return LS_OK;
}

ls_status ls_tensor_cast(ls_tensor *dst, const ls_tensor *src)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(ls__tensor_check_pair("ls_tensor_cast", dst, src, false));
    if (dst->dtype == src->dtype) return ls_tensor_copy(dst, src);
    dst->checked_classes = 0;
    return ls__table(dst)->cast(device_of(dst), dst->dtype, dst->data, src->dtype, src->data,
                                src->count);
}

/* Rounds to odd: an inexact result is the neighbour with an odd last bit. A second rounding, to a
 * type with at least two bits less, then equals a direct rounding of the double. */
static float round_to_odd(double value)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    if ((double)f == value || isnan(value) || bits & 1u) return f;
    if (isinf(f)) return f; /* overflows every 16-bit type too */
    return nextafterf(f, value > (double)f ? INFINITY : -INFINITY);
}

/* Truncates towards zero and saturates; NaN gives 0. low and high are exact as doubles, except
 * 2^63-1, which is one below a double. */
static int64_t to_integer(double value, int64_t low, int64_t high)
{
    if (isnan(value)) return 0;
    if (value <= (double)low) return low;
    if (value >= (double)high) return high;
    return (int64_t)value;
}

/* Writes one element's bytes; returns their number. */
static size_t encode(ls_dtype dtype, double value, unsigned char out[8])
{
    const size_t bytes = ls_dtype_bytes(dtype);
    ls__element v = { .i64 = 0 };
    switch (dtype) {
    case LS_F32: v.f32 = (float)value; break;
    case LS_BF16: v.u16 = ls__f32_to_bf16(round_to_odd(value)); break;
    case LS_F16: v.u16 = ls__f32_to_f16(round_to_odd(value)); break;
    case LS_I64: v.i64 = to_integer(value, INT64_MIN, INT64_MAX); break;
    case LS_I32: v.i32 = (int32_t)to_integer(value, INT32_MIN, INT32_MAX); break;
    case LS_U8: v.u8 = (uint8_t)to_integer(value, 0, UINT8_MAX); break;
    }
    memcpy(out, &v, bytes);
    return bytes;
}

ls_status ls_tensor_fill(ls_tensor *tensor, double value)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER(context_of(tensor));
    if (tensor->count == 0) return LS_OK;
    tensor->checked_classes = 0;
    unsigned char element[8], pattern[4096];
    const size_t element_bytes = encode(tensor->dtype, value, element);
    for (size_t i = 0; i < sizeof(pattern); i += element_bytes)
        memcpy(pattern + i, element, element_bytes);
    /* The pattern is written once, then doubled on the device. */
    const ls__backend *table = ls__table(tensor);
    char *data = tensor->data;
    size_t done = ls__min_size(tensor->bytes, sizeof(pattern));
    LS_TRY(table->write(device_of(tensor), data, pattern, done));
    while (done < tensor->bytes) {
        const size_t n = ls__min_size(tensor->bytes - done, done);
        LS_TRY(table->copy(device_of(tensor), data + done, data, n));
        done += n;
    }
    return LS_OK;
}
