/* model_digest.c: a digest of the network: each node of the graph with settings, inputs, shape and
 * parameters, and the named inputs and outputs. */
#include "base/hash.h"
#include "base/text.h"
#include "nn/layers/layers.h"
#include "nn/net/net_state.h"
#include <string.h>

enum { LINE_SIZE = 1024 };

/* Two chains of hashes, 64 bits each. */
typedef struct chain {
    uint64_t words[2];
} chain;

static void add_bytes(chain *c, const void *bytes, size_t size)
{
    for (int i = 0; i < 2; i++) c->words[i] = ls__hash(bytes, size, c->words[i] + (uint64_t)i);
}

static void add_node(chain *c, const ls_graph *graph, const ls_node *node)
{
    char line[LINE_SIZE], shape[LS_SHAPE_TEXT_SIZE];
    ls__text t = { line, sizeof(line), 0 };
    ls__text_put(&t, "%s '%s' %s %s", node->layer->name, node->name,
                 ls_dtype_name(node->spec.dtype),
                 ls_shape_text(&node->spec.shape, shape, sizeof(shape)));
    for (int i = 0; i < node->n_inputs; i++) ls__text_put(&t, " %d", node->inputs[i]->id);
    if (node->layer->put_settings) node->layer->put_settings(node, &t);
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
    if (node->layer == &ls__custom_layer) {
        add_bytes(c, node->u.custom.kind, strlen(node->u.custom.kind));
        add_bytes(c, node->u.custom.settings, strlen(node->u.custom.settings));
    }
    const bool has_weights =
        node->layer == &ls__cross_entropy_layer || node->layer == &ls__binary_cross_entropy_layer;
    const float *weights = has_weights ? node->u.class_weights : NULL;
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
    return (ls_digest){ { c.words[0], c.words[1] } };
}
