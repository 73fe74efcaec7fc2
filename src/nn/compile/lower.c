/* lower.c: lowers fused ops to instructions over values: the forward pass, then the whole plan. */
#include "base/error.h"
#include "nn/compile/compile.h"
#include "nn/layers/layers.h"
#include "nn/plan/shard.h"
#include <string.h>

/* Casts the parameters to the compute weights. Each program does this at its beginning, so that it
 * sees every write to a parameter. */
static void cast_compute_weights(ls__builder *b)
{
    static const ls_node parameters = { .layer = &ls__parameter_layer, .name = "parameters" };
    const ls__program *p = b->program;
    bool needed = false;
    for (int i = 0; i < p->n_fused_ops; i++)
        needed |= p->fused_ops[i].head->layer->reads_compute_weights;
    if (!needed || b->activations == LS_F32) return;
    const ls_shape shape = LS_SHAPE(p->env->parameter_elements);
    const int masters = ls__value_at(b, LS_F32, shape, LS__PLACE_VALUES, 0);
    const int compute_weights =
        ls__value_at(b, b->activations, shape, LS__PLACE_COMPUTE_WEIGHTS, 0);
    b->node = &parameters;
    ls__emit(b, &(ls__op){ .kind = LS__OP_CAST }, 1, &masters, 1, &compute_weights);
}

/* Whether two losses have the same divisor: the sum of the class weights of the same labels. */
static bool have_equal_weights(const ls_node *a, const ls_node *b)
{
    const int64_t n = a->inputs[0]->spec.shape.dims[1];
    const float *x = a->u.class_weights, *y = b->u.class_weights;
    if (a->inputs[1] != b->inputs[1] || !x || !y) return a->inputs[1] == b->inputs[1] && x == y;
    return n == b->inputs[0]->spec.shape.dims[1] && memcmp(x, y, (size_t)n * sizeof *x) == 0;
}

/* The divisor of the mean loss, if each loss is a cross-entropy of labels and has the same one. */
static int weight_of_losses(const ls__builder *b)
{
    const ls__named_list *losses = &b->program->graph->losses;
    for (int i = 0; i < losses->n; i++) {
        const ls_node *loss = losses->items[i].node;
        if (loss->layer != &ls__cross_entropy_layer || loss->inputs[1]->spec.dtype != LS_I32 ||
            !have_equal_weights(losses->items[0].node, loss))
            return -1;
    }
    return losses->n > 0 ? b->saved[losses->items[0].node->id * LS__MAX_SAVED + 1] : -1;
}

/* ---- The results of a shard other than its gradients: copies into the block of gradients; see
 * plan/shard.h ---- */

static const ls_node shard_node = { .layer = &ls__parameter_layer, .name = "shard" };

/* Copies a value of rank 1 to the block of gradients. */
static void copy_to(ls__builder *b, int value, int64_t count, int64_t offset)
{
    const int to = ls__value_at(b, LS_F32, LS_SHAPE(count), LS__PLACE_GRADIENTS, offset);
    ls__emit(b, &(ls__op){ .kind = LS__OP_COPY }, 1, &value, 1, &to);
}

/* Gives per element of the buffers the momentum of the batch norm if it is trained, or 0. */
static const float *momentum_of_buffers(ls__builder *b, int64_t n_buffers)
{
    ls__program *p = b->program;
    float *out = ls__bump_alloc(&p->bump, (size_t)n_buffers * sizeof *out);
    if (!out) b->status = ls__fail_memory(p->ctx, "program", (size_t)n_buffers * sizeof *out);
    for (int i = 0; i < p->graph->n_nodes && out; i++) {
        const ls_node *node = p->graph->nodes[i];
        if (node->layer != &ls__batch_norm_layer || !ls__is_trained(b, node)) continue;
        for (int role = LS__RUNNING_MEAN; role <= LS__RUNNING_VAR; role++) {
            const ls__parameter *buffer = &p->graph->parameters[node->parameters[role]];
            for (int64_t j = 0; j < buffer->count; j++)
                out[buffer->offset - p->env->parameter_elements + j] = node->settings.norm.momentum;
        }
    }
    return out;
}

/* Batch norms add their statistics to zeros. */
static void begin_shard(ls__builder *b)
{
    ls__program *p = b->program;
    const int64_t at = p->env->parameter_elements, n_buffers = p->env->block_elements - at;
    if (n_buffers == 0 || b->status != LS_OK) return;
    const float *momentum = momentum_of_buffers(b, n_buffers);
    b->node = &shard_node;
    p->momentum = ls__value_constant(b, momentum, n_buffers);
    copy_to(b, ls__value_constant(b, NULL, n_buffers), n_buffers, at);
}

/* The divisor of the mean loss. Losses of targets are means over samples. */
static int weight_of_shard(ls__builder *b)
{
    const ls_node *loss = b->program->graph->losses.items[0].node;
    const int total = b->saved[loss->id * LS__MAX_SAVED + 1];
    if (loss->layer == &ls__cross_entropy_layer && loss->inputs[1]->spec.dtype == LS_I32)
        return total;
    const float n = (float)ls__spec_of(b, loss->inputs[0])->shape.dims[0];
    return ls__value_constant(b, &n, 1);
}

static void end_shard(ls__builder *b)
{
    const ls__program *p = b->program;
    const ls_graph *graph = p->graph;
    const int64_t at = p->env->block_elements;
    if (b->status != LS_OK) return;
    b->node = &shard_node;
    copy_to(b, weight_of_shard(b), 1, ls__shard_scalar(at, LS__SHARD_WEIGHT));
    for (int i = 0; i < graph->metrics.n; i++)
        copy_to(b, p->full_values[graph->metrics.items[i].node->id], 1,
                ls__shard_scalar(at, LS__SHARD_METRICS + i));
    for (int i = 0; i < graph->losses.n; i++)
        copy_to(b, p->full_values[graph->losses.items[i].node->id], 1,
                ls__shard_scalar(at, ls__shard_losses(graph) + i));
}

/* ---- The forward pass ---- */

static void lower_forward(ls__builder *b)
{
    ls__program *p = b->program;
    cast_compute_weights(b);
    if (p->is_shard) begin_shard(b);
    for (int i = 0; i < p->n_fused_ops && b->status == LS_OK; i++) {
        b->node = p->fused_ops[i].tail;
        p->fused_ops[i].head->layer->forward(b, &p->fused_ops[i]);
    }
    const ls_graph *graph = p->graph;
    for (int i = 0; i < graph->outputs.n && b->status == LS_OK; i++) {
        b->node = graph->outputs.items[i].node;
        p->output_values[i] = p->full_values[b->node->id] = ls__full_of(b, b->node);
        if (b->status == LS_OK) p->values[p->output_values[i]].pinned = true;
    }
    const ls__named_list *const scalars[2] = { &graph->losses, &graph->metrics };
    for (int l = 0; l < 2; l++) {
        for (int i = 0; i < scalars[l]->n && b->status == LS_OK; i++) {
            b->node = scalars[l]->items[i].node;
            const int v = p->full_values[b->node->id] = ls__full_of(b, b->node);
            if (b->status == LS_OK) p->values[v].pinned = true;
        }
    }
    p->loss_weight = b->status == LS_OK ? weight_of_losses(b) : -1;
    if (p->loss_weight >= 0) p->values[p->loss_weight].pinned = true;
    if (p->is_shard) end_shard(b);
    p->n_forward = p->n_instructions;
}

ls_status ls__lower(ls__program *p)
{
    const ls_graph *graph = p->graph;
    const size_t n = (size_t)graph->n_nodes;
    ls__builder b = { .program = p, .activations = p->env->activations };
    p->fused_ops = ls__fuse_layers(graph, &p->bump, &p->n_fused_ops);
    b.requires_gradient = ls__bump_alloc(&p->bump, n * sizeof *b.requires_gradient);
    b.gradients = ls__bump_alloc(&p->bump, n * sizeof *b.gradients);
    b.saved = ls__bump_alloc(&p->bump, n * LS__MAX_SAVED * sizeof *b.saved);
    b.as_activation = ls__bump_alloc(&p->bump, n * sizeof *b.as_activation);
    p->node_values = ls__bump_alloc(&p->bump, n * sizeof *p->node_values);
    p->full_values = ls__bump_alloc(&p->bump, n * sizeof *p->full_values);
    p->output_values =
        ls__bump_alloc(&p->bump, (size_t)graph->outputs.n * sizeof *p->output_values);
    p->input_gradients =
        ls__bump_alloc(&p->bump, (size_t)graph->inputs.n * sizeof *p->input_gradients);
    p->output_gradients =
        ls__bump_alloc(&p->bump, (size_t)graph->outputs.n * sizeof *p->output_gradients);
    if (!p->fused_ops || !b.requires_gradient || !b.gradients || !b.saved || !b.as_activation ||
        !p->node_values || !p->full_values || !p->output_values || !p->input_gradients ||
        !p->output_gradients)
        return ls__fail_memory(p->ctx, "program", n * sizeof *b.gradients);
    for (size_t i = 0; i < n; i++) p->node_values[i] = p->full_values[i] = b.as_activation[i] = -1;
    for (int i = 0; i < graph->inputs.n; i++) p->input_gradients[i] = -1;
    for (int i = 0; i < graph->outputs.n; i++) p->output_gradients[i] = -1;
    ls__find_required_gradients(&b);
    lower_forward(&b);
    if (b.status == LS_OK) ls__warn_of_few_values(&b);
    if (p->gradients) ls__lower_backward(&b);
    return b.status == LS_OK ? ls__fuse_batch_norms(&b) : b.status;
}
