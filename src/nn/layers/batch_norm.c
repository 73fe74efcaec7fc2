/* batch_norm.c: batch normalisation (Ioffe & Szegedy 2015), with a fused add and ReLU. */
#include "base/error.h"
#include "nn/layers/layers.h"
#include <stdio.h>

enum { FEW_VALUES = 8 }; /* fewer values per channel give poor statistics */

static ls_status infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    char text[LS_SHAPE_TEXT_SIZE];
    ls_shape_text(x, text, sizeof text);
    LS_TRY(ls__node_expect(node, &inputs[0], x->n_dims == 2 ? 2 : 4, "[N,H,W,C] or [N,C]"));
    if (node->parameters[LS__WEIGHT] >= 0) {
        const ls_shape *w = &node->graph->parameters[node->parameters[LS__WEIGHT]].shape;
        if (w->dims[0] != x->dims[x->n_dims - 1])
            return ls__node_fail(node, LS_ERR_SHAPE, "weight has %lld channels, input %s has %lld",
                                 (long long)w->dims[0], text, (long long)x->dims[x->n_dims - 1]);
    }
    *out = inputs[0];
    return LS_OK;
}

static ls__op norm_op(const ls__fused_op *fused, ls__op_kind kind)
{
    ls__op op = { .kind = kind };
    op.u.norm.epsilon = fused->head->u.norm.epsilon;
    op.u.norm.momentum = fused->head->u.norm.momentum;
    op.u.norm.relu = fused->relu;
    return op;
}

/* The number of values of a channel's statistics. */
static int64_t count_values(ls__builder *b, const ls_node *node)
{
    const ls_shape *shape = &ls__spec_of(b, node)->shape;
    return ls_shape_count(shape) / shape->dims[shape->n_dims - 1];
}

void ls__warn_of_few_values(ls__builder *b)
{
    if (b->n_few_values == 0) return;
    const int64_t n = count_values(b, b->few_values);
    char more[64] = "";
    if (b->n_few_values > 1)
        snprintf(more, sizeof more, " (also in %d more layer%s)", b->n_few_values - 1,
                 b->n_few_values == 2 ? "" : "s");
    ls__warn(b->program->ctx,
             "batch_norm '%s': statistics over %lld value%s a channel; below %d they are poor: "
             "use a larger batch%s",
             b->few_values->name, (long long)n, n == 1 ? "" : "s", FEW_VALUES, more);
}

static void forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int x = ls__activation_of(b, node->inputs[0]);
    const int addend = fused->addend ? ls__activation_of(b, fused->addend) : -1;
    const int inputs[6] = { x,
                            ls__value_parameter(b, node->parameters[LS__WEIGHT]),
                            ls__value_parameter(b, node->parameters[LS__BIAS]),
                            ls__value_parameter(b, node->parameters[LS__RUNNING_MEAN]),
                            ls__value_parameter(b, node->parameters[LS__RUNNING_VAR]),
                            addend };
    const int y = ls__activation_new(b, ls__spec_of(b, node)->shape);
    if (b->program->mode == LS_EVAL) {
        const ls__op op = norm_op(fused, LS__OP_BATCH_NORM_EVAL);
        ls__emit(b, &op, 6, inputs, 1, &y);
    } else {
        if (count_values(b, node) < FEW_VALUES && b->n_few_values++ == 0) b->few_values = node;
        const ls_shape channels = b->program->graph->parameters[node->parameters[LS__WEIGHT]].shape;
        int *saved = &b->saved[node->id * LS__MAX_SAVED];
        saved[0] = ls__value_new(b, LS_F32, channels);
        saved[1] = ls__value_new(b, LS_F32, channels);
        const ls__op op = norm_op(fused, LS__OP_BATCH_NORM);
        ls__emit(b, &op, 6, inputs, 3, (const int[]){ y, saved[0], saved[1] });
    }
    ls__set_forward_value(b, fused->tail, y);
}

static void backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    int dy2;
    const int dy1 = ls__gradient_parts(b, fused->tail, &dy2);
    if (dy1 < 0) return;
    const int *saved = &b->saved[node->id * LS__MAX_SAVED];
    const bool wants_x = ls__wants_gradient(b, node->inputs[0]);
    const bool wants_own = ls__wants_parameter(b, node->parameters[LS__WEIGHT]) ||
                           ls__wants_parameter(b, node->parameters[LS__BIAS]);
    const bool wants_addend = fused->addend && ls__wants_gradient(b, fused->addend);
    if (!wants_x && !wants_own && !wants_addend) return;

    const ls__op op = norm_op(fused, LS__OP_BATCH_NORM_BACKWARD);
    const ls_shape shape = ls__spec_of(b, node)->shape;
    const bool masked = fused->relu && !fused->addend; /* by a y that is x's alone */
    const int inputs[8] = { ls__activation_of(b, node->inputs[0]),
                            fused->relu ? ls__forward_value(b, fused->tail) : -1,
                            dy1,
                            dy2,
                            ls__value_parameter(b, node->parameters[LS__WEIGHT]),
                            saved[0],
                            saved[1],
                            masked ? ls__value_parameter(b, node->parameters[LS__BIAS]) : -1 };
    const int dx = ls__activation_new(b, shape);
    const int daddend = wants_addend ? ls__activation_new(b, shape) : -1;
    ls__emit(b, &op, 8, inputs, 4,
             (const int[]){ dx, ls__value_parameter_gradient(b, node->parameters[LS__WEIGHT]),
                            ls__value_parameter_gradient(b, node->parameters[LS__BIAS]), daddend });
    if (wants_x) ls__contribute(b, node->inputs[0], dx);
    if (wants_addend) ls__contribute(b, fused->addend, daddend);
}

static void batch_norm_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->u.norm.epsilon);
    ls__text_put_floats(out, 1, &node->u.norm.momentum);
}

const ls__layer ls__batch_norm_layer = { .name = "batch_norm",
                                         .infer = infer,
                                         .forward = forward,
                                         .backward = backward,
                                         .put_settings = batch_norm_settings };

ls_node *ls_batch_norm(ls_graph *graph, const char *name, ls_node *x,
                       const ls_batch_norm_config *config)
{
    if (!ls__graph_accepts(graph, "ls_batch_norm", 1, &x)) return NULL;
    const ls_batch_norm_config c = config ? *config : (ls_batch_norm_config){ 0 };
    const float epsilon = c.epsilon == 0 ? 1e-5f : c.epsilon;
    const float momentum = c.momentum == 0 ? 0.1f : c.momentum;
    if (!name || !(epsilon > 0 && epsilon < 1e30f) || !(momentum > 0 && momentum <= 1)) {
        ls__fail(graph->ctx, LS_ERR_INVALID,
                 "batch_norm '%s': a name, epsilon > 0 (got %g) and momentum in (0,1] (got %g) are "
                 "needed",
                 name ? name : "", (double)epsilon, (double)momentum);
        return NULL;
    }
    ls_node prototype = { .layer = &ls__batch_norm_layer };
    prototype.u.norm.epsilon = epsilon;
    prototype.u.norm.momentum = momentum;
    ls_node *node = ls__graph_append(graph, &prototype, name, 1, &x);
    if (!node) return NULL;
    const ls_shape channels = LS_SHAPE(x->spec.shape.dims[x->spec.shape.n_dims - 1]);
    const ls__parameter_init zero = { LS_INIT_ZERO, 1, 1 }, one = { LS_INIT_ONE, 1, 1 };
    if (!ls__graph_add_parameter(graph, node, LS__WEIGHT, "weight", LS_PARAMETER_NORM, channels,
                                 c.zero_scale ? zero : one) ||
        !ls__graph_add_parameter(graph, node, LS__BIAS, "bias", LS_PARAMETER_NORM, channels,
                                 zero) ||
        !ls__graph_add_parameter(graph, node, LS__RUNNING_MEAN, "running_mean", LS_PARAMETER_BUFFER,
                                 channels, zero) ||
        !ls__graph_add_parameter(graph, node, LS__RUNNING_VAR, "running_var", LS_PARAMETER_BUFFER,
                                 channels, one))
        return NULL;
    return node;
}
