/* compile.c: see compile.h. */
#include "nn/compile/compile.h"

#include "backend/pool.h"
#include "base/alloc.h"
#include "base/error.h"
#include "nn/layers/layers.h"
#include "nn/select/selector.h"
#include <string.h>

/* Shapes of all nodes for these inputs, which are copied as the program's key. */
static ls_status infer_shapes(ls__program *p, const ls_spec *input_specs)
{
    const ls_graph *graph = p->graph;
    const size_t n_inputs = (size_t)graph->inputs.n, n_nodes = (size_t)graph->n_nodes;
    p->input_specs = ls__bump_alloc(&p->bump, n_inputs * sizeof *p->input_specs);
    ls_spec *specs = ls__bump_alloc(&p->bump, n_nodes * sizeof *specs);
    if (!p->input_specs || !specs)
        return ls__fail_memory(p->ctx, "program", n_nodes * sizeof *specs);
    memcpy(p->input_specs, input_specs, n_inputs * sizeof *input_specs);
    for (size_t i = 0; i < n_inputs; i++) specs[graph->inputs.items[i].node->id] = input_specs[i];
    for (size_t i = 0; i < n_nodes; i++) {
        const ls_node *node = graph->nodes[i];
        if (node->layer == &ls__input_layer) continue;
        ls_spec inputs[LS__MAX_NODE_INPUTS];
        for (int j = 0; j < node->n_inputs; j++) inputs[j] = specs[node->inputs[j]->id];
        LS_TRY(node->layer->infer(node, inputs, &specs[i]));
    }
    p->specs = specs;
    return LS_OK;
}

static ls_status upload_constants(ls__program *p)
{
    if (p->n_constants == 0) return LS_OK;
    const size_t bytes = (size_t)p->n_constants * sizeof *p->constants;
    p->constant_memory = ls__pool_allocate(p->ctx->pool, bytes);
    if (!p->constant_memory) return ls__pool_fail(p->ctx->pool, bytes, "net: constants");
    return p->ctx->device->backend->write(p->ctx->device, p->constant_memory, p->constants, bytes);
}

/* See select/selector.h. */
static ls_status select_kernels(ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) ls__instruction_fill(p, &p->instructions[i]);
    if (p->timed) LS_TRY(ls__autotune(p, p->instructions, p->n_instructions));
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction *in = &p->instructions[i];
        char who[LS__INSTRUCTION_NAME_SIZE];
        if (in->custom || ls__is_copy(in)) continue;
        ls__instruction_name(in, who);
        LS_TRY(ls__selector_open_kernel(p->env->selector, &in->op, who, &in->kernel, &in->why));
    }
    return LS_OK;
}

/* True if weight gradients run in the second stream. */
static bool takes_overlap(const ls__program *p, const ls__compile_request *request)
{
    const ls__selection *selected = ls__find_overlap_selection(p);
    const bool on = request->overlaps || (selected && strcmp(selected->kernel, LS__SIDE) == 0);
    return on && ls__can_overlap(p);
}

/* ls__lower also runs the passes of fuse_layers.c, lower_backward.c and fuse_batch_norm.c; the last
 * one, of recompute.c, runs that of plan_memory.c, which marks the overlap. */
static ls_status run_passes(ls__program *p, const ls__compile_request *request)
{
    LS_TRY(infer_shapes(p, request->input_specs));
    LS_TRY(ls__lower(p));
    LS_TRY(select_kernels(p));
    p->overlaps = takes_overlap(p, request);
    LS_TRY(ls__plan_memory_with_recomputation(p));
    LS_TRY(upload_constants(p));
    return ls__program_make_calls(p);
}

ls_status ls__compile(const ls__environment *env, ls_graph *graph,
                      const ls__compile_request *request, ls__program **out)
{
    ls_context *ctx = env->ctx;
    ls__program *p = ls__zalloc(ctx, sizeof *p);
    *out = NULL;
    if (!p) return ls__fail_memory(ctx, "program", sizeof *p);
    *p = (ls__program){ .ctx = ctx,
                        .env = env,
                        .graph = graph,
                        .mode = request->mode,
                        .gradients = request->gradients,
                        .is_shard = request->gradients && env->n_shards > 1,
                        .is_synced = request->gradients && env->sync_batch_norm,
                        .n_copies = 1,
                        .momentum = -1,
                        .timed = request->timed && ctx->config.benchmark == LS_BENCHMARK_ON };
    if (p->is_synced) p->n_copies = env->n_own_shards;
    ls__bump_open(&p->bump, ctx);
    const ls_status status = run_passes(p, request);
    if (status != LS_OK) ls__program_close(&p);
    *out = p;
    return status;
}
