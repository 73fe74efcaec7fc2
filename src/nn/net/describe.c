/* describe.c: a built net as text, and its memory plan. */
#include "base/error.h"
#include "base/floats.h"
#include "base/text.h"
#include "nn/compile/compile.h"
#include "nn/layers/layers.h"
#include "nn/net/net_state.h"
#include <stdio.h>
#include <string.h>

enum { DESCRIBE_COLUMNS = 80 };
static const char common_reason[] = "heuristic"; /* printed once, not with each kernel */

/* "layer1.0.bn2 + add + relu" */
static void fused_name(const ls__fused_op *fused, char *out, size_t size)
{
    ls__snprintf(out, size, "%s%s%s%s", fused->head->name, fused->addend ? " + add" : "",
                 fused->activation ? " + " : "", fused->activation ? fused->tail->layer->name : "");
}

static int64_t count_parameters(const ls_graph *graph, const ls__fused_op *fused)
{
    int64_t count = 0;
    for (int i = 0; i < LS__MAX_NODE_PARAMETERS; i++) {
        const int parameter = fused->head->parameters[i];
        if (parameter >= 0 && graph->parameters[parameter].kind != LS_PARAMETER_BUFFER)
            count += graph->parameters[parameter].count;
    }
    return count;
}

static int64_t count_multiply_adds(const ls__program *p, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (!node->layer->multiply_adds) return 0;
    ls_spec inputs[LS__MAX_NODE_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = p->specs[node->inputs[i]->id];
    return node->layer->multiply_adds(node, inputs, &p->specs[node->id]);
}

/* "conv2d_backward_data winograd 4x4 (timed ...)". Ops other than the layer's own are named. */
static void instruction_text(const ls__instruction *in, char *out, size_t size)
{
    ls__text t = { out, size, 0 };
    const bool named =
        (in->backward && !ls__is_copy(in)) || ls__op_is_optional(in->op.kind) ||
        ls__op_traits_of(in->op.kind)->all_shards || in->op.kind == LS__OP_NORM_STATISTICS ||
        (in->op.kind == LS__OP_PAD_CHANNELS && in->node->layer != &ls__pad_channels_layer);
    if (named) ls__text_put(&t, "%s ", in->custom ? "backward" : ls__op_name(in->op.kind));
    ls__text_put(&t, "%s", in->kernel ? in->kernel->name : in->custom ? "callback" : "copy");
    if (in->kernel && strcmp(in->why.reason, common_reason) != 0)
        ls__text_put(&t, " (%s)", in->why.reason);
}

/* The kernels of one fused op on separate lines, those of the backward pass last. */
static void put_kernels(ls__text *t, const ls__program *p, const ls__fused_op *fused)
{
    enum { INDENT = 4, TEXT_SIZE = 256 };
    char text[TEXT_SIZE];
    int column = 0;
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (in->node != fused->tail || in->skipped) continue;
        instruction_text(in, text, sizeof text);
        const int length = (int)strlen(text);
        if (column > 0 && column + 2 + length + 1 <= DESCRIBE_COLUMNS) { /* a ";" may follow */
            ls__text_put(t, "; %s", text);
            column += 2 + length;
        } else {
            ls__text_put(t, "%s%*s%s", column > 0 ? ";\n" : "", INDENT, "", text);
            column = INDENT + length;
        }
    }
    if (column > 0) ls__text_put(t, "\n");
}

typedef struct widths {
    int name, shape;
} widths;

static void put_fused_op(ls__text *t, const ls__program *p, const ls__fused_op *fused, widths w)
{
    char name[2 * LS__MAX_NAME], shape[LS_SHAPE_TEXT_SIZE];
    fused_name(fused, name, sizeof name);
    ls__text_put(t, "%-*s %-*s %10lld %13lld %10zu\n", w.name, name, w.shape,
                 ls_shape_text(&p->specs[fused->tail->id].shape, shape, sizeof shape),
                 (long long)count_parameters(p->graph, fused),
                 (long long)count_multiply_adds(p, fused),
                 p->values[p->node_values[fused->tail->id]].bytes);
    put_kernels(t, p, fused);
}

static void widen(int *width, const char *text)
{
    if ((int)strlen(text) > *width) *width = (int)strlen(text);
}

static void put_table(ls__text *t, const ls__program *p)
{
    widths w = { 5, 6 }; /* of the titles */
    int64_t parameters = 0, multiply_adds = 0;
    for (int i = 0; i < p->n_fused_ops; i++) {
        char name[2 * LS__MAX_NAME], shape[LS_SHAPE_TEXT_SIZE];
        const ls__fused_op *fused = &p->fused_ops[i];
        fused_name(fused, name, sizeof name);
        widen(&w.name, name);
        widen(&w.shape, ls_shape_text(&p->specs[fused->tail->id].shape, shape, sizeof shape));
        parameters += count_parameters(p->graph, fused);
        multiply_adds += count_multiply_adds(p, fused);
    }
    ls__text_put(t, "%-*s %-*s %10s %13s %10s\n", w.name, "layer", w.shape, "output", "parameters",
                 "multiply-adds", "bytes");
    ls__text_put(t, "    kernels, forward then backward, selected by the %s unless stated\n",
                 common_reason);
    for (int i = 0; i < p->n_fused_ops; i++) put_fused_op(t, p, &p->fused_ops[i], w);
    ls__text_put(t, "%-*s %-*s %10lld %13lld\n", w.name, "total", w.shape, "",
                 (long long)parameters, (long long)multiply_adds);
}

/* The last train program, or the last program if there is none. */
static const ls__program *shown_program(const ls_net *net)
{
    const ls__program *best = NULL;
    for (int i = 0; i < net->cache.n_programs; i++) {
        const ls__program *p = net->cache.programs[i];
        if (!best || p->gradients > best->gradients ||
            (p->gradients == best->gradients && p->last_used > best->last_used))
            best = p;
    }
    return best;
}

static void put_memory(ls__text *t, const ls_net *net, const ls__program *p)
{
    const ls_net_memory memory = ls_net_memory_usage(net);
    const double mib = 1024.0 * 1024.0;
    ls__text_put(t,
                 "\nmemory: parameters %.1f MiB, gradients %.1f MiB, kernel scratch %.1f MiB,\n"
                 "    arena %.1f MiB (%.1f MiB without sharing)\n"
                 "execution plan: %d values, %d instructions\n",
                 (double)memory.parameter_bytes / mib, (double)memory.gradient_bytes / mib,
                 (double)memory.scratch_bytes / mib, (double)memory.arena_bytes / mib,
                 (double)memory.unshared_bytes / mib, p->n_values, p->n_instructions);
}

static void put_precision(ls__text *t, const ls_net *net)
{
    ls__text_put(t, "precision: %s%s\n", ls__net_precision(net),
                 ls__emulates_precision(net) ? ", products made in f32" : "");
    if (net->blocks.loss_scale) {
        const ls_loss_scale_config *scale = &net->config.loss_scale;
        ls__text_put(t, "loss scale: %g at first, doubled after %lld updates without overflow\n",
                     (double)scale->initial, (long long)scale->growth_interval);
    }
}

int ls_net_describe(ls_net *net, char *buffer, size_t size)
{
    LS__DEFAULT_FLOATS;
    if (!net || (!buffer && size > 0) || ls__has_error(net->owned.ctx)) return -1;
    const ls__program *p = shown_program(net);
    if (!p) { /* all were dropped, for example by freezing */
        ls__program *fresh;
        const ls_mode mode = net->config.inference ? LS_MODE_EVAL : LS_MODE_TRAIN;
        if (ls__net_program(net, mode, NULL, false, &fresh) != LS_OK) return -1;
        p = fresh;
    }
    ls__text t = { buffer, size, 0 };
    put_table(&t, p);
    put_memory(&t, net, p);
    char recomputed[256];
    ls__recompute_text(p, recomputed, sizeof recomputed);
    if (p->gradients) ls__text_put(&t, "%s\n", recomputed);
    put_precision(&t, net);
    return (int)t.length;
}

ls_net_memory ls_net_memory_usage(const ls_net *net)
{
    if (!net) return (ls_net_memory){ 0 };
    const ls__device *device = net->owned.ctx->device;
    ls_net_memory memory = { .parameter_bytes = (size_t)net->blocks.block_elements * sizeof(float),
                             .arena_bytes = net->env.arena_bytes,
                             .scratch_bytes = device->backend->scratch_bytes(device) };
    if (net->blocks.compute_weights)
        memory.parameter_bytes +=
            (size_t)net->blocks.parameter_elements * ls_dtype_bytes(net->env.activations);
    if (net->blocks.gradients)
        memory.gradient_bytes =
            (size_t)(net->blocks.parameter_elements +
                     (net->blocks.n_gradients - 1) * net->blocks.gradient_stride) *
                sizeof(float) +
            net->shards.bytes;
    for (int i = 0; i < net->cache.n_programs; i++)
        if (net->cache.programs[i]->unshared_bytes > memory.unshared_bytes)
            memory.unshared_bytes = net->cache.programs[i]->unshared_bytes;
    return memory;
}
