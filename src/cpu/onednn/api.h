/* api.h: what oneDNN 2.x and 3.x say differently, said once for primitive.c. Version 2 describes an
 * op in a struct and walks its implementations by an iterator; version 3 has neither, and its
 * memory formats are objects. api.c is the only file that knows which of the two it is built for.
 */
#ifndef LS_CPU_ONEDNN_API_H
#define LS_CPU_ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* Shape and memory order of a tensor. All zeros: absent. */
typedef struct ls__dnn_format {
    dnnl_memory_desc_t value; /* version 2: a struct; 3: a pointer */
} ls__dnn_format;

/* The format must be absent before; on failure it still is. */
dnnl_status_t ls__dnn_format_by_tag(ls__dnn_format *format, int n_dims, const dnnl_dims_t dims,
                                    dnnl_data_type_t type, dnnl_format_tag_t tag);
dnnl_status_t ls__dnn_format_by_strides(ls__dnn_format *format, int n_dims, const dnnl_dims_t dims,
                                        dnnl_data_type_t type, const dnnl_dims_t strides);
dnnl_status_t ls__dnn_format_copy(ls__dnn_format *format, const ls__dnn_format *from);
/* Of operand `index` of a query; stays absent when the primitive has no such operand. */
dnnl_status_t ls__dnn_format_query(ls__dnn_format *format, const_dnnl_primitive_desc_t description,
                                   dnnl_query_t query, int index);
void ls__dnn_format_close(ls__dnn_format *format); /* absent afterwards */
size_t ls__dnn_format_bytes(const ls__dnn_format *format);
bool ls__dnn_format_equal(const ls__dnn_format *a, const ls__dnn_format *b);
/* Without a pointer to data yet. */
dnnl_status_t ls__dnn_format_memory(const ls__dnn_format *format, dnnl_engine_t engine,
                                    dnnl_memory_t *out);
dnnl_status_t ls__dnn_format_reorder(const ls__dnn_format *from, const ls__dnn_format *to,
                                     dnnl_engine_t engine, const_dnnl_primitive_attr_t attributes,
                                     dnnl_primitive_desc_t *out);

/* A convolution's arguments in oneDNN's words. Backward: x is diff_src, and so on. */
typedef struct ls__dnn_conv_arguments {
    dnnl_prop_kind_t kind; /* forward_training, backward_data, backward_weights */
    dnnl_alg_kind_t algorithm;
    ls__dnn_format x, w, y, b; /* b may be absent */
    dnnl_dims_t stride, padding, dilation;
} ls__dnn_conv_arguments;

/* Calls `visit` with each implementation that can run the convolution, best first, until it returns
 * false. Success, too, where there is none; dnnl_out_of_memory where some may be missing. */
dnnl_status_t ls__dnn_visit(const ls__dnn_conv_arguments *arguments, dnnl_engine_t engine,
                            const_dnnl_primitive_attr_t attributes,
                            bool (*visit)(void *arg, const_dnnl_primitive_desc_t description),
                            void *arg);

#endif
