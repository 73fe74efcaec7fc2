/* graph.c: appends the nodes of a model. */
#include "nn/graph/graph.h"

#include "base/alloc.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

ls_shape ls_node_shape(const ls_node *node)
{
    return node ? node->spec.shape : (ls_shape){ .n_dims = -1 };
}

ls_context *ls_graph_context(ls_graph *graph)
{
    return graph ? graph->ctx : NULL;
}

void ls__graph_open(ls_graph *graph, ls_context *ctx)
{
    *graph = (ls_graph){ .ctx = ctx };
    ls__bump_open(&graph->bump, ctx);
}

void ls__graph_close(ls_graph *graph)
{
    ls__bump_close(&graph->bump);
}

ls_status ls__node_fail(const ls_node *node, ls_status status, const char *format, ...)
{
    char text[LS__MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ls__fail(node->graph->ctx, status, "%s '%s': %s", node->layer->name, node->name, text);
}

ls_status ls__node_expect(const ls_node *node, const ls_spec *input, int n_dims, const char *wanted)
{
    char text[LS_SHAPE_TEXT_SIZE];
    if (input->dtype != LS_F32)
        return ls__node_fail(node, LS_ERR_TYPE, "input is %s, wanted F32",
                             ls_dtype_name(input->dtype));
    if (n_dims > 0 && input->shape.n_dims != n_dims)
        return ls__node_fail(node, LS_ERR_SHAPE, "input %s has %d dimensions, wanted %s",
                             ls_shape_text(&input->shape, text, sizeof text), input->shape.n_dims,
                             wanted);
    return LS_OK;
}

bool ls__graph_accepts(ls_graph *graph, const char *call, int n_inputs, ls_node *const *inputs)
{
    if (!graph || ls__has_error(graph->ctx)) return false;
    for (int i = 0; i < n_inputs; i++) {
        if (!inputs[i]) return false;
        if (inputs[i]->graph != graph) {
            ls__fail(graph->ctx, LS_ERR_INVALID, "%s: input %d ('%s') belongs to another graph",
                     call, i, inputs[i]->name);
            return false;
        }
    }
    return true;
}

void ls_scope(ls_graph *graph, const char *format, ...)
{
    if (!graph || ls__has_error(graph->ctx)) return;
    const size_t length = strlen(graph->scope);
    if (graph->n_scopes == LS__MAX_SCOPES) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "ls_scope: more than %d scopes are open",
                 LS__MAX_SCOPES);
        return;
    }
    va_list args;
    va_start(args, format);
    const int added =
        format ? vsnprintf(graph->scope + length, LS__MAX_NAME - length, format, args) : -1;
    va_end(args);
    if (added < 0 || length + (size_t)added + 2 > LS__MAX_NAME) {
        graph->scope[length] = 0;
        ls__fail(graph->ctx, LS_ERR_INVALID,
                 "ls_scope: the name is NULL, or longer than %d characters", LS__MAX_NAME - 2);
        return;
    }
    memcpy(graph->scope + length + (size_t)added, ".", 2);
    graph->scopes[graph->n_scopes++] = (int)length;
}

void ls_scope_end(ls_graph *graph)
{
    if (!graph || ls__has_error(graph->ctx)) return;
    if (graph->n_scopes == 0) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "ls_scope_end: no scope is open");
        return;
    }
    graph->scope[graph->scopes[--graph->n_scopes]] = 0;
}

/* "layer1.0.conv1"; unnamed nodes are numbered by kind: "layer1.0.relu", "layer1.0.relu2". */
static const char *make_name(ls_graph *graph, const ls__layer *layer, const char *name)
{
    char text[2 * LS__MAX_NAME];
    if (name) {
        if (!name[0] || strlen(name) >= LS__MAX_NAME) {
            ls__fail(graph->ctx, LS_ERR_INVALID, "%s: a name must have 1 to %d characters",
                     layer->name, LS__MAX_NAME - 1);
            return NULL;
        }
        snprintf(text, sizeof text, "%s%s", graph->scope, name);
    } else {
        int same = 0;
        const size_t length =
            (size_t)snprintf(text, sizeof text, "%s%s", graph->scope, layer->name);
        for (int i = 0; i < graph->n_nodes; i++) {
            const ls_node *node = graph->nodes[i];
            same += node->layer == layer && strncmp(node->name, text, length) == 0;
        }
        if (same > 0) snprintf(text + length, sizeof text - length, "%d", same + 1);
    }
    const char *copy = ls__bump_strdup(&graph->bump, text);
    if (!copy) ls__fail_memory(graph->ctx, text, strlen(text));
    return copy;
}

ls_node *ls__graph_append(ls_graph *graph, const ls_node *prototype, const char *name, int n_inputs,
                          ls_node *const *inputs)
{
    const char *full_name = make_name(graph, prototype->layer, name);
    if (!full_name) return NULL;
    ls_node **nodes = ls__bump_room(&graph->bump, graph->nodes, (size_t)graph->n_nodes, 1,
                                    &graph->node_room, sizeof *nodes);
    if (!nodes) {
        ls__fail_memory(graph->ctx, full_name, sizeof *nodes);
        return NULL;
    }
    graph->nodes = nodes;
    ls_node *node = ls__bump_alloc(&graph->bump, sizeof *node);
    if (!node) {
        ls__fail_memory(graph->ctx, full_name, sizeof *node);
        return NULL;
    }
    *node = *prototype;
    node->graph = graph;
    node->id = graph->n_nodes;
    node->name = full_name;
    node->n_inputs = n_inputs;
    ls_spec specs[LS__MAX_NODE_INPUTS];
    for (int i = 0; i < n_inputs; i++) {
        node->inputs[i] = inputs[i];
        specs[i] = inputs[i]->spec;
    }
    for (int i = 0; i < LS__MAX_NODE_PARAMETERS; i++) node->parameters[i] = -1;
    if (node->layer->infer(node, specs, &node->spec) != LS_OK) return NULL;
    if (ls_shape_count(&node->spec.shape) < 0) {
        char text[LS_SHAPE_TEXT_SIZE];
        ls__node_fail(node, LS_ERR_SHAPE, "its output would be %s: too many elements",
                      ls_shape_text(&node->spec.shape, text, sizeof text));
        return NULL;
    }
    graph->nodes[graph->n_nodes++] = node;
    return node;
}

static bool parameter_exists(const ls_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_parameters; i++)
        if (strcmp(graph->parameters[i].name, name) == 0) return true;
    return false;
}

bool ls__graph_add_parameter(ls_graph *graph, ls_node *node, int role, const char *suffix,
                             ls_parameter_kind kind, ls_shape shape, ls__parameter_init init)
{
    char text[3 * LS__MAX_NAME];
    if (suffix)
        snprintf(text, sizeof text, "%s.%s", node->name, suffix);
    else
        snprintf(text, sizeof text, "%s", node->name);
    if (parameter_exists(graph, text)) {
        ls__node_fail(node, LS_ERR_INVALID, "the net has a parameter '%s' already", text);
        return false;
    }
    const int64_t count = ls_shape_count(&shape);
    if (count <= 0) {
        char shape_text[LS_SHAPE_TEXT_SIZE];
        ls__node_fail(node, LS_ERR_SHAPE, "parameter '%s' would have shape %s", text,
                      ls_shape_text(&shape, shape_text, sizeof shape_text));
        return false;
    }
    const size_t n = (size_t)graph->n_parameters;
    size_t room = graph->parameter_room, init_room = room;
    ls__parameter *parameters =
        ls__bump_room(&graph->bump, graph->parameters, n, 1, &room, sizeof *parameters);
    ls__parameter_init *inits =
        ls__bump_room(&graph->bump, graph->inits, n, 1, &init_room, sizeof *inits);
    char *name = ls__bump_strdup(&graph->bump, text);
    if (!parameters || !inits || !name) {
        ls__fail_memory(graph->ctx, text, strlen(text));
        return false;
    }
    graph->parameters = parameters;
    graph->inits = inits;
    graph->parameter_room = room;
    const int index = graph->n_parameters++;
    graph->parameters[index] =
        (ls__parameter){ .name = name, .kind = kind, .shape = shape, .count = count };
    graph->inits[index] = init;
    node->parameters[role] = index;
    return true;
}

const ls__named_node *ls__find_named(const ls__named_list *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, name) == 0) return &list->items[i];
    return NULL;
}

bool ls__graph_name_node(ls_graph *graph, ls__named_list *list, const char *what, const char *name,
                         ls_node *node, float weight)
{
    if (!name || !name[0]) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "%s: a name is needed", what);
        return false;
    }
    if (ls__find_named(list, name)) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "%s: the name '%s' is taken", what, name);
        return false;
    }
    ls__named_node *items =
        ls__bump_room(&graph->bump, list->items, (size_t)list->n, 1, &list->room, sizeof *items);
    const char *copy = ls__bump_strdup(&graph->bump, name);
    if (items) list->items = items;
    if (!items || !copy) {
        ls__fail_memory(graph->ctx, name, strlen(name));
        return false;
    }
    list->items[list->n++] = (ls__named_node){ .name = copy, .node = node, .weight = weight };
    return true;
}
