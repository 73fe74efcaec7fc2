/* api.c: oneDNN 2.x or 3.x behind api.h, whichever the header belongs to. */
#include "cpu/onednn/api.h"

#if DNNL_VERSION_MAJOR >= 3

/* ---- Version 3. ---- */

static const_dnnl_memory_desc_t pointer(const ls__dnn_format *format)
{
    return format->value;
}

dnnl_status_t ls__dnn_format_by_tag(ls__dnn_format *format, int n_dims, const dnnl_dims_t dims,
                                    dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(&format->value, n_dims, dims, type, tag);
}

dnnl_status_t ls__dnn_format_by_strides(ls__dnn_format *format, int n_dims, const dnnl_dims_t dims,
                                        dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(&format->value, n_dims, dims, type, strides);
}

static dnnl_status_t take(ls__dnn_format *format, const_dnnl_memory_desc_t from)
{
    return from ? dnnl_memory_desc_clone(&format->value, from) : dnnl_success;
}

void ls__dnn_format_close(ls__dnn_format *format)
{
    if (format->value) dnnl_memory_desc_destroy(format->value);
    format->value = NULL;
}

static dnnl_status_t first(const ls__dnn_conv_arguments *a, dnnl_engine_t engine,
                           const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint,
                           dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t x = pointer(&a->x), w = pointer(&a->w);
    const_dnnl_memory_desc_t y = pointer(&a->y), b = pointer(&a->b);
    switch (a->kind) {
    case dnnl_backward_data:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, a->algorithm, x, w, y, a->stride, a->dilation, a->padding, a->padding,
            hint, attributes);
    case dnnl_backward_weights:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, a->algorithm, x, w, b, y, a->stride, a->dilation, a->padding, a->padding,
            hint, attributes);
    default:
        return dnnl_convolution_forward_primitive_desc_create(out, engine, a->kind, a->algorithm, x,
                                                              w, b, y, a->stride, a->dilation,
                                                              a->padding, a->padding, attributes);
    }
}

static dnnl_status_t make_hint(const ls__dnn_conv_arguments *a, dnnl_engine_t engine,
                               dnnl_primitive_desc_t *out)
{
    return first(a, engine, NULL, NULL, out);
}

static dnnl_status_t visit_all(const ls__dnn_conv_arguments *a, dnnl_engine_t engine,
                               const_dnnl_primitive_attr_t attributes,
                               const_dnnl_primitive_desc_t hint,
                               bool (*visit)(void *arg, const_dnnl_primitive_desc_t description),
                               void *arg)
{
    dnnl_primitive_desc_t description;
    dnnl_status_t s = first(a, engine, attributes, hint, &description);
    if (s != dnnl_success) return s;
    while (s == dnnl_success && visit(arg, description))
        s = dnnl_primitive_desc_next_impl(description);
    dnnl_primitive_desc_destroy(description);
    return s == dnnl_out_of_memory ? s : dnnl_success;
}

#else

/* ---- Version 2. ---- */

static const dnnl_memory_desc_t *pointer(const ls__dnn_format *format)
{
    return format->value.ndims ? &format->value : NULL;
}

dnnl_status_t ls__dnn_format_by_tag(ls__dnn_format *format, int n_dims, const dnnl_dims_t dims,
                                    dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(&format->value, n_dims, dims, type, tag);
}

dnnl_status_t ls__dnn_format_by_strides(ls__dnn_format *format, int n_dims, const dnnl_dims_t dims,
                                        dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(&format->value, n_dims, dims, type, strides);
}

static dnnl_status_t take(ls__dnn_format *format, const dnnl_memory_desc_t *from)
{
    if (from) format->value = *from;
    return dnnl_success;
}

void ls__dnn_format_close(ls__dnn_format *format)
{
    format->value.ndims = 0;
}

static dnnl_status_t describe(const ls__dnn_conv_arguments *a, dnnl_convolution_desc_t *out)
{
    const dnnl_memory_desc_t *x = pointer(&a->x), *w = pointer(&a->w);
    const dnnl_memory_desc_t *y = pointer(&a->y), *b = pointer(&a->b);
    switch (a->kind) {
    case dnnl_backward_data:
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, a->algorithm, x, w, y, a->stride, a->dilation, a->padding, a->padding);
    case dnnl_backward_weights:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, a->algorithm, x, w, b, y, a->stride, a->dilation, a->padding, a->padding);
    default:
        return dnnl_dilated_convolution_forward_desc_init(
            out, a->kind, a->algorithm, x, w, b, y, a->stride, a->dilation, a->padding, a->padding);
    }
}

static dnnl_status_t make_hint(const ls__dnn_conv_arguments *a, dnnl_engine_t engine,
                               dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t forward;
    const dnnl_status_t s = describe(a, &forward);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &forward, NULL, engine, NULL) : s;
}

static dnnl_status_t visit_all(const ls__dnn_conv_arguments *a, dnnl_engine_t engine,
                               const_dnnl_primitive_attr_t attributes,
                               const_dnnl_primitive_desc_t hint,
                               bool (*visit)(void *arg, const_dnnl_primitive_desc_t description),
                               void *arg)
{
    dnnl_convolution_desc_t op; /* the iterator keeps a pointer to it */
    dnnl_primitive_desc_iterator_t iterator;
    dnnl_status_t s = describe(a, &op);
    if (s == dnnl_success)
        s = dnnl_primitive_desc_iterator_create(&iterator, &op, attributes, engine, hint);
    if (s != dnnl_success) return s;
    bool more = true;
    while (more && s == dnnl_success) {
        dnnl_primitive_desc_t description = dnnl_primitive_desc_iterator_fetch(iterator);
        if (!description) {
            s = dnnl_out_of_memory;
            break;
        }
        more = visit(arg, description);
        if (more) s = dnnl_primitive_desc_iterator_next(iterator);
        dnnl_primitive_desc_destroy(description);
    }
    dnnl_primitive_desc_iterator_destroy(iterator);
    return s == dnnl_out_of_memory ? s : dnnl_success;
}

#endif

/* ---- What both say alike. ---- */

dnnl_status_t ls__dnn_format_copy(ls__dnn_format *format, const ls__dnn_format *from)
{
    return take(format, pointer(from));
}

dnnl_status_t ls__dnn_format_query(ls__dnn_format *format, const_dnnl_primitive_desc_t description,
                                   dnnl_query_t query, int index)
{
    return take(format, dnnl_primitive_desc_query_md(description, query, index));
}

size_t ls__dnn_format_bytes(const ls__dnn_format *format)
{
    return pointer(format) ? dnnl_memory_desc_get_size(pointer(format)) : 0;
}

bool ls__dnn_format_equal(const ls__dnn_format *a, const ls__dnn_format *b)
{
    return dnnl_memory_desc_equal(pointer(a), pointer(b)) != 0;
}

dnnl_status_t ls__dnn_format_memory(const ls__dnn_format *format, dnnl_engine_t engine,
                                    dnnl_memory_t *out)
{
    return dnnl_memory_create(out, pointer(format), engine, DNNL_MEMORY_NONE);
}

dnnl_status_t ls__dnn_format_reorder(const ls__dnn_format *from, const ls__dnn_format *to,
                                     dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                     dnnl_primitive_desc_t *out)
{
    return dnnl_reorder_primitive_desc_create(out, pointer(from), engine, pointer(to), engine,
                                              attributes);
}

dnnl_status_t ls__dnn_visit(const ls__dnn_conv_arguments *arguments, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attributes,
                            bool (*visit)(void *arg, const_dnnl_primitive_desc_t description),
                            void *arg)
{
    dnnl_primitive_desc_t hint = NULL;
    if (arguments->kind != dnnl_forward_training) {
        ls__dnn_conv_arguments forward = *arguments;
        forward.kind = dnnl_forward_training;
        /* a convolution that has a backward kernel only goes without the hint */
        const dnnl_status_t s = make_hint(&forward, engine, &hint);
        if (s == dnnl_out_of_memory) return s;
        if (s != dnnl_success) hint = NULL;
    }
    const dnnl_status_t s = visit_all(arguments, engine, attributes, hint, visit, arg);
    if (hint) dnnl_primitive_desc_destroy(hint);
    return s == dnnl_unimplemented ? dnnl_success : s;
}
