/* builder.h: how layers append instructions over values to a program. A call that fails keeps its
 * error and sets builder->status; further calls then do nothing and give -1. */
#ifndef LS_NN_PLAN_BUILDER_H
#define LS_NN_PLAN_BUILDER_H

#include "nn/plan/program.h"

typedef struct ls__gradient_list {
    int *values;
    int n;
    size_t room;
} ls__gradient_list;

struct ls__builder {
    ls__program *program;
    ls_status status;
    bool *wants;                  /* per node: its gradient is needed */
    ls__gradient_list *gradients; /* per node: contributions to its gradient */
    const ls_node *node;          /* being lowered */
    bool backward;
    int *saved; /* per node, LS__MAX_SAVED values kept for the backward part */
    /* Of activations, their gradients, and the weights and biases of convolutions and linear
     * layers: f32, or what the net's precision says. All other values are f32. */
    ls_dtype activations;
    int *as_activation; /* per node: its forward value cast to that type, -1 */
    int n_few_values;   /* batch norms whose statistics are over few values; the first of them */
    const ls_node *few_values;
};
enum { LS__MAX_SAVED = 2 };

/* A new arena value; those of rank 4 get a layout group of their own. */
int ls__value_new(ls__builder *b, ls_dtype dtype, ls_shape shape);
/* The same, always dense. */
int ls__value_dense(ls__builder *b, ls_dtype dtype, ls_shape shape);
/* The same for weights or their gradient: dense, in no layout group. */
int ls__value_weights(ls__builder *b, ls_dtype dtype, ls_shape shape);
/* A new activation, or the gradient of one. */
int ls__activation_new(ls__builder *b, ls_shape shape);
int ls__value_constant(ls__builder *b, const float *data, int64_t count);
/* The value, or the gradient, of a parameter of the node's graph; -1 for parameter -1. */
int ls__value_parameter(ls__builder *b, int parameter);
int ls__value_parameter_gradient(ls__builder *b, int parameter);
/* The compute weight of a parameter, in the activations' type. */
int ls__value_compute_weight(ls__builder *b, int parameter);
/* A value at the start of a place that is not the arena. */
int ls__value_at(ls__builder *b, ls_dtype dtype, ls_shape shape, ls__memory place);
/* The net's loss scale. */
int ls__value_loss_scale(ls__builder *b);
/* Both have one layout. */
void ls__same_layout(ls__builder *b, int a, int c);
/* v itself when it is dense for sure; otherwise a reordered copy, which costs nothing where v turns
 * out dense. */
int ls__dense(ls__builder *b, int v);

/* v itself when it has the type; otherwise a cast copy. */
int ls__cast(ls__builder *b, int v, ls_dtype dtype);

/* What the forward part computed for a node. That is f32 for inputs, parameters, losses and users'
 * ops; what others compute of f32 they give as activations. */
int ls__forward_value(ls__builder *b, const ls_node *node);
void ls__set_forward_value(ls__builder *b, const ls_node *node, int value);
/* The same as an activation, and as f32 (or integers): casts where it is not. */
int ls__activation_of(ls__builder *b, const ls_node *node);
int ls__full_of(ls__builder *b, const ls_node *node);
const ls_spec *ls__spec_of(ls__builder *b, const ls_node *node);

/* Does anyone need the gradient of this node's output; of this entry? */
bool ls__wants_gradient(const ls__builder *b, const ls_node *node);
bool ls__wants_parameter(const ls__builder *b, int parameter);
/* The gradient of a node's output, in the type of its forward value, as one value, summed where
 * several consumers contributed; -1 when there is none. */
int ls__gradient_of(ls__builder *b, const ls_node *node);
/* The same in up to two parts that still have to be added: *second is -1 when one is enough. */
int ls__gradient_parts(ls__builder *b, const ls_node *node, int *second);
void ls__contribute(ls__builder *b, const ls_node *node, int value);
/* Appends an instruction. `kind_and_config` has the kind and `u`; operands as in the op list. */
void ls__emit(ls__builder *b, const ls__op *kind_and_config, int n_inputs, const int *inputs,
              int n_outputs, const int *outputs);
/* The same for a user's op. */
void ls__emit_custom(ls__builder *b, const ls_node *node, bool backward, int n_inputs,
                     const int *inputs, int n_outputs, const int *outputs);

#endif
