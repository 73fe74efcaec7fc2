/* emulated.c: see emulated.h. */
#include "cpu/emulated.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdio.h>
#include <string.h>

static const char PREFIX[] = "emulated ";
enum { PREFIX_LENGTH = sizeof PREFIX - 1 };

typedef struct emulated {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op op;
    ls__op inner_op;                     /* the same in f32; see in_f32 */
    ls__kernel *inner;                   /* of inner_op */
    ls__kernel *casts[LS__MAX_OPERANDS]; /* of the 16-bit operands, else NULL */
    int n_inputs;
    /* Positions in the workspace, in bytes: of each 16-bit operand in f32, and of the inner
     * kernel's workspace. */
    size_t offsets[LS__MAX_OPERANDS], inner_offset;
} emulated;

bool ls__needs_emulation(const ls__op *op)
{
    for (int i = 0; i < op->n_operands; i++)
        if (ls__is_half(&op->operands[i])) return op->kind != LS__OP_CAST;
    return false;
}

/* A norm's shift is left out, because a kernel would compute from it and x a y that is not rounded
 * to 16 bits. */
static ls__op in_f32(const ls__op *op)
{
    enum { BACK_SHIFT = 7 };
    ls__op inner = *op;
    for (int i = 0; i < op->n_operands; i++)
        if (ls__is_half(&op->operands[i])) inner.operands[i].dtype = LS_F32;
    if (op->kind == LS__OP_BATCH_NORM_BACKWARD || op->kind == LS__OP_NORM_BACKWARD_PRODUCTS)
        inner.operands[BACK_SHIFT].shape.n_dims = -1;
    return inner;
}

static const double BYTES_PER_MS = 10e6;

static double cast_ms(const ls__op *op)
{
    double bytes = 0;
    for (int i = 0; i < op->n_operands; i++)
        if (ls__is_half(&op->operands[i]))
            bytes += (double)ls_shape_element_count(&op->operands[i].shape) *
                     (sizeof(float) + sizeof(uint16_t));
    return bytes / BYTES_PER_MS;
}

static int emulated_candidates(ls__cpu *cpu, const ls__op *op, ls__candidate *out, int max)
{
    const ls__op inner = in_f32(op);
    const int n = cpu->device.backend->candidates(&cpu->device, &inner, out, max);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        char name[LS__KERNEL_NAME_SIZE];
        const int length = snprintf(name, sizeof name, "%s%s", PREFIX, out[i].name);
        if (length >= (int)sizeof name) continue; /* the name is truncated */
        out[kept] = out[i];
        memcpy(out[kept].name, name, sizeof name);
        out[kept++].cost_ms += cast_ms(op);
    }
    return kept;
}

static ls_status emulated_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                              const ls__step *step)
{
    const emulated *k = (const emulated *)kernel;
    unsigned char *memory = workspace;
    void *inner[LS__MAX_OPERANDS];
    for (int i = 0; i < k->op.n_operands; i++) {
        ls__kernel *cast = k->casts[i];
        inner[i] = cast ? memory + k->offsets[i] : buffers[i];
        if (ls__is_absent(&k->inner_op.operands[i])) inner[i] = NULL;
        if (cast && i < k->n_inputs)
            LS_TRY(cast->run(cast, (void *[]){ buffers[i], inner[i] }, NULL, step));
    }
    LS_TRY(k->inner->run(k->inner, inner, memory + k->inner_offset, step));
    for (int i = k->n_inputs; i < k->op.n_operands; i++) {
        ls__kernel *cast = k->casts[i];
        if (cast) LS_TRY(cast->run(cast, (void *[]){ inner[i], buffers[i] }, NULL, step));
    }
    return LS_OK;
}

static void emulated_close(ls__kernel *kernel)
{
    emulated *k = (emulated *)kernel;
    for (int i = 0; i < k->op.n_operands; i++)
        if (k->casts[i]) k->casts[i]->close(k->casts[i]);
    if (k->inner) k->inner->close(k->inner);
    ls__free(k->cpu->device.ctx, k);
}

/* Opens the cast of a 16-bit input to f32, or of an output from f32. */
static ls_status open_cast(emulated *k, int operand)
{
    const ls__backend *backend = k->cpu->device.backend;
    ls__operand half = k->op.operands[operand], full = half;
    full.dtype = LS_F32;
    ls__op cast = { .kind = LS__OP_CAST, .n_operands = 2 };
    cast.operands[operand >= k->n_inputs] = half;
    cast.operands[operand < k->n_inputs] = full;
    ls__candidate found[LS__MAX_CANDIDATES];
    if (backend->candidates(&k->cpu->device, &cast, found, LS__MAX_CANDIDATES) < 1)
        return ls__fail(k->cpu->device.ctx, LS_ERR_UNSUPPORTED, "%s: no cast of operand %d",
                        ls__op_name(k->op.kind), operand);
    return backend->kernel_open(&k->cpu->device, &cast, found[0].name, &k->casts[operand]);
}

/* Takes `bytes` of the workspace; false if its size would overflow. */
static bool workspace_take(size_t *end, size_t bytes, size_t *offset)
{
    *offset = *end;
    size_t next;
    if (bytes > SIZE_MAX - LS__ALIGNMENT ||
        !ls__add_size(*end, ls__round_up(bytes, LS__ALIGNMENT), &next))
        return false;
    *end = next;
    return true;
}

static bool plan_workspace(emulated *k)
{
    size_t end = 0;
    for (int i = 0; i < k->op.n_operands; i++) {
        const ls__operand *o = &k->op.operands[i];
        size_t bytes;
        if (ls__is_half(o) &&
            (!ls__mul_size((size_t)ls_shape_element_count(&o->shape), sizeof(float), &bytes) ||
             !workspace_take(&end, bytes, &k->offsets[i])))
            return false;
    }
    if (!workspace_take(&end, k->inner->workspace_bytes, &k->inner_offset)) return false;
    k->kernel.workspace_bytes = end;
    return true;
}

static ls_status emulated_open(ls__cpu *cpu, const ls__op *op, const char *name, ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0)
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "%s: the cpu has no kernel '%s'",
                        ls__op_name(op->kind), name);
    emulated *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, ls__op_name(op->kind), sizeof *k);
    k->cpu = cpu;
    k->op = *op;
    k->n_inputs = ls__op_inputs(op->kind);
    k->inner_op = in_f32(op);
    ls_status status = cpu->device.backend->kernel_open(&cpu->device, &k->inner_op,
                                                        name + PREFIX_LENGTH, &k->inner);
    for (int i = 0; i < k->op.n_operands && status == LS_OK; i++)
        if (ls__is_half(&op->operands[i])) status = open_cast(k, i);
    if (status != LS_OK) goto fail;
    if (!plan_workspace(k)) {
        status = ls__fail_memory(ctx, ls__op_name(op->kind), SIZE_MAX);
        goto fail;
    }
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = emulated_run;
    k->kernel.close = emulated_close;
    *out = &k->kernel;
    return LS_OK;
fail:
    emulated_close(&k->kernel);
    return status;
}

const ls__cpu_provider ls__emulated_provider = { "emulated", emulated_candidates, emulated_open,
                                                 NULL };
