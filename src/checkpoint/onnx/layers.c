/* layers.c: see layers.h. Images are [N,C,H,W] in ONNX. */
#include "checkpoint/onnx/layers.h"

#include "checkpoint/onnx/parameters.h"
#include "base/error.h"
#include <math.h>
#include <string.h>

ls_shape ls__onnx_shape(const ls_shape *s)
{
    if (s->n_dims != 4) return *s;
    return LS_SHAPE(s->dims[0], s->dims[3], s->dims[1], s->dims[2]);
}

static ls_status set_value(ls__onnx_export *e, const ls_node *node, const char *name)
{
    bool is_batch = false;
    for (int i = 0; i < node->n_inputs; i++)
        is_batch = is_batch || e->values[node->inputs[i]->id].is_batch;
    e->values[node->id] = (ls__onnx_value){ name, 0, is_batch, true };
    return e->model.status;
}

/* A node called like the layer's, whose result is the layer's. */
static Ls__OnnxPb__Node *put_node(ls__onnx_export *e, const ls_node *node, const char *op,
                                  int n_inputs, const char *const *inputs)
{
    const char *value;
    Ls__OnnxPb__Node *out = ls__onnx_node(&e->model, op, node->name, n_inputs, inputs, &value);
    set_value(e, node, value);
    return out;
}

/* An intermediate node with one more input, which may be NULL; returns its value. */
static const char *put_step(ls__onnx_export *e, const ls_node *node, const char *op,
                            const char *suffix, const char *x, const char *y)
{
    const char *value;
    ls__onnx_node(&e->model, op, ls__onnx_suffixed(e, node->name, suffix), y ? 2 : 1,
                  (const char *const[]){ x, y }, &value);
    return value;
}

static const char *put_transpose(ls__onnx_export *e, const ls_node *node, const char *suffix,
                                 const char *x, const int64_t order[4])
{
    const char *value;
    Ls__OnnxPb__Node *out = ls__onnx_node(&e->model, "Transpose",
                                          ls__onnx_suffixed(e, node->name, suffix), 1, &x, &value);
    ls__onnx_put_ints(&e->model, out, "perm", 4, order);
    return value;
}

static const int64_t to_channels_last[4] = { 0, 2, 3, 1 }, to_channels_first[4] = { 0, 3, 1, 2 };

const char *ls__onnx_ordered(ls__onnx_export *e, const ls_node *node)
{
    ls__onnx_value *value = &e->values[node->id];
    if (value->channels == 0) return value->name;
    const int64_t dims[3] = { 0, value->channels, -1 };
    const char *shape =
        ls__onnx_int64s(&e->model, ls__onnx_suffixed(e, node->name, "matrix_shape"), 3, dims);
    const char *x = put_step(e, node, "Reshape", "matrix", value->name, shape), *transposed;
    Ls__OnnxPb__Node *out = ls__onnx_node(
        &e->model, "Transpose", ls__onnx_suffixed(e, node->name, "transposed"), 1, &x, &transposed);
    ls__onnx_put_ints(&e->model, out, "perm", 3, (const int64_t[]){ 0, 2, 1 });
    value->name = put_step(e, node, "Flatten", "ordered", transposed, NULL);
    value->channels = 0;
    value->is_computed = true;
    return value->name;
}

static const char *input_of(ls__onnx_export *e, const ls_node *node, int i)
{
    return ls__onnx_ordered(e, node->inputs[i]);
}

static void put_pads(ls__onnx_export *e, Ls__OnnxPb__Node *out, const int64_t padding[2])
{
    ls__onnx_put_ints(&e->model, out, "pads", 4,
                      (const int64_t[]){ padding[0], padding[1], padding[0], padding[1] });
}

static ls_status put_conv2d(ls__onnx_export *e, const ls_node *node)
{
    const ls_shape *w = &e->graph->parameters[node->parameters[LS__WEIGHT]].shape;
    const int64_t *d = w->dims;
    const char *inputs[3] = { input_of(e, node, 0) };
    float *weight;
    const int n = ls__onnx_put_weights(e, node, LS_SHAPE(d[0], d[3], d[1], d[2]), inputs, &weight);
    ls__onnx_transpose(e, weight, d[0], d[1] * d[2], d[3]);
    Ls__OnnxPb__Node *out = put_node(e, node, "Conv", n, inputs);
    ls__onnx_put_ints(&e->model, out, "dilations", 2, node->settings.conv.dilation);
    ls__onnx_put_int(&e->model, out, "group", node->settings.conv.groups);
    ls__onnx_put_ints(&e->model, out, "kernel_shape", 2, node->settings.conv.kernel);
    put_pads(e, out, node->settings.conv.padding);
    ls__onnx_put_ints(&e->model, out, "strides", 2, node->settings.conv.stride);
    return e->model.status;
}

static ls_status put_linear(ls__onnx_export *e, const ls_node *node)
{
    const ls__onnx_value x = e->values[node->inputs[0]->id];
    const ls_shape *shape = &e->graph->parameters[node->parameters[LS__WEIGHT]].shape;
    const char *inputs[3] = { x.name };
    float *weight;
    const int n = ls__onnx_put_weights(e, node, *shape, inputs, &weight);
    if (x.channels > 0)
        ls__onnx_transpose(e, weight, shape->dims[0], shape->dims[1] / x.channels, x.channels);
    Ls__OnnxPb__Node *out = put_node(e, node, "Gemm", n, inputs);
    ls__onnx_put_int(&e->model, out, "transB", 1);
    return e->model.status;
}

static ls_status put_same(ls__onnx_export *e, const ls_node *node)
{
    e->values[node->id] = e->values[node->inputs[0]->id];
    return e->model.status;
}

static ls_status put_batch_norm(ls__onnx_export *e, const ls_node *node)
{
    if (e->batch_norm[node->inputs[0]->id] == node) return put_same(e, node);
    static const int roles[] = { LS__WEIGHT, LS__BIAS, LS__RUNNING_MEAN, LS__RUNNING_VAR };
    const char *inputs[5] = { input_of(e, node, 0) };
    for (int i = 0; i < 4; i++) inputs[i + 1] = ls__onnx_put_vector(e, node, roles[i]);
    Ls__OnnxPb__Node *out = put_node(e, node, "BatchNormalization", 5, inputs);
    ls__onnx_put_float(&e->model, out, "epsilon", node->settings.norm.epsilon);
    return e->model.status;
}

static ls_status put_layer_norm(ls__onnx_export *e, const ls_node *node)
{
    const bool is_image = node->spec.shape.n_dims == 4;
    const char *x = input_of(e, node, 0), *value;
    if (is_image) x = put_transpose(e, node, "channels_last", x, to_channels_last);
    const char *inputs[3] = { x };
    inputs[1] = ls__onnx_put_vector(e, node, LS__WEIGHT);
    inputs[2] = ls__onnx_put_vector(e, node, LS__BIAS);
    Ls__OnnxPb__Node *out =
        ls__onnx_node(&e->model, "LayerNormalization", node->name, 3, inputs, &value);
    ls__onnx_put_int(&e->model, out, "axis", -1);
    ls__onnx_put_float(&e->model, out, "epsilon", node->settings.group_norm.epsilon);
    if (is_image) value = put_transpose(e, node, "channels_first", value, to_channels_first);
    return set_value(e, node, value);
}

/* A vector of one value. */
static const char *put_constant(ls__onnx_export *e, const char *name, ls_shape shape, float value)
{
    void *elements;
    const char *unique = ls__onnx_initializer(&e->model, name, LS_F32, &shape, &elements);
    float *values = elements;
    for (int64_t i = 0; values && i < ls_shape_element_count(&shape); i++) values[i] = value;
    return unique;
}

/* Group norm is instance norm of [N,groups,rest], then scale and shift of each channel. */
static ls_status put_group_norm(ls__onnx_export *e, const ls_node *node)
{
    const ls_shape shape = ls__onnx_shape(&node->spec.shape);
    const int64_t groups = node->settings.group_norm.groups;
    const ls_shape channels =
        shape.n_dims == 4 ? LS_SHAPE(shape.dims[1], 1, 1) : LS_SHAPE(shape.dims[1]);
    int64_t back[4] = { 0 };
    memcpy(back + 1, shape.dims + 1, (size_t)(shape.n_dims - 1) * sizeof(*back));
    const char *groups_shape =
        ls__onnx_int64s(&e->model, ls__onnx_suffixed(e, node->name, "groups_shape"), 3,
                        (const int64_t[]){ 0, groups, -1 });
    const char *shape_name =
        ls__onnx_int64s(&e->model, ls__onnx_suffixed(e, node->name, "shape"), shape.n_dims, back);
    const char *x = put_step(e, node, "Reshape", "groups", input_of(e, node, 0), groups_shape);
    const char *inputs[3] = { x };
    inputs[1] = put_constant(e, ls__onnx_suffixed(e, node->name, "ones"), LS_SHAPE(groups), 1);
    inputs[2] = put_constant(e, ls__onnx_suffixed(e, node->name, "zeros"), LS_SHAPE(groups), 0);
    const char *norm, *weight, *bias;
    Ls__OnnxPb__Node *out =
        ls__onnx_node(&e->model, "InstanceNormalization",
                      ls__onnx_suffixed(e, node->name, "normalized"), 3, inputs, &norm);
    ls__onnx_put_float(&e->model, out, "epsilon", node->settings.group_norm.epsilon);
    x = put_step(e, node, "Reshape", "ungrouped", norm, shape_name);
    ls__onnx_put_parameter(e, node, LS__WEIGHT, channels, &weight);
    ls__onnx_put_parameter(e, node, LS__BIAS, channels, &bias);
    x = put_step(e, node, "Mul", "scaled", x, weight);
    put_node(e, node, "Add", 2, (const char *const[]){ x, bias });
    return e->model.status;
}

/* A function of each element: the order of columns stays the same. */
static ls_status put_function(ls__onnx_export *e, const ls_node *node, const char *op, int n_inputs,
                              const char *const *inputs)
{
    const int64_t channels = e->values[node->inputs[0]->id].channels;
    put_node(e, node, op, n_inputs, inputs);
    e->values[node->id].channels = channels;
    return e->model.status;
}

/* Functions that are an operator without attributes. */
static ls_status put_unary(ls__onnx_export *e, const ls_node *node)
{
    static const struct {
        const char *layer, *op;
    } operators[] = { { "relu", "Relu" }, { "sigmoid", "Sigmoid" },
                      { "tanh", "Tanh" }, { "exp", "Exp" },
                      { "log", "Log" },   { "sqrt", "Sqrt" },
                      { "abs", "Abs" },   { "hard_swish", "HardSwish" } };
    int i = 0;
    while (strcmp(operators[i].layer, node->layer->name) != 0) i++;
    return put_function(e, node, operators[i].op, 1, &e->values[node->inputs[0]->id].name);
}

/* A function of one number, which is the attribute alpha. */
static ls_status put_with_alpha(ls__onnx_export *e, const ls_node *node, const char *op,
                                float alpha)
{
    const int64_t channels = e->values[node->inputs[0]->id].channels;
    Ls__OnnxPb__Node *out = put_node(e, node, op, 1, &e->values[node->inputs[0]->id].name);
    ls__onnx_put_float(&e->model, out, "alpha", alpha);
    e->values[node->id].channels = channels;
    return e->model.status;
}

static ls_status put_leaky_relu(ls__onnx_export *e, const ls_node *node)
{
    return put_with_alpha(e, node, "LeakyRelu", node->settings.leaky_relu.slope);
}

/* max(0, min(1, alpha x + beta)); the default of beta is 0.5. */
static ls_status put_hard_sigmoid(ls__onnx_export *e, const ls_node *node)
{
    return put_with_alpha(e, node, "HardSigmoid", 1 / 6.0f);
}

static const char *put_scalar(ls__onnx_export *e, const ls_node *node, const char *suffix,
                              float value)
{
    return put_constant(e, ls__onnx_suffixed(e, node->name, suffix), (ls_shape){ 0 }, value);
}

static ls_status put_relu6(ls__onnx_export *e, const ls_node *node)
{
    const char *inputs[3] = { e->values[node->inputs[0]->id].name };
    inputs[1] = put_scalar(e, node, "min", 0);
    inputs[2] = put_scalar(e, node, "max", 6);
    return put_function(e, node, "Clip", 3, inputs);
}

static ls_status put_silu(ls__onnx_export *e, const ls_node *node)
{
    const char *x = e->values[node->inputs[0]->id].name;
    const char *sigmoid = put_step(e, node, "Sigmoid", "sigmoid", x, NULL);
    return put_function(e, node, "Mul", 2, (const char *const[]){ x, sigmoid });
}

/* x (1 + erf(x / sqrt(2))) / 2 */
static ls_status put_gelu(ls__onnx_export *e, const ls_node *node)
{
    const char *x = e->values[node->inputs[0]->id].name;
    const char *y =
        put_step(e, node, "Mul", "scaled", x, put_scalar(e, node, "sqrt_half", (float)M_SQRT1_2));
    y = put_step(e, node, "Erf", "erf", y, NULL);
    y = put_step(e, node, "Add", "shifted", y, put_scalar(e, node, "one", 1));
    y = put_step(e, node, "Mul", "product", x, y);
    return put_function(e, node, "Mul", 2,
                        (const char *const[]){ y, put_scalar(e, node, "half", 0.5f) });
}

static ls_status put_softmax(ls__onnx_export *e, const ls_node *node)
{
    const char *x = input_of(e, node, 0);
    Ls__OnnxPb__Node *out = put_node(e, node, "Softmax", 1, &x);
    ls__onnx_put_int(&e->model, out, "axis", 1);
    return e->model.status;
}

/* A node of all inputs, which all have a batch, or none. */
static ls_status put_joined(ls__onnx_export *e, const ls_node *node, const char *op, int64_t axis)
{
    const char *inputs[LS__MAX_NODE_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = input_of(e, node, i);
        if (e->values[node->inputs[i]->id].is_batch != e->values[node->inputs[0]->id].is_batch)
            return ls__node_fail(node, LS_ERR_UNSUPPORTED,
                                 "one input depends on the batch and another on parameters alone; "
                                 "an ONNX model has any batch");
    }
    Ls__OnnxPb__Node *out = put_node(e, node, op, node->n_inputs, inputs);
    if (axis > 0) ls__onnx_put_int(&e->model, out, "axis", axis);
    return e->model.status;
}
static ls_status put_add(ls__onnx_export *e, const ls_node *node)
{
    return put_joined(e, node, "Add", 0);
}
static ls_status put_mul(ls__onnx_export *e, const ls_node *node)
{
    return put_joined(e, node, "Mul", 0);
}
static ls_status put_concat(ls__onnx_export *e, const ls_node *node)
{
    return put_joined(e, node, "Concat", 1);
}

static ls_status put_pad_channels(ls__onnx_export *e, const ls_node *node)
{
    const int64_t more = node->channels - node->inputs[0]->spec.shape.dims[3];
    const int64_t pads[8] = { 0, 0, 0, 0, 0, more, 0, 0 };
    const char *inputs[2] = { input_of(e, node, 0) };
    inputs[1] = ls__onnx_int64s(&e->model, ls__onnx_suffixed(e, node->name, "pads"), 8, pads);
    put_node(e, node, "Pad", 2, inputs);
    return e->model.status;
}

static Ls__OnnxPb__Node *put_pool(ls__onnx_export *e, const ls_node *node, const char *op)
{
    const char *x = input_of(e, node, 0);
    Ls__OnnxPb__Node *out = put_node(e, node, op, 1, &x);
    ls__onnx_put_ints(&e->model, out, "kernel_shape", 2, node->settings.pool.kernel);
    put_pads(e, out, node->settings.pool.padding);
    ls__onnx_put_ints(&e->model, out, "strides", 2, node->settings.pool.stride);
    return out;
}
static ls_status put_max_pool(ls__onnx_export *e, const ls_node *node)
{
    put_pool(e, node, "MaxPool");
    return e->model.status;
}
static ls_status put_avg_pool(ls__onnx_export *e, const ls_node *node)
{
    Ls__OnnxPb__Node *out = put_pool(e, node, "AveragePool");
    ls__onnx_put_int(&e->model, out, "count_include_pad", 1);
    return e->model.status;
}

static ls_status put_global_avg_pool(ls__onnx_export *e, const ls_node *node)
{
    const char *x = put_step(e, node, "GlobalAveragePool", "pool", input_of(e, node, 0), NULL);
    put_node(e, node, "Flatten", 1, &x);
    return e->model.status;
}

static ls_status put_flatten(ls__onnx_export *e, const ls_node *node)
{
    const ls_shape *from = &node->inputs[0]->spec.shape;
    const char *x = input_of(e, node, 0);
    put_node(e, node, "Flatten", 1, &x);
    if (from->n_dims == 4 && from->dims[1] * from->dims[2] > 1 && from->dims[3] > 1)
        e->values[node->id].channels = from->dims[3];
    return e->model.status;
}

static ls_status put_input(ls__onnx_export *e, const ls_node *node)
{
    ls_spec spec = { node->spec.dtype, ls__onnx_shape(&node->spec.shape) };
    if (node->spec.dtype == LS_U8 && e->config.input == LS_ONNX_INPUT_BYTES)
        spec = node->spec;
    else if (node->spec.dtype == LS_U8)
        spec.dtype = LS_F32;
    const char *name = ls__onnx_name(&e->model, node->name);
    e->values[node->id] = (ls__onnx_value){ name, 0, true, false };
    ls__onnx_input(&e->model, name, &spec, true);
    return e->model.status;
}

/* x a + b, with a = 1 / (255 std) and b = -mean / std. */
static ls_status put_normalize(ls__onnx_export *e, const ls_node *node)
{
    if (e->config.input == LS_ONNX_INPUT_F32) return put_same(e, node);
    const int64_t channels = node->spec.shape.dims[3];
    const ls_shape shape = LS_SHAPE(channels, 1, 1);
    const char *x = put_transpose(e, node, "channels_first", e->values[node->inputs[0]->id].name,
                                  to_channels_first);
    const char *value;
    Ls__OnnxPb__Node *cast =
        ls__onnx_node(&e->model, "Cast", ls__onnx_suffixed(e, node->name, "f32"), 1, &x, &value);
    ls__onnx_put_int(&e->model, cast, "to", 1); /* f32 */
    void *scale, *shift;
    const char *scale_name = ls__onnx_initializer(
        &e->model, ls__onnx_suffixed(e, node->name, "scale"), LS_F32, &shape, &scale);
    const char *shift_name = ls__onnx_initializer(
        &e->model, ls__onnx_suffixed(e, node->name, "shift"), LS_F32, &shape, &shift);
    for (int64_t c = 0; e->model.status == LS_OK && c < channels; c++) {
        const double mean = (double)node->settings.normalize.mean[c];
        const double std = (double)node->settings.normalize.std[c];
        ((float *)scale)[c] = (float)(1 / (255 * std));
        ((float *)shift)[c] = (float)(-mean / std);
    }
    value = put_step(e, node, "Mul", "scaled", value, scale_name);
    put_node(e, node, "Add", 2, (const char *const[]){ value, shift_name });
    return e->model.status;
}

static ls_status put_parameter_layer(ls__onnx_export *e, const ls_node *node)
{
    const char *name;
    float *values =
        ls__onnx_put_parameter(e, node, LS__WEIGHT, ls__onnx_shape(&node->spec.shape), &name);
    const int64_t *d = node->spec.shape.dims;
    if (node->spec.shape.n_dims == 4) ls__onnx_transpose(e, values, d[0], d[1] * d[2], d[3]);
    e->values[node->id] = (ls__onnx_value){ name, 0, false, false };
    return e->model.status;
}

/* One row per layer that can be exported. */
static const struct {
    const char *layer;
    ls_status (*put)(ls__onnx_export *e, const ls_node *node);
    bool is_folded_into;
} rows[] = {
    { "input", put_input },
    { "parameter", put_parameter_layer },
    { "normalize", put_normalize },
    { "conv2d", put_conv2d, true },
    { "linear", put_linear, true },
    { "batch_norm", put_batch_norm },
    { "layer_norm", put_layer_norm },
    { "group_norm", put_group_norm },
    { "softmax", put_softmax },
    { "relu", put_unary },
    { "relu6", put_relu6 },
    { "leaky_relu", put_leaky_relu },
    { "sigmoid", put_unary },
    { "tanh", put_unary },
    { "silu", put_silu },
    { "gelu", put_gelu },
    { "hard_sigmoid", put_hard_sigmoid },
    { "hard_swish", put_unary },
    { "exp", put_unary },
    { "log", put_unary },
    { "sqrt", put_unary },
    { "abs", put_unary },
    { "max_pool", put_max_pool },
    { "avg_pool", put_avg_pool },
    { "global_avg_pool", put_global_avg_pool },
    { "add", put_add },
    { "mul", put_mul },
    { "concat", put_concat },
    { "pad_channels", put_pad_channels },
    { "flatten", put_flatten },
    { "dropout", put_same },
    { "stochastic_depth", put_same },
};
enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

bool ls__onnx_is_folded_into(const ls_node *node)
{
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].layer, node->layer->name) == 0) return rows[i].is_folded_into;
    return false;
}

ls_status ls__onnx_put_layer(ls__onnx_export *e, const ls_node *node)
{
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].layer, node->layer->name) == 0) return rows[i].put(e, node);
    return ls__node_fail(node, LS_ERR_UNSUPPORTED, "this layer can't be exported to ONNX");
}
