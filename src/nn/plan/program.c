/* program.c: making, binding and running a program. */
#include "nn/plan/program.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "nn/compile/lower.h"
#include "backend/pool.h"

#include <string.h>

/* Shapes of all nodes for these inputs, which are copied as the program's key. */
static ls_status infer(ls__program *p, const ls_spec *input_specs)
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
        if (node->kind == LS__NODE_INPUT) continue;
        ls_spec inputs[LS_MAX_OP_INPUTS];
        for (int j = 0; j < node->n_inputs; j++) inputs[j] = specs[node->inputs[j]->id];
        LS_TRY(ls__rules(node->kind)->infer(node, inputs, &specs[i]));
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

static void find_unrecordable(ls__program *p)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const ls_node *custom = p->instructions[i].custom;
        p->uncapturable |= custom && !custom->u.custom.capturable;
    }
}

static void choose_overlap(ls__program *p)
{
    const ls__selection *settled = ls__program_settled_overlap(p);
    p->overlaps = settled && strcmp(settled->kernel, LS__SIDE) == 0 && ls__program_can_overlap(p);
}

ls_status ls__program_open(ls_net *net, ls_graph *graph, ls_mode mode, bool gradients,
                           const ls_spec *input_specs, bool timed, ls__program **out)
{
    ls_context *ctx = graph->ctx;
    ls__program *p = ls__zalloc(ctx, sizeof *p);
    if (!p) return ls__fail_memory(ctx, "program", sizeof *p);
    *p = (ls__program){ .ctx = ctx,
                        .net = net,
                        .graph = graph,
                        .mode = mode,
                        .gradients = gradients,
                        .timed = timed && ctx->config.benchmark == LS_BENCHMARK_ON };
    ls__bump_open(&p->bump, ctx);
    ls_status status = infer(p, input_specs);
    if (status == LS_OK) status = ls__program_lower(p);
    find_unrecordable(p);
    if (status == LS_OK) status = ls__program_layout(p);
    if (status == LS_OK) status = ls__program_choose(p);
    if (status == LS_OK) choose_overlap(p);
    if (status == LS_OK) status = ls__program_fit_memory(p);
    if (status == LS_OK) status = upload_constants(p);
    if (status != LS_OK) ls__program_close(&p);
    *out = p;
    return status;
}

void ls__program_close(ls__program **program)
{
    ls__program *p = *program;
    if (!p) return;
    ls__program_drop_recordings(p);
    for (int i = 0; i < p->n_instructions; i++)
        if (p->instructions[i].kernel) p->instructions[i].kernel->close(p->instructions[i].kernel);
    ls__pool_release(p->ctx->pool, p->constant_memory);
    ls__bump_close(&p->bump);
    ls__free(p->ctx, p);
    *program = NULL;
}

static unsigned char *place_of(const ls__program *p, ls__place place, unsigned char *arena)
{
    const ls__net_blocks blocks = ls__net_get_blocks(p->net);
    switch (place) {
    case LS__PLACE_ARENA: return arena;
    case LS__PLACE_VALUES: return (unsigned char *)blocks.values;
    case LS__PLACE_GRADIENTS: return (unsigned char *)blocks.gradients;
    case LS__PLACE_COMPUTE_WEIGHTS: return blocks.compute_weights;
    case LS__PLACE_LOSS_SCALE: return (unsigned char *)blocks.scaler;
    case LS__PLACE_CONSTANTS: return p->constant_memory;
    }
    return NULL;
}

static void *locate(const ls__program *p, int v, unsigned char *arena)
{
    if (v < 0) return NULL;
    while (p->values[v].storage != v) v = p->values[v].storage;
    return place_of(p, p->values[v].place, arena) + p->values[v].offset;
}

void ls__program_bind(ls__program *p, unsigned char *arena, uint64_t generation)
{
    if (p->arena_generation == generation) return;
    ls__program_drop_recordings(p);
    for (int i = 0; i < p->n_instructions; i++) {
        ls__instruction *in = &p->instructions[i];
        for (int j = 0; j < in->op.n_operands; j++)
            in->buffers[j] = locate(p, in->operands[j], arena);
        in->workspace_memory = locate(p, in->workspace, arena);
    }
    p->arena = arena;
    p->arena_generation = generation;
}

void *ls__program_address(const ls__program *p, int value)
{
    return locate(p, value, p->arena);
}

static ls_status run_custom(const ls__program *p, const ls__instruction *in)
{
    const ls_node *node = in->custom;
    ls_spec specs[LS_MAX_OP_INPUTS];
    ls_op_call call = { .n_inputs = node->n_inputs,
                        .input_specs = specs,
                        .output_spec = p->specs[node->id],
                        .training = p->mode == LS_TRAIN,
                        .user = node->u.custom.user,
                        .stream = p->ctx->device->backend->stream(p->ctx->device) };
    for (int i = 0; i < node->n_inputs; i++) {
        specs[i] = p->specs[node->inputs[i]->id];
        call.inputs[i] = in->buffers[i];
    }
    call.output = in->buffers[node->n_inputs];
    if (in->backward) {
        call.output_gradient = in->buffers[node->n_inputs + 1];
        for (int i = 0; i < node->n_inputs; i++)
            call.input_gradients[i] = in->buffers[node->n_inputs + 2 + i];
    }
    const ls_status status =
        in->backward ? node->u.custom.backward(&call) : node->u.custom.forward(&call);
    if (status == LS_OK) return LS_OK;
    /* the executor puts the op's kind and name before it */
    return ls__fail(p->ctx, status, "its %s callback returned '%s'",
                    in->backward ? "backward" : "forward", ls_status_text(status));
}

static ls_status run_kernel(const ls__program *p, ls__instruction *in, const ls__step *step)
{
    if (in->kernel) return in->kernel->run(in->kernel, in->buffers, in->workspace_memory, step);
    if (in->custom) return run_custom(p, in);
    const ls__device *device = p->ctx->device; /* a reorder between equal layouts */
    return device->backend->copy(p->ctx->device, in->buffers[1], in->buffers[0],
                                 p->values[in->operands[1]].bytes);
}

static ls_status run_in_order(ls__program *p, int instruction, const ls__step *step)
{
    ls__instruction *in = &p->instructions[instruction];
    if (in->skipped) return LS_OK;
    const double start = p->seconds ? ls__now_seconds() : 0;
    LS_TRY(run_kernel(p, in, step));
    if (!p->seconds) return LS_OK;
    LS_TRY(p->ctx->device->backend->wait(p->ctx->device));
    p->seconds[instruction] += ls__now_seconds() - start;
    return LS_OK;
}

/* Behind all that has been queued so far, and beside what follows. */
static ls_status run_beside(const ls__program *p, ls__instruction *in, const ls__step *step)
{
    ls__device *device = p->ctx->device;
    const ls__backend *backend = device->backend;
    LS_TRY(backend->stream_wait(device, LS__STREAM_SIDE, LS__STREAM_COMPUTE));
    backend->launch_in(device, LS__STREAM_SIDE);
    const ls_status status = run_kernel(p, in, step);
    backend->launch_in(device, LS__STREAM_COMPUTE);
    return status;
}

ls_status ls__program_run(ls__program *p, int instruction, const ls__step *step, bool beside)
{
    ls__device *device = p->ctx->device;
    const ls__backend *backend = device->backend;
    ls__instruction *in = &p->instructions[instruction];
    if (!p->overlaps || !beside) return run_in_order(p, instruction, step);
    if (in->joins) LS_TRY(backend->stream_wait(device, LS__STREAM_COMPUTE, LS__STREAM_SIDE));
    LS_TRY(in->side ? run_beside(p, in, step) : run_in_order(p, instruction, step));
    if (instruction + 1 < p->n_instructions || !p->joins_at_end) return LS_OK;
    return backend->stream_wait(device, LS__STREAM_COMPUTE, LS__STREAM_SIDE);
}

void ls__program_join(ls__program *p)
{
    ls__device *device = p->ctx->device;
    if (!p->overlaps || p->ctx->unusable) return;
    if (device->backend->stream_wait(device, LS__STREAM_COMPUTE, LS__STREAM_SIDE) != LS_OK)
        (void)device->backend->wait(device);
}
