/* reference.c: the provider of the reference kernels. */
#include "cpu/reference/reference.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdio.h>

static const ls__reference *const families[] = {
    ls__reference_layout, ls__reference_conv,       ls__reference_linear,
    ls__reference_norm,   ls__reference_activation, ls__reference_pool,
    ls__reference_loss,   ls__reference_optimizer,  ls__reference_rows,
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

/* Larger than any other kernel's. */
static const double COST_MS = 1e6;

typedef struct reference_kernel {
    ls__kernel kernel;
    ls__cpu *cpu;
    ls__op op;
    const ls__reference *reference;
    int64_t n_tasks;
    ls__reference_call call; /* of the run under way */
} reference_kernel;

static const ls__reference *find_reference(ls__op_kind kind)
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
    k->call = (ls__reference_call){ &k->op, buffers, step };
    ls__threads_run(k->cpu->threads, k->n_tasks, reference_run_task, k);
    return LS_OK;
}

static void reference_close(ls__kernel *kernel)
{
    ls__free(((reference_kernel *)kernel)->cpu->device.ctx, kernel);
}

static int reference_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    (void)cpu;
    /* A reference kernel of an optional op would gain nothing; tests open it by name. */
    if (max < 1 || !find_reference(op->kind) || ls__op_is_optional(op->kind)) return 0;
    *out = (ls__candidate){ .name = "reference", .deterministic = true, .cost_ms = COST_MS };
    return 1;
}

static ls_status reference_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    const ls__reference *reference = find_reference(op->kind);
    if (!reference)
        return ls__fail(cpu->device.ctx, LS_ERR_UNSUPPORTED, "%s: no reference kernel",
                        ls__op_name(op->kind));
    reference_kernel *k = ls__zalloc(cpu->device.ctx, sizeof *k);
    if (!k) return ls__fail_memory(cpu->device.ctx, ls__op_name(op->kind), sizeof *k);
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = reference_run;
    k->kernel.close = reference_close;
    k->cpu = cpu;
    k->op = *op;
    k->reference = reference;
    const ls__view view = ls__operand_view(&op->operands[reference->split_operand]);
    k->n_tasks = reference->split == LS__TASK_PER_IMAGE     ? view.n
                 : reference->split == LS__TASK_PER_CHANNEL ? view.c
                                                            : 1;
    *out = &k->kernel;
    return LS_OK;
}

const ls__cpu_provider ls__reference_provider = { "reference", reference_candidates, reference_open,
                                                  NULL };
