/* input.c: inputs, parameters, u8 normalisation, named outputs, losses and metrics. */
#include "nn/layers/layers.h"

#include "base/error.h"
#include <string.h>

static ls_status infer_same(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    (void)inputs;
    *out = node->spec;
    return LS_OK;
}

/* ---- Inputs: the values that programs set; a gradient is computed if requested. ---- */

static void input_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_spec *spec = ls__spec_of(b, fused->head);
    ls__set_forward_value(b, fused->tail, ls__value_new(b, spec->dtype, spec->shape));
}

const ls__layer ls__input_layer = { .name = "input",
                                    .infer = infer_same,
                                    .forward = input_forward };

ls_node *ls__append_input(ls_graph *graph, const char *name, ls_spec spec)
{
    char text[LS_SHAPE_TEXT_SIZE];
    if (spec.shape.n_dims < 1 || ls_shape_element_count(&spec.shape) <= 0)
        return ls_graph_fail(graph, LS_ERR_SHAPE,
                             "input '%s': its shape is %s; expected [batch,...], all at least 1",
                             name ? name : "", ls_shape_text(&spec.shape, text, sizeof text));
    ls_node *node = ls__graph_append(graph, &(ls_node){ .layer = &ls__input_layer, .spec = spec },
                                     name, 0, NULL);
    return node ? ls__graph_name_node(&graph->inputs, "input", node->name, node, 0) : NULL;
}

ls_node *ls_input(ls_graph *graph, const char *name, ls_spec spec)
{
    if (!ls__graph_accepts(graph, "ls_input", 0, NULL)) return NULL;
    if (spec.dtype != LS_F32 && spec.dtype != LS_I32)
        return ls_graph_fail(graph, LS_ERR_TYPE,
                             "input '%s': its type is %s; expected F32, or I32 for labels",
                             name ? name : "", ls_dtype_name(spec.dtype));
    return ls__append_input(graph, name, spec);
}

/* ---- u8 images become (x / 255 - mean) / std ---- */

static ls_status normalize_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const int64_t channels = node->inputs[0]->spec.shape.dims[3]; /* of mean and std */
    char text[LS_SHAPE_TEXT_SIZE];
    if (inputs[0].shape.dims[3] != channels)
        return ls__node_fail(node, LS_ERR_SHAPE,
                             "input %s has %lld channels, the net was built for %lld",
                             ls_shape_text(&inputs[0].shape, text, sizeof text),
                             (long long)inputs[0].shape.dims[3], (long long)channels);
    *out = (ls_spec){ LS_F32, inputs[0].shape };
    return LS_OK;
}

/* True if the only reader of the node is a convolution over all channels. */
static bool feeds_one_convolution(const ls__program *p, const ls_node *node)
{
    const ls_graph *graph = p->graph;
    int n_readers = 0, n_convolutions = 0;
    for (int i = 0; i < p->n_fused_ops; i++) {
        const ls__fused_op *fused = &p->fused_ops[i];
        const ls_node *head = fused->head;
        for (int j = 0; j < head->n_inputs; j++) {
            if (head->inputs[j] != node) continue;
            n_readers++;
            n_convolutions += head->layer == &ls__conv2d_layer && head->settings.conv.groups == 1;
        }
        n_readers += fused->addend == node;
    }
    const ls__named_list *const lists[] = { &graph->outputs, &graph->losses, &graph->metrics };
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int i = 0; i < lists[l]->n; i++) n_readers += lists[l]->items[i].node == node;
    return n_readers == 1 && n_convolutions == 1;
}

/* The image's channels, or more, with zeros, if the device then runs the convolution faster. With
 * other readers the image is not padded, because a separate pass would cost more than it saves. */
static int64_t image_channels(const ls__builder *b, const ls_node *node, int64_t channels)
{
    const ls__device *device = b->program->ctx->device;
    if (b->activations == LS_F32 || !device->backend->channel_multiple ||
        !feeds_one_convolution(b->program, node))
        return channels;
    const int64_t multiple = device->backend->channel_multiple(device);
    return multiple > 0 ? (channels + multiple - 1) / multiple * multiple : channels;
}

static void normalize_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls__op op = ls__op_of(node, LS__OP_NORMALIZE);
    const int x = ls__forward_value(b, node->inputs[0]);
    ls_shape shape = ls__spec_of(b, node)->shape;
    shape.dims[3] = image_channels(b, node, shape.dims[3]);
    const int y = ls__activation_new(b, shape);
    ls__emit(b, &op, 1, &x, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

static void normalize_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 4, node->settings.normalize.mean);
    ls__text_put_floats(out, 4, node->settings.normalize.std);
}

static const ls__layer normalize_layer = { .name = "normalize",
                                           .infer = normalize_infer,
                                           .forward = normalize_forward,
                                           .put_settings = normalize_settings };

ls_node *ls__append_normalize(ls_graph *graph, ls_node *x, const float mean[4], const float std[4])
{
    ls_node prototype = { .layer = &normalize_layer };
    memcpy(prototype.settings.normalize.mean, mean, 4 * sizeof *mean);
    memcpy(prototype.settings.normalize.std, std, 4 * sizeof *std);
    return ls__graph_append(graph, &prototype, NULL, 1, &x);
}

/* ---- Parameters for users' ops ---- */

static void parameter_forward(ls__builder *b, const ls__fused_op *fused)
{
    ls__set_forward_value(b, fused->tail, ls__value_parameter(b, fused->head, LS__WEIGHT));
}

static void parameter_backward(ls__builder *b, const ls__fused_op *fused)
{
    const int gradient = ls__gradient_of(b, fused->tail);
    const int target = ls__value_parameter_gradient(b, fused->head, LS__WEIGHT);
    ls__emit(b, &(ls__op){ .kind = LS__OP_COPY }, 1, &gradient, 1, &target);
}

const ls__layer ls__parameter_layer = { .name = "parameter",
                                        .infer = infer_same,
                                        .forward = parameter_forward,
                                        .backward = parameter_backward };

ls_node *ls_parameter(ls_graph *graph, const char *name, ls_shape shape, ls_parameter_kind kind,
                      ls_init init)
{
    if (!ls__graph_accepts(graph, "ls_parameter", 0, NULL)) return NULL;
    if (!name || kind < LS_PARAMETER_WEIGHT || kind > LS_PARAMETER_NORM || init < LS_INIT_DEFAULT ||
        init > LS_INIT_ONE)
        return ls_graph_fail(graph, LS_ERR_INVALID, "ls_parameter '%s': %s", name ? name : "",
                             name ? "no such kind or init" : "a name is required");
    if (shape.n_dims < 1 || ls_shape_element_count(&shape) <= 0) {
        char text[LS_SHAPE_TEXT_SIZE];
        return ls_graph_fail(graph, LS_ERR_SHAPE, "ls_parameter '%s': its shape is %s", name,
                             ls_shape_text(&shape, text, sizeof text));
    }
    const ls_node prototype = { .layer = &ls__parameter_layer, .spec = { LS_F32, shape } };
    ls_node *node = ls__graph_append(graph, &prototype, name, 0, NULL);
    if (!node) return NULL;
    /* [out, receptive field..., in] */
    ls__parameter_init parameter_init = { init, 1, shape.dims[0] };
    for (int i = 1; i < shape.n_dims; i++) parameter_init.fan_in *= shape.dims[i];
    for (int i = 1; i < shape.n_dims - 1; i++) parameter_init.fan_out *= shape.dims[i];
    const ls_status status =
        ls__node_add_parameter(node, LS__WEIGHT, NULL, kind, shape, parameter_init);
    return status == LS_OK ? node : NULL;
}

/* ---- Named outputs and losses ---- */

ls_node *ls_output(ls_graph *graph, const char *name, ls_node *node)
{
    if (!ls__graph_accepts(graph, "ls_output", 1, &node)) return NULL;
    return ls__graph_name_node(&graph->outputs, "ls_output", name, node, 0);
}

static ls_node *name_scalar(ls_graph *graph, ls__named_list *list, const char *call,
                            const char *name, ls_node *node, float weight)
{
    if (!ls__graph_accepts(graph, call, 1, &node)) return NULL;
    if (node->spec.dtype != LS_F32 || ls_shape_element_count(&node->spec.shape) != 1) {
        char text[LS_SHAPE_TEXT_SIZE];
        return ls_graph_fail(graph, LS_ERR_SHAPE,
                             "%s '%s': node '%s' is %s %s; expected one F32 element", call,
                             name ? name : "", node->name, ls_dtype_name(node->spec.dtype),
                             ls_shape_text(&node->spec.shape, text, sizeof text));
    }
    return ls__graph_name_node(list, call, name, node, weight);
}

ls_node *ls_loss(ls_graph *graph, const char *name, ls_node *node, float weight)
{
    return name_scalar(graph, graph ? &graph->losses : NULL, "ls_loss", name, node,
                       weight == 0 ? 1 : weight);
}

ls_node *ls_metric(ls_graph *graph, const char *name, ls_node *node)
{
    if (graph && graph->metrics.n == LS_MAX_METRICS)
        return ls_graph_fail(graph, LS_ERR_UNSUPPORTED,
                             "ls_metric '%s': a net has at most %d metrics", name ? name : "",
                             LS_MAX_METRICS);
    return name_scalar(graph, graph ? &graph->metrics : NULL, "ls_metric", name, node, 0);
}
