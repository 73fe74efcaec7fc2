/* parameters.c: the initializers of layers. */
#include "checkpoint/onnx/parameters.h"

#include "base/alloc.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include <math.h>
#include <string.h>

const char *ls__onnx_suffixed(ls__onnx_export *e, const char *name, const char *suffix)
{
    const char *text = ls__bump_format(&e->model.bump, "%s.%s", name, suffix);
    if (!text && e->model.status == LS_OK)
        e->model.status = ls__fail_memory(e->graph->ctx, name, 0);
    return text ? text : "";
}

/* Reads a parameter of the node to `values`; NULL on failure, and for values NULL. */
static float *read_parameter(ls__onnx_export *e, const ls_node *node, int role, float *values)
{
    if (!values) return NULL;
    const int index = node->parameters[role];
    const ls_status status =
        ls_tensor_read(ls_net_parameter_at(e->net, index).value, values,
                       (size_t)e->graph->parameters[index].count * sizeof(float));
    if (status != LS_OK) e->model.status = status;
    return status == LS_OK ? values : NULL;
}

float *ls__onnx_put_parameter(ls__onnx_export *e, const ls_node *node, int role, ls_shape shape,
                              const char **name)
{
    void *elements;
    const ls__parameter *parameter = &e->graph->parameters[node->parameters[role]];
    *name = ls__onnx_initializer(&e->model, parameter->name, LS_F32, &shape, &elements);
    return read_parameter(e, node, role, elements);
}

void ls__onnx_transpose(ls__onnx_export *e, float *values, int64_t n, int64_t rows, int64_t columns)
{
    if (!values || rows == 1 || columns == 1) return;
    const size_t bytes = (size_t)(n * rows * columns) * sizeof(*values);
    float *copy = ls__alloc(e->graph->ctx, bytes);
    if (!copy) {
        e->model.status = ls__fail_memory(e->graph->ctx, "ONNX model", bytes);
        return;
    }
    memcpy(copy, values, bytes);
    ls__transpose(values, copy, n, rows, columns);
    ls__free(e->graph->ctx, copy);
}

const char *ls__onnx_put_vector(ls__onnx_export *e, const ls_node *node, int role)
{
    const char *name;
    const ls__parameter *parameter = &e->graph->parameters[node->parameters[role]];
    ls__onnx_put_parameter(e, node, role, parameter->shape, &name);
    return name;
}

/* Reads a vector of a batch norm into memory of the model. */
static const float *read_vector(ls__onnx_export *e, const ls_node *node, int role)
{
    const size_t bytes = (size_t)e->graph->parameters[node->parameters[role]].count * sizeof(float);
    float *values = ls__bump_alloc(&e->model.bump, bytes);
    if (!values) e->model.status = ls__fail_memory(e->graph->ctx, node->name, bytes);
    return read_parameter(e, node, role, values);
}

/* Weight [channels,rest] and bias (NULL: 0) of a layer become those of the layer and its batch
 * norm: weight s and (bias - mean) s + shift, with s = scale / sqrt(variance + epsilon). Returns
 * the name of the bias. */
static const char *fold(ls__onnx_export *e, const ls_node *node, float *weight, float *bias,
                        const char *bias_name)
{
    const ls_node *norm = e->batch_norm[node->id];
    const int64_t channels = node->channels;
    const int64_t rest = e->graph->parameters[node->parameters[LS__WEIGHT]].count / channels;
    const float *scale = read_vector(e, norm, LS__WEIGHT), *shift = read_vector(e, norm, LS__BIAS),
                *mean = read_vector(e, norm, LS__RUNNING_MEAN),
                *variance = read_vector(e, norm, LS__RUNNING_VAR);
    if (!bias) {
        void *zeros;
        bias_name = ls__onnx_initializer(&e->model, ls__onnx_suffixed(e, node->name, "bias"),
                                         LS_F32, &LS_SHAPE(channels), &zeros);
        bias = zeros;
    }
    if (e->model.status != LS_OK) return NULL;
    for (int64_t c = 0; c < channels; c++) {
        const double s =
            (double)scale[c] / sqrt((double)variance[c] + (double)norm->settings.norm.epsilon);
        bias[c] = (float)(((double)bias[c] - (double)mean[c]) * s + (double)shift[c]);
        for (int64_t i = 0; i < rest; i++)
            weight[c * rest + i] = (float)((double)weight[c * rest + i] * s);
    }
    return bias_name;
}

int ls__onnx_put_weights(ls__onnx_export *e, const ls_node *node, ls_shape shape,
                         const char *inputs[3], float **weight)
{
    float *bias = NULL;
    *weight = ls__onnx_put_parameter(e, node, LS__WEIGHT, shape, &inputs[1]);
    inputs[2] = NULL;
    if (node->parameters[LS__BIAS] >= 0)
        bias = ls__onnx_put_parameter(e, node, LS__BIAS, LS_SHAPE(node->channels), &inputs[2]);
    if (e->batch_norm[node->id]) inputs[2] = fold(e, node, *weight, bias, inputs[2]);
    return inputs[2] ? 3 : 2;
}
