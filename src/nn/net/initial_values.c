/* initial_values.c: the initial values of parameters and buffers. Every element is drawn by
 * (parameter, element), so any thread may draw any range. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/threads.h"
#include "nn/net/net_state.h"
#include <math.h>

/* Values are drawn in chunks and written to the device. Sizes are multiples of 4, because one draw
 * gives up to 4 elements. */
enum { TASK_ELEMENTS = 2048, CHUNK_ELEMENTS = 128 * TASK_ELEMENTS };

typedef struct draw_job {
    ls__philox_input input;
    int64_t first, count; /* elements of this chunk */
    float *out;
    float scale;
    bool normal; /* otherwise uniform */
} draw_job;

static void draw_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const draw_job *job = arg;
    const int64_t begin = task * TASK_ELEMENTS, rest = job->count - begin;
    const int64_t n = rest < TASK_ELEMENTS ? rest : TASK_ELEMENTS;
    const int per_draw = job->normal ? 2 : 4;
    const int64_t first_draw = (job->first + begin) / per_draw;
    uint32_t words[2 * TASK_ELEMENTS];
    ls__random_run(&job->input, (uint64_t)first_draw, (n + per_draw - 1) / per_draw, words);
    float *out = job->out + begin;
    if (job->normal) ls__random_normals(words, n, out);
    for (int64_t i = 0; i < n; i++)
        out[i] = job->scale * (job->normal ? out[i] : 2 * ls_random_uniform(words[i]) - 1);
}

/* True if all elements are one value; sets it. */
static bool is_constant(const ls__parameter_init *init, ls_parameter_kind kind, float *value)
{
    ls_init how = init->init;
    if (how == LS_INIT_DEFAULT && kind == LS_PARAMETER_NORM) how = LS_INIT_ONE;
    if (how == LS_INIT_DEFAULT && kind == LS_PARAMETER_BIAS) how = LS_INIT_ZERO;
    *value = how == LS_INIT_ONE ? 1.0f : 0.0f;
    return how == LS_INIT_ONE || how == LS_INIT_ZERO;
}

/* The std of a normal draw, or the limit of a uniform one. */
static void set_scale(const ls__parameter_init *init, draw_job *job)
{
    const double in = init->fan_in, out = init->fan_out;
    job->normal = init->init != LS_INIT_XAVIER && init->init != LS_INIT_UNIFORM_FAN_IN;
    switch (init->init) {
    case LS_INIT_HE_FAN_IN: job->scale = (float)sqrt(2 / in); break;
    case LS_INIT_XAVIER: job->scale = (float)sqrt(6 / (in + out)); break;
    case LS_INIT_UNIFORM_FAN_IN: job->scale = (float)(1 / sqrt(in)); break;
    case LS_INIT_NORMAL: job->scale = 0.01f; break;
    default: job->scale = (float)sqrt(2 / out); break;
    }
}

/* Draws parameter or buffer `i`, whose elements are zero before. */
static ls_status draw_parameter(ls_net *net, int i, ls__threads *threads, float *chunk)
{
    ls_context *ctx = net->owned.ctx;
    const ls__parameter *parameter = &net->graph.parameters[i];
    const ls_draw name = { .stream = LS_RANDOM_INIT, .layer = (uint32_t)i };
    draw_job job = { .input = ls__random_input(ctx->config.seed, &name), .out = chunk };
    float value;
    const bool constant = is_constant(&net->graph.inits[i], parameter->kind, &value);
    if (constant && value == 0) return LS_OK;
    set_scale(&net->graph.inits[i], &job);
    for (; job.first < parameter->count; job.first += job.count) {
        const int64_t rest = parameter->count - job.first;
        job.count = rest < CHUNK_ELEMENTS ? rest : CHUNK_ELEMENTS;
        if (constant)
            for (int64_t j = 0; j < job.count; j++) chunk[j] = value;
        else
            ls__threads_run(threads, (job.count + TASK_ELEMENTS - 1) / TASK_ELEMENTS, draw_task,
                            &job);
        LS_TRY(ctx->device->backend->write(ctx->device,
                                           net->blocks.values + parameter->offset + job.first,
                                           chunk, (size_t)job.count * sizeof(float)));
    }
    return LS_OK;
}

ls_status ls__net_set_initial_values(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    ls__threads *threads = NULL;
    const size_t bytes = CHUNK_ELEMENTS * sizeof(float);
    float *chunk = ls__alloc(ctx, bytes);
    ls_status status = chunk ? LS_OK : ls__fail_memory(ctx, "initial values", bytes);
    if (status == LS_OK)
        status = ls__threads_open(ctx, ls_context_thread_count(ctx), NULL, &threads);
    for (int i = 0; i < net->graph.n_parameters && status == LS_OK; i++)
        status = draw_parameter(net, i, threads, chunk);
    ls__threads_close(&threads);
    ls__free(ctx, chunk);
    return status;
}
