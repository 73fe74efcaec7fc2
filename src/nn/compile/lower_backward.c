/* lower_backward.c: the backward pass of a program: the required gradients, the order of fused ops
 * and the order of their instructions. */
#include "arith/element.h"
#include "base/error.h"
#include "nn/compile/compile.h"
#include "nn/layers/layers.h"
#include "nn/plan/shard.h"

void ls__find_required_gradients(ls__builder *b)
{
    const ls_graph *graph = b->program->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        const ls_node *node = graph->nodes[i];
        bool required = node->layer == &ls__input_layer && node->u.input.requires_gradient;
        required |= ls__is_trained(b, node);
        for (int j = 0; j < node->n_inputs; j++)
            required |= b->requires_gradient[node->inputs[j]->id];
        b->requires_gradient[i] = required && !node->layer->has_no_gradient &&
                                  !(node->layer == &ls__custom_layer && !node->u.custom.backward);
    }
}

/* The gradient of the sum of losses with respect to one loss: its weight, times a synchronised
 * shard's share of the batch, times the loss scale if there is one. */
static int gradient_of_loss(ls__builder *b, const ls__named_node *loss)
{
    const ls__environment *env = b->program->env;
    const int weight = ls__value_constant(b, &loss->weight, 1);
    if (!env->scales_loss && !b->program->is_synced) return weight;
    int inputs[4] = { weight, -1, -1, -1 };
    if (b->program->is_synced) {
        const int64_t at = ls__shard_scalar(env->block_elements, LS__SHARD_WEIGHT);
        inputs[1] = ls__value_at(b, LS_F32, LS_SHAPE(1), LS__PLACE_GRADIENTS, at);
        inputs[2] = ls__value_at(b, LS_F32, LS_SHAPE(1), LS__PLACE_SHARD_RESULTS,
                                 at - env->parameter_elements);
    }
    if (env->scales_loss)
        inputs[3] = ls__value_at(b, LS_F32, LS_SHAPE(LS__LOSS_SCALE_SIZE), LS__PLACE_LOSS_SCALE, 0);
    const int dloss = ls__value_new(b, LS_F32, LS_SHAPE(1));
    ls__emit(b, &(ls__op){ .kind = LS__OP_LOSS_SCALE }, 4, inputs, 1, &dloss);
    return dloss;
}

/* Without losses the backward pass begins with gradients of the outputs, which the caller gives. */
static void contribute_outputs(ls__builder *b)
{
    const ls_graph *graph = b->program->graph;
    for (int i = 0; i < graph->outputs.n && graph->losses.n == 0; i++) {
        b->node = graph->outputs.items[i].node;
        if (!b->requires_gradient[b->node->id]) continue;
        const int gradient = ls__value_new(b, LS_F32, ls__spec_of(b, b->node)->shape);
        b->program->output_gradients[i] = gradient;
        ls__contribute(b, b->node, gradient);
    }
}

/* ---- The order of fused ops ---- */

/* The inputs of a fused op; returns their number. */
static int fused_inputs(const ls__fused_op *fused, const ls_node *out[LS__MAX_NODE_INPUTS + 1])
{
    int n = 0;
    for (; n < fused->head->n_inputs; n++) out[n] = fused->head->inputs[n];
    if (fused->addend) out[n++] = fused->addend;
    return n;
}

/* The backward order of fused ops: each after all its readers; of two candidates the deeper one
 * first. So a block's main path runs before its shortcut, whose gradient has the size of the
 * block's input. */
static int *backward_order(ls__builder *b)
{
    ls__program *p = b->program;
    const size_t n_fused_ops = (size_t)p->n_fused_ops, n_nodes = (size_t)p->graph->n_nodes;
    int *order = ls__bump_alloc(&p->bump, n_fused_ops * sizeof *order);
    /* Per node that ends a fused op: its depth, and the readers that have not run. */
    int *depth = ls__bump_alloc(&p->bump, n_nodes * sizeof *depth);
    int *readers = ls__bump_alloc(&p->bump, n_nodes * sizeof *readers);
    bool *done = ls__bump_alloc(&p->bump, n_fused_ops * sizeof *done);
    if (!order || !depth || !readers || !done) {
        b->status = ls__fail_memory(p->ctx, "program", n_nodes * sizeof *depth);
        return NULL;
    }
    const ls_node *inputs[LS__MAX_NODE_INPUTS + 1];
    for (int i = 0; i < p->n_fused_ops; i++) {
        int *own = &depth[p->fused_ops[i].tail->id];
        for (int j = fused_inputs(&p->fused_ops[i], inputs) - 1; j >= 0; j--) {
            readers[inputs[j]->id]++;
            if (depth[inputs[j]->id] >= *own) *own = depth[inputs[j]->id] + 1;
        }
    }
    for (int n = 0; n < p->n_fused_ops; n++) {
        int next = -1;
        for (int i = 0; i < p->n_fused_ops; i++) {
            const int id = p->fused_ops[i].tail->id;
            if (done[i] || readers[id] > 0) continue;
            if (next < 0 || depth[id] >= depth[p->fused_ops[next].tail->id]) next = i;
        }
        order[n] = next;
        done[next] = true;
        for (int j = fused_inputs(&p->fused_ops[next], inputs) - 1; j >= 0; j--)
            readers[inputs[j]->id]--;
    }
    return order;
}

/* ---- The order of instructions ---- */

/* A convolution's weight gradient is computed early, because its input can be freed then. If a
 * value has several readers (a block's main path and shortcut), all their gradients of it would
 * occupy memory while the weight gradients are computed. So an input's gradient that is larger than
 * dy is computed just before it is read, and dy is kept until then. */
static bool should_wait(const ls__program *p, const ls__instruction *in)
{
    return in->op.kind == LS__OP_CONV2D_BACKWARD_DATA &&
           p->values[in->operands[in->n_inputs]].bytes > p->values[in->operands[0]].bytes;
}

static bool reads(const ls__instruction *in, int value)
{
    for (int j = 0; j < in->n_inputs; j++)
        if (in->operands[j] == value) return true;
    return false;
}

static void let_gradients_wait(ls__program *p)
{
    for (int i = p->n_instructions - 1; i >= p->n_forward; i--) {
        const ls__instruction in = p->instructions[i];
        if (in.custom || !should_wait(p, &in)) continue;
        const int value = in.operands[in.n_inputs];
        int at = i;
        for (; at + 1 < p->n_instructions && !reads(&p->instructions[at + 1], value); at++)
            p->instructions[at] = p->instructions[at + 1];
        p->instructions[at] = in;
    }
}

void ls__lower_backward(ls__builder *b)
{
    if (b->status != LS_OK) return;
    ls__program *p = b->program;
    const ls_graph *graph = p->graph;
    const int *order = backward_order(b);
    b->backward = true;
    for (int i = 0; i < graph->losses.n && b->status == LS_OK; i++) {
        const ls__named_node *loss = &graph->losses.items[i];
        b->node = loss->node;
        ls__contribute(b, loss->node, gradient_of_loss(b, loss));
    }
    contribute_outputs(b);
    for (int i = 0; i < p->n_fused_ops && b->status == LS_OK; i++) {
        const ls__fused_op *fused = &p->fused_ops[order[i]];
        const ls__layer *layer = fused->head->layer;
        b->node = fused->tail;
        const int tail = fused->tail->id;
        if (layer->backward && b->requires_gradient[tail] && b->gradients[tail].n > 0)
            layer->backward(b, fused);
    }
    for (int i = 0; i < graph->inputs.n && b->status == LS_OK; i++) {
        b->node = graph->inputs.items[i].node;
        if (!b->requires_gradient[b->node->id]) continue;
        const int gradient = ls__gradient_of(b, b->node);
        p->input_gradients[i] = gradient;
        if (gradient >= 0) p->values[gradient].pinned = true;
    }
    if (b->status == LS_OK) let_gradients_wait(p);
}
