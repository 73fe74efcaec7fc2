/* graph.c: appends the nodes of a model, and checks the shapes of their inputs. */
#include "nn/graph/graph.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
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

/* ---- Errors ---- */

ls_node *ls_graph_fail(ls_graph *graph, ls_status status, const char *format, ...)
{
    if (!graph || ls__has_error(graph->ctx)) return NULL;
    va_list args;
    va_start(args, format);
    ls__fail_v(graph->ctx, status, format, args);
    va_end(args);
    return NULL;
}

ls_status ls__node_fail(const ls_node *node, ls_status status, const char *format, ...)
{
    char text[LS__MESSAGE_SIZE];
    va_list args;
    va_start(args, format);
    ls__vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return ls__fail(node->graph->ctx, status, "%s '%s': %s", node->layer->name, node->name, text);
}

ls_status ls__node_expect(const ls_node *node, const ls_spec *input, int n_dims, const char *dims)
{
    char text[LS_SHAPE_TEXT_SIZE];
    if (input->dtype != LS_F32)
        return ls__node_fail(node, LS_ERR_TYPE, "input is %s, expected F32",
                             ls_dtype_name(input->dtype));
    if (n_dims > 0 && input->shape.n_dims != n_dims)
        return ls__node_fail(node, LS_ERR_SHAPE, "input %s has %d dimensions, expected %s",
                             ls_shape_text(&input->shape, text, sizeof text), input->shape.n_dims,
                             dims);
    return LS_OK;
}

ls_status ls__node_expect_weight(const ls_node *node, const ls_shape *x, int dim, int64_t groups,
                                 const char *what)
{
    const int weight = node->parameters[LS__WEIGHT];
    if (weight < 0) return LS_OK; /* it is added after the first inference */
    const int64_t expected = groups * node->graph->parameters[weight].shape.dims[dim];
    const int64_t got = x->dims[x->n_dims - 1];
    char text[LS_SHAPE_TEXT_SIZE];
    if (got == expected) return LS_OK;
    return ls__node_fail(node, LS_ERR_SHAPE, "weight has %lld %s, input %s has %lld",
                         (long long)expected, what, ls_shape_text(x, text, sizeof text),
                         (long long)got);
}

ls_status ls__node_slide(const ls_node *node, const ls_shape *x, const int64_t extent[2],
                         const int64_t padding[2], const int64_t stride[2], int64_t out[2])
{
    static const char *const axis[2] = { "height", "width" };
    char text[LS_SHAPE_TEXT_SIZE];
    for (int i = 0; i < 2; i++) {
        const int64_t slack = x->dims[1 + i] + 2 * padding[i] - extent[i];
        if (slack < 0)
            return ls__node_fail(
                node, LS_ERR_SHAPE,
                "%s %lld of input %s with padding %lld is smaller than the kernel's extent %lld",
                axis[i], (long long)x->dims[1 + i], ls_shape_text(x, text, sizeof text),
                (long long)padding[i], (long long)extent[i]);
        out[i] = slack / stride[i] + 1;
    }
    return LS_OK;
}

bool ls__graph_accepts(ls_graph *graph, const char *call, int n_inputs, ls_node *const *inputs)
{
    if (!graph || ls__has_error(graph->ctx)) return false;
    for (int i = 0; i < n_inputs; i++) {
        if (!inputs[i]) return false;
        if (inputs[i]->graph != graph)
            return ls_graph_fail(graph, LS_ERR_INVALID,
                                 "%s: input %d ('%s') belongs to another graph", call, i,
                                 inputs[i]->name);
    }
    return true;
}

/* ---- Names ---- */

void ls_scope_begin(ls_graph *graph, const char *format, ...)
{
    if (!graph || ls__has_error(graph->ctx)) return;
    const size_t length = strlen(graph->scope);
    if (graph->n_scopes == LS__MAX_SCOPES) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "ls_scope_begin: more than %d scopes are open",
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
                 "ls_scope_begin: the name is NULL, or longer than %d characters",
                 LS__MAX_NAME - 2);
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

/* Checkpoints hold names as JSON. */
#define NOT_UTF8 "the name, with those of its scopes, is not UTF-8"

/* "layer1.0.conv1"; unnamed nodes are numbered by kind: "layer1.0.relu", "layer1.0.relu2". */
static const char *make_name(ls_graph *graph, const ls__layer *layer, const char *name)
{
    char text[2 * LS__MAX_NAME];
    if (name) {
        if (!name[0] || strlen(name) >= LS__MAX_NAME)
            return ls_graph_fail(graph, LS_ERR_INVALID, "%s: a name must have 1 to %d characters",
                                 layer->name, LS__MAX_NAME - 1),
                   NULL;
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
    if (!ls__utf8_is_valid(text))
        return ls_graph_fail(graph, LS_ERR_INVALID, "%s: " NOT_UTF8, layer->name), NULL;
    const char *copy = ls__bump_strdup(&graph->bump, text);
    if (!copy) ls__fail_memory(graph->ctx, text, strlen(text));
    return copy;
}

/* ---- Nodes and parameters ---- */

ls_node *ls__graph_append(ls_graph *graph, const ls_node *prototype, const char *name, int n_inputs,
                          ls_node *const *inputs)
{
    if (!ls__graph_accepts(graph, prototype->layer->name, n_inputs, inputs)) return NULL;
    const char *full_name = make_name(graph, prototype->layer, name);
    if (!full_name) return NULL;
    ls_node **nodes = ls__bump_room(&graph->bump, graph->nodes, (size_t)graph->n_nodes, 1,
                                    &graph->node_capacity, sizeof *nodes);
    ls_node *node = ls__bump_alloc(&graph->bump, sizeof *node);
    if (nodes) graph->nodes = nodes;
    if (!nodes || !node) return ls__fail_memory(graph->ctx, full_name, sizeof *node), NULL;
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
    if (ls_shape_element_count(&node->spec.shape) < 0) {
        char text[LS_SHAPE_TEXT_SIZE];
        ls__node_fail(node, LS_ERR_SHAPE, "its output would be %s: too many elements",
                      ls_shape_text(&node->spec.shape, text, sizeof text));
        return NULL;
    }
    graph->nodes[graph->n_nodes++] = node;
    return node;
}

int64_t ls__find_parameter(int64_t n, const ls__parameter *parameters, const char *name)
{
    for (int64_t i = 0; name && i < n; i++)
        if (strcmp(parameters[i].name, name) == 0) return i;
    return -1;
}

int64_t ls__parameter_elements(const ls_graph *graph)
{
    int64_t count = 0;
    for (int i = 0; i < graph->n_parameters; i++)
        if (graph->parameters[i].kind != LS_PARAMETER_BUFFER) count += graph->parameters[i].count;
    return count;
}

ls_status ls__node_add_parameter(ls_node *node, int role, const char *suffix,
                                 ls_parameter_kind kind, ls_shape shape, ls__parameter_init init)
{
    ls_graph *graph = node->graph;
    char text[3 * LS__MAX_NAME];
    snprintf(text, sizeof text, "%s%s%s", node->name, suffix ? "." : "", suffix ? suffix : "");
    if (!ls__utf8_is_valid(text))
        return ls__node_fail(node, LS_ERR_INVALID, "a parameter's name is not UTF-8");
    if (ls__find_parameter(graph->n_parameters, graph->parameters, text) >= 0)
        return ls__node_fail(node, LS_ERR_INVALID, "the net has a parameter '%s' already", text);
    const int64_t count = ls_shape_element_count(&shape);
    if (count <= 0) {
        char shape_text[LS_SHAPE_TEXT_SIZE];
        return ls__node_fail(node, LS_ERR_SHAPE, "parameter '%s' would have shape %s", text,
                             ls_shape_text(&shape, shape_text, sizeof shape_text));
    }
    const size_t n = (size_t)graph->n_parameters;
    size_t capacity = graph->parameter_capacity, init_capacity = capacity;
    ls__parameter *parameters =
        ls__bump_room(&graph->bump, graph->parameters, n, 1, &capacity, sizeof *parameters);
    ls__parameter_init *inits =
        ls__bump_room(&graph->bump, graph->inits, n, 1, &init_capacity, sizeof *inits);
    char *name = ls__bump_strdup(&graph->bump, text);
    if (!parameters || !inits || !name) return ls__fail_memory(graph->ctx, text, strlen(text));
    graph->parameters = parameters;
    graph->inits = inits;
    graph->parameter_capacity = capacity;
    parameters[n] = (ls__parameter){ .name = name, .kind = kind, .shape = shape, .count = count };
    inits[n] = init;
    node->parameters[role] = graph->n_parameters++;
    return LS_OK;
}

bool ls__init_resolve(ls_init *init, ls_init layer_default)
{
    if (*init == LS_INIT_DEFAULT) *init = layer_default;
    return *init >= LS_INIT_DEFAULT && *init <= LS_INIT_ONE;
}

ls_node *ls__node_add_weights(ls_node *node, ls_shape shape, ls__parameter_init init, bool has_bias,
                              ls__parameter_init bias_init)
{
    ls_status status =
        ls__node_add_parameter(node, LS__WEIGHT, "weight", LS_PARAMETER_WEIGHT, shape, init);
    if (status == LS_OK && has_bias)
        status = ls__node_add_parameter(node, LS__BIAS, "bias", LS_PARAMETER_BIAS,
                                        LS_SHAPE(shape.dims[0]), bias_init);
    return status == LS_OK ? node : NULL;
}

int ls__find_named(const ls__named_list *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->items[i].name, name) == 0) return i;
    return -1;
}

ls_node *ls__graph_name_node(ls__named_list *list, const char *call, const char *name,
                             ls_node *node, float weight)
{
    ls_graph *graph = node->graph;
    if (!name || !name[0])
        return ls_graph_fail(graph, LS_ERR_INVALID, "%s: a name is required", call);
    if (!ls__utf8_is_valid(name))
        return ls_graph_fail(graph, LS_ERR_INVALID, "%s: " NOT_UTF8, call);
    if (ls__find_named(list, name) >= 0)
        return ls_graph_fail(graph, LS_ERR_INVALID, "%s: the name '%s' is taken", call, name);
    ls__named_node *items = ls__bump_room(&graph->bump, list->items, (size_t)list->n, 1,
                                          &list->capacity, sizeof *items);
    const char *copy = ls__bump_strdup(&graph->bump, name);
    if (items) list->items = items;
    if (!items || !copy) return ls__fail_memory(graph->ctx, name, strlen(name)), NULL;
    list->items[list->n++] = (ls__named_node){ .name = copy, .node = node, .weight = weight };
    return node;
}

/* ---- The nearest existing names, for errors about unknown names ---- */

enum { MAX_NAMES = 3 };

/* The names found so far that are nearest to `unknown`, best first; of equal ones the earlier. */
typedef struct search {
    const char *unknown;
    const char *names[MAX_NAMES];
    size_t distances[MAX_NAMES];
    int n, n_seen;
} search;

/* Levenshtein distance: the number of inserted, removed or replaced characters. */
static size_t distance_of(const char *a, const char *b)
{
    size_t row[LS__MAX_NAME + 1];
    const size_t n = strlen(b) < LS__MAX_NAME ? strlen(b) : LS__MAX_NAME;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            const size_t replaced = diagonal + (a[i] != b[j - 1]);
            diagonal = row[j];
            row[j] = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            if (replaced < row[j]) row[j] = replaced;
        }
    }
    return row[n];
}

static void consider(search *s, const char *name)
{
    const size_t distance = distance_of(s->unknown, name);
    s->n_seen++;
    if (s->n < MAX_NAMES)
        s->n++;
    else if (distance >= s->distances[MAX_NAMES - 1])
        return;
    int at = s->n - 1;
    for (; at > 0 && s->distances[at - 1] > distance; at--) {
        s->distances[at] = s->distances[at - 1];
        s->names[at] = s->names[at - 1];
    }
    s->distances[at] = distance;
    s->names[at] = name;
}

static const char *put_name(const search *s, const char *what, char buffer[LS__NAMES_TEXT_SIZE])
{
    ls__text text = { buffer, LS__NAMES_TEXT_SIZE, 0 };
    if (s->n_seen == 0) {
        ls__text_put(&text, "it has no %s", what);
        return buffer;
    }
    ls__text_put(&text, "it has %d %s%s", s->n_seen, what,
                 s->n_seen > MAX_NAMES ? ", the nearest:" : ":");
    for (int i = 0; i < s->n; i++)
        ls__text_put(&text, "%s '%.*s'", i > 0 ? "," : "", LS__CUT(s->names[i], 120));
    return buffer;
}

int ls__expect_named(ls_context *ctx, const ls__named_list *list, const char *call,
                     const char *what, const char *name)
{
    const int found = name ? ls__find_named(list, name) : -1;
    if (found >= 0) return found;
    search s = { .unknown = name ? name : "(null)" };
    for (int i = 0; i < list->n; i++) consider(&s, list->items[i].name);
    char plural[32], names[LS__NAMES_TEXT_SIZE];
    snprintf(plural, sizeof plural, "%ss", what);
    ls__fail(ctx, LS_ERR_NOT_FOUND, "%s: the net has no %s '%s'; %s", call, what, s.unknown,
             put_name(&s, plural, names));
    return -1;
}

const char *ls__nearest_parameters(int64_t n, const ls__parameter *parameters, bool buffers,
                                   const char *unknown, char buffer[LS__NAMES_TEXT_SIZE])
{
    search s = { .unknown = unknown };
    for (int64_t i = 0; i < n; i++)
        if (buffers || parameters[i].kind != LS_PARAMETER_BUFFER) consider(&s, parameters[i].name);
    return put_name(&s, buffers ? "parameters and buffers" : "parameters", buffer);
}
