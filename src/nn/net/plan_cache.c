/* plan_cache.c: programs by mode and input shapes over one arena. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/net/net_state.h"
#include "nn/compile/compile.h"

enum { DEFAULT_PLANS = 8 };

ls_status ls__plan_cache_open(ls_net *net)
{
    const int max = net->config.max_execution_plans;
    net->cache.max_programs = 2 * (max ? max : DEFAULT_PLANS); /* train and eval */
    const size_t bytes = (size_t)net->cache.max_programs * sizeof *net->cache.programs;
    net->cache.programs = ls__zalloc(net->owned.ctx, bytes);
    net->cache.arena_generation = 1;
    return net->cache.programs ? LS_OK : ls__fail_memory(net->owned.ctx, "net", bytes);
}

void ls__plan_cache_close(ls_net *net)
{
    for (int i = 0; i < net->cache.n_programs; i++) ls__program_close(&net->cache.programs[i]);
    ls__pool_release(net->owned.ctx->pool, net->cache.arena);
    ls__free(net->owned.ctx, net->cache.programs);
}

static bool same_specs(const ls_spec *a, const ls_spec *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a[i].dtype != b[i].dtype || !ls_shape_equal(&a[i].shape, &b[i].shape)) return false;
    return true;
}

static void forget(ls_net *net, int i)
{
    if (net->current == net->cache.programs[i]) {
        net->current = NULL;
        net->forward_done = false;
    }
    ls__program_close(&net->cache.programs[i]);
    net->cache.programs[i] = net->cache.programs[--net->cache.n_programs];
}

void ls__net_drop_training_programs(ls_net *net)
{
    for (int i = net->cache.n_programs - 1; i >= 0; i--)
        if (net->cache.programs[i]->gradients) forget(net, i);
}

static void evict_plans(ls_net *net)
{
    while (net->cache.n_programs >= net->cache.max_programs) {
        int oldest = 0;
        for (int i = 1; i < net->cache.n_programs; i++)
            if (net->cache.programs[i]->last_used < net->cache.programs[oldest]->last_used)
                oldest = i;
        forget(net, oldest);
    }
}

ls_status ls__net_program(ls_net *net, ls_mode mode, const ls_spec *input_specs, bool timed,
                          ls__program **out)
{
    const ls__named_list *inputs = &net->graph.inputs;
    ls__program *program = NULL;
    if (!input_specs) {
        for (int i = 0; i < inputs->n; i++) {
            net->fed_specs[i] = inputs->items[i].node->spec;
            if (mode == LS_MODE_TRAIN) net->fed_specs[i].shape.dims[0] /= net->shards.n;
        }
        input_specs = net->fed_specs;
    }
    for (int i = 0; i < net->cache.n_programs && !program; i++)
        if (net->cache.programs[i]->mode == mode &&
            same_specs(net->cache.programs[i]->input_specs, input_specs, inputs->n))
            program = net->cache.programs[i];
    if (!program) {
        const bool gradients = mode == LS_MODE_TRAIN && !net->config.inference;
        LS_TRY(ls__compile(
            &net->env, &net->graph,
            &(ls__compile_request){
                .mode = mode, .gradients = gradients, .timed = timed, .input_specs = input_specs },
            &program));
        ls_status status = ls__fit_arena(net, program);
        if (status == LS_OK) status = ls__autotune_overlap(net, &program);
        if (status == LS_OK) status = ls__selector_note_program(&net->selector, program);
        if (status == LS_OK) status = ls__note_overlap(program);
        if (status != LS_OK) {
            ls__program_close(&program);
            return status;
        }
        evict_plans(net);
        program->serial = ++net->cache.n_compiled;
        net->cache.programs[net->cache.n_programs++] = program;
    }
    LS_TRY(ls__fit_arena(net, program)); /* none after a failure to enlarge it */
    program->last_used = ++net->cache.clock;
    ls__bind_to_arena(net, program);
    *out = program;
    return LS_OK;
}
