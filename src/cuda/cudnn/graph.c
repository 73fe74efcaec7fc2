/* graph.c: see graph.h. */
#include "cuda/cudnn/graph.h"
#include "cuda/cudnn/cudnn.h"

#include <assert.h>
#include <string.h>

cudnnBackendDescriptor_t ls__cudnn_graph_make(ls__cudnn_graph *graph,
                                              cudnnBackendDescriptorType_t type)
{
    assert(graph->n_descriptors < LS__CUDNN_MAX_DESCRIPTORS);
    cudnnBackendDescriptor_t made = ls__cudnn_make(&graph->calls, type);
    if (made != NULL) graph->descriptors[graph->n_descriptors++] = made;
    return made;
}

static cudnnDataType_t cudnn_data_type(ls_dtype dtype)
{
    return dtype == LS_F16    ? CUDNN_DATA_HALF
           : dtype == LS_BF16 ? CUDNN_DATA_BFLOAT16
                              : CUDNN_DATA_FLOAT;
}

/* cuDNN's dimensions are N,C,H,W. The strides give the order in memory, where C is contiguous.
 * `flag` is an attribute to set, or CUDNN_ATTR_TENSOR_UNIQUE_ID for none. */
static ls__cudnn_tensor make_tensor(ls__cudnn_graph *graph, int64_t id, cudnnDataType_t type,
                                    const ls_shape *shape, cudnnBackendAttributeName_t flag)
{
    ls__cudnn_calls *calls = &graph->calls;
    int64_t n = 1, h = 1, w = 1;
    const int64_t c = shape->dims[shape->n_dims - 1];
    if (shape->n_dims == 4) {
        n = shape->dims[0];
        h = shape->dims[1];
        w = shape->dims[2];
    }
    const int64_t dims[4] = { n, c, h, w }, strides[4] = { h * w * c, 1, w * c, c };
    const bool yes = true;
    ls__cudnn_tensor tensor = ls__cudnn_graph_make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    ls__cudnn_set_type(calls, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    ls__cudnn_set(calls, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    ls__cudnn_set(calls, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    ls__cudnn_set_int64(calls, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    ls__cudnn_set_int64(calls, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, LS__CUDNN_ALIGNMENT);
    if (flag != CUDNN_ATTR_TENSOR_UNIQUE_ID)
        ls__cudnn_set(calls, tensor, flag, CUDNN_TYPE_BOOLEAN, 1, &yes);
    ls__cudnn_finalize(calls, tensor, "a tensor");
    return tensor;
}

ls__cudnn_tensor ls__cudnn_buffer(ls__cudnn_graph *graph, int index, ls_dtype dtype,
                                  const ls_shape *shape)
{
    return make_tensor(graph, LS__CUDNN_BUFFER_ID(index), cudnn_data_type(dtype), shape,
                       CUDNN_ATTR_TENSOR_UNIQUE_ID);
}

ls__cudnn_tensor ls__cudnn_scalar(ls__cudnn_graph *graph, int index, cudnnDataType_t type)
{
    const ls_shape one = LS_SHAPE(1);
    return make_tensor(graph, LS__CUDNN_SCALAR_ID(index), type, &one,
                       CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}

ls__cudnn_tensor ls__cudnn_virtual(ls__cudnn_graph *graph, ls_dtype dtype, const ls_shape *shape)
{
    return make_tensor(graph, LS__CUDNN_VIRTUAL_ID(graph->n_virtual++), cudnn_data_type(dtype),
                       shape, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

void ls__cudnn_add_operation(ls__cudnn_graph *graph, cudnnBackendDescriptor_t operation)
{
    assert(graph->n_operations < LS__CUDNN_MAX_OPERATIONS);
    ls__cudnn_finalize(&graph->calls, operation, "an operation");
    graph->operations[graph->n_operations++] = operation;
}

static cudnnBackendDescriptor_t make_convolution(ls__cudnn_graph *graph, const ls__op *config)
{
    ls__cudnn_calls *calls = &graph->calls;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const struct {
        cudnnBackendAttributeName_t name;
        const int64_t *values; /* height, width */
    } sizes[] = {
        { CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, config->u.conv.padding },
        { CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, config->u.conv.padding },
        { CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, config->u.conv.stride },
        { CUDNN_ATTR_CONVOLUTION_DILATIONS, config->u.conv.dilation },
    };
    cudnnBackendDescriptor_t made =
        ls__cudnn_graph_make(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    ls__cudnn_set_type(calls, made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    ls__cudnn_set(calls, made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
                  &mode);
    ls__cudnn_set_int64(calls, made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ls__cudnn_set(calls, made, sizes[i].name, CUDNN_TYPE_INT64, 2, sizes[i].values);
    ls__cudnn_finalize(calls, made, "a convolution");
    return made;
}

void ls__cudnn_convolve(ls__cudnn_graph *graph, ls__op_kind kind, const ls__op *config,
                        ls__cudnn_tensor x, ls__cudnn_tensor w, ls__cudnn_tensor y)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
    } directions[] = {
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
        { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
    };
    const int d = kind == LS__OP_CONV2D ? 0 : kind == LS__OP_CONV2D_BACKWARD_DATA ? 1 : 2;
    const float one = 1, zero = 0;
    ls__cudnn_calls *calls = &graph->calls;
    cudnnBackendDescriptor_t convolution = make_convolution(graph, config);
    cudnnBackendDescriptor_t made = ls__cudnn_graph_make(graph, directions[d].type);
    ls__cudnn_set_descriptor(calls, made, directions[d].x, x);
    ls__cudnn_set_descriptor(calls, made, directions[d].w, w);
    ls__cudnn_set_descriptor(calls, made, directions[d].y, y);
    ls__cudnn_set_descriptor(calls, made, directions[d].convolution, convolution);
    ls__cudnn_set(calls, made, directions[d].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    ls__cudnn_set(calls, made, directions[d].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    ls__cudnn_add_operation(graph, made);
}

void ls__cudnn_pointwise(ls__cudnn_graph *graph, cudnnPointwiseMode_t mode, ls__cudnn_tensor a,
                         ls__cudnn_tensor b, ls__cudnn_tensor y)
{
    ls__cudnn_calls *calls = &graph->calls;
    const bool backward = mode == CUDNN_POINTWISE_RELU_BWD;
    cudnnBackendDescriptor_t function =
        ls__cudnn_graph_make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    ls__cudnn_set(calls, function, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    ls__cudnn_set_type(calls, function, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    ls__cudnn_finalize(calls, function, "a pointwise function");

    cudnnBackendDescriptor_t made =
        ls__cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    ls__cudnn_set_descriptor(
        calls, made,
        backward ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC : CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a);
    if (b != NULL)
        ls__cudnn_set_descriptor(calls, made,
                                 backward ? CUDNN_ATTR_OPERATION_POINTWISE_XDESC
                                          : CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                 b);
    ls__cudnn_set_descriptor(
        calls, made,
        backward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    ls__cudnn_add_operation(graph, made);
}

void ls__cudnn_graph_open(ls__cudnn_graph *graph, const ls__cudnn_problem *problem,
                          cudnnHandle_t handle)
{
    memset(graph, 0, sizeof *graph);
    problem->build(graph, problem->op);
    cudnnBackendDescriptor_t made =
        ls__cudnn_graph_make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    ls__cudnn_set(&graph->calls, made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  graph->n_operations, graph->operations);
    if (handle != NULL)
        ls__cudnn_set(&graph->calls, made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &handle);
    ls__cudnn_finalize(&graph->calls, made, "the graph of operations");
    graph->graph = made;
}

void ls__cudnn_graph_close(ls__cudnn_graph *graph)
{
    while (graph->n_descriptors > 0) ls__cudnn_release(&graph->descriptors[--graph->n_descriptors]);
}
