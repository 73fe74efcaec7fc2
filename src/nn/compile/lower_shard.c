/* lower_shard.c: the results of a shard other than its gradients: see plan/shard.h. Copies into the
 * block of gradients. */
#include "base/error.h"
#include "nn/compile/compile.h"
#include "nn/layers/layers.h"
#include "nn/plan/shard.h"

static const ls_node shard_node = { .layer = &ls__parameter_layer, .name = "shard" };

/* Copies a value of rank 1 to the block of gradients. */
static void copy_to(ls__builder *b, int value, int64_t count, int64_t offset)
{
    const int to = ls__value_at(b, LS_F32, LS_SHAPE(count), LS__PLACE_GRADIENTS, offset);
    ls__emit(b, &(ls__op){ .kind = LS__OP_REORDER }, 1, &value, 1, &to);
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
void ls__begin_shard(ls__builder *b)
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

void ls__end_shard(ls__builder *b)
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
