/* custom.c: a user's op: a pair of callbacks over dense f32 arrays, in every precision. */
#include "base/error.h"
#include "nn/layers/layers.h"
#include <string.h>

static ls_status call_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    *out = (ls_spec){ 0 };
    const ls_status status = node->u.custom.infer(node->n_inputs, inputs, out, node->u.custom.user);
    if (status != LS_OK)
        return ls__node_fail(node, status, "its infer callback returned '%s'",
                             ls_status_text(status));
    if (out->dtype == LS_F32 && out->shape.n_dims > 0 && ls_shape_element_count(&out->shape) > 0)
        return LS_OK;
    char text[LS_SHAPE_TEXT_SIZE];
    return ls__node_fail(node, LS_ERR_SHAPE,
                         "its infer callback gave %s %s; expected F32 and at least 1 element",
                         ls_dtype_name(out->dtype), ls_shape_text(&out->shape, text, sizeof text));
}

/* The declared output shape is for the model's inputs. With another batch, its first dimension is
 * that of the input that had the same first dimension. */
static ls_status custom_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    if (node->u.custom.infer) return call_infer(node, inputs, out);
    *out = node->u.custom.output;
    for (int i = 0; i < node->n_inputs; i++) {
        const ls_shape *declared = &node->inputs[i]->spec.shape;
        const int64_t batch = inputs[i].shape.dims[0];
        if (inputs[i].shape.n_dims < 1 || out->shape.n_dims < 1 || declared->dims[0] == batch ||
            declared->dims[0] != out->shape.dims[0])
            continue;
        out->shape.dims[0] = batch;
        break;
    }
    return LS_OK;
}

static int full_inputs(ls__builder *b, const ls_node *node, int values[LS_MAX_CUSTOM_OP_INPUTS])
{
    for (int i = 0; i < node->n_inputs; i++) values[i] = ls__full_of(b, node->inputs[i]);
    return node->n_inputs;
}

static void custom_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    int inputs[LS_MAX_CUSTOM_OP_INPUTS];
    const int n = full_inputs(b, node, inputs);
    const int y = ls__value_new(b, LS_F32, ls__spec_of(b, node)->shape);
    ls__emit_custom(b, node, false, n, inputs, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

/* Operands: inputs, output, its gradient -> gradients of the inputs. */
_Static_assert(2 * LS_MAX_CUSTOM_OP_INPUTS + 2 <= LS__MAX_OPERANDS,
               "a backward call has too many operands");

static void custom_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int dy = ls__gradient_of(b, fused->tail);
    int operands[LS_MAX_CUSTOM_OP_INPUTS + 2], gradients[LS_MAX_CUSTOM_OP_INPUTS];
    const int n = full_inputs(b, node, operands);
    operands[n] = ls__forward_value(b, fused->tail);
    operands[n + 1] = dy;
    for (int i = 0; i < n; i++) {
        const ls_spec *spec = ls__spec_of(b, node->inputs[i]);
        const bool required = spec->dtype == LS_F32 && ls__requires_gradient(b, node->inputs[i]);
        gradients[i] = required ? ls__value_new(b, LS_F32, spec->shape) : -1;
    }
    ls__emit_custom(b, node, true, n + 2, operands, n, gradients);
    for (int i = 0; i < n; i++) ls__contribute(b, node->inputs[i], gradients[i]);
}

static void custom_settings(const ls_node *node, ls__text *out)
{
    ls__text_put(out, " %d", node->u.custom.backward != NULL);
}

const ls__layer ls__custom_layer = { .name = "op",
                                     .infer = custom_infer,
                                     .forward = custom_forward,
                                     .backward = custom_backward,
                                     .put_settings = custom_settings };

ls_node *ls_custom_op(ls_graph *graph, const char *name, int n_inputs, ls_node *const *inputs,
                      const ls_custom_op_config *config)
{
    if (!ls__graph_accepts(graph, "ls_custom_op", 0, NULL)) return NULL;
    if (!config || !config->kind || !*config->kind || !config->forward || !name)
        return ls_graph_fail(
            graph, LS_ERR_INVALID,
            "ls_custom_op '%s': a name, config.kind and config.forward are required",
            name ? name : "");
    if (n_inputs < 1 || n_inputs > LS_MAX_CUSTOM_OP_INPUTS || !inputs)
        return ls_graph_fail(graph, LS_ERR_INVALID, "%s '%s': %d inputs, expected 1 to %d",
                             config->kind, name, n_inputs, LS_MAX_CUSTOM_OP_INPUTS);
    if (!config->infer &&
        (config->output.dtype != LS_F32 || ls_shape_element_count(&config->output.shape) <= 0)) {
        char text[LS_SHAPE_TEXT_SIZE];
        return ls_graph_fail(
            graph, LS_ERR_SHAPE,
            "%s '%s': its output is declared as %s %s; expected F32 and at least 1 element",
            config->kind, name, ls_dtype_name(config->output.dtype),
            ls_shape_text(&config->output.shape, text, sizeof text));
    }
    ls_node prototype = { .layer = &ls__custom_layer, .u.custom = *config };
    const char *settings = config->settings ? config->settings : "";
    prototype.u.custom.kind = ls__bump_strdup(&graph->bump, config->kind);
    prototype.u.custom.settings = ls__bump_strdup(&graph->bump, settings);
    if (!prototype.u.custom.kind || !prototype.u.custom.settings)
        return ls__fail_memory(graph->ctx, name, strlen(config->kind) + strlen(settings)), NULL;
    return ls__graph_append(graph, &prototype, name, n_inputs, inputs);
}
