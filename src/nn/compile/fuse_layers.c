/* fuse_layers.c: fuses nodes, on every backend: batch norm + ReLU, batch norm + add, batch norm +
 * add + ReLU, add + ReLU, linear + ReLU. A node is absorbed only if the next node is its only
 * consumer. */
#include "nn/compile/compile.h"
#include "nn/layers/layers.h"

/* Marks the nodes that named nodes depend on; counts the consumers of each node, names included. */
static void mark(const ls_graph *graph, bool *needed, int *consumers)
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

/* The fused op that ends with this node, if the node's only consumer can absorb it. */
static ls__fused_op *absorbable(ls__fused_op *fused_ops, const int *stage_of, const int *consumers,
                                const ls_node *node, const ls__layer *head)
{
    if (consumers[node->id] != 1 || stage_of[node->id] < 0) return NULL;
    ls__fused_op *fused = &fused_ops[stage_of[node->id]];
    return fused->head->layer == head && !fused->relu ? fused : NULL;
}

/* Extends an earlier fused op by `node` if possible, and returns it. */
static ls__fused_op *absorb(ls__fused_op *fused_ops, const int *stage_of, const int *consumers,
                            const ls_node *node)
{
    if (node->layer == &ls__relu_layer) {
        const ls_node *x = node->inputs[0];
        ls__fused_op *fused = absorbable(fused_ops, stage_of, consumers, x, &ls__batch_norm_layer);
        if (!fused) fused = absorbable(fused_ops, stage_of, consumers, x, &ls__add_layer);
        if (!fused) fused = absorbable(fused_ops, stage_of, consumers, x, &ls__linear_layer);
        if (fused) fused->relu = true;
        return fused;
    }
    if (node->layer == &ls__add_layer && node->inputs[0] != node->inputs[1]) {
        for (int i = 0; i < 2; i++) { /* the main path is usually first */
            ls__fused_op *fused =
                absorbable(fused_ops, stage_of, consumers, node->inputs[i], &ls__batch_norm_layer);
            if (!fused || fused->addend) continue;
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
    int *consumers = ls__bump_alloc(bump, n * sizeof *consumers);
    int *stage_of = ls__bump_alloc(bump, n * sizeof *stage_of);
    ls__fused_op *fused_ops = ls__bump_alloc(bump, n * sizeof *fused_ops);
    ls__fused_op *ordered = ls__bump_alloc(bump, n * sizeof *ordered);
    if (!needed || !consumers || !stage_of || !fused_ops || !ordered) return NULL;
    mark(graph, needed, consumers);
    int count = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const ls_node *node = graph->nodes[i];
        stage_of[i] = -1;
        if (!needed[i]) continue;
        ls__fused_op *fused = absorb(fused_ops, stage_of, consumers, node);
        if (!fused) {
            fused = &fused_ops[count++];
            fused->head = node;
        }
        fused->tail = node;
        stage_of[i] = (int)(fused - fused_ops);
    }
    /* A fused op runs at the position of its last node, because its addend is computed by then. */
    int placed = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        if (stage_of[i] >= 0 && fused_ops[stage_of[i]].tail->id == i)
            ordered[placed++] = fused_ops[stage_of[i]];
    *n_fused_ops = placed;
    return ordered;
}
