/* export.c: a net's evaluation as an ONNX model. */
#include "checkpoint/onnx/layers.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "io/json.h"
#include "nn/net/net.h"
#include <string.h>

static const char call[] = "ls_onnx_export";

static ls_status check_metadata(ls_context *ctx, const char *const *pairs)
{
    static const char *const own[] = { "classes", "mean", "std" };
    for (; pairs && *pairs; pairs += 2) {
        if (!pairs[1])
            return ls__fail(ctx, LS_ERR_INVALID, "%s: metadata '%s' has no value", call, *pairs);
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
            if (strcmp(*pairs, own[i]) == 0)
                return ls__fail(ctx, LS_ERR_INVALID,
                                "%s: metadata '%s': the export writes this key itself", call,
                                *pairs);
    }
    return LS_OK;
}

static ls_status check(const ls__onnx_export *e, const char *path)
{
    ls_context *ctx = e->graph->ctx;
    const ls_onnx_config *c = &e->config;
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "%s: path is NULL", call);
    if (c->opset < LS_ONNX_MIN_OPSET || c->opset > LS_ONNX_MAX_OPSET)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: opset is %d, expected %d to %d", call, c->opset,
                        LS_ONNX_MIN_OPSET, LS_ONNX_MAX_OPSET);
    if (c->input != LS_ONNX_INPUT_F32 && c->input != LS_ONNX_INPUT_BYTES)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: input is %d, expected f32 or bytes", call,
                        (int)c->input);
    if (c->input == LS_ONNX_INPUT_BYTES && ls__net_config(e->net)->input.image.dtype != LS_U8)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: the net's input is F32; bytes are for an input of U8", call);
    if (c->n_classes < 0 || (c->n_classes > 0 && !c->classes))
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %lld classes%s", call, (long long)c->n_classes,
                        c->classes ? "" : ", but classes is NULL");
    for (int64_t i = 0; i < c->n_classes; i++)
        if (!c->classes[i])
            return ls__fail(ctx, LS_ERR_INVALID, "%s: the name of class %lld is NULL", call,
                            (long long)i);
    return check_metadata(ctx, c->metadata);
}

/* Counts the readers of nodes that outputs depend on, then finds batch norms to fold. */
static ls_status prepare(ls__onnx_export *e)
{
    const ls_graph *graph = e->graph;
    const size_t n = (size_t)graph->n_nodes;
    e->values = ls__bump_alloc(&e->model.bump, n * sizeof(*e->values));
    e->batch_norm = ls__bump_alloc(&e->model.bump, n * sizeof(*e->batch_norm));
    e->n_readers = ls__bump_alloc(&e->model.bump, n * sizeof(*e->n_readers));
    if (!e->values || !e->batch_norm || !e->n_readers)
        return ls__fail_memory(graph->ctx, call, n * sizeof(*e->values));
    for (int i = 0; i < graph->outputs.n; i++) e->n_readers[graph->outputs.items[i].node->id]++;
    for (int i = graph->n_nodes - 1; i >= 0; i--)
        for (int j = 0; e->n_readers[i] > 0 && j < graph->nodes[i]->n_inputs; j++)
            e->n_readers[graph->nodes[i]->inputs[j]->id]++;
    for (int i = 0; i < graph->n_nodes && !e->config.keep_batch_norm; i++) {
        const ls_node *node = graph->nodes[i];
        if (e->n_readers[i] == 0 || strcmp(node->layer->name, "batch_norm") != 0) continue;
        const ls_node *x = node->inputs[0];
        if (e->n_readers[x->id] == 1 && ls__onnx_is_folded_into(x)) e->batch_norm[x->id] = node;
    }
    return LS_OK;
}

/* Names the outputs, which may be inputs, or one node with several names. */
static ls_status put_outputs(ls__onnx_export *e)
{
    const ls_graph *graph = e->graph;
    for (int i = 0; i < graph->outputs.n; i++) {
        const char *name = graph->outputs.items[i].name;
        const ls_node *node = graph->outputs.items[i].node;
        ls__onnx_value *value = &e->values[node->id];
        const char *x = ls__onnx_ordered(e, node);
        LS_TRY(e->model.status);
        bool is_output = false;
        for (int j = 0; j < i; j++)
            is_output = is_output || strcmp(x, graph->outputs.items[j].name) == 0;
        if (value->is_computed && !is_output) {
            ls__onnx_rename(&e->model, x, name);
            for (int j = 0; j < graph->n_nodes; j++) /* nodes without an op share names */
                if (e->values[j].name == x) e->values[j].name = name;
        } else {
            const char *identity;
            ls__onnx_node(&e->model, "Identity", name, 1, &x, &identity);
            LS_TRY(e->model.status);
            ls__onnx_rename(&e->model, identity, name);
        }
        const ls_spec spec = { node->spec.dtype, ls__onnx_shape(&node->spec.shape) };
        ls__onnx_output(&e->model, name, &spec, value->is_batch);
    }
    return e->model.status;
}

/* Adds a JSON array to the metadata; takes over the reference. */
static ls_status put_json(ls__onnx_export *e, const char *key, ls__json_builder *array)
{
    char *text = NULL;
    size_t size;
    json_t *json = ls__json_finish(array);
    const bool ok =
        ls__json_dump(e->graph->ctx, json, JSON_COMPACT | ls__json_exact(json), &text, &size);
    char *copy = ok ? ls__bump_format(&e->model.bump, "%.*s", (int)size, text) : NULL;
    json_decref(json);
    ls__free(e->graph->ctx, text);
    if (!copy) return ls__fail_memory(e->graph->ctx, call, 0);
    ls__onnx_metadata(&e->model, key, copy);
    return e->model.status;
}

static ls_status put_channels(ls__onnx_export *e, const char *key, int64_t n, const float *values)
{
    ls__json_builder array = { json_array() };
    for (int64_t i = 0; i < n; i++) ls__json_append(&array, json_real(ls__shortest(values[i])));
    return put_json(e, key, &array);
}

static ls_status put_metadata(ls__onnx_export *e)
{
    const ls_onnx_config *c = &e->config;
    if (c->n_classes > 0) {
        ls__json_builder array = { json_array() };
        for (int64_t i = 0; i < c->n_classes; i++)
            ls__json_append(&array, ls__json_text(e->graph->ctx, c->classes[i]));
        LS_TRY(put_json(e, "classes", &array));
    }
    for (int i = 0; i < e->graph->n_nodes; i++) {
        const ls_node *node = e->graph->nodes[i];
        if (strcmp(node->layer->name, "normalize") != 0) continue;
        const int64_t channels = node->spec.shape.dims[3];
        LS_TRY(put_channels(e, "mean", channels, node->settings.normalize.mean));
        LS_TRY(put_channels(e, "std", channels, node->settings.normalize.std));
    }
    for (const char *const *pair = c->metadata; pair && *pair; pair += 2)
        ls__onnx_metadata(&e->model, pair[0], pair[1]);
    return e->model.status;
}

static ls_status put_all(ls__onnx_export *e)
{
    const ls_graph *graph = e->graph;
    LS_TRY(prepare(e));
    for (int i = 0; i < graph->outputs.n; i++) /* no other value has these names */
        ls__onnx_name(&e->model, graph->outputs.items[i].name);
    LS_TRY(e->model.status);
    for (int i = 0; i < graph->n_nodes; i++)
        if (e->n_readers[i] > 0) LS_TRY(ls__onnx_put_layer(e, graph->nodes[i]));
    LS_TRY(put_outputs(e));
    return put_metadata(e);
}

ls_status ls_onnx_export(ls_net *net, const ls_onnx_config *config, const char *path)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER(ls_net_context(net));
    ls__onnx_export e = { .net = net, .graph = ls__net_graph(net) };
    if (config) e.config = *config;
    if (e.config.opset == 0) e.config.opset = LS_ONNX_MIN_OPSET;
    LS_TRY(check(&e, path));
    ls__onnx_open(&e.model, e.graph->ctx, e.config.opset);
    ls_status status = put_all(&e);
    if (status == LS_OK) status = ls__onnx_write(e.graph->ctx, path, &e.model.model);
    ls__onnx_close(&e.model);
    return status;
}
