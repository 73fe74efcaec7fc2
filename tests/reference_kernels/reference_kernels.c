/* reference_kernels.c: see reference_kernels.h. The CPU's backend lists and opens its kernels
 * through a table, of which the tests' context gets a copy. */
#include "reference_kernels.h"
#include "reference.h"
#include "base/alloc.h"
#include "base/error.h"
#include "cpu/emulated.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

static const reference_row *const families[] = {
    reference_layout, reference_conv, reference_linear,    reference_norm, reference_activation,
    reference_pool,   reference_loss, reference_optimizer, reference_rows,
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

typedef struct reference_kernel {
    ls__kernel kernel;
    ls__cpu *cpu;
    ls__op op;
    const reference_row *reference;
    int64_t n_tasks;
    reference_call call; /* of the run under way */
} reference_kernel;

static const reference_row *find_reference(ls__op_kind kind)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (families[i][kind].run) return &families[i][kind];
    return NULL;
}

static void reference_run_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const reference_kernel *k = arg;
    k->reference->run(&k->call, task);
}

static ls_status reference_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                               const ls__step *step)
{
    (void)workspace;
    reference_kernel *k = (reference_kernel *)kernel;
    k->call = (reference_call){ &k->op, buffers, step };
    ls__threads_run(k->cpu->threads, k->n_tasks, reference_run_task, k);
    return LS_OK;
}

static void reference_close(ls__kernel *kernel)
{
    ls__free(((reference_kernel *)kernel)->cpu->device.ctx, kernel);
}

static bool lists_reference(const ls__op *op)
{
    return find_reference(op->kind) && !ls__op_is_optional(op->kind) && !ls__needs_emulation(op);
}

static int candidates_and_reference(ls__device *device, const ls__op *op, ls__candidate *out,
                                    int max)
{
    static const double COST_MS = 1e6; /* larger than any other kernel's */
    const int n = ls__cpu_backend.candidates(device, op, out, max);
    if (!lists_reference(op)) return n;
    assert(n < max);
    out[n] = (ls__candidate){ .name = "reference", .deterministic = true, .cost_ms = COST_MS };
    return n + 1;
}

static ls_status open_any(ls__device *device, const ls__op *op, const char *name, ls__kernel **out)
{
    if (strcmp(name, "reference") != 0) return ls__cpu_backend.kernel_open(device, op, name, out);
    *out = NULL;
    const reference_row *reference = find_reference(op->kind);
    if (!reference)
        return ls__fail(device->ctx, LS_ERR_UNSUPPORTED, "%s: no reference kernel",
                        ls__op_name(op->kind));
    reference_kernel *k = ls__zalloc(device->ctx, sizeof *k);
    if (!k) return ls__fail_memory(device->ctx, ls__op_name(op->kind), sizeof *k);
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = reference_run;
    k->kernel.close = reference_close;
    k->cpu = (ls__cpu *)device;
    k->op = *op;
    k->reference = reference;
    const tensor_view view = shape_view(&op->operands[reference->split_operand]);
    k->n_tasks = reference->split == TASK_PER_IMAGE     ? view.n
                 : reference->split == TASK_PER_CHANNEL ? view.c
                                                        : 1;
    *out = &k->kernel;
    return LS_OK;
}

void offer_reference_kernels(ls_context *ctx)
{
    static ls__backend backend;
    backend = ls__cpu_backend;
    backend.candidates = candidates_and_reference;
    backend.kernel_open = open_any;
    ctx->device->backend = &backend;
}
