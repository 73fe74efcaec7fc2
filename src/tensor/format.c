/* format.c: a tensor as text; the middle of long dimensions is omitted. */
#include "base/error.h"
#include "base/floats.h"
#include "base/text.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { EDGE = 3 }; /* elements shown at each end of a dimension with more than twice as many */

static ls_status put_element(ls__text *w, const ls_tensor *tensor, int64_t index)
{
    const size_t bytes = ls_dtype_bytes(tensor->dtype);
    const char *at = (const char *)tensor->data + (size_t)index * bytes;
    int64_t element = 0;
    LS_TRY(ls__table(tensor)->read(tensor->owned.ctx->device, &element, at, bytes));
    if (tensor->dtype == LS_I64)
        ls__text_put(w, "%" PRId64, element);
    else
        ls__text_put(w, "%.6g", ls__element_value(tensor->dtype, &element));
    return LS_OK;
}

/* The block of the tensor that begins at element `first`, from dimension `dim` inwards. */
static ls_status put_block(ls__text *w, const ls_tensor *tensor, int dim, int64_t first)
{
    const ls_shape *shape = &tensor->shape;
    if (dim == shape->n_dims) return put_element(w, tensor, first);

    int64_t stride = 1;
    for (int i = dim + 1; i < shape->n_dims; i++) stride *= shape->dims[i];
    const int64_t n = shape->dims[dim];
    char separator[LS_MAX_DIMS + 4] = ", "; /* the innermost dimension is on one line */
    if (dim < shape->n_dims - 1) snprintf(separator, sizeof(separator), ",\n%*s", dim + 1, "");
    ls__text_put(w, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) ls__text_put(w, "%s", separator);
        if (n > 2 * EDGE && i == EDGE) {
            ls__text_put(w, "...%s", separator);
            i = n - EDGE;
        }
        LS_TRY(put_block(w, tensor, dim + 1, first + i * stride));
    }
    ls__text_put(w, "]");
    return LS_OK;
}

int ls_tensor_format(const ls_tensor *tensor, char *buffer, size_t size)
{
    LS__DEFAULT_FLOATS;
    if (buffer && size > 0) *buffer = '\0';
    if (!tensor || ls__has_error(tensor->owned.ctx)) return -1;
    ls__text w = { buffer, buffer ? size : 0, 0 };
    char text[LS_SHAPE_TEXT_SIZE];
    ls__text_put(&w, "%s %s\n", ls_dtype_name(tensor->dtype),
                 ls_shape_text(&tensor->shape, text, sizeof(text)));
    if (put_block(&w, tensor, 0, 0) != LS_OK) return -1;
    return (int)w.length;
}
