/* batch_norm.c: batch normalisation (Ioffe & Szegedy 2015), with a fused add and ReLU or ReLU6. */
#include "base/error.h"
#include "arith/norm_sums.h"
#include "nn/layers/layers.h"
#include "nn/plan/shard.h"
#include <stdio.h>

enum { FEW_VALUES = 8 }; /* fewer values per channel give poor statistics */

static ls_status batch_norm_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    LS_TRY(ls__node_expect(node, &inputs[0], x->n_dims == 2 ? 2 : 4, "[N,H,W,C] or [N,C]"));
    LS_TRY(ls__node_expect_weight(node, x, 0, 1, "channels"));
    *out = inputs[0];
    return LS_OK;
}

static ls__op norm_op(const ls__fused_op *fused, ls__op_kind kind)
{
    ls__op op = ls__op_of(fused->head, kind);
    op.u.norm.activation = fused->activation;
    return op;
}

/* The number of values of a channel's statistics. */
static int64_t batch_norm_count(ls__builder *b, const ls_node *node)
{
    const ls_shape *shape = &ls__spec_of(b, node)->shape;
    const int64_t n_shards = b->program->is_synced ? b->program->env->n_shards : 1;
    return n_shards * ls_shape_element_count(shape) / shape->dims[shape->n_dims - 1];
}

void ls__warn_of_few_values(ls__builder *b)
{
    if (b->n_few_values == 0) return;
    const int64_t n = batch_norm_count(b, b->few_values);
    char more[64] = "";
    if (b->n_few_values > 1)
        snprintf(more, sizeof more, " (also in %d more layer%s)", b->n_few_values - 1,
                 b->n_few_values == 2 ? "" : "s");
    ls__warn(b->program->ctx, LS_LOG_NET,
             "batch_norm '%s': statistics over %lld value%s a channel; below %d they are poor: "
             "use a larger batch%s",
             b->few_values->name, (long long)n, n == 1 ? "" : "s", FEW_VALUES, more);
}

/* ---- Synchronised with all shards: see plan/shard.h ---- */

/* An op that reads the sums of all shards. */
static ls__op op_of_sums(ls__builder *b, const ls_node *node, ls__op_kind kind)
{
    const ls_shape *shape = &ls__spec_of(b, node)->shape;
    ls__op op = ls__op_of(node, kind);
    op.u.norm.count = shape->n_dims == 4 ? shape->dims[1] * shape->dims[2] : 1;
    return op;
}

static int sums_of_shards(ls__builder *b, const ls_node *node)
{
    const ls__environment *env = b->program->env;
    const ls__parameter *mean = &b->program->graph->parameters[node->parameters[LS__RUNNING_MEAN]];
    return ls__value_at(
        b, LS_F32, LS_SHAPE(env->n_shards, LS__NORM_SUMS, mean->count), LS__PLACE_NORM_SUMS,
        ls__norm_sums_offset(env->n_shards, mean->offset - env->parameter_elements));
}

/* inputs: those of BATCH_NORM; outputs: y, mean, invstd. */
static void emit_synced(ls__builder *b, const ls__fused_op *fused, const int *inputs,
                        const int *outputs)
{
    const ls_node *node = fused->head;
    const ls__op moments = ls__op_of(node, LS__OP_NORM_MOMENTS),
                 statistics = op_of_sums(b, node, LS__OP_NORM_STATISTICS),
                 apply = norm_op(fused, LS__OP_NORM_APPLY);
    const int sums = sums_of_shards(b, node);
    ls__emit(b, &moments, 2, (const int[]){ inputs[0], sums }, 0, NULL);
    ls__emit(b, &statistics, 3, (const int[]){ sums, inputs[3], inputs[4] }, 2, outputs + 1);
    ls__emit(b, &apply, 6,
             (const int[]){ inputs[0], outputs[1], outputs[2], inputs[1], inputs[2], inputs[5] }, 1,
             outputs);
}

/* inputs: those of BATCH_NORM_BACKWARD; outputs: dx, dscale, dshift. Returns the gradient before
 * the activation. */
static int emit_synced_backward(ls__builder *b, const ls__fused_op *fused, const int *inputs,
                                const int *outputs)
{
    enum { X, DY1 = 2, DY2, SCALE, MEAN, INVSTD, SHIFT };
    const ls_node *node = fused->head;
    const ls__op products = norm_op(fused, LS__OP_NORM_BACKWARD_PRODUCTS),
                 finish = op_of_sums(b, node, LS__OP_NORM_BACKWARD_COEFFICIENTS),
                 apply = ls__op_of(node, LS__OP_NORM_BACKWARD_APPLY);
    const ls_shape channels = b->program->graph->parameters[node->parameters[LS__WEIGHT]].shape;
    const bool is_dy1 = !fused->activation && inputs[DY2] < 0;
    const int sums = sums_of_shards(b, node);
    const int dz = is_dy1 ? inputs[DY1] : ls__activation_new(b, ls__spec_of(b, node)->shape);
    int coefficients[3];
    ls__emit(b, &products, 9,
             (const int[]){ inputs[X], inputs[1], inputs[DY1], inputs[DY2], inputs[SCALE],
                            inputs[MEAN], inputs[INVSTD], inputs[SHIFT], sums },
             3, (const int[]){ outputs[1], outputs[2], is_dy1 ? -1 : dz });
    for (int i = 0; i < 3; i++) coefficients[i] = ls__value_new(b, LS_F32, channels);
    ls__emit(b, &finish, 4, (const int[]){ sums, inputs[SCALE], inputs[MEAN], inputs[INVSTD] }, 3,
             coefficients);
    ls__emit(b, &apply, 5,
             (const int[]){ dz, inputs[X], coefficients[0], coefficients[1], coefficients[2] }, 1,
             outputs);
    return dz;
}

/* ---- Lowering ---- */

static void batch_norm_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int x = ls__activation_of(b, node->inputs[0]);
    const int addend = fused->addend ? ls__activation_of(b, fused->addend) : -1;
    const bool updates = b->program->mode == LS_MODE_TRAIN && ls__is_trained(b, node);
    /* A shard's own statistics, see plan/shard.h, are not yet the running ones. */
    int (*const running)(ls__builder *, const ls_node *, int) =
        updates && b->program->is_shard ? ls__value_parameter_gradient : ls__value_parameter;
    const int inputs[6] = { x,
                            ls__value_parameter(b, node, LS__WEIGHT),
                            ls__value_parameter(b, node, LS__BIAS),
                            running(b, node, LS__RUNNING_MEAN),
                            running(b, node, LS__RUNNING_VAR),
                            addend };
    if (!updates) {
        const ls__op op = norm_op(fused, LS__OP_BATCH_NORM_EVAL);
        ls__emit_forward(b, fused, &op, 6, inputs);
        return;
    }
    if (batch_norm_count(b, node) < FEW_VALUES && b->n_few_values++ == 0) b->few_values = node;
    const ls__op op = norm_op(fused, LS__OP_BATCH_NORM);
    const ls_shape channels = b->program->graph->parameters[node->parameters[LS__WEIGHT]].shape;
    const int y = ls__activation_new(b, ls__spec_of(b, node)->shape);
    int *saved = &b->saved[node->id * LS__MAX_SAVED];
    saved[0] = ls__value_new(b, LS_F32, channels);
    saved[1] = ls__value_new(b, LS_F32, channels);
    const int outputs[3] = { y, saved[0], saved[1] };
    if (b->program->is_synced)
        emit_synced(b, fused, inputs, outputs);
    else
        ls__emit(b, &op, 6, inputs, 3, outputs);
    ls__set_forward_value(b, fused->tail, y);
}

/* The statistics are constants, so the gradient is dx = dy scale / sqrt(running_var + epsilon): the
 * forward op of dy with mean and shift 0. */
static void backward_frozen(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int dy = ls__gradient_before_activation(b, fused);
    if (fused->addend && ls__requires_gradient(b, fused->addend))
        ls__contribute(b, fused->addend, dy);
    if (!ls__requires_gradient(b, node->inputs[0])) return;
    const ls__parameter *weight = &b->program->graph->parameters[node->parameters[LS__WEIGHT]];
    const int zeros = ls__value_constant(b, NULL, weight->count);
    const int inputs[6] = { dy,    ls__value_parameter(b, node, LS__WEIGHT),      zeros,
                            zeros, ls__value_parameter(b, node, LS__RUNNING_VAR), -1 };
    const ls__op op = ls__op_of(node, LS__OP_BATCH_NORM_EVAL);
    ls__emit_gradient(b, node->inputs[0], &op, 6, inputs);
}

static void batch_norm_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (!ls__is_trained(b, node)) {
        backward_frozen(b, fused);
        return;
    }
    int dy2;
    const int dy1 = ls__gradient_pair(b, fused->tail, &dy2);
    const int *saved = &b->saved[node->id * LS__MAX_SAVED];
    const ls__op op = norm_op(fused, LS__OP_BATCH_NORM_BACKWARD);
    const ls_shape shape = ls__spec_of(b, node)->shape;
    const bool masked = fused->activation && !fused->addend; /* by a y that is x's alone */
    const int inputs[8] = { ls__activation_of(b, node->inputs[0]),
                            fused->activation ? ls__forward_value(b, fused->tail) : -1,
                            dy1,
                            dy2,
                            ls__value_parameter(b, node, LS__WEIGHT),
                            saved[0],
                            saved[1],
                            masked ? ls__value_parameter(b, node, LS__BIAS) : -1 };
    const bool adds = fused->addend && ls__requires_gradient(b, fused->addend);
    int outputs[4] = { ls__activation_new(b, shape),
                       ls__value_parameter_gradient(b, node, LS__WEIGHT),
                       ls__value_parameter_gradient(b, node, LS__BIAS), -1 };
    int daddend = -1;
    if (b->program->is_synced) {
        daddend = emit_synced_backward(b, fused, inputs, outputs);
    } else {
        if (adds) daddend = outputs[3] = ls__activation_new(b, shape);
        ls__emit(b, &op, 8, inputs, 4, outputs);
    }
    if (ls__requires_gradient(b, node->inputs[0])) ls__contribute(b, node->inputs[0], outputs[0]);
    if (adds) ls__contribute(b, fused->addend, daddend);
}

static void batch_norm_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->settings.norm.epsilon);
    ls__text_put_floats(out, 1, &node->settings.norm.momentum);
}

const ls__layer ls__batch_norm_layer = { .name = "batch_norm",
                                         .infer = batch_norm_infer,
                                         .forward = batch_norm_forward,
                                         .backward = batch_norm_backward,
                                         .put_settings = batch_norm_settings };

ls_node *ls_batch_norm(ls_graph *graph, const char *name, ls_node *x,
                       const ls_batch_norm_config *config)
{
    if (!ls__graph_accepts(graph, "ls_batch_norm", 1, &x)) return NULL;
    const ls_batch_norm_config c = config ? *config : (ls_batch_norm_config){ 0 };
    const float epsilon = c.epsilon == 0 ? 1e-5f : c.epsilon;
    const float momentum = c.momentum == 0 ? 0.1f : c.momentum;
    if (!name || !(epsilon > 0 && epsilon < 1e30f) || !(momentum > 0 && momentum <= 1))
        return ls_graph_fail(
            graph, LS_ERR_INVALID,
            "batch_norm '%s': expected a name, epsilon > 0 (got %g) and momentum in (0,1] (got %g)",
            name ? name : "", (double)epsilon, (double)momentum);
    const ls_node prototype = { .layer = &ls__batch_norm_layer,
                                .settings.norm = { .epsilon = epsilon, .momentum = momentum } };
    ls_node *node = ls__graph_append(graph, &prototype, name, 1, &x);
    if (!node) return NULL;
    const ls_shape channels = LS_SHAPE(x->spec.shape.dims[x->spec.shape.n_dims - 1]);
    const ls__parameter_init zero = { LS_INIT_ZERO, 1, 1 }, one = { LS_INIT_ONE, 1, 1 };
    if (ls__node_add_parameter(node, LS__WEIGHT, "weight", LS_PARAMETER_NORM, channels,
                               c.zero_scale ? zero : one) != LS_OK ||
        ls__node_add_parameter(node, LS__BIAS, "bias", LS_PARAMETER_NORM, channels, zero) !=
            LS_OK ||
        ls__node_add_parameter(node, LS__RUNNING_MEAN, "running_mean", LS_PARAMETER_BUFFER,
                               channels, zero) != LS_OK ||
        ls__node_add_parameter(node, LS__RUNNING_VAR, "running_var", LS_PARAMETER_BUFFER, channels,
                               one) != LS_OK)
        return NULL;
    return node;
}
