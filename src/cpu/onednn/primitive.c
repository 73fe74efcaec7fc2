/* primitive.c: oneDNN 2.x behind primitive.h. */
#include "cpu/onednn/primitive.h"
#include "base/alloc.h"
#include "base/error.h"
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

struct ls__dnn {
    ls_context *ctx;
    dnnl_engine_t engine;
    int n_threads;
    dnnl_stream_t *streams; /* one per thread */
};

struct ls__dnn_primitive {
    ls__dnn *dnn;
    dnnl_primitive_t primitive;
    ls__dnn_conv conv; /* of a convolution */
    int dnnl_arguments[LS__DNN_N_ARGUMENTS];
    dnnl_memory_desc_t formats[LS__DNN_N_ARGUMENTS]; /* ndims 0: absent */
};

static ls_status fail(ls_context *ctx, const char *what, dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        return ls__fail(ctx, LS_ERR_MEMORY, "oneDNN: %s: out of memory", what);
    return ls__fail(ctx, LS_ERR_DEVICE, "oneDNN: %s: status %d", what, (int)status);
}

int ls__dnn_one_thread(void)
{
    const int before = omp_get_max_threads();
    if (before != 1) omp_set_num_threads(1);
    return before;
}

void ls__dnn_restore_threads(int n_threads)
{
    if (n_threads != 1) omp_set_num_threads(n_threads);
}

bool ls__dnn_use_threads(int n_threads)
{
    if (omp_in_parallel() || omp_get_dynamic() || omp_get_thread_limit() < n_threads) return false;
    omp_set_num_threads(n_threads);
    return true;
}

void ls__dnn_version(char *text, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, size, "%d.%d.%d", v->major, v->minor, v->patch);
}

void ls__dnn_isa(char *text, size_t size)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = { { dnnl_cpu_isa_sse41, "SSE4.1" },
                  { dnnl_cpu_isa_avx, "AVX" },
                  { dnnl_cpu_isa_avx2, "AVX2" },
                  { dnnl_cpu_isa_avx2_vnni, "AVX2 VNNI" },
                  { dnnl_cpu_isa_avx512_core, "AVX-512" },
                  { dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI" },
                  { dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16" },
                  { dnnl_cpu_isa_avx512_core_amx, "AVX-512 AMX" } };
    const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    snprintf(text, size, "ISA 0x%x", (unsigned)isa);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].isa == isa) snprintf(text, size, "%s", names[i].name);
}

void ls__dnn_close(ls__dnn **dnn)
{
    ls__dnn *d = *dnn;
    *dnn = NULL;
    if (!d) return;
    if (d->streams)
        for (int i = 0; i < d->n_threads; i++)
            if (d->streams[i]) dnnl_stream_destroy(d->streams[i]);
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
    for (int i = 0; i < n_threads && s == dnnl_success; i++)
        s = dnnl_stream_create(&d->streams[i], d->engine, dnnl_stream_default_flags);
    if (s != dnnl_success) {
        status = fail(ctx, "engine", s);
        goto fail;
    }
    *out = d;
    return LS_OK;
fail:
    ls__dnn_close(&d);
    return status;
}

/* ---- Descriptions. ---- */

static dnnl_status_t activation_format(int64_t n, int64_t channels, const int64_t *size,
                                       ls__dnn_layout layout, dnnl_memory_desc_t *out)
{
    static const dnnl_format_tag_t tags[] = { [LS__DNN_NHWC] = dnnl_nhwc,
                                              [LS__DNN_NCHW] = dnnl_nchw,
                                              [LS__DNN_NCHW8] = dnnl_nChw8c,
                                              [LS__DNN_NCHW16] = dnnl_nChw16c };
    const dnnl_dims_t dims = { n, channels, size[0], size[1] };
    return dnnl_memory_desc_init_by_tag(out, 4, dims, dnnl_f32, tags[layout]);
}

/* [O,I,kh,kw], with groups [G,O/G,I/G,kh,kw]; dense in memory order O,kh,kw,I, or any format. */
static dnnl_status_t weight_format(const ls__dnn_conv *c, bool dense, int64_t row_channels,
                                   dnnl_memory_desc_t *out)
{
    const int64_t o = c->y_channels / c->groups, i = c->x_channels / c->groups;
    const int64_t kh = c->kernel[0], kw = c->kernel[1], row = kh * kw * row_channels;
    const dnnl_dims_t dims = { c->groups, o, i, kh, kw };
    const dnnl_dims_t strides = { o * row, row, 1, kw * row_channels, row_channels };
    const int first = c->groups == 1;
    if (dense)
        return dnnl_memory_desc_init_by_strides(out, 5 - first, dims + first, dnnl_f32,
                                                strides + first);
    return dnnl_memory_desc_init_by_tag(out, 5 - first, dims + first, dnnl_f32,
                                        dnnl_format_tag_any);
}

static dnnl_status_t describe(const ls__dnn_conv *c, ls__dnn_direction direction,
                              dnnl_convolution_desc_t *out)
{
    dnnl_memory_desc_t x, w, y, b;
    const dnnl_dims_t b_dims = { c->y_channels };
    const dnnl_dims_t stride = { c->stride[0], c->stride[1] };
    const dnnl_dims_t padding = { c->padding[0], c->padding[1] };
    const dnnl_dims_t dilation = { c->dilation[0] - 1, c->dilation[1] - 1 }; /* 0: none */
    dnnl_status_t s = activation_format(c->n, c->x_channels, c->x_size, c->x_layout, &x);
    if (s == dnnl_success) s = activation_format(c->n, c->y_channels, c->y_size, c->y_layout, &y);
    if (s == dnnl_success) s = weight_format(c, false, 0, &w);
    if (s == dnnl_success) s = dnnl_memory_desc_init_by_tag(&b, 1, b_dims, dnnl_f32, dnnl_a);
    if (s != dnnl_success) return s;
    const dnnl_alg_kind_t algorithm =
        c->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    const dnnl_memory_desc_t *bias = c->bias ? &b : NULL;
    switch (direction) {
    case LS__DNN_FORWARD:
        return dnnl_dilated_convolution_forward_desc_init(out, dnnl_forward_training, algorithm, &x,
                                                          &w, bias, &y, stride, dilation, padding,
                                                          padding);
    case LS__DNN_DATA:
        return dnnl_dilated_convolution_backward_data_desc_init(out, algorithm, &x, &w, &y, stride,
                                                                dilation, padding, padding);
    default:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, algorithm, &x, &w, bias, &y, stride, dilation, padding, padding);
    }
}

/* ---- The list of implementations. ---- */

/* Goes through the implementations of a convolution. */
typedef struct walk {
    dnnl_convolution_desc_t description; /* the iterator keeps a pointer to it */
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t forward; /* backward's hint */
    dnnl_primitive_desc_iterator_t iterator;
} walk;

static void walk_end(walk *w)
{
    if (w->iterator) dnnl_primitive_desc_iterator_destroy(w->iterator);
    if (w->forward) dnnl_primitive_desc_destroy(w->forward);
    if (w->attributes) dnnl_primitive_attr_destroy(w->attributes);
}

static dnnl_status_t walk_begin(const ls__dnn *dnn, const ls__dnn_conv *conv, walk *w)
{
    *w = (walk){ 0 };
    dnnl_convolution_desc_t forward;
    dnnl_status_t s = dnnl_primitive_attr_create(&w->attributes);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(w->attributes, dnnl_scratchpad_mode_user);
    if (s == dnnl_success && conv->direction != LS__DNN_FORWARD) {
        s = describe(conv, LS__DNN_FORWARD, &forward);
        /* a convolution that has a backward kernel only goes without the hint */
        if (s == dnnl_success && dnnl_primitive_desc_create(&w->forward, &forward, NULL,
                                                            dnn->engine, NULL) != dnnl_success)
            w->forward = NULL;
    }
    if (s == dnnl_success) s = describe(conv, conv->direction, &w->description);
    if (s == dnnl_success)
        s = dnnl_primitive_desc_iterator_create(&w->iterator, &w->description, w->attributes,
                                                dnn->engine, w->forward);
    if (s != dnnl_success) walk_end(w);
    return s;
}

static const char *name_of(const_dnnl_primitive_desc_t description)
{
    const char *name = NULL;
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "";
}

/* oneDNN's reference is slower than ours; its SSE kernels are listed beside the better ones. */
static bool is_wanted(const char *name, int n_found)
{
    if (strncmp(name, "ref", 3) == 0 || strlen(name) >= LS__DNN_NAME_SIZE) return false;
    return n_found == 0 || !strstr(name, "sse41");
}

int ls__dnn_conv_list(ls__dnn *dnn, const ls__dnn_conv *conv, char (*names)[LS__DNN_NAME_SIZE],
                      int max)
{
    walk w;
    int n = 0;
    if (walk_begin(dnn, conv, &w) != dnnl_success) return 0;
    do {
        dnnl_primitive_desc_t description = dnnl_primitive_desc_iterator_fetch(w.iterator);
        if (!description) break;
        const char *name = name_of(description);
        bool wanted = is_wanted(name, n);
        for (int i = 0; i < n; i++) wanted &= strcmp(names[i], name) != 0;
        if (wanted) snprintf(names[n++], LS__DNN_NAME_SIZE, "%s", name);
        dnnl_primitive_desc_destroy(description);
    } while (n < max && dnnl_primitive_desc_iterator_next(w.iterator) == dnnl_success);
    walk_end(&w);
    return n;
}

/* ---- Primitives. ---- */

/* Where a direction's operands stand in oneDNN's lists; scratch is the same for all. */
static const struct {
    dnnl_query_t query;
    int argument;
    int index; /* among those of its query */
} operands[LS__DNN_N_DIRECTIONS][LS__DNN_SCRATCH] = {
    [LS__DNN_FORWARD] = { { dnnl_query_src_md, DNNL_ARG_SRC, 0 },
                          { dnnl_query_weights_md, DNNL_ARG_WEIGHTS, 0 },
                          { dnnl_query_dst_md, DNNL_ARG_DST, 0 },
                          { dnnl_query_weights_md, DNNL_ARG_BIAS, 1 } },
    [LS__DNN_DATA] = { { dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC, 0 },
                       { dnnl_query_weights_md, DNNL_ARG_WEIGHTS, 0 },
                       { dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST, 0 },
                       { dnnl_query_weights_md, DNNL_ARG_BIAS, 1 } },
    [LS__DNN_WEIGHTS] = { { dnnl_query_src_md, DNNL_ARG_SRC, 0 },
                          { dnnl_query_diff_weights_md, DNNL_ARG_DIFF_WEIGHTS, 0 },
                          { dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST, 0 },
                          { dnnl_query_diff_weights_md, DNNL_ARG_DIFF_BIAS, 1 } },
};

static void take_formats(const_dnnl_primitive_desc_t description, ls__dnn_primitive *p)
{
    const dnnl_memory_desc_t *formats[LS__DNN_N_ARGUMENTS];
    for (int i = 0; i < LS__DNN_SCRATCH; i++) {
        p->dnnl_arguments[i] = operands[p->conv.direction][i].argument;
        formats[i] = dnnl_primitive_desc_query_md(description, operands[p->conv.direction][i].query,
                                                  operands[p->conv.direction][i].index);
    }
    p->dnnl_arguments[LS__DNN_SCRATCH] = DNNL_ARG_SCRATCHPAD;
    formats[LS__DNN_SCRATCH] =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    for (int i = 0; i < LS__DNN_N_ARGUMENTS; i++)
        if (formats[i]) p->formats[i] = *formats[i];
}

ls_status ls__dnn_conv_open(ls__dnn *dnn, const ls__dnn_conv *conv, const char *name,
                            ls__dnn_primitive **out)
{
    *out = NULL;
    ls__dnn_primitive *p = ls__zalloc(dnn->ctx, sizeof *p);
    if (!p) return ls__fail_memory(dnn->ctx, "oneDNN: primitive", sizeof *p);
    p->dnn = dnn;
    p->conv = *conv;
    walk w;
    dnnl_status_t s = walk_begin(dnn, conv, &w);
    if (s == dnnl_success) {
        do {
            dnnl_primitive_desc_t description = dnnl_primitive_desc_iterator_fetch(w.iterator);
            if (!description) break;
            const bool found = strcmp(name_of(description), name) == 0;
            if (found) {
                take_formats(description, p);
                s = dnnl_primitive_create(&p->primitive, description);
            }
            dnnl_primitive_desc_destroy(description);
            if (found) break;
        } while (dnnl_primitive_desc_iterator_next(w.iterator) == dnnl_success);
        walk_end(&w);
    }
    if (p->primitive) {
        *out = p;
        return LS_OK;
    }
    ls__free(dnn->ctx, p);
    if (s != dnnl_success) return fail(dnn->ctx, name, s);
    return ls__fail(dnn->ctx, LS_ERR_NOT_FOUND, "oneDNN: no kernel '%s' for this convolution",
                    name);
}

static ls_status reorder_open(ls__dnn *dnn, const ls__dnn_primitive *conv, int64_t row_channels,
                              bool unpack, ls__dnn_primitive **out)
{
    *out = NULL;
    ls__dnn_primitive *p = ls__zalloc(dnn->ctx, sizeof *p);
    if (!p) return ls__fail_memory(dnn->ctx, "oneDNN: primitive", sizeof *p);
    p->dnn = dnn;
    p->dnnl_arguments[LS__DNN_X] = DNNL_ARG_FROM;
    p->dnnl_arguments[LS__DNN_Y] = DNNL_ARG_TO;
    p->dnnl_arguments[LS__DNN_SCRATCH] = DNNL_ARG_SCRATCHPAD;
    p->formats[unpack ? LS__DNN_X : LS__DNN_Y] = conv->formats[LS__DNN_W];

    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t s =
        weight_format(&conv->conv, true, row_channels, &p->formats[unpack ? LS__DNN_Y : LS__DNN_X]);
    if (s == dnnl_success) s = dnnl_primitive_attr_create(&attributes);
    if (s == dnnl_success)
        s = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (s == dnnl_success)
        s = dnnl_reorder_primitive_desc_create(&description, &p->formats[LS__DNN_X], dnn->engine,
                                               &p->formats[LS__DNN_Y], dnn->engine, attributes);
    if (s == dnnl_success) {
        const dnnl_memory_desc_t *scratch =
            dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
        if (scratch) p->formats[LS__DNN_SCRATCH] = *scratch;
        s = dnnl_primitive_create(&p->primitive, description);
    }
    if (description) dnnl_primitive_desc_destroy(description);
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    if (s != dnnl_success) {
        ls__free(dnn->ctx, p);
        return fail(dnn->ctx, "reorder of weights", s);
    }
    *out = p;
    return LS_OK;
}

ls_status ls__dnn_pack_open(ls__dnn *dnn, const ls__dnn_primitive *conv, int64_t row_channels,
                            ls__dnn_primitive **out)
{
    return reorder_open(dnn, conv, row_channels, false, out);
}

ls_status ls__dnn_unpack_open(ls__dnn *dnn, const ls__dnn_primitive *conv, int64_t row_channels,
                              ls__dnn_primitive **out)
{
    return reorder_open(dnn, conv, row_channels, true, out);
}

void ls__dnn_primitive_close(ls__dnn_primitive **primitive)
{
    ls__dnn_primitive *p = *primitive;
    *primitive = NULL;
    if (!p) return;
    dnnl_primitive_destroy(p->primitive);
    ls__free(p->dnn->ctx, p);
}

/* ---- Memory and runs. ---- */

size_t ls__dnn_bytes(const ls__dnn_primitive *primitive, ls__dnn_argument argument)
{
    return dnnl_memory_desc_get_size(&primitive->formats[argument]);
}

bool ls__dnn_same_weights(const ls__dnn_primitive *a, const ls__dnn_primitive *b)
{
    return dnnl_memory_desc_equal(&a->formats[LS__DNN_W], &b->formats[LS__DNN_W]) != 0;
}

ls_status ls__dnn_memory_open(const ls__dnn_primitive *primitive, ls__dnn_argument argument,
                              ls__dnn_memory **out)
{
    *out = NULL;
    if (ls__dnn_bytes(primitive, argument) == 0) return LS_OK;
    const dnnl_status_t s = dnnl_memory_create(out, &primitive->formats[argument],
                                               primitive->dnn->engine, DNNL_MEMORY_NONE);
    if (s == dnnl_success) return LS_OK;
    *out = NULL;
    return fail(primitive->dnn->ctx, "memory object", s);
}

void ls__dnn_memory_set(ls__dnn_memory *memory, const void *pointer)
{
    if (memory) dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)pointer);
}

void ls__dnn_memory_close(ls__dnn_memory *memory)
{
    if (memory) dnnl_memory_destroy(memory);
}

bool ls__dnn_run(ls__dnn *dnn, const ls__dnn_primitive *primitive, int thread,
                 ls__dnn_memory *const memories[LS__DNN_N_ARGUMENTS])
{
    dnnl_exec_arg_t arguments[LS__DNN_N_ARGUMENTS];
    int n = 0;
    for (int i = 0; i < LS__DNN_N_ARGUMENTS; i++)
        if (memories[i])
            arguments[n++] = (dnnl_exec_arg_t){ primitive->dnnl_arguments[i], memories[i] };
    return dnnl_primitive_execute(primitive->primitive, dnn->streams[thread], n, arguments) ==
           dnnl_success;
}

bool ls__dnn_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc)
{
    return dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a, lda, b,
                      ldb, beta, c, ldc) == dnnl_success;
}
