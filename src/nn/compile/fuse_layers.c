/* fuse_layers.c: fuses nodes, on every backend: batch norm + add, batch norm (+ add) + ReLU or
 * ReLU6, add + ReLU, linear + ReLU. A node is absorbed only by its only consumer. */
#include "nn/compile/compile.h"
#include "nn/layers/layers.h"

/* Marks the nodes that outputs, losses and metrics depend on; counts the consumers of each node,
 * which include outputs, losses and metrics. */
static void mark_needed(const ls_graph *graph, bool *needed, int *consumers)
{
    const ls__named_list *const lists[] = { &graph->outputs, &graph->losses, &graph->metrics };
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        for (int i = 0; i < lists[l]->n; i++) {
            needed[lists[l]->items[i].node->id] = true;
            consumers[lists[l]->items[i].node->id]++;
        }
    }
    for (int i = graph->n_nodes - 1; i >= 0; i--) {
        if (!needed[i]) continue;
        const ls_node *node = graph->nodes[i];
        for (int j = 0; j < node->n_inputs; j++) {
            needed[node->inputs[j]->id] = true;
            consumers[node->inputs[j]->id]++;
        }
    }
}

typedef struct fusing {
    ls__fused_op *ops;
    int *op_of;     /* per node: the index of its fused op; -1 = not needed */
    int *consumers; /* per node */
} fusing;

/* The fused op that ends with this node, if the node's only consumer can absorb it. */
static ls__fused_op *absorbable(const fusing *f, const ls_node *node)
{
    if (f->consumers[node->id] != 1 || f->op_of[node->id] < 0) return NULL;
    ls__fused_op *fused = &f->ops[f->op_of[node->id]];
    return fused->activation ? NULL : fused;
}

/* Extends an earlier fused op by `node` if possible, and returns it. */
static ls__fused_op *absorb(const fusing *f, const ls_node *node)
{
    const bool relu = node->layer->op == LS__OP_RELU;
    if (relu || node->layer->op == LS__OP_RELU6) {
        ls__fused_op *fused = absorbable(f, node->inputs[0]);
        const ls__layer *head = fused ? fused->head->layer : NULL;
        if (head != &ls__batch_norm_layer &&
            !(relu && (head == &ls__add_layer || head == &ls__linear_layer)))
            return NULL;
        fused->activation = relu ? LS__ACTIVATION_RELU : LS__ACTIVATION_RELU6;
        return fused;
    }
    if (node->layer == &ls__add_layer && node->inputs[0] != node->inputs[1]) {
        for (int i = 0; i < 2; i++) { /* the main path is usually first */
            ls__fused_op *fused = absorbable(f, node->inputs[i]);
            if (!fused || fused->head->layer != &ls__batch_norm_layer || fused->addend) continue;
            fused->addend = node->inputs[1 - i];
            return fused;
        }
    }
    return NULL;
}

ls__fused_op *ls__fuse_layers(const ls_graph *graph, ls__bump *bump, int *n_fused_ops)
{
    const size_t n = (size_t)graph->n_nodes;
    bool *needed = ls__bump_alloc(bump, n * sizeof *needed);
    fusing f = { .ops = ls__bump_alloc(bump, n * sizeof *f.ops),
                 .op_of = ls__bump_alloc(bump, n * sizeof *f.op_of),
                 .consumers = ls__bump_alloc(bump, n * sizeof *f.consumers) };
    ls__fused_op *ordered = ls__bump_alloc(bump, n * sizeof *ordered);
    if (!needed || !f.ops || !f.op_of || !f.consumers || !ordered) return NULL;
    mark_needed(graph, needed, f.consumers);
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const ls_node *node = graph->nodes[i];
        f.op_of[i] = -1;
        if (!needed[i]) continue;
        ls__fused_op *fused = absorb(&f, node);
        if (!fused) {
            fused = &f.ops[count++];
            fused->head = node;
        }
        fused->tail = node;
        f.op_of[i] = (int)(fused - f.ops);
    }
    /* A fused op runs at the position of its last node, because its addend is computed by then. */
    *n_fused_ops = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        if (f.op_of[i] >= 0 && f.ops[f.op_of[i]].tail->id == i)
            ordered[(*n_fused_ops)++] = f.ops[f.op_of[i]];
    return ordered;
}
