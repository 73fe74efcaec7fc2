/* pool.c: maximum, average and global average pooling. */
#include "base/error.h"
#include "nn/layers/layers.h"

enum { MAX_U8_WINDOW = 255 }; /* positions in a window that fit an u8 index */

static ls_status pool_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    *out = inputs[0];
    return ls__node_slide(node, &inputs[0].shape, node->settings.pool.kernel,
                          node->settings.pool.padding, node->settings.pool.stride,
                          &out->shape.dims[1]);
}

/* ---- Maximum ---- */

static void max_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls__op op = ls__op_of(node, LS__OP_MAX_POOL);
    const ls_shape shape = ls__spec_of(b, node)->shape;
    const int x = ls__activation_of(b, node->inputs[0]);
    const int y = ls__activation_new(b, shape);
    int index = -1;
    if (b->program->gradients && ls__requires_gradient(b, node->inputs[0])) {
        const int64_t *kernel = node->settings.pool.kernel;
        index = ls__value_new(b, kernel[0] * kernel[1] <= MAX_U8_WINDOW ? LS_U8 : LS_I32, shape);
    }
    b->saved[node->id * LS__MAX_SAVED] = index;
    ls__emit(b, &op, 1, &x, 2, (const int[]){ y, index });
    ls__set_forward_value(b, fused->tail, y);
}

static void max_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls__op op = ls__op_of(node, LS__OP_MAX_POOL_BACKWARD);
    const int dy = ls__gradient_of(b, fused->tail), index = b->saved[node->id * LS__MAX_SAVED];
    ls__emit_gradient(b, node->inputs[0], &op, 2, (const int[]){ dy, index });
}

static void pool_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_integers(out, 1, node->settings.pool.kernel);
    ls__text_put_integers(out, 1, node->settings.pool.stride);
    ls__text_put_integers(out, 1, node->settings.pool.padding);
}

static const ls__layer max_pool_layer = { .name = "max_pool",
                                          .infer = pool_infer,
                                          .forward = max_forward,
                                          .backward = max_backward,
                                          .put_settings = pool_settings };

/* ---- Average ---- */

static const ls__layer avg_pool_layer = { .name = "avg_pool",
                                          .infer = pool_infer,
                                          .forward = ls__lower_op,
                                          .backward = ls__lower_op_backward,
                                          .op = LS__OP_AVG_POOL,
                                          .backward_op = LS__OP_AVG_POOL_BACKWARD,
                                          .put_settings = pool_settings };

static ls_node *append_pool(ls_graph *graph, const ls__layer *layer, ls_node *x,
                            const ls_pool_config *config)
{
    if (!ls__graph_accepts(graph, layer->name, 1, &x)) return NULL;
    const ls_pool_config c = config ? *config : (ls_pool_config){ 0 };
    const int stride = c.stride ? c.stride : c.kernel;
    if (c.kernel < 1 || stride < 1 || c.padding < 0 || c.padding > c.kernel / 2)
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "%s after '%s': kernel %d, stride %d, padding %d; expected kernel and "
                             "stride of at least 1, padding from 0 to half the kernel",
                             layer->name, x->name, c.kernel, stride, c.padding);
    const ls_node prototype = { .layer = layer,
                                .settings.pool = { .kernel = { c.kernel, c.kernel },
                                                   .stride = { stride, stride },
                                                   .padding = { c.padding, c.padding } } };
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

ls_node *ls_adaptive_avg_pool(ls_graph *graph, ls_node *x, int64_t side)
{
    if (!ls__graph_accepts(graph, "ls_adaptive_avg_pool", 1, &x)) return NULL;
    const ls_shape *shape = &x->spec.shape;
    char text[LS_SHAPE_TEXT_SIZE];
    if (side < 1)
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "adaptive_avg_pool after '%s': side is %lld, expected at least 1",
                             x->name, (long long)side);
    if (shape->n_dims != 4)
        return ls_graph_fail(graph, LS_ERR_SHAPE,
                             "adaptive_avg_pool after '%s': input %s, expected [N,H,W,C]", x->name,
                             ls_shape_text(shape, text, sizeof(text)));
    const int64_t window = shape->dims[1] / side;
    if (window < 1 || shape->dims[1] != window * side || shape->dims[2] != window * side)
        return ls_graph_fail(
            graph, LS_ERR_UNSUPPORTED,
            "adaptive_avg_pool after '%s': input %s; expected a height and width that "
            "are the same multiple of %lld",
            x->name, ls_shape_text(shape, text, sizeof(text)), (long long)side);
    return window == 1 ? x : ls_avg_pool(graph, x, &(ls_pool_config){ .kernel = (int)window });
}

/* ---- Global average ---- */

static ls_status global_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    *out = (ls_spec){ LS_F32, LS_SHAPE(inputs[0].shape.dims[0], inputs[0].shape.dims[3]) };
    return LS_OK;
}

static const ls__layer global_avg_pool_layer = { .name = "global_avg_pool",
                                                 .infer = global_infer,
                                                 .forward = ls__lower_op,
                                                 .backward = ls__lower_op_backward,
                                                 .op = LS__OP_GLOBAL_AVG_POOL,
                                                 .backward_op = LS__OP_GLOBAL_AVG_POOL_BACKWARD };

ls_node *ls_global_avg_pool(ls_graph *graph, ls_node *x)
{
    return ls__graph_append(graph, &(ls_node){ .layer = &global_avg_pool_layer }, NULL, 1, &x);
}
