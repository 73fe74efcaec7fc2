/* describe.c: a built net as text, and its memory plan. */
#include "base/error.h"
#include "base/text.h"
#include "nn/lower.h"
#include "nn/net_state.h"

#include <stdio.h>
#include <string.h>

/* "layer1.0.bn2 + add + relu" */
static void stage_name(const ls__stage *stage, char *out, size_t size)
{
    const bool add = stage->addend != NULL;
    snprintf(out, size, "%s%s%s", stage->head->name, add ? " + add" : "",
             stage->relu ? " + relu" : "");
}

static int64_t stage_parameters(const ls_graph *graph, const ls__stage *stage)
{
    int64_t count = 0;
    for (int i = 0; i < LS__MAX_NODE_ENTRIES; i++) {
        const int entry = stage->head->entries[i];
        if (entry >= 0 && graph->entries[entry].kind != LS_ENTRY_BUFFER)
            count += graph->entries[entry].count;
    }
    return count;
}

static int64_t stage_multiply_adds(const ls__program *p, const ls__stage *stage)
{
    const ls_node *node = stage->head;
    const ls__node_rules *rules = ls__rules(node->kind);
    if (!rules->multiply_adds) return 0;
    ls_spec inputs[LS_MAX_OP_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = p->specs[node->inputs[i]->id];
    return rules->multiply_adds(node, inputs, &p->specs[node->id]);
}

/* The kernels of one stage: "onednn jit:avx2 (heuristic)"; those of the backward part follow. Ops
 * that are not what a layer's own is are named. */
static void put_kernels(ls__text *t, const ls__program *p, const ls__stage *stage)
{
    bool first = true;
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (in->node != stage->tail || in->skipped) continue;
        ls__text_put(t, first ? "" : "; ");
        first = false;
        if (in->backward || ls__op_is_optional(in->op.kind))
            ls__text_put(t, "%s ", in->custom ? "backward" : ls__op_name(in->op.kind));
        if (in->kernel)
            ls__text_put(t, "%s (%s)", in->kernel->name, in->why.reason);
        else
            ls__text_put(t, "%s", in->custom ? "callback" : "copy");
        if (in->kernel && in->op.operands[0].block > 0 && in->op.operands[0].shape.n_dims == 4 &&
            in->op.operands[0].block != in->op.operands[0].shape.dims[3])
            ls__text_put(t, " [block %lld]", (long long)in->op.operands[0].block);
    }
    if (first) ls__text_put(t, "-");
}

static size_t output_bytes(const ls__program *p, const ls__stage *stage)
{
    const int v = p->node_values[stage->tail->id];
    return p->values[v].bytes;
}

static void put_stage(ls__text *t, const ls__program *p, const ls__stage *stage, int width)
{
    char name[2 * LS__MAX_NAME], shape[LS_SHAPE_TEXT_SIZE];
    stage_name(stage, name, sizeof name);
    const ls_spec *spec = &p->specs[stage->tail->id];
    ls__text_put(t, "%-*s %-20s %11lld %14lld %12zu  ", width, name,
                 ls_shape_text(&spec->shape, shape, sizeof shape),
                 (long long)stage_parameters(p->graph, stage),
                 (long long)stage_multiply_adds(p, stage), output_bytes(p, stage));
    put_kernels(t, p, stage);
    ls__text_put(t, "\n");
}

/* The program to show: a train program if there is one. */
static const ls__program *shown_program(const ls_net *net)
{
    const ls__program *best = NULL;
    for (int i = 0; i < net->n_programs; i++) {
        const ls__program *p = net->programs[i];
        if (!best || p->gradients > best->gradients ||
            (p->gradients == best->gradients && p->last_used > best->last_used))
            best = p;
    }
    return best;
}

static void put_memory(ls__text *t, const ls_net *net, const ls__program *p)
{
    const ls_net_memory memory = ls_net_memory_plan(net);
    const double mib = 1024.0 * 1024.0;
    ls__text_put(
        t,
        "\nmemory: parameters %.1f MiB, gradients %.1f MiB, arena %.1f MiB (unshared it would be "
        "%.1f MiB), "
        "kernel scratch %.1f MiB; %d values, %d instructions\n",
        (double)memory.parameter_bytes / mib, (double)memory.gradient_bytes / mib,
        (double)memory.arena_bytes / mib, (double)memory.unshared_bytes / mib,
        (double)memory.scratch_bytes / mib, p->n_values, p->n_instructions);
}

static void put_precision(ls__text *t, const ls_net *net)
{
    ls__text_put(t, "precision: %s%s", ls__net_precision(net),
                 ls__emulates_precision(net) ? ", products made in f32" : "");
    if (net->blocks.scaler) {
        const ls_loss_scale_config scale = ls__net_loss_scale_config(net);
        ls__text_put(t, "; loss scale %g at first, doubled after %lld updates without overflow",
                     (double)scale.initial, (long long)scale.growth_interval);
    }
    ls__text_put(t, "\n");
}

int ls_net_describe(ls_net *net, char *buffer, size_t size)
{
    if (!net || (!buffer && size > 0) || ls__has_error(net->owned.ctx)) return -1;
    const ls__program *p = shown_program(net);
    if (!p) { /* all were dropped, by freezing say: plan the recorded shapes again */
        ls__program *fresh;
        const ls__named_list *inputs = &net->graph.inputs;
        for (int i = 0; i < inputs->n; i++) net->fed_specs[i] = inputs->items[i].node->spec;
        const ls_mode mode = net->config.inference ? LS_EVAL : LS_TRAIN;
        if (ls__net_program(net, mode, net->fed_specs, false, &fresh) != LS_OK) return -1;
        p = fresh;
    }
    ls__text t = { buffer, size, 0 };
    int width = 5;
    int64_t parameters = 0, multiply_adds = 0;
    for (int i = 0; i < p->n_stages; i++) {
        char name[2 * LS__MAX_NAME];
        stage_name(&p->stages[i], name, sizeof name);
        if ((int)strlen(name) > width) width = (int)strlen(name);
        parameters += stage_parameters(p->graph, &p->stages[i]);
        multiply_adds += stage_multiply_adds(p, &p->stages[i]);
    }
    ls__text_put(&t, "%-*s %-20s %11s %14s %12s  %s\n", width, "layer", "output", "parameters",
                 "multiply-adds", "bytes", "kernels: forward; backward");
    for (int i = 0; i < p->n_stages; i++) put_stage(&t, p, &p->stages[i], width);
    ls__text_put(&t, "%-*s %-20s %11lld %14lld\n", width, "total", "", (long long)parameters,
                 (long long)multiply_adds);
    put_memory(&t, net, p);
    char recomputed[256];
    ls__recompute_text(p, recomputed, sizeof recomputed);
    if (p->gradients) ls__text_put(&t, "%s\n", recomputed);
    put_precision(&t, net);
    return (int)t.length;
}

ls_net_memory ls_net_memory_plan(const ls_net *net)
{
    if (!net) return (ls_net_memory){ 0 };
    const ls__device *device = net->owned.ctx->device;
    ls_net_memory memory = { .parameter_bytes = (size_t)net->block_elements * sizeof(float),
                             .arena_bytes = net->arena_bytes,
                             .scratch_bytes = device->backend->scratch_bytes(device) };
    if (net->blocks.factors)
        memory.parameter_bytes +=
            (size_t)net->blocks.parameter_elements * ls_dtype_bytes(ls__net_activations(net));
    if (net->blocks.gradients)
        memory.gradient_bytes = (size_t)net->blocks.parameter_elements * sizeof(float);
    for (int i = 0; i < net->n_programs; i++)
        if (net->programs[i]->unshared_bytes > memory.unshared_bytes)
            memory.unshared_bytes = net->programs[i]->unshared_bytes;
    return memory;
}
