/* graph.h: the graph of a model: one node per layer call, in order. Shapes here have the batch of
 * the net's config; programs infer shapes for other batches through the layers' `infer`. */
#ifndef LS_NN_GRAPH_GRAPH_H
#define LS_NN_GRAPH_GRAPH_H

#include "backend/backend.h"
#include "base/bump.h"
#include "base/context.h"
#include "base/text.h"
#include <lockstep/nn.h>

typedef struct ls__builder ls__builder;   /* plan/builder.h */
typedef struct ls__fused_op ls__fused_op; /* plan/program.h */

/* The functions of a kind of layer: shape inference, lowering to ops, settings. The file of a
 * layer, or of a family of layers, defines them. */
typedef struct ls__layer {
    const char *name; /* "conv2d"; users' ops are called "op" */
    /* Output spec from input specs; errors name the node, the dimension and both values. */
    ls_status (*infer)(const ls_node *node, const ls_spec *inputs, ls_spec *out);
    /* Forward: emits and sets the value of fused->tail. Backward (optional): takes the gradient of
     * fused->tail, which exists, and contributes to the inputs and addend of the fused op. */
    void (*forward)(ls__builder *b, const ls__fused_op *fused);
    void (*backward)(ls__builder *b, const ls__fused_op *fused);
    ls__op_kind op, backward_op; /* of ls__lower_op and ls__lower_op_backward */
    /* Multiply-adds of the forward pass (optional: none). */
    int64_t (*multiply_adds)(const ls_node *node, const ls_spec *inputs, const ls_spec *out);
    /* Appends the settings that do not follow from inputs, shapes and parameters (optional: none).
     * A model's digest contains this text, so it must never change. */
    void (*put_settings)(const ls_node *node, ls__text *out);
    bool reads_compute_weights; /* weight and bias in the type of activations */
    bool has_no_gradient;       /* its input has no gradient */
} ls__layer;

/* ---- Parameters and buffers, which lie in one block ---- */

/* Parameters start at multiples of this many elements; gaps are zero in every block. */
enum { LS__PARAMETER_ALIGNMENT = 16 };

/* A parameter or buffer. Parameters come first in the block, buffers after all of them. */
typedef struct ls__parameter {
    char *name; /* "layer1.0.conv1.weight" */
    ls_parameter_kind kind;
    ls_shape shape;        /* memory order */
    int64_t offset, count; /* elements in the block */
    int64_t flattened;     /* C of a linear layer's weight whose input is a flattened [N,H,W,C] with
                              H W > 1 and C > 1: its columns are in the order H,W,C, in PyTorch C,H,W;
                              else 0 */
    bool frozen;
    bool began_frozen; /* when the net's training began */
    bool has_gradient; /* of the last backward pass, which no update has used */
} ls__parameter;

typedef struct ls__net_blocks {
    int64_t n_parameters;
    const ls__parameter *parameters;
    int64_t parameter_elements; /* of the parameters with gaps, and of the gradient block */
    int64_t block_elements;     /* buffers included */
    float *values;              /* device memory: parameters, then buffers */
    float *gradients;           /* device memory; NULL for inference */
    int64_t gradient_stride;    /* elements from one shard's block of gradients to the next one's */
    int64_t n_gradients;        /* such blocks: 1 unless batch norms are synchronised */
    void *compute_weights;      /* device memory: the parameters in the type of activations, as
                                   the last program has cast them; NULL if that is f32 */
    float *loss_scale;          /* device memory: see LS__LOSS_SCALE_*; NULL without loss scaling */
    int64_t frozen_version;     /* changes with every freeze and unfreeze */
} ls__net_blocks;

/* ---- Nodes ---- */

/* Roles of a layer's parameters and buffers; -1 = absent. */
enum { LS__WEIGHT, LS__BIAS, LS__RUNNING_MEAN, LS__RUNNING_VAR, LS__MAX_NODE_PARAMETERS };

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
    ls__op_settings settings;                /* of the layer's ops */
    int64_t channels;                        /* of the output: conv2d, linear, pad_channels */
    union {
        struct {
            bool requires_gradient;
            int64_t classes; /* values must be -1..classes-1; 0: any value */
        } input;
        const float *class_weights; /* (binary_)cross_entropy: [K] or NULL */
        ls_custom_op_config custom; /* `kind` and `settings` copied */
    } u;
};

/* The initialisation of a parameter. */
typedef struct ls__parameter_init {
    ls_init init;
    double fan_in, fan_out;
} ls__parameter_init;

/* False for a value that is no ls_init; sets LS_INIT_DEFAULT to the layer's default. */
bool ls__init_resolve(ls_init *init, ls_init layer_default);

typedef struct ls__named_node {
    const char *name;
    ls_node *node;
    float weight; /* losses */
} ls__named_node;

/* Arrays that grow by doubling in the graph's bump memory. */
typedef struct ls__named_list {
    ls__named_node *items;
    int n;
    size_t capacity;
} ls__named_list;

enum { LS__MAX_SCOPES = 16, LS__MAX_NAME = 256 };

/* Begins with all zero but ctx and bump. */
struct ls_graph {
    ls_context *ctx;
    ls__bump bump; /* owns all of the graph */
    ls_node **nodes;
    int n_nodes;
    size_t node_capacity;
    ls__parameter *parameters; /* offsets are assigned when the net is built */
    ls__parameter_init *inits;
    int n_parameters;
    size_t parameter_capacity;
    ls__named_list inputs, outputs, losses, metrics;
    int scopes[LS__MAX_SCOPES]; /* length of `scope` before each was opened */
    int n_scopes;
    char scope[LS__MAX_NAME]; /* "layer1.0." */
    uint32_t n_dropouts;
};

/* True if a layer call may proceed. False after an unread error, for a NULL graph or input, and
 * with an error for an input of another graph. */
bool ls__graph_accepts(ls_graph *graph, const char *call, int n_inputs, ls_node *const *inputs);

/* Appends a copy of the prototype, infers its shape and returns it. NULL, with an error, on failure
 * and if the inputs are not accepted. `name` NULL: made from the layer's. */
ls_node *ls__graph_append(ls_graph *graph, const ls_node *prototype, const char *name, int n_inputs,
                          ls_node *const *inputs);

/* Adds a parameter "<node>.<suffix>" to a node; suffix NULL: the node's name. */
ls_status ls__node_add_parameter(ls_node *node, int role, const char *suffix,
                                 ls_parameter_kind kind, ls_shape shape, ls__parameter_init init);
/* Adds a weight of this shape and, if has_bias, a bias of shape.dims[0]. Returns the node; NULL and
 * an error on failure. */
ls_node *ls__node_add_weights(ls_node *node, ls_shape shape, ls__parameter_init init, bool has_bias,
                              ls__parameter_init bias_init);

/* The index of the parameter or buffer of that name; -1 if there is none. */
int64_t ls__find_parameter(int64_t n, const ls__parameter *parameters, const char *name);
/* The elements of all parameters, without buffers and gaps. */
int64_t ls__parameter_elements(const ls_graph *graph);

/* Adds a named node to a list of its graph. Returns the node; NULL and an error on failure (memory,
 * duplicate name). `call` begins the error. */
ls_node *ls__graph_name_node(ls__named_list *list, const char *call, const char *name,
                             ls_node *node, float weight);
/* The index of a name; -1 if it is not in the list. */
int ls__find_named(const ls__named_list *list, const char *name);

/* An error about a node: "conv2d 'layer1.0.conv1': ...". */
ls_status ls__node_fail(const ls_node *node, ls_status status, const char *format, ...)
    LS_PRINTF(3, 4);
/* Fails unless a node's input is f32 with n_dims dimensions, named by `dims`; 0 = any. */
ls_status ls__node_expect(const ls_node *node, const ls_spec *input, int n_dims, const char *dims);
/* Fails if the node has a weight whose dimension `dim`, times `groups`, is not x's last one. */
ls_status ls__node_expect_weight(const ls_node *node, const ls_shape *x, int dim, int64_t groups,
                                 const char *what);
/* Sets out to the height and width of the results of a window that slides over x [N,H,W,C]. All
 * pairs are height, width. Fails if the window is larger than the padded x. */
ls_status ls__node_slide(const ls_node *node, const ls_shape *x, const int64_t extent[2],
                         const int64_t padding[2], const int64_t stride[2], int64_t out[2]);

/* ---- The nearest existing names, for errors about unknown names ---- */

enum { LS__NAMES_TEXT_SIZE = 512 };

/* The index of a name. If the list does not contain it: -1 and an error like "ls_net_feed: the net
 * has no input 'x'; it has 3 inputs: 'input', 'label', 'y'". what: "input", for example. */
int ls__expect_named(ls_context *ctx, const ls__named_list *list, const char *call,
                     const char *what, const char *name);
/* Fills buffer with "it has 62 parameters and buffers, the nearest: 'fc.weight', 'fc.bias'", or
 * with "it has no ...", and returns it. Buffers are included if `buffers`. */
const char *ls__nearest_parameters(int64_t n, const ls__parameter *parameters, bool buffers,
                                   const char *unknown, char buffer[LS__NAMES_TEXT_SIZE]);

#endif
