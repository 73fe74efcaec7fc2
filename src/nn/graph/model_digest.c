/* model_digest.c: which network a net is, as one digest: every node of its graph with its settings,
 * inputs, shape and entries, and the places that have names. */
#include "base/hash.h"
#include "base/text.h"
#include "nn/graph/graph.h"
#include "nn/net_state.h"

#include <string.h>

enum { LINE_SIZE = 1024 };

/* 64 bits of each of two chains of hashes. */
typedef struct chain {
    uint64_t lanes[2];
} chain;

static void add_bytes(chain *c, const void *bytes, size_t size)
{
    for (int i = 0; i < 2; i++) c->lanes[i] = ls__hash(bytes, size, c->lanes[i] + (uint64_t)i);
}

static void put_integers(ls__text *t, int n, const int64_t *values)
{
    for (int i = 0; i < n; i++) ls__text_put(t, " %lld", (long long)values[i]);
}

/* Exactly. */
static void put_floats(ls__text *t, int n, const float *values)
{
    for (int i = 0; i < n; i++) {
        ls__text_put(t, " ");
        ls__text_put_exact(t, (double)values[i]);
    }
}

static void put_settings(ls__text *t, const ls_node *node)
{
    switch (node->kind) {
    case LS__NODE_NORMALIZE:
        put_floats(t, 4, node->u.normalize.mean);
        put_floats(t, 4, node->u.normalize.std);
        break;
    case LS__NODE_CONV2D:
        put_integers(t, 2, node->u.conv.kernel);
        put_integers(t, 2, node->u.conv.stride);
        put_integers(t, 2, node->u.conv.padding);
        put_integers(t, 2, node->u.conv.dilation);
        put_integers(t, 1, &node->u.conv.groups);
        break;
    case LS__NODE_BATCH_NORM:
        put_floats(t, 1, &node->u.norm.epsilon);
        put_floats(t, 1, &node->u.norm.momentum);
        break;
    case LS__NODE_MAX_POOL:
    case LS__NODE_AVG_POOL:
        put_integers(t, 1, &node->u.pool.kernel);
        put_integers(t, 1, &node->u.pool.stride);
        put_integers(t, 1, &node->u.pool.padding);
        break;
    case LS__NODE_DROPOUT:
        put_floats(t, 1, &node->u.dropout.probability);
        ls__text_put(t, " %u", (unsigned)node->u.dropout.layer);
        break;
    case LS__NODE_CROSS_ENTROPY: put_floats(t, 1, &node->u.loss.label_smoothing); break;
    case LS__NODE_TOP_K: put_integers(t, 1, &node->u.top_k.k); break;
    case LS__NODE_CUSTOM: ls__text_put(t, " %d", node->u.custom.backward != NULL); break;
    /* all that these have is in their inputs, shapes and entries */
    case LS__NODE_INPUT:
    case LS__NODE_PARAMETER:
    case LS__NODE_LINEAR:
    case LS__NODE_RELU:
    case LS__NODE_ADD:
    case LS__NODE_PAD_CHANNELS:
    case LS__NODE_GLOBAL_AVG_POOL:
    case LS__NODE_FLATTEN:
    case LS__N_NODE_KINDS: break;
    }
}

static void add_node(chain *c, const ls_graph *graph, const ls_node *node)
{
    char line[LINE_SIZE], shape[LS_SHAPE_TEXT_SIZE];
    ls__text t = { line, sizeof(line), 0 };
    ls__text_put(&t, "%s '%s' %s %s", ls__node_kind_text(node->kind), node->name,
                 ls_dtype_name(node->spec.dtype),
                 ls_shape_text(&node->spec.shape, shape, sizeof(shape)));
    for (int i = 0; i < node->n_inputs; i++) ls__text_put(&t, " %d", node->inputs[i]->id);
    put_settings(&t, node);
    for (int i = 0; i < LS__MAX_NODE_PARAMETERS; i++) {
        if (node->parameters[i] < 0) continue;
        const ls__parameter_init *init = &graph->inits[node->parameters[i]];
        ls__text_put(&t, " %d:%d %d ", i, (int)graph->parameters[node->parameters[i]].kind,
                     (int)init->init);
        ls__text_put_exact(&t, init->fan_in);
        ls__text_put(&t, " ");
        ls__text_put_exact(&t, init->fan_out);
    }
    add_bytes(c, line, strlen(line));
    if (node->kind == LS__NODE_CUSTOM) {
        add_bytes(c, node->u.custom.kind, strlen(node->u.custom.kind));
        add_bytes(c, node->u.custom.settings, strlen(node->u.custom.settings));
    }
    const float *weights = node->kind == LS__NODE_CROSS_ENTROPY ? node->u.loss.class_weights : NULL;
    if (weights)
        add_bytes(c, weights, (size_t)node->inputs[0]->spec.shape.dims[1] * sizeof(*weights));
}

static void add_names(chain *c, const ls__named_list *list)
{
    char line[LINE_SIZE];
    for (int i = 0; i < list->n; i++) {
        ls__text t = { line, sizeof(line), 0 };
        ls__text_put(&t, "'%s' %d ", list->items[i].name, list->items[i].node->id);
        ls__text_put_exact(&t, (double)list->items[i].weight);
        add_bytes(c, line, strlen(line));
    }
}

ls_digest ls__net_model_digest(const ls_net *net)
{
    const ls_graph *graph = &net->graph;
    chain c = { { 0, 0 } };
    for (int i = 0; i < graph->n_nodes; i++) add_node(&c, graph, graph->nodes[i]);
    add_names(&c, &graph->inputs);
    add_names(&c, &graph->outputs);
    add_names(&c, &graph->losses);
    add_names(&c, &graph->metrics);
    return (ls_digest){ { c.lanes[0], c.lanes[1] } };
}
