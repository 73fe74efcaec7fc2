/* graph.h: the graph of a model: one node per layer call, in order. Shapes here have the batch of
 * the net's config; programs infer shapes for other batches through the layers' `infer`. */
#ifndef LS_NN_GRAPH_GRAPH_H
#define LS_NN_GRAPH_GRAPH_H

#include "base/bump.h"
#include "base/context.h"
#include "base/strict_math.h"
#include "nn/graph/layer.h"
#include "nn/graph/parameter.h"

/* Roles of a layer's parameters and buffers; -1 = absent. */
enum { LS__WEIGHT, LS__BIAS, LS__RUNNING_MEAN, LS__RUNNING_VAR, LS__MAX_NODE_PARAMETERS };

/* Of a user's op or a concatenation; others have up to 3. */
enum { LS__MAX_NODE_INPUTS = LS_MAX_CONCAT_INPUTS };

struct ls_node {
    ls_graph *graph;
    int id; /* index in graph->nodes */
    const ls__layer *layer;
    const char *name;
    ls_spec spec; /* of the output, with the config's batch */
    int n_inputs;
    ls_node *inputs[LS__MAX_NODE_INPUTS];
    int parameters[LS__MAX_NODE_PARAMETERS]; /* indices in graph->parameters */
    union {
        struct {
            bool wants_gradient;
            int64_t classes; /* values must be -1..classes-1; 0: any value */
        } input;
        struct {
            int64_t kernel[2], stride[2], padding[2], dilation[2], groups, channels;
        } conv;
        struct {
            int64_t features;
        } linear;
        struct {
            float epsilon, momentum;
        } norm;
        struct {
            int64_t kernel, stride, padding;
        } pool;
        struct {
            float mean[4], std[4];
        } normalize;
        struct {
            float probability;
            uint32_t layer;
        } dropout;
        struct {
            float label_smoothing;
            const float *class_weights; /* [K] or NULL */
        } loss;
        struct {
            int64_t channels;
        } pad;
        struct {
            int64_t k;
        } top_k;
        ls_op_config custom; /* `kind` and `settings` copied */
    } u;
};

/* The initialisation of a parameter. */
typedef struct ls__parameter_init {
    ls_init init;
    double fan_in, fan_out;
} ls__parameter_init;

typedef struct ls__named_node {
    const char *name;
    ls_node *node;
    float weight; /* losses */
} ls__named_node;

/* Arrays that grow by doubling in the graph's bump memory. */
typedef struct ls__named_list {
    ls__named_node *items;
    int n;
    size_t room;
} ls__named_list;

enum { LS__MAX_SCOPES = 16, LS__MAX_NAME = 256 };

struct ls_graph {
    ls_context *ctx;
    ls__bump bump;
    ls_node **nodes;
    int n_nodes;
    size_t node_room;
    ls__parameter *parameters; /* offsets are assigned when the net is built */
    ls__parameter_init *inits;
    int n_parameters;
    size_t parameter_room;
    ls__named_list inputs, outputs, losses, metrics;
    int scopes[LS__MAX_SCOPES]; /* length of `scope` before each was opened */
    int n_scopes;
    char scope[LS__MAX_NAME]; /* "layer1.0." */
    uint32_t n_dropouts;
};

void ls__graph_open(ls_graph *graph, ls_context *ctx);
void ls__graph_close(ls_graph *graph);

/* True if a layer call may proceed. False after an unread error, for a NULL graph or input, and
 * with an error for an input of another graph. */
bool ls__graph_accepts(ls_graph *graph, const char *call, int n_inputs, ls_node *const *inputs);

/* Appends a node, infers its shape and returns it; on failure NULL and an error. `name` NULL:
 * made from the layer's. The node's `u` is a copy of prototype's. */
ls_node *ls__graph_append(ls_graph *graph, const ls_node *prototype, const char *name, int n_inputs,
                          ls_node *const *inputs);

/* Adds a parameter "<node>.<suffix>" to a node; on failure false and an error. suffix NULL: the
 * node's name. */
bool ls__graph_add_parameter(ls_graph *graph, ls_node *node, int role, const char *suffix,
                             ls_parameter_kind kind, ls_shape shape, ls__parameter_init init);

/* On failure (memory, duplicate name) false and an error. */
bool ls__graph_name_node(ls_graph *graph, ls__named_list *list, const char *what, const char *name,
                         ls_node *node, float weight);
const ls__named_node *ls__find_named(const ls__named_list *list, const char *name);

/* An error about a node: "conv2d 'layer1.0.conv1': ...". */
ls_status ls__node_fail(const ls_node *node, ls_status status, const char *format, ...)
    LS_PRINTF(3, 4);
/* Fails unless a node's input is f32 with the given number of dimensions, named by `wanted`; 0 =
 * any. */
ls_status ls__node_expect(const ls_node *node, const ls_spec *input, int n_dims,
                          const char *wanted);

#endif
