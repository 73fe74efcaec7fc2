/* api.c: see api.h. */
#include "cpu/onednn/api.h"

#if DNNL_VERSION_MAJOR >= 3

const_dnnl_memory_desc_t ls__dnn_format(const dnnl_memory_desc_t *format)
{
    return *format;
}

static dnnl_status_t copy_format(const_dnnl_memory_desc_t from, dnnl_memory_desc_t *format)
{
    return from ? dnnl_memory_desc_clone(format, from) : dnnl_success;
}

void ls__dnn_format_close(dnnl_memory_desc_t *format)
{
    if (*format) dnnl_memory_desc_destroy(*format);
    *format = NULL;
}

static dnnl_status_t first(const ls__dnn_conv_arguments *a, dnnl_engine_t engine,
                           const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint,
                           dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t x = ls__dnn_format(&a->x), w = ls__dnn_format(&a->w);
    const_dnnl_memory_desc_t y = ls__dnn_format(&a->y), b = ls__dnn_format(&a->b);
    switch (a->kind) {
    case dnnl_backward_data:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, dnnl_convolution_direct, x, w, y, a->stride, a->dilation, a->padding,
            a->padding, hint, attributes);
    case dnnl_backward_weights:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, dnnl_convolution_direct, x, w, b, y, a->stride, a->dilation, a->padding,
            a->padding, hint, attributes);
    default:
        return dnnl_convolution_forward_primitive_desc_create(
            out, engine, a->kind, dnnl_convolution_direct, x, w, b, y, a->stride, a->dilation,
            a->padding, a->padding, attributes);
    }
}

#else

const_dnnl_memory_desc_t ls__dnn_format(const dnnl_memory_desc_t *format)
{
    return format->ndims ? format : NULL;
}

static dnnl_status_t copy_format(const_dnnl_memory_desc_t from, dnnl_memory_desc_t *format)
{
    if (from) *format = *from;
    return dnnl_success;
}

void ls__dnn_format_close(dnnl_memory_desc_t *format)
{
    format->ndims = 0;
}

static dnnl_status_t describe_conv(const ls__dnn_conv_arguments *a, dnnl_convolution_desc_t *out)
{
    const_dnnl_memory_desc_t x = ls__dnn_format(&a->x), w = ls__dnn_format(&a->w);
    const_dnnl_memory_desc_t y = ls__dnn_format(&a->y), b = ls__dnn_format(&a->b);
    switch (a->kind) {
    case dnnl_backward_data:
        return dnnl_dilated_convolution_backward_data_desc_init(
            out, dnnl_convolution_direct, x, w, y, a->stride, a->dilation, a->padding, a->padding);
    case dnnl_backward_weights:
        return dnnl_dilated_convolution_backward_weights_desc_init(out, dnnl_convolution_direct, x,
                                                                   w, b, y, a->stride, a->dilation,
                                                                   a->padding, a->padding);
    default:
        return dnnl_dilated_convolution_forward_desc_init(out, a->kind, dnnl_convolution_direct, x,
                                                          w, b, y, a->stride, a->dilation,
                                                          a->padding, a->padding);
    }
}

static dnnl_status_t first(const ls__dnn_conv_arguments *a, dnnl_engine_t engine,
                           const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint,
                           dnnl_primitive_desc_t *out)
{
    dnnl_convolution_desc_t op;
    const dnnl_status_t s = describe_conv(a, &op);
    return s == dnnl_success ? dnnl_primitive_desc_create(out, &op, attributes, engine, hint) : s;
}

#endif

dnnl_status_t ls__dnn_format_query(dnnl_memory_desc_t *format,
                                   const_dnnl_primitive_desc_t description, dnnl_query_t query,
                                   int index)
{
    return copy_format(dnnl_primitive_desc_query_md(description, query, index), format);
}

dnnl_status_t ls__dnn_describe(const ls__dnn_conv_arguments *arguments, dnnl_engine_t engine,
                               const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out)
{
    dnnl_primitive_desc_t hint = NULL;
    if (arguments->kind != dnnl_forward_training) {
        ls__dnn_conv_arguments forward = *arguments;
        forward.kind = dnnl_forward_training;
        /* a convolution that has only a backward kernel does without the hint */
        const dnnl_status_t s = first(&forward, engine, NULL, NULL, &hint);
        if (s == dnnl_out_of_memory) return s;
        if (s != dnnl_success) hint = NULL;
    }
    const dnnl_status_t s = first(arguments, engine, attributes, hint, out);
    if (hint) dnnl_primitive_desc_destroy(hint);
    return s;
}
