/* shape.c: data types and shapes. */
#include <lockstep/tensor.h>

#include "base/text.h"
#include <inttypes.h>

static bool dtype_is_valid(ls_dtype dtype)
{
    return (unsigned)dtype < LS_N_DTYPES;
}

const char *ls_dtype_name(ls_dtype dtype)
{
    static const char *const names[LS_N_DTYPES] = {
#define DTYPE_NAME(name, text, bytes) text,
        LS_DTYPE_LIST(DTYPE_NAME)
#undef DTYPE_NAME
    };
    return dtype_is_valid(dtype) ? names[dtype] : "no type";
}

size_t ls_dtype_bytes(ls_dtype dtype)
{
    static const size_t sizes[LS_N_DTYPES] = {
#define DTYPE_BYTES(name, text, bytes) bytes,
        LS_DTYPE_LIST(DTYPE_BYTES)
#undef DTYPE_BYTES
    };
    return dtype_is_valid(dtype) ? sizes[dtype] : 0;
}

int64_t ls_shape_element_count(const ls_shape *shape)
{
    if (!shape || shape->n_dims < 0 || shape->n_dims > LS_MAX_DIMS) return -1;
    int64_t count = 1;
    bool empty = false;
    for (int i = 0; i < shape->n_dims; i++) {
        const int64_t n = shape->dims[i];
        if (n < 0) return -1;
        if (n == 0) {
            empty = true; /* the other dimensions are still checked */
        } else if (count > INT64_MAX / n) {
            return -1;
        } else {
            count *= n;
        }
    }
    return empty ? 0 : count;
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b)
{
    if (!a || !b || a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims && i < LS_MAX_DIMS; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

const char *ls_shape_text(const ls_shape *shape, char *buffer, size_t size)
{
    ls__text text = { buffer, size, 0 };
    if (!buffer || size == 0) return buffer;
    ls__text_put(&text, "[");
    for (int i = 0; shape && i < shape->n_dims && i < LS_MAX_DIMS; i++)
        ls__text_put(&text, "%s%" PRId64, i ? "," : "", shape->dims[i]);
    ls__text_put(&text, "]");
    return buffer;
}
