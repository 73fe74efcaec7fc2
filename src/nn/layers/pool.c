/* pool.c: maximum, average and global average pooling. */
#include "base/error.h"
#include "nn/layers/layers.h"

enum { MAX_U8_WINDOW = 255 }; /* positions in a window that fit an u8 index */

static ls_status infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    static const char *const axis[2] = { "height", "width" };
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    *out = inputs[0];
    for (int i = 0; i < 2; i++) {
        const int64_t size = inputs[0].shape.dims[1 + i];
        const int64_t room = size + 2 * node->u.pool.padding - node->u.pool.kernel;
        if (room < 0)
            return ls__node_fail(node, LS_ERR_SHAPE,
                                 "%s %lld with padding %lld is smaller than the kernel's %lld",
                                 axis[i], (long long)size, (long long)node->u.pool.padding,
                                 (long long)node->u.pool.kernel);
        out->shape.dims[1 + i] = room / node->u.pool.stride + 1;
    }
    return LS_OK;
}

static ls__op pool_op(const ls_node *node, ls__op_kind kind)
{
    ls__op op = { .kind = kind };
    for (int i = 0; i < 2; i++) {
        op.u.pool.kernel[i] = node->u.pool.kernel;
        op.u.pool.stride[i] = node->u.pool.stride;
        op.u.pool.padding[i] = node->u.pool.padding;
    }
    return op;
}

/* dx from dy and, for the maximum, the saved index. */
static void pool_backward(ls__builder *b, const ls__fused_op *fused, const ls__op *op, int index)
{
    const ls_node *x = fused->head->inputs[0];
    if (!ls__wants_gradient(b, x)) return;
    const int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    const int dx = ls__activation_new(b, ls__spec_of(b, x)->shape);
    ls__emit(b, op, index < 0 ? 1 : 2, (const int[]){ dy, index }, 1, &dx);
    ls__contribute(b, x, dx);
}

/* ---- Maximum ---- */

static void max_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls__op op = pool_op(node, LS__OP_MAX_POOL);
    const ls_shape shape = ls__spec_of(b, node)->shape;
    const int x = ls__activation_of(b, node->inputs[0]);
    const int y = ls__activation_new(b, shape);
    int index = -1;
    if (b->program->gradients && ls__wants_gradient(b, node->inputs[0])) {
        const bool small = node->u.pool.kernel * node->u.pool.kernel <= MAX_U8_WINDOW;
        index = ls__value_new(b, small ? LS_U8 : LS_I32, shape);
    }
    b->saved[node->id * LS__MAX_SAVED] = index;
    ls__emit(b, &op, 1, &x, 2, (const int[]){ y, index });
    ls__set_forward_value(b, fused->tail, y);
}

static void max_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls__op op = pool_op(fused->head, LS__OP_MAX_POOL_BACKWARD);
    pool_backward(b, fused, &op, b->saved[fused->head->id * LS__MAX_SAVED]);
}

static void pool_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_integers(out, 1, &node->u.pool.kernel);
    ls__text_put_integers(out, 1, &node->u.pool.stride);
    ls__text_put_integers(out, 1, &node->u.pool.padding);
}

static const ls__layer max_pool_layer = { .name = "max_pool",
                                          .infer = infer,
                                          .forward = max_forward,
                                          .backward = max_backward,
                                          .put_settings = pool_settings };

/* ---- Average ---- */

static void avg_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls__op op = pool_op(fused->head, LS__OP_AVG_POOL);
    const int x = ls__activation_of(b, fused->head->inputs[0]);
    const int y = ls__activation_new(b, ls__spec_of(b, fused->head)->shape);
    ls__emit(b, &op, 1, &x, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

static void avg_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls__op op = pool_op(fused->head, LS__OP_AVG_POOL_BACKWARD);
    pool_backward(b, fused, &op, -1);
}

static const ls__layer avg_pool_layer = { .name = "avg_pool",
                                          .infer = infer,
                                          .forward = avg_forward,
                                          .backward = avg_backward,
                                          .put_settings = pool_settings };

static ls_node *append_pool(ls_graph *graph, const ls__layer *layer, ls_node *x,
                            const ls_pool_config *config)
{
    if (!ls__graph_accepts(graph, layer->name, 1, &x)) return NULL;
    const ls_pool_config c = config ? *config : (ls_pool_config){ 0 };
    const int stride = c.stride ? c.stride : c.kernel;
    if (c.kernel < 1 || stride < 1 || c.padding < 0 || c.padding > c.kernel / 2) {
        ls__fail(graph->ctx, LS_ERR_INVALID,
                 "%s after '%s': kernel %d, stride %d, padding %d; wanted kernel and stride of at "
                 "least 1, padding "
                 "from 0 to half the kernel",
                 layer->name, x->name, c.kernel, stride, c.padding);
        return NULL;
    }
    ls_node prototype = { .layer = layer };
    prototype.u.pool.kernel = c.kernel;
    prototype.u.pool.stride = stride;
    prototype.u.pool.padding = c.padding;
    return ls__graph_append(graph, &prototype, NULL, 1, &x);
}

ls_node *ls_max_pool(ls_graph *graph, ls_node *x, const ls_pool_config *config)
{
    return append_pool(graph, &max_pool_layer, x, config);
}

ls_node *ls_avg_pool(ls_graph *graph, ls_node *x, const ls_pool_config *config)
{
    return append_pool(graph, &avg_pool_layer, x, config);
}

/* ---- Global average ---- */

static ls_status global_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    *out = (ls_spec){ LS_F32, LS_SHAPE(inputs[0].shape.dims[0], inputs[0].shape.dims[3]) };
    return LS_OK;
}

static void global_forward(ls__builder *b, const ls__fused_op *fused)
{
    const int x = ls__activation_of(b, fused->head->inputs[0]);
    const int y = ls__activation_new(b, ls__spec_of(b, fused->head)->shape);
    ls__emit(b, &(ls__op){ .kind = LS__OP_GLOBAL_AVG_POOL }, 1, &x, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

static void global_backward(ls__builder *b, const ls__fused_op *fused)
{
    pool_backward(b, fused, &(ls__op){ .kind = LS__OP_GLOBAL_AVG_POOL_BACKWARD }, -1);
}

static const ls__layer global_avg_pool_layer = { .name = "global_avg_pool",
                                                 .infer = global_infer,
                                                 .forward = global_forward,
                                                 .backward = global_backward };

ls_node *ls_global_avg_pool(ls_graph *graph, ls_node *x)
{
    if (!ls__graph_accepts(graph, "ls_global_avg_pool", 1, &x)) return NULL;
    return ls__graph_append(graph, &(ls_node){ .layer = &global_avg_pool_layer }, NULL, 1, &x);
}
