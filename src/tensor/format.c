/* format.c: a tensor as text, the middle of long dimensions left out. */
#include "base/error.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { EDGE = 3 }; /* elements at each end of a dimension; up to twice that all are shown */

/* snprintf, piece by piece. */
typedef struct writer {
    char *buffer;
    size_t size;
    size_t length; /* of the whole text, also where it was cut */
} writer;

static void put(writer *w, const char *format, ...) LS_PRINTF(2, 3);
static void put(writer *w, const char *format, ...)
{
    const bool fits = w->length < w->size;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(fits ? w->buffer + w->length : NULL, fits ? w->size - w->length : 0,
                            format, args);
    va_end(args);
    if (n > 0) w->length += (size_t)n;
}

/* Between two parts along dimension dim: the innermost stay on one line. */
static void put_separator(writer *w, const ls_shape *shape, int dim)
{
    if (dim == shape->n_dims - 1) {
        put(w, ", ");
    } else {
        put(w, ",\n%*s", dim + 1, "");
    }
}

static ls_status put_element(writer *w, const ls_tensor *tensor, int64_t index)
{
    const size_t bytes = ls_dtype_bytes(tensor->dtype);
    const char *at = (const char *)tensor->data + (size_t)index * bytes;
    int64_t element = 0;
    LS_TRY(ls__table(tensor)->read(tensor->owned.ctx->device, &element, at, bytes));
    if (tensor->dtype == LS_I64) {
        put(w, "%" PRId64, element);
    } else {
        put(w, "%.6g", ls__element_value(tensor->dtype, &element));
    }
    return LS_OK;
}

/* The part of the tensor that begins at element `first`, from dimension `dim` inwards. */
static ls_status put_part(writer *w, const ls_tensor *tensor, int dim, int64_t first)
{
    const ls_shape *shape = &tensor->shape;
    if (dim == shape->n_dims) return put_element(w, tensor, first);

    int64_t stride = 1;
    for (int i = dim + 1; i < shape->n_dims; i++) stride *= shape->dims[i];
    const int64_t n = shape->dims[dim];
    put(w, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) put_separator(w, shape, dim);
        if (n > 2 * EDGE && i == EDGE) {
            put(w, "...");
            put_separator(w, shape, dim);
            i = n - EDGE;
        }
        LS_TRY(put_part(w, tensor, dim + 1, first + i * stride));
    }
    put(w, "]");
    return LS_OK;
}

int ls_tensor_format(const ls_tensor *tensor, char *buffer, size_t size)
{
    if (buffer && size > 0) *buffer = '\0';
    if (!tensor || ls__has_error(tensor->owned.ctx)) return -1;
    writer w = { buffer, buffer ? size : 0, 0 };
    char text[LS_SHAPE_TEXT_SIZE];
    put(&w, "%s %s\n", ls_dtype_name(tensor->dtype),
        ls_shape_text(&tensor->shape, text, sizeof(text)));
    if (put_part(&w, tensor, 0, 0) != LS_OK) return -1;
    return (int)w.length;
}
