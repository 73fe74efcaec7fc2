/* net_blocks.c: parameters and buffers in one block, gradients in another; names and freezing. */
#include "base/alloc.h"
#include "arith/element.h"
#include "base/error.h"
#include "nn/layers/layers.h"
#include "nn/net/net_state.h"
#include <fnmatch.h>
#include <string.h>

/* ---- Blocks ---- */

/* Parameters in the order of the graph, then buffers. */
static ls_status set_offsets(ls_net *net)
{
    const int64_t max_elements = PTRDIFF_MAX / (int64_t)sizeof(float) - LS__PARAMETER_ALIGNMENT;
    ls_graph *graph = &net->graph;
    int64_t offset = 0;
    for (int buffers = 0; buffers < 2; buffers++) {
        for (int i = 0; i < graph->n_parameters; i++) {
            ls__parameter *parameter = &graph->parameters[i];
            if ((parameter->kind == LS_PARAMETER_BUFFER) != (buffers == 1)) continue;
            if (parameter->count > max_elements - offset)
                return ls__fail(graph->ctx, LS_ERR_MEMORY,
                                "net: the parameters up to '%s' are more than memory can address",
                                parameter->name);
            parameter->offset = offset;
            offset += (int64_t)ls__round_up((size_t)parameter->count, LS__PARAMETER_ALIGNMENT);
        }
        if (!buffers) net->blocks.parameter_elements = offset;
    }
    net->blocks.block_elements = offset;
    net->blocks.n_parameters = graph->n_parameters;
    net->blocks.parameters = graph->parameters;
    return LS_OK;
}

static ls_status net_allocate(ls_net *net, const char *what, int64_t elements, ls_dtype dtype,
                              void **out)
{
    ls_context *ctx = net->owned.ctx;
    const size_t bytes = (size_t)elements * ls_dtype_bytes(dtype);
    *out = ls__pool_allocate(ctx->pool, bytes);
    if (!*out) return ls__pool_fail(ctx->pool, bytes, "net: %s", what);
    return ctx->device->backend->clear(ctx->device, *out, bytes);
}

ls_status ls__net_shard_memory(ls_net *net, const char *what, int64_t elements, float **out)
{
    net->shards.bytes += (size_t)elements * sizeof **out;
    return net_allocate(net, what, elements, LS_F32, (void **)out);
}

static ls_status open_loss_scale(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    const float loss_scale[LS__LOSS_SCALE_SIZE] = { net->config.loss_scale.initial };
    if (loss_scale[LS__LOSS_SCALE_SCALE] == 0) return LS_OK;
    LS_TRY(net_allocate(net, "the loss scale", LS__LOSS_SCALE_SIZE, LS_F32,
                        (void **)&net->blocks.loss_scale));
    return ctx->device->backend->write(ctx->device, net->blocks.loss_scale, loss_scale,
                                       sizeof loss_scale);
}

ls_status ls__net_open_blocks(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    ls__net_blocks *blocks = &net->blocks;
    const ls_dtype activations = ls__net_activations(net);
    LS_TRY(set_offsets(net));
    LS_TRY(
        net_allocate(net, "parameters", blocks->block_elements, LS_F32, (void **)&blocks->values));
    blocks->gradient_stride = net->shards.n > 1
                                  ? ls__shard_elements(blocks->block_elements, &net->graph)
                                  : blocks->parameter_elements;
    blocks->n_gradients = net->shards.is_synced ? net->shards.end - net->shards.first : 1;
    if (!net->config.inference)
        LS_TRY(net_allocate(net, "gradients", blocks->n_gradients * blocks->gradient_stride, LS_F32,
                            (void **)&blocks->gradients));
    if (activations != LS_F32)
        LS_TRY(net_allocate(net, "the parameters' 16-bit copy", blocks->parameter_elements,
                            activations, &blocks->compute_weights));
    LS_TRY(open_loss_scale(net));
    const size_t bytes = (size_t)(net->graph.n_parameters + 1) * sizeof(ls_tensor);
    net->value_views = ls__zalloc(ctx, bytes);
    net->gradient_views = ls__zalloc(ctx, bytes);
    if (!net->value_views || !net->gradient_views) return ls__fail_memory(ctx, "net", bytes);
    for (int i = 0; i < net->graph.n_parameters; i++) {
        const ls__parameter *parameter = &net->graph.parameters[i];
        ls__tensor_view(ctx, &net->value_views[i], LS_F32, parameter->shape,
                        net->blocks.values + parameter->offset);
        if (net->blocks.gradients && parameter->kind != LS_PARAMETER_BUFFER)
            ls__tensor_view(ctx, &net->gradient_views[i], LS_F32, parameter->shape,
                            net->blocks.gradients + parameter->offset);
    }
    return ls__net_set_initial_values(net);
}

void ls__net_close_blocks(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    ls__pool_release(ctx->pool, net->blocks.values);
    ls__pool_release(ctx->pool, net->blocks.gradients);
    ls__pool_release(ctx->pool, net->blocks.compute_weights);
    ls__pool_release(ctx->pool, net->blocks.loss_scale);
    ls__free(ctx, net->value_views);
    ls__free(ctx, net->gradient_views);
}

ls__net_blocks ls__net_get_blocks(const ls_net *net)
{
    return net->blocks;
}

/* ---- Parameters ---- */

int64_t ls_net_parameter_count(const ls_net *net)
{
    return net ? net->graph.n_parameters : 0;
}

ls_parameter_info ls_net_parameter_at(const ls_net *net, int64_t i)
{
    if (!net || i < 0 || i >= net->graph.n_parameters) return (ls_parameter_info){ 0 };
    const ls__parameter *parameter = &net->graph.parameters[i];
    const bool trained = net->blocks.gradients && parameter->kind != LS_PARAMETER_BUFFER;
    return (ls_parameter_info){ .name = parameter->name,
                                .kind = parameter->kind,
                                .value = &net->value_views[i],
                                .gradient = trained ? &net->gradient_views[i] : NULL,
                                .frozen = parameter->frozen };
}

ls_tensor *ls_net_parameter(ls_net *net, const char *name)
{
    if (!net) return NULL;
    LS__ENTER_NULL(net->owned.ctx);
    const int64_t i = ls__find_parameter(net->graph.n_parameters, net->graph.parameters, name);
    if (i >= 0) return &net->value_views[i];
    char names[LS__NAMES_TEXT_SIZE];
    if (!name) name = "(null)";
    ls__fail(
        net->owned.ctx, LS_ERR_NOT_FOUND,
        "ls_net_parameter: the net has no parameter or buffer '%s'; %s", name,
        ls__nearest_parameters(net->graph.n_parameters, net->graph.parameters, true, name, names));
    return NULL;
}

int64_t ls_net_parameter_element_count(const ls_net *net)
{
    return net ? ls__parameter_elements(&net->graph) : 0;
}

bool ls__net_is_head(const ls_net *net, const char *parameter)
{
    const ls_node *head = NULL;
    for (int i = 0; i < net->graph.n_nodes; i++)
        if (net->graph.nodes[i]->layer == &ls__linear_layer) head = net->graph.nodes[i];
    for (int role = LS__WEIGHT; head && role <= LS__BIAS; role++) {
        const int i = head->parameters[role];
        if (i >= 0 && strcmp(net->graph.parameters[i].name, parameter) == 0) return true;
    }
    return false;
}

const char *ls__net_weights_digest(const ls_net *net)
{
    return net->weights_digest;
}

void ls__net_set_weights_digest(ls_net *net, const char digest[LS_DIGEST_TEXT_SIZE])
{
    memcpy(net->weights_digest, digest, LS_DIGEST_TEXT_SIZE);
}

void ls__net_use_gradient(ls_net *net, int64_t i)
{
    net->graph.parameters[i].has_gradient = false;
}

void ls__net_use_gradients(ls_net *net)
{
    for (int64_t i = 0; i < net->graph.n_parameters; i++) ls__net_use_gradient(net, i);
    net->has_gradients = false;
}

bool ls__net_has_gradients(const ls_net *net)
{
    return net->has_gradients;
}

/* A frozen parameter's gradient is zero, so that a digest of the block does not depend on earlier
 * gradients. */
static ls_status clear_gradient(const ls_net *net, const ls__parameter *parameter)
{
    const ls__net_blocks *blocks = &net->blocks;
    ls__device *device = net->owned.ctx->device;
    for (int64_t i = 0; blocks->gradients && i < blocks->n_gradients; i++)
        LS_TRY(device->backend->clear(
            device, blocks->gradients + i * blocks->gradient_stride + parameter->offset,
            (size_t)parameter->count * sizeof(float)));
    return LS_OK;
}

static ls_status set_parameter_frozen(ls_net *net, ls__parameter *parameter, bool frozen)
{
    if (frozen) LS_TRY(clear_gradient(net, parameter));
    parameter->frozen = frozen;
    return LS_OK;
}

static void note_frozen(ls_net *net)
{
    net->blocks.frozen_version++;
    ls__net_use_gradients(net); /* the block's gradients are of other parameters */
    ls__net_drop_training_programs(net);
}

void ls__net_begin(ls_net *net)
{
    for (int i = 0; i < net->graph.n_parameters && !net->has_begun; i++)
        net->graph.parameters[i].began_frozen = net->graph.parameters[i].frozen;
    net->has_begun = true;
}

bool ls__net_began_frozen(const ls_net *net, int64_t i)
{
    const ls__parameter *parameter = &net->graph.parameters[i];
    return net->has_begun ? parameter->began_frozen : parameter->frozen;
}

ls_status ls__net_set_frozen(ls_net *net, const bool *frozen)
{
    bool changes = false;
    for (int i = 0; i < net->graph.n_parameters; i++) {
        ls__parameter *parameter = &net->graph.parameters[i];
        if (parameter->kind == LS_PARAMETER_BUFFER || parameter->frozen == frozen[i]) continue;
        LS_TRY(set_parameter_frozen(net, parameter, frozen[i]));
        changes = true;
    }
    if (changes) note_frozen(net);
    return LS_OK;
}

static ls_status set_frozen(ls_net *net, const char *call, const char *pattern, bool frozen)
{
    LS__ENTER(ls__net_context(net));
    int n_matches = 0;
    for (int i = 0; pattern && i < net->graph.n_parameters; i++) {
        ls__parameter *parameter = &net->graph.parameters[i];
        if (parameter->kind == LS_PARAMETER_BUFFER || fnmatch(pattern, parameter->name, 0) != 0)
            continue;
        n_matches++;
        LS_TRY(set_parameter_frozen(net, parameter, frozen));
    }
    if (n_matches == 0) {
        char names[LS__NAMES_TEXT_SIZE];
        if (!pattern) pattern = "(null)";
        return ls__fail(net->owned.ctx, LS_ERR_NOT_FOUND,
                        "%s: the net has no parameter whose name matches '%s'; %s", call, pattern,
                        ls__nearest_parameters(net->graph.n_parameters, net->graph.parameters,
                                               false, pattern, names));
    }
    note_frozen(net);
    return LS_OK;
}

ls_status ls_net_freeze(ls_net *net, const char *pattern)
{
    return set_frozen(net, "ls_net_freeze", pattern, true);
}

ls_status ls_net_unfreeze(ls_net *net, const char *pattern)
{
    return set_frozen(net, "ls_net_unfreeze", pattern, false);
}
