/* plan.c: a kernel is a cuDNN execution plan, made from an engine configuration or from the text of
 * a plan. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "cuda/cudnn/handle.h"

#include <stdio.h>
#include <string.h>

enum { MAX_POINTERS = LS__CUDNN_MAX_BUFFERS + LS__CUDNN_MAX_SCALARS };

/* Ten times that of a direct sum in f32, because transforms multiply by numbers up to about ten and
 * divide again. */
static const float TRANSFORM_ERROR = 5e-5f;

typedef struct plan_kernel {
    ls__kernel kernel; /* first */
    ls__cudnn *cudnn;
    cudnnBackendDescriptor_t plan;
    int n_buffers; /* of the graph, and their indices among the kernel's */
    int indices[LS__CUDNN_MAX_BUFFERS];
    int n_scalars;
    ls__cudnn_scalar_value scalars[LS__CUDNN_MAX_SCALARS];
    int64_t ids[MAX_POINTERS]; /* of the buffers, then of the scalars */
    /* The variant pack of the last run; reused while the pointers stay the same. */
    cudnnBackendDescriptor_t pack;
    void *pointers[MAX_POINTERS];
    void *workspace;
    char text[]; /* the problem's */
} plan_kernel;

/* Makes a variant pack of these pointers, unless they are those of the last run. */
static void set_pack(plan_kernel *k, ls__cudnn_calls *calls, void *const *buffers, void *workspace)
{
    bool same = k->pack != NULL && k->workspace == workspace;
    for (int i = 0; i < k->n_buffers; i++) {
        same = same && k->pointers[i] == buffers[k->indices[i]];
        k->pointers[i] = buffers[k->indices[i]];
    }
    if (same) return;
    k->workspace = workspace;
    ls__cudnn_release(&k->pack);
    k->pack = ls__cudnn_make(calls, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    ls__cudnn_set(calls, k->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                  k->n_buffers + k->n_scalars, k->ids);
    ls__cudnn_set(calls, k->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                  k->n_buffers + k->n_scalars, k->pointers);
    ls__cudnn_set(calls, k->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                  &k->workspace);
    ls__cudnn_finalize(calls, k->pack, "the list of pointers");
    if (calls->status != CUDNN_STATUS_SUCCESS) ls__cudnn_release(&k->pack);
}

static ls_status plan_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                          const ls__step *step)
{
    (void)step;
    plan_kernel *k = (plan_kernel *)kernel;
    ls__cudnn_calls calls = { 0 };
    if (k->cudnn->handle == NULL)
        return ls__fail(k->cudnn->ctx, LS_ERR_UNSUPPORTED,
                        "%s: '%s' was made for a described device, which runs nothing", k->text,
                        kernel->name);
    set_pack(k, &calls, buffers, workspace);
    ls__cudnn_update_stream(k->cudnn, &calls);
    if (calls.status == CUDNN_STATUS_SUCCESS)
        ls__cudnn_check(&calls, cudnnBackendExecute(k->cudnn->handle, k->plan, k->pack), "running");
    return ls__cudnn_report(k->cudnn->ctx, &calls, k->text);
}

static void close(ls__kernel *kernel)
{
    plan_kernel *k = (plan_kernel *)kernel;
    ls__cudnn_release(&k->pack);
    ls__cudnn_release(&k->plan);
    ls__free(k->cudnn->ctx, k);
}

static plan_kernel *make_kernel(ls__cudnn *cudnn, const ls__cudnn_problem *problem)
{
    const size_t text_bytes = strlen(problem->text) + 1;
    plan_kernel *k = ls__zalloc(cudnn->ctx, sizeof *k + text_bytes);
    if (k == NULL) {
        ls__fail_memory(cudnn->ctx, problem->text, sizeof *k + text_bytes);
        return NULL;
    }
    memcpy(k->text, problem->text, text_bytes);
    k->kernel.unproven = true;
    k->kernel.run = plan_run;
    k->kernel.close = close;
    k->cudnn = cudnn;
    for (int i = 0; i < LS__CUDNN_MAX_BUFFERS; i++)
        if (problem->uses[i]) {
            k->ids[k->n_buffers] = LS__CUDNN_BUFFER_ID(i);
            k->indices[k->n_buffers++] = problem->in_place[i] ? problem->in_place[i] : i;
        }
    k->n_scalars = problem->n_scalars;
    for (int i = 0; i < k->n_scalars; i++) {
        k->scalars[i] = problem->scalars[i];
        k->ids[k->n_buffers + i] = LS__CUDNN_SCALAR_ID(i);
        k->pointers[k->n_buffers + i] = &k->scalars[i]; /* scalars are read from host memory */
    }
    return k;
}

/* Checks a finalized plan: it must have the requested name, and the problem must not exclude its
 * engine. Then sets the kernel's name, workspace and error bound. */
static ls_status accept_plan(plan_kernel *k, ls__cudnn_calls *calls,
                             const ls__cudnn_problem *problem, const char *name)
{
    ls_context *ctx = k->cudnn->ctx;
    ls__cudnn_engine engine = { 0 };
    int64_t bytes = 0;
    cudnnBackendDescriptor_t configuration =
        ls__cudnn_make(calls, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    ls__cudnn_get(calls, k->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &configuration);
    ls__cudnn_engine_read(calls, configuration, &engine);
    ls__cudnn_get(calls, k->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                  &bytes);
    ls__cudnn_release(&configuration);
    LS_TRY(ls__cudnn_report(ctx, calls, problem->text));

    if (bytes > engine.workspace_bytes) engine.workspace_bytes = bytes;
    const char *rejection = ls__cudnn_engine_rejection(&engine, problem);
    if (rejection != NULL)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: kernel '%s': %s", problem->text, name,
                        rejection);
    if (!ls__cudnn_engine_same(engine.name, name))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: kernel '%s': cuDNN made '%s' of it",
                        problem->text, name, engine.name);
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.nondeterministic = !engine.deterministic;
    if (engine.transforms && problem->f32) k->kernel.error_bound = TRANSFORM_ERROR;
    k->kernel.workspace_bytes = (size_t)bytes;
    return LS_OK;
}

/* A plan for the handle's device or for the described device. */
static cudnnBackendDescriptor_t make_plan(const ls__cudnn *cudnn, ls__cudnn_calls *calls)
{
    cudnnBackendDescriptor_t plan = ls__cudnn_make(calls, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (cudnn->handle != NULL)
        ls__cudnn_set(calls, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &cudnn->handle);
    else
        ls__cudnn_set_descriptor(calls, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, cudnn->device);
    return plan;
}

/* The problem of an op, or an error with the reason why there is none. */
static ls_status find_problem(const ls__cudnn *cudnn, const ls__op *op, ls__cudnn_problem *out)
{
    char text[LS__OP_TEXT_SIZE];
    const char *reason = ls__cudnn_problem_of(op, out);
    if (reason == NULL) return LS_OK;
    ls__op_text(op, text, sizeof text);
    return ls__fail(cudnn->ctx, LS_ERR_UNSUPPORTED, "%s: %s", text, reason);
}

/* Gives the kernel of a finalized plan, or closes it. */
static ls_status plan_finish(plan_kernel *k, ls__cudnn_calls *calls,
                             const ls__cudnn_problem *problem, const char *name, ls__kernel **out)
{
    const ls_status status = accept_plan(k, calls, problem, name);
    if (status == LS_OK)
        *out = &k->kernel;
    else
        close(&k->kernel);
    return status;
}

ls_status ls__cudnn_kernel_open(ls__cudnn *cudnn, const ls__op *op, const char *name,
                                ls__kernel **out)
{
    ls__cudnn_problem problem;
    ls__cudnn_graph graph;
    *out = NULL;
    LS_TRY(find_problem(cudnn, op, &problem));
    if (!ls__cudnn_engine_is_name(name))
        return ls__fail(cudnn->ctx, LS_ERR_NOT_FOUND, "%s: cuDNN has no kernel '%.*s'",
                        problem.text, LS__KERNEL_NAME_SIZE, name);
    plan_kernel *k = make_kernel(cudnn, &problem);
    if (k == NULL) return LS_ERR_MEMORY;
    ls__cudnn_graph_open(&graph, &problem, cudnn->handle);
    ls__cudnn_calls *calls = &graph.calls;
    cudnnBackendDescriptor_t configuration =
        ls__cudnn_engine_configure(calls, &graph, ls__cudnn_described(cudnn), name);
    k->plan = make_plan(cudnn, calls);
    ls__cudnn_set_descriptor(calls, k->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                             configuration);
    ls__cudnn_finalize(calls, k->plan, "the plan");
    const ls_status status = plan_finish(k, calls, &problem, name, out);
    ls__cudnn_release(&configuration);
    ls__cudnn_graph_close(&graph);
    return status;
}

/* Texts are {"op":"...","kernel":"...","plan":...}, written and read as exactly that. */
static const char op_begin[] = "{\"op\":\"", kernel_begin[] = "\",\"kernel\":\"",
                  plan_begin[] = "\",\"plan\":";

ls_status ls__cudnn_plan_text(const ls__kernel *kernel, char **out)
{
    const plan_kernel *k = (const plan_kernel *)kernel;
    ls_context *ctx = k->cudnn->ctx;
    ls__cudnn_calls calls = { 0 };
    *out = NULL;
    const int64_t n = ls__cudnn_get(&calls, k->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                    CUDNN_TYPE_CHAR, 0, NULL);
    LS_TRY(ls__cudnn_report(ctx, &calls, k->text));
    const size_t bytes = sizeof op_begin + sizeof kernel_begin + sizeof plan_begin +
                         strlen(k->text) + sizeof kernel->name + (size_t)n + 2;
    ls__text text = { ls__alloc(ctx, bytes), bytes, 0 };
    if (text.buffer == NULL) return ls__fail_memory(ctx, k->text, bytes);
    ls__text_put(&text, "%s%s%s%s%s", op_begin, k->text, kernel_begin, kernel->name, plan_begin);
    const int64_t got =
        ls__cudnn_get(&calls, k->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                      CUDNN_TYPE_CHAR, n, text.buffer + text.length);
    const ls_status status = ls__cudnn_report(ctx, &calls, k->text);
    if (status != LS_OK) {
        ls__free(ctx, text.buffer);
        return status;
    }
    memcpy(text.buffer + text.length + got, "}", 2);
    *out = text.buffer;
    return LS_OK;
}

/* The rest of `text` after `begin`; NULL if it does not begin so or is NULL. */
static const char *after(const char *text, const char *begin)
{
    const size_t length = strlen(begin);
    return text != NULL && strncmp(text, begin, length) == 0 ? text + length : NULL;
}

ls_status ls__cudnn_kernel_restore(ls__cudnn *cudnn, const ls__op *op, const char *text,
                                   ls__kernel **out)
{
    ls__cudnn_problem problem;
    char name[LS__KERNEL_NAME_SIZE];
    ls__cudnn_calls calls = { 0 };
    *out = NULL;
    LS_TRY(find_problem(cudnn, op, &problem));
    const char *t = after(after(after(text, op_begin), problem.text), kernel_begin);
    const size_t name_length = t != NULL ? strcspn(t, "\"") : 0;
    const char *plan = t != NULL ? after(t + name_length, plan_begin) : NULL;
    const size_t plan_length = plan != NULL ? strlen(plan) : 0;
    if (plan_length < 2 || plan[plan_length - 1] != '}' || name_length >= sizeof name)
        return ls__fail(cudnn->ctx, LS_ERR_MISMATCH, "%s: '%.*s...' is no plan of this op",
                        problem.text, LS__CUT(text, 60));
    memcpy(name, t, name_length);
    name[name_length] = '\0';

    plan_kernel *k = make_kernel(cudnn, &problem);
    if (k == NULL) return LS_ERR_MEMORY;
    k->plan = make_plan(cudnn, &calls);
    ls__cudnn_set(&calls, k->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  (int64_t)plan_length - 1, plan);
    ls__cudnn_finalize(&calls, k->plan, "the restored plan");
    ls__cudnn_input_unsupported(&calls);
    return plan_finish(k, &calls, &problem, name, out);
}
