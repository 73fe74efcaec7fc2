/* builder.h: layers append instructions over values to a program. A call that fails keeps its error
 * and sets builder->status; further calls then do nothing and return -1. */
#ifndef LS_NN_PLAN_BUILDER_H
#define LS_NN_PLAN_BUILDER_H

#include "nn/plan/program.h"

typedef struct ls__gradient_list {
    int *values;
    int n;
    size_t capacity;
} ls__gradient_list;

struct ls__builder {
    ls__program *program;
    ls_status status;
    bool *requires_gradient;      /* per node */
    ls__gradient_list *gradients; /* per node: contributions to its gradient */
    const ls_node *node;          /* being lowered */
    bool backward;
    int *saved; /* per node, LS__MAX_SAVED values kept for the backward pass */
    /* The type of activations, their gradients, and the weights and biases of convolutions and
     * linear layers: f32, or the 16-bit type of the net's precision. All other values are f32. */
    ls_dtype activations;
    int *as_activation; /* per node: its forward value cast to that type, -1 */
    int n_few_values;   /* batch norms whose statistics are over few values; the first of them */
    const ls_node *few_values;
};
enum { LS__MAX_SAVED = 2 };

/* A new arena value. */
int ls__value_new(ls__builder *b, ls_dtype dtype, ls_shape shape);
/* A new activation, or the gradient of one. */
int ls__activation_new(ls__builder *b, ls_shape shape);
/* data NULL = zeros. */
int ls__value_constant(ls__builder *b, const float *data, int64_t count);
/* The value, the gradient, or the compute weight (in the type of activations) of a node's
 * parameter; -1 if the node has no parameter of this role. */
int ls__value_parameter(ls__builder *b, const ls_node *node, int role);
int ls__value_parameter_gradient(ls__builder *b, const ls_node *node, int role);
int ls__value_compute_weight(ls__builder *b, const ls_node *node, int role);
/* A value in a place that is not the arena, `offset` elements from its start. */
int ls__value_at(ls__builder *b, ls_dtype dtype, ls_shape shape, ls__memory place, int64_t offset);

/* The result of the forward pass for a node: f32 for inputs, parameters, losses and users' ops,
 * otherwise an activation. */
int ls__forward_value(ls__builder *b, const ls_node *node);
void ls__set_forward_value(ls__builder *b, const ls_node *node, int value);
/* Return the node's value as an activation, and as f32 (or integers); they cast it if necessary. */
int ls__activation_of(ls__builder *b, const ls_node *node);
int ls__full_of(ls__builder *b, const ls_node *node);
const ls_spec *ls__spec_of(ls__builder *b, const ls_node *node);

/* True if the gradient of the node's output is required. */
bool ls__requires_gradient(const ls__builder *b, const ls_node *node);
/* True if the node has a weight or a bias that is not frozen. */
bool ls__is_trained(const ls__builder *b, const ls_node *node);
/* The gradient of a node's output, in the type of its forward value: one value, the sum of all
 * contributions; -1 if there is none. */
int ls__gradient_of(ls__builder *b, const ls_node *node);
/* Returns the gradient as up to two summands; *second is -1 if there is only one. second NULL: one
 * value. */
int ls__gradient_pair(ls__builder *b, const ls_node *node, int *second);
void ls__contribute(ls__builder *b, const ls_node *node, int value);

/* Appends an instruction. `kind_and_config` has the kind and `u`; operands as in the op list. */
void ls__emit(ls__builder *b, const ls__op *kind_and_config, int n_inputs, const int *inputs,
              int n_outputs, const int *outputs);
/* Appends an instruction that calls a user's op. */
void ls__emit_custom(ls__builder *b, const ls_node *node, bool backward, int n_inputs,
                     const int *inputs, int n_outputs, const int *outputs);
/* Appends an instruction whose only output is the forward value of a fused op. */
void ls__emit_forward(ls__builder *b, const ls__fused_op *fused, const ls__op *op, int n_inputs,
                      const int *inputs);
/* Appends an instruction whose only output is a contribution to the gradient of a node. */
void ls__emit_gradient(ls__builder *b, const ls_node *node, const ls__op *op, int n_inputs,
                       const int *inputs);

/* An op of this kind with the settings of the node. */
ls__op ls__op_of(const ls_node *node, ls__op_kind kind);
/* Forward: the op reads the activations of all inputs. */
void ls__lower_as(ls__builder *b, const ls__fused_op *fused, const ls__op *op);
/* The `forward` and `backward` of layers that are one op each. The layer's backward_op reads dy, or
 * x or y and dy. */
void ls__lower_op(ls__builder *b, const ls__fused_op *fused);
void ls__lower_op_backward(ls__builder *b, const ls__fused_op *fused);

#endif
