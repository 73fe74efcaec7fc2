/* builder.c: see builder.h. */
#include "nn/plan/builder.h"

#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

static void out_of_memory(ls__builder *b, size_t bytes)
{
    if (b->status == LS_OK) b->status = ls__fail_memory(b->program->ctx, "program", bytes);
}

/* ---- Values ---- */

static int value_append(ls__builder *b, ls_dtype dtype, ls_shape shape, ls__memory place,
                        size_t offset)
{
    ls__program *p = b->program;
    if (b->status != LS_OK) return -1;
    size_t bytes;
    if (!ls__mul_size((size_t)ls_shape_element_count(&shape), ls_dtype_bytes(dtype), &bytes)) {
        b->status =
            ls__fail(p->ctx, LS_ERR_MEMORY, "net: a value is larger than memory can address");
        return -1;
    }
    const int v = ls__value_add(p, &(ls__value){ .dtype = dtype,
                                                 .shape = shape,
                                                 .place = place,
                                                 .bytes = bytes,
                                                 .offset = offset,
                                                 .first = -1,
                                                 .last = -1 });
    if (v < 0) out_of_memory(b, sizeof *p->values);
    return v;
}

int ls__value_new(ls__builder *b, ls_dtype dtype, ls_shape shape)
{
    return value_append(b, dtype, shape, LS__PLACE_ARENA, 0);
}

int ls__activation_new(ls__builder *b, ls_shape shape)
{
    return ls__value_new(b, b->activations, shape);
}

int ls__value_constant(ls__builder *b, const float *data, int64_t count)
{
    ls__program *p = b->program;
    const int64_t offset = (int64_t)ls__round_up((size_t)p->n_constants, LS__PARAMETER_ALIGNMENT);
    if (b->status != LS_OK) return -1;
    const size_t more = (size_t)(offset + count - p->n_constants);
    float *constants = ls__bump_room(&p->bump, p->constants, (size_t)p->n_constants, more,
                                     &p->constant_capacity, sizeof *constants);
    if (!constants) {
        out_of_memory(b, more * sizeof *constants);
        return -1;
    }
    p->constants = constants;
    if (data)
        memcpy(p->constants + offset, data, (size_t)count * sizeof *data);
    else
        memset(p->constants + offset, 0, (size_t)count * sizeof *data);
    p->n_constants = offset + count;
    return value_append(b, LS_F32, LS_SHAPE(count), LS__PLACE_CONSTANTS,
                        (size_t)offset * sizeof *data);
}

static int parameter_value(ls__builder *b, const ls_node *node, int role, ls_dtype dtype,
                           ls__memory place)
{
    if (node->parameters[role] < 0) return -1;
    const ls__parameter *parameter = &b->program->graph->parameters[node->parameters[role]];
    return value_append(b, dtype, parameter->shape, place,
                        (size_t)parameter->offset * ls_dtype_bytes(dtype));
}

int ls__value_parameter(ls__builder *b, const ls_node *node, int role)
{
    return parameter_value(b, node, role, LS_F32, LS__PLACE_VALUES);
}

int ls__value_parameter_gradient(ls__builder *b, const ls_node *node, int role)
{
    return parameter_value(b, node, role, LS_F32, LS__PLACE_GRADIENTS);
}

int ls__value_compute_weight(ls__builder *b, const ls_node *node, int role)
{
    if (b->activations == LS_F32) return ls__value_parameter(b, node, role);
    return parameter_value(b, node, role, b->activations, LS__PLACE_COMPUTE_WEIGHTS);
}

int ls__value_at(ls__builder *b, ls_dtype dtype, ls_shape shape, ls__memory place, int64_t offset)
{
    return value_append(b, dtype, shape, place, (size_t)offset * ls_dtype_bytes(dtype));
}

/* v itself if it has the type; otherwise a cast copy. */
static int cast_value(ls__builder *b, int v, ls_dtype dtype)
{
    if (b->status != LS_OK || v < 0) return -1;
    const ls__value *value = &b->program->values[v];
    if (value->dtype == dtype) return v;
    const int copy = ls__value_new(b, dtype, value->shape);
    ls__emit(b, &(ls__op){ .kind = LS__OP_CAST }, 1, &v, 1, &copy);
    return copy;
}

int ls__forward_value(ls__builder *b, const ls_node *node)
{
    return b->program->node_values[node->id];
}

void ls__set_forward_value(ls__builder *b, const ls_node *node, int value)
{
    b->program->node_values[node->id] = value;
}

/* A node's forward value in another type, cast once. */
static int forward_in(ls__builder *b, const ls_node *node, ls_dtype dtype, int *cast)
{
    const int v = ls__forward_value(b, node);
    if (b->status != LS_OK || v < 0 || b->program->values[v].dtype == dtype) return v;
    if (*cast < 0) *cast = cast_value(b, v, dtype);
    return *cast;
}

int ls__activation_of(ls__builder *b, const ls_node *node)
{
    return forward_in(b, node, b->activations, &b->as_activation[node->id]);
}

int ls__full_of(ls__builder *b, const ls_node *node)
{
    if (ls__spec_of(b, node)->dtype != LS_F32) return ls__forward_value(b, node);
    return forward_in(b, node, LS_F32, &b->program->full_values[node->id]);
}

const ls_spec *ls__spec_of(ls__builder *b, const ls_node *node)
{
    return &b->program->specs[node->id];
}

/* ---- Gradients ---- */

bool ls__requires_gradient(const ls__builder *b, const ls_node *node)
{
    return b->requires_gradient[node->id];
}

bool ls__is_trained(const ls__builder *b, const ls_node *node)
{
    const ls__parameter *parameters = b->program->graph->parameters;
    const int weight = node->parameters[LS__WEIGHT], bias = node->parameters[LS__BIAS];
    return (weight >= 0 && !parameters[weight].frozen) || (bias >= 0 && !parameters[bias].frozen);
}

void ls__contribute(ls__builder *b, const ls_node *node, int value)
{
    ls__gradient_list *list = &b->gradients[node->id];
    if (b->status != LS_OK || value < 0) return;
    int *values = ls__bump_room(&b->program->bump, list->values, (size_t)list->n, 1,
                                &list->capacity, sizeof *values);
    if (!values) {
        out_of_memory(b, sizeof *values);
        return;
    }
    list->values = values;
    const int forward = ls__forward_value(b, node);
    value = cast_value(b, value, b->program->values[forward].dtype);
    if (value < 0) return;
    list->values[list->n++] = value;
}

int ls__gradient_pair(ls__builder *b, const ls_node *node, int *second)
{
    ls__gradient_list *list = &b->gradients[node->id];
    while (b->status == LS_OK && list->n > (second ? 2 : 1)) { /* the sum replaces the first two */
        const ls_dtype dtype = b->program->values[list->values[0]].dtype;
        const int sum = ls__value_new(b, dtype, ls__spec_of(b, node)->shape);
        ls__emit(b, &(ls__op){ .kind = LS__OP_ADD }, 2, list->values, 1, &sum);
        list->n--;
        list->values[0] = sum;
        memmove(list->values + 1, list->values + 2, (size_t)(list->n - 1) * sizeof *list->values);
    }
    const int n = b->status == LS_OK ? list->n : 0;
    if (second) *second = n > 1 ? list->values[1] : -1;
    return n > 0 ? list->values[0] : -1;
}

int ls__gradient_of(ls__builder *b, const ls_node *node)
{
    return ls__gradient_pair(b, node, NULL);
}

/* ---- Instructions ---- */

static ls__instruction *append_instruction(ls__builder *b, int n_inputs, const int *inputs,
                                           int n_outputs, const int *outputs)
{
    ls__program *p = b->program;
    if (b->status != LS_OK) return NULL;
    ls__instruction *list = ls__bump_room(&p->bump, p->instructions, (size_t)p->n_instructions, 1,
                                          &p->instruction_capacity, sizeof *list);
    if (!list) {
        out_of_memory(b, sizeof *list);
        return NULL;
    }
    p->instructions = list;
    ls__instruction *in = &p->instructions[p->n_instructions++];
    *in = (ls__instruction){
        .node = b->node, .backward = b->backward, .n_inputs = n_inputs, .workspace = -1
    };
    for (int i = 0; i < n_inputs; i++) in->operands[i] = inputs[i];
    for (int i = 0; i < n_outputs; i++) in->operands[n_inputs + i] = outputs[i];
    in->op.n_operands = n_inputs + n_outputs;
    return in;
}

void ls__emit(ls__builder *b, const ls__op *kind_and_config, int n_inputs, const int *inputs,
              int n_outputs, const int *outputs)
{
    ls__instruction *in = append_instruction(b, n_inputs, inputs, n_outputs, outputs);
    if (!in) return;
    const int n_operands = in->op.n_operands;
    memcpy(&in->op, kind_and_config, sizeof in->op);
    in->op.n_operands = n_operands;
    in->op.tf32 = ls__op_traits_of(in->op.kind)->multiplies && b->program->env->tf32;
}

void ls__emit_custom(ls__builder *b, const ls_node *node, bool backward, int n_inputs,
                     const int *inputs, int n_outputs, const int *outputs)
{
    ls__instruction *in = append_instruction(b, n_inputs, inputs, n_outputs, outputs);
    if (!in) return;
    in->custom = node;
    in->backward = backward;
}

/* ---- Layers ---- */

ls__op ls__op_of(const ls_node *node, ls__op_kind kind)
{
    ls__op op = { .kind = kind };
    op.u = node->settings;
    return op;
}

void ls__emit_forward(ls__builder *b, const ls__fused_op *fused, const ls__op *op, int n_inputs,
                      const int *inputs)
{
    const int y = ls__activation_new(b, ls__spec_of(b, fused->head)->shape);
    ls__emit(b, op, n_inputs, inputs, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

void ls__emit_gradient(ls__builder *b, const ls_node *node, const ls__op *op, int n_inputs,
                       const int *inputs)
{
    const int dx = ls__activation_new(b, ls__spec_of(b, node)->shape);
    ls__emit(b, op, n_inputs, inputs, 1, &dx);
    ls__contribute(b, node, dx);
}

void ls__lower_as(ls__builder *b, const ls__fused_op *fused, const ls__op *op)
{
    const ls_node *node = fused->head;
    int inputs[LS__MAX_NODE_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = ls__activation_of(b, node->inputs[i]);
    ls__emit_forward(b, fused, op, node->n_inputs, inputs);
}

void ls__lower_op(ls__builder *b, const ls__fused_op *fused)
{
    const ls__op op = ls__op_of(fused->head, fused->head->layer->op);
    ls__lower_as(b, fused, &op);
}

void ls__lower_op_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls__op op = ls__op_of(fused->head, fused->head->layer->backward_op);
    const ls_node *input = fused->head->inputs[0];
    const int n = ls__op_inputs(op.kind), dy = ls__gradient_of(b, fused->tail);
    ls__operand_role role;
    const bool reads_x = n == 2 && ls__op_operand(op.kind, 0, &role) && role.name[0] == 'x';
    const int saved = reads_x ? ls__activation_of(b, input) : ls__forward_value(b, fused->tail);
    const int inputs[2] = { saved, dy };
    ls__emit_gradient(b, input, &op, n, inputs + 2 - n);
}
