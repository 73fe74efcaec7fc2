/* primitive.c: see primitive.h. */
#include "cpu/onednn/primitive.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/signals.h"
#include "cpu/onednn/api.h"
#include <stdio.h>
#include <string.h>

struct ls__dnn {
    ls_context *ctx;
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attributes; /* of all primitives: scratch memory comes from us */
    int n_threads;
    dnnl_stream_t *streams; /* one per thread */
};

struct ls__dnn_primitive {
    ls__dnn *dnn;
    dnnl_primitive_t primitive;
    ls__dnn_conv conv; /* of a reorder all zeros: a forward op from x to y */
    dnnl_memory_desc_t formats[LS__DNN_N_ARGUMENTS];
};

static ls_status dnn_fail(ls_context *ctx, const char *what, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        return ls__fail(ctx, LS_ERR_MEMORY, "oneDNN: %s: out of memory", what);
    return ls__fail(ctx, LS_ERR_DEVICE, "oneDNN: %s: status %d", what, (int)status);
}

void ls__dnn_close(ls__dnn **dnn)
{
    ls__dnn *d = *dnn;
    *dnn = NULL;
    if (!d) return;
    for (int i = 0; d->streams && i < d->n_threads; i++)
        if (d->streams[i]) dnnl_stream_destroy(d->streams[i]);
    if (d->attributes) dnnl_primitive_attr_destroy(d->attributes);
    if (d->engine) dnnl_engine_destroy(d->engine);
    ls__free(d->ctx, d->streams);
    ls__free(d->ctx, d);
}

ls_status ls__dnn_open(ls_context *ctx, int n_threads, ls__dnn **out)
{
    *out = NULL;
    ls_status status = LS_OK;
    const size_t list_bytes = (size_t)n_threads * sizeof(dnnl_stream_t);
    ls__dnn *d = ls__zalloc(ctx, sizeof *d);
    if (!d) return ls__fail_memory(ctx, "oneDNN", sizeof *d);
    d->ctx = ctx;
    d->n_threads = n_threads;
    d->streams = ls__zalloc(ctx, list_bytes);
    if (!d->streams) {
        status = ls__fail_memory(ctx, "oneDNN", list_bytes);
        goto fail;
    }
    dnnl_status_t s = dnnl_engine_create(&d->engine, dnnl_cpu, 0);
    if (s == dnnl_success) s = dnnl_primitive_attr_create(&d->attributes);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(d->attributes, dnnl_scratchpad_mode_user);
    for (int i = 0; i < n_threads && s == dnnl_success; i++)
        s = dnnl_stream_create(&d->streams[i], d->engine, dnnl_stream_default_flags);
    if (s != dnnl_success) {
        status = dnn_fail(ctx, "engine", s);
        goto fail;
    }
    *out = d;
    return LS_OK;
fail:
    ls__dnn_close(&d);
    return status;
}

static dnnl_data_type_t dnn_data_type(const ls__dnn_conv *c, ls__dnn_argument argument)
{
    const bool weights = argument == LS__DNN_W || argument == LS__DNN_B;
    return weights && c->direction == LS__DNN_WEIGHTS ? dnnl_f32 : dnnl_bf16;
}

size_t ls__dnn_element_bytes(const ls__dnn_conv *conv, ls__dnn_argument argument)
{
    return dnn_data_type(conv, argument) == dnnl_bf16 ? sizeof(uint16_t) : sizeof(float);
}

static dnnl_status_t activation_format(int64_t n, int64_t channels, const int64_t *size,
                                       dnnl_memory_desc_t *out)
{
    const dnnl_dims_t dims = { n, channels, size[0], size[1] };
    return dnnl_memory_desc_create_with_tag(out, 4, dims, dnnl_bf16, dnnl_nhwc);
}

/* [O,I,kh,kw], with groups [G,O/G,I/G,kh,kw]; dense in memory order O,kh,kw,I with row_channels
 * input channels in a row, or, if that is 0, in any format. */
static dnnl_status_t weight_format(const ls__dnn_conv *c, int64_t row_channels,
                                   dnnl_memory_desc_t *out)
{
    const int64_t o = c->y_channels / c->groups, i = c->x_channels / c->groups;
    const int64_t kh = c->kernel[0], kw = c->kernel[1], row = kh * kw * row_channels;
    const dnnl_dims_t dims = { c->groups, o, i, kh, kw };
    const dnnl_dims_t strides = { o * row, row, 1, kw * row_channels, row_channels };
    const int first = c->groups == 1;
    const dnnl_data_type_t type = dnn_data_type(c, LS__DNN_W);
    if (row_channels > 0)
        return dnnl_memory_desc_create_with_strides(out, 5 - first, dims + first, type,
                                                    strides + first);
    return dnnl_memory_desc_create_with_tag(out, 5 - first, dims + first, type,
                                            dnnl_format_tag_any);
}

static void arguments_close(ls__dnn_conv_arguments *a)
{
    ls__dnn_format_close(&a->x);
    ls__dnn_format_close(&a->w);
    ls__dnn_format_close(&a->y);
    ls__dnn_format_close(&a->b);
}

static dnnl_status_t arguments_open(const ls__dnn_conv *c, ls__dnn_conv_arguments *out)
{
    static const dnnl_prop_kind_t kinds[] = { [LS__DNN_FORWARD] = dnnl_forward_training,
                                              [LS__DNN_DATA] = dnnl_backward_data,
                                              [LS__DNN_WEIGHTS] = dnnl_backward_weights };
    *out = (ls__dnn_conv_arguments){
        .kind = kinds[c->direction],
        .stride = { c->stride[0], c->stride[1] },
        .padding = { c->padding[0], c->padding[1] },
        .dilation = { c->dilation[0] - 1, c->dilation[1] - 1 }, /* 0: none */
    };
    const dnnl_dims_t b_dims = { c->y_channels };
    dnnl_status_t s = activation_format(c->n, c->x_channels, c->x_size, &out->x);
    if (s == dnnl_success) s = activation_format(c->n, c->y_channels, c->y_size, &out->y);
    if (s == dnnl_success) s = weight_format(c, 0, &out->w);
    if (s == dnnl_success && c->bias)
        s = dnnl_memory_desc_create_with_tag(&out->b, 1, b_dims, dnn_data_type(c, LS__DNN_B),
                                             dnnl_a);
    if (s != dnnl_success) arguments_close(out);
    return s;
}

static dnnl_status_t describe(const ls__dnn *dnn, const ls__dnn_conv *conv,
                              dnnl_primitive_desc_t *out)
{
    ls__dnn_conv_arguments arguments;
    dnnl_status_t s = arguments_open(conv, &arguments);
    if (s != dnnl_success) return s;
    s = ls__dnn_describe(&arguments, dnn->engine, dnn->attributes, out);
    arguments_close(&arguments);
    return s;
}

/* Copies the name; an empty one for oneDNN's reference, which is slower than ours. */
static void copy_name(const_dnnl_primitive_desc_t description, char name[LS__DNN_NAME_SIZE])
{
    const char *text = NULL;
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &text);
    const bool is_useful = text && strncmp(text, "ref", 3) != 0 && strlen(text) < LS__DNN_NAME_SIZE;
    snprintf(name, LS__DNN_NAME_SIZE, "%s", is_useful ? text : "");
}

ls_status ls__dnn_conv_name(ls__dnn *dnn, const ls__dnn_conv *conv, char name[LS__DNN_NAME_SIZE])
{
    dnnl_primitive_desc_t description;
    const dnnl_status_t s = describe(dnn, conv, &description);
    name[0] = '\0';
    if (s == dnnl_out_of_memory) return dnn_fail(dnn->ctx, "name of a kernel", s);
    if (s != dnnl_success) return LS_OK;
    copy_name(description, name);
    dnnl_primitive_desc_destroy(description);
    return LS_OK;
}

/* How oneDNN names the operands of each direction. The bias is the second of its query. */
static const struct {
    dnnl_query_t query;
    int argument;
} operands[LS__DNN_N_DIRECTIONS][LS__DNN_N_ARGUMENTS] = {
    [LS__DNN_FORWARD] = { { dnnl_query_src_md, DNNL_ARG_SRC },
                          { dnnl_query_weights_md, DNNL_ARG_WEIGHTS },
                          { dnnl_query_dst_md, DNNL_ARG_DST },
                          { dnnl_query_weights_md, DNNL_ARG_BIAS },
                          { dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD } },
    [LS__DNN_DATA] = { { dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC },
                       { dnnl_query_weights_md, DNNL_ARG_WEIGHTS },
                       { dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST },
                       { dnnl_query_weights_md, DNNL_ARG_BIAS },
                       { dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD } },
    [LS__DNN_WEIGHTS] = { { dnnl_query_src_md, DNNL_ARG_SRC },
                          { dnnl_query_diff_weights_md, DNNL_ARG_DIFF_WEIGHTS },
                          { dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST },
                          { dnnl_query_diff_weights_md, DNNL_ARG_DIFF_BIAS },
                          { dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD } },
};

static dnnl_status_t create(const_dnnl_primitive_desc_t description, ls__dnn_primitive *p)
{
    dnnl_status_t s = dnnl_success;
    for (int i = 0; i < LS__DNN_N_ARGUMENTS && s == dnnl_success; i++)
        s = ls__dnn_format_query(&p->formats[i], description, operands[p->conv.direction][i].query,
                                 i == LS__DNN_B);
    return s == dnnl_success ? dnnl_primitive_create(&p->primitive, description) : s;
}

static ls_status primitive_alloc(ls__dnn *dnn, ls__dnn_primitive **out)
{
    *out = ls__zalloc(dnn->ctx, sizeof **out);
    if (!*out) return ls__fail_memory(dnn->ctx, "oneDNN: primitive", sizeof **out);
    (*out)->dnn = dnn;
    return LS_OK;
}

ls_status ls__dnn_conv_open(ls__dnn *dnn, const ls__dnn_conv *conv, const char *name,
                            ls__dnn_primitive **out)
{
    dnnl_primitive_desc_t description;
    char found[LS__DNN_NAME_SIZE] = "";
    LS_TRY(primitive_alloc(dnn, out));
    (*out)->conv = *conv;
    dnnl_status_t s = describe(dnn, conv, &description);
    if (s == dnnl_success) {
        copy_name(description, found);
        if (found[0] && strcmp(found, name) == 0) s = create(description, *out);
        dnnl_primitive_desc_destroy(description);
    }
    if (s == dnnl_success && (*out)->primitive) return LS_OK;
    ls__dnn_primitive_close(out);
    if (s != dnnl_success && s != dnnl_unimplemented) return dnn_fail(dnn->ctx, name, s);
    return ls__fail(dnn->ctx, LS_ERR_NOT_FOUND,
                    "oneDNN: no kernel '%s' for this convolution; it prefers '%s'", name, found);
}

ls_status ls__dnn_reorder_open(const ls__dnn_primitive *conv, int64_t row_channels,
                               ls__dnn_primitive **out)
{
    ls__dnn *dnn = conv->dnn;
    const_dnnl_memory_desc_t packed = ls__dnn_format(&conv->formats[LS__DNN_W]);
    const bool unpack = conv->conv.direction == LS__DNN_WEIGHTS;
    dnnl_memory_desc_t format = { 0 };
    dnnl_primitive_desc_t description;
    LS_TRY(primitive_alloc(dnn, out));
    dnnl_status_t s = weight_format(&conv->conv, row_channels, &format);
    if (s == dnnl_success) {
        const_dnnl_memory_desc_t dense = ls__dnn_format(&format);
        s = dnnl_reorder_primitive_desc_create(&description, unpack ? packed : dense, dnn->engine,
                                               unpack ? dense : packed, dnn->engine,
                                               dnn->attributes);
    }
    ls__dnn_format_close(&format);
    if (s == dnnl_success) {
        s = create(description, *out);
        dnnl_primitive_desc_destroy(description);
    }
    if (s == dnnl_success) return LS_OK;
    ls__dnn_primitive_close(out);
    return dnn_fail(dnn->ctx, "reorder of weights", s);
}

void ls__dnn_primitive_close(ls__dnn_primitive **primitive)
{
    ls__dnn_primitive *p = *primitive;
    *primitive = NULL;
    if (!p) return;
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    for (int i = 0; i < LS__DNN_N_ARGUMENTS; i++) ls__dnn_format_close(&p->formats[i]);
    ls__free(p->dnn->ctx, p);
}

size_t ls__dnn_bytes(const ls__dnn_primitive *primitive, ls__dnn_argument argument)
{
    const_dnnl_memory_desc_t format = ls__dnn_format(&primitive->formats[argument]);
    return format ? dnnl_memory_desc_get_size(format) : 0;
}

bool ls__dnn_same_weights(const ls__dnn_primitive *a, const ls__dnn_primitive *b)
{
    return dnnl_memory_desc_equal(ls__dnn_format(&a->formats[LS__DNN_W]),
                                  ls__dnn_format(&b->formats[LS__DNN_W])) != 0;
}

ls_status ls__dnn_memory_open(const ls__dnn_primitive *primitive, ls__dnn_argument argument,
                              ls__dnn_memory **out)
{
    *out = NULL;
    if (ls__dnn_bytes(primitive, argument) == 0) return LS_OK;
    const dnnl_status_t s = dnnl_memory_create(out, ls__dnn_format(&primitive->formats[argument]),
                                               primitive->dnn->engine, DNNL_MEMORY_NONE);
    if (s == dnnl_success) return LS_OK;
    *out = NULL;
    return dnn_fail(primitive->dnn->ctx, "memory object", s);
}

void ls__dnn_memory_set(ls__dnn_memory *memory, const void *pointer)
{
    if (memory) dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)pointer);
}

void ls__dnn_memory_close(ls__dnn_memory *memory)
{
    if (memory) dnnl_memory_destroy(memory);
}

bool ls__dnn_run(const ls__dnn_primitive *primitive, int thread,
                 ls__dnn_memory *const memories[LS__DNN_N_ARGUMENTS])
{
    dnnl_exec_arg_t arguments[LS__DNN_N_ARGUMENTS];
    int n = 0;
    for (int i = 0; i < LS__DNN_N_ARGUMENTS; i++)
        if (memories[i])
            arguments[n++] =
                (dnnl_exec_arg_t){ operands[primitive->conv.direction][i].argument, memories[i] };
    /* Kernels for matrix products keep data below the stack pointer, where a handler would write.
     */
    sigset_t before;
    ls__block_signals(&before);
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive->primitive, primitive->dnn->streams[thread], n, arguments);
    ls__restore_signals(&before);
    return status == dnnl_success;
}
