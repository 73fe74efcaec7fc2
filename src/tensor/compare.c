/* compare.c: differences of two tensors, and digests. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "arith/half.h"
#include "base/hash.h"
#include "backend/readback.h"
#include "tensor/tensor.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

double ls__element_value(ls_dtype dtype, const void *element)
{
    ls__element v;
    memcpy(&v, element, ls_dtype_bytes(dtype));
    switch (dtype) {
    case LS_F32: return (double)v.f32;
    case LS_BF16: return (double)ls__bf16_to_f32(v.u16);
    case LS_F16: return (double)ls__f16_to_f32(v.u16);
    case LS_I64: return (double)v.i64;
    case LS_I32: return (double)v.i32;
    case LS_U8: return (double)v.u8;
    }
    return 0.0;
}

/* a - b of two elements whose bits differ; infinite instead of NaN. */
static double distance(ls_dtype dtype, const void *a, const void *b)
{
    if (dtype == LS_I64) { /* as doubles, close values may be equal */
        int64_t x, y;
        memcpy(&x, a, sizeof(x));
        memcpy(&y, b, sizeof(y));
        return x > y ? (double)((uint64_t)x - (uint64_t)y) : (double)((uint64_t)y - (uint64_t)x);
    }
    const double d = fabs(ls__element_value(dtype, a) - ls__element_value(dtype, b));
    return isnan(d) ? INFINITY : d;
}

/* Partial sums of a comparison. */
typedef struct comparison {
    ls_difference difference;
    double sum_d2, sum_b2; /* of the squares of differences, and of b */
} comparison;

static void compare_elements(comparison *c, ls_dtype dtype, const char *a, const char *b,
                             int64_t first, int64_t n)
{
    const size_t bytes = ls_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++, a += bytes, b += bytes) {
        const double value = ls__element_value(dtype, b);
        c->sum_b2 += value * value;
        if (memcmp(a, b, bytes) == 0) continue;
        const double d = distance(dtype, a, b);
        c->sum_d2 += d * d;
        if (d > c->difference.max_absolute) c->difference.max_absolute = d;
        if (c->difference.n_different++ == 0) c->difference.first = first + i;
    }
}

ls_status ls_tensor_compare(const ls_tensor *a, const ls_tensor *b, ls_difference *out)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(ls__tensor_check_pair("ls_tensor_compare", a, b, true));
    ls_context *ctx = a->owned.ctx;
    if (!out) return ls__fail(ctx, LS_ERR_INVALID, "ls_tensor_compare: out is NULL");
    enum { CHUNK_BYTES = 1 << 14 };
    char host_a[CHUNK_BYTES], host_b[CHUNK_BYTES];
    comparison c = { .difference.first = -1 };
    const int64_t chunk = CHUNK_BYTES / (int64_t)ls_dtype_bytes(a->dtype);
    for (int64_t first = 0; first < a->count; first += chunk) {
        const int64_t n = a->count - first < chunk ? a->count - first : chunk;
        const size_t offset = (size_t)first * ls_dtype_bytes(a->dtype);
        const size_t bytes = (size_t)n * ls_dtype_bytes(a->dtype);
        LS_TRY(ls__table(a)->read(ctx->device, host_a, (char *)a->data + offset, bytes));
        LS_TRY(ls__table(b)->read(ctx->device, host_b, (char *)b->data + offset, bytes));
        compare_elements(&c, a->dtype, host_a, host_b, first, n);
    }
    if (c.sum_d2 > 0.0) c.difference.relative_l2 = sqrt(c.sum_d2 / c.sum_b2);
    if (isnan(c.difference.relative_l2)) c.difference.relative_l2 = INFINITY;
    *out = c.difference;
    return LS_OK;
}

ls_status ls_tensor_digest(const ls_tensor *tensor, ls_digest *out)
{
    LS__ENTER(tensor ? tensor->owned.ctx : NULL);
    ls_context *ctx = tensor->owned.ctx;
    if (!out) return ls__fail(ctx, LS_ERR_INVALID, "ls_tensor_digest: out is NULL");
    ls__readback readback;
    LS_TRY(ls__readback_open(&readback, ctx, "ls_tensor_digest", sizeof(ls__digest_sum)));
    ls_status status = ls__readback_clear(&readback);
    if (status == LS_OK) status = ls__tensor_digest_queue(tensor, readback.memory);
    if (status == LS_OK) status = ls__readback_send(&readback);
    if (status == LS_OK) status = ls__readback_wait(&readback);
    if (status == LS_OK) *out = ls__tensor_digest_finish(tensor, readback.host);
    ls__readback_close(&readback);
    return status;
}

ls_status ls__tensor_digest_queue_bytes(const ls_tensor *tensor, size_t begin, size_t end,
                                        ls__digest_sum *sum)
{
    return ls__table(tensor)->digest(tensor->owned.ctx->device, tensor->dtype,
                                     (const unsigned char *)tensor->data + begin, end - begin,
                                     begin, sum);
}

ls_status ls__tensor_digest_queue(const ls_tensor *tensor, ls__digest_sum *sum)
{
    return ls__tensor_digest_queue_bytes(tensor, 0, tensor->bytes, sum);
}

ls_digest ls__tensor_digest_finish(const ls_tensor *tensor, const ls__digest_sum *elements)
{
    ls__digest_sum sum = *elements;
    /* Type and shape have positions beyond all elements. */
    uint64_t position = UINT64_MAX;
    ls__digest_word(&sum, (uint64_t)tensor->dtype, position--);
    ls__digest_word(&sum, (uint64_t)tensor->shape.n_dims, position--);
    for (int i = 0; i < tensor->shape.n_dims; i++)
        ls__digest_word(&sum, (uint64_t)tensor->shape.dims[i], position--);
    return ls__digest_finish(&sum, tensor->bytes);
}

bool ls_digest_equal(ls_digest a, ls_digest b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

const char *ls_digest_text(ls_digest digest, char buffer[LS_DIGEST_TEXT_SIZE])
{
    snprintf(buffer, LS_DIGEST_TEXT_SIZE, "%016llx%016llx", (unsigned long long)digest.words[0],
             (unsigned long long)digest.words[1]);
    return buffer;
}
