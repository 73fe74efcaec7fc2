/* api.h: the calls that differ between oneDNN 2.x and 3.x. Version 2 describes an op in a struct;
 * version 3 does not, and its memory formats are objects. Only api.c depends on the version of the
 * header. */
#ifndef LS_CPU_ONEDNN_API_H
#define LS_CPU_ONEDNN_API_H

#include <oneapi/dnnl/dnnl.h>

#if DNNL_VERSION_MAJOR < 3
/* Version 3's names. */
#define dnnl_memory_desc_create_with_tag     dnnl_memory_desc_init_by_tag
#define dnnl_memory_desc_create_with_strides dnnl_memory_desc_init_by_strides
typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;
#endif

/* A dnnl_memory_desc_t is the shape and memory order of a tensor: in version 2 a struct, in version
 * 3 a pointer. All zeros: absent. Returns it as oneDNN's functions take it; NULL if absent. */
const_dnnl_memory_desc_t ls__dnn_format(const dnnl_memory_desc_t *format);
/* Returns the format of operand `index` of a query; it stays absent if the primitive has no such
 * operand. */
dnnl_status_t ls__dnn_format_query(dnnl_memory_desc_t *format,
                                   const_dnnl_primitive_desc_t description, dnnl_query_t query,
                                   int index);
void ls__dnn_format_close(dnnl_memory_desc_t *format); /* absent afterwards */

/* A convolution's arguments in oneDNN's terms. Backward: x is diff_src, and so on. */
typedef struct ls__dnn_conv_arguments {
    dnnl_prop_kind_t kind;         /* forward_training, backward_data, backward_weights */
    dnnl_memory_desc_t x, w, y, b; /* b may be absent */
    dnnl_dims_t stride, padding, dilation;
} ls__dnn_conv_arguments;

/* Makes the description of oneDNN's first implementation that can run the convolution.
 * dnnl_unimplemented if there is none. */
dnnl_status_t ls__dnn_describe(const ls__dnn_conv_arguments *arguments, dnnl_engine_t engine,
                               const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out);

#endif
