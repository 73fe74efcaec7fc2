/* op_memory.c: memory for ops that run outside of a program; see timing.h. */
#include "nn/select/timing.h"

#include "base/context.h"
#include "base/error.h"
#include "arith/half.h"
#include "base/strict_math.h"
#include "backend/pool.h"

/* The sum of the bytes of a hash, of mean 0 and std 1: nearly normal. With zeros a GPU
 * would run at a higher clock rate than in training. */
static float random_number(uint32_t i)
{
    uint32_t h = (i + 1) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    h ^= h >> 13;
    const int sum = (int)(h & 255) + (int)(h >> 8 & 255) + (int)(h >> 16 & 255) + (int)(h >> 24);
    return (float)(sum - 510) / 148;
}

/* Writes random numbers from the host, then doubles them on the device. Vectors are variances,
 * weights of batch norms and so on: their elements are near 1. Integers are zero, because labels
 * and indices must be valid. */
static ls_status fill_randomly(ls__device *device, const ls__operand *operand,
                               unsigned char *memory, size_t bytes)
{
    enum { PATTERN = 4096 };
    const ls_dtype dtype = operand->dtype;
    float full[PATTERN];
    uint16_t half[PATTERN];
    if (dtype != LS_F32 && dtype != LS_F16 && dtype != LS_BF16)
        return device->backend->clear(device, memory, bytes);
    for (int i = 0; i < PATTERN; i++) {
        full[i] = random_number((uint32_t)i);
        if (operand->shape.n_dims == 1) full[i] = 1 + full[i] / 8;
        half[i] = dtype == LS_F16 ? ls__f32_to_f16(full[i]) : ls__f32_to_bf16(full[i]);
    }
    size_t done = dtype == LS_F32 ? sizeof full : sizeof half;
    if (done > bytes) done = bytes;
    LS_TRY(device->backend->write(device, memory, dtype == LS_F32 ? (void *)full : half, done));
    while (done < bytes) {
        const size_t more = done < bytes - done ? done : bytes - done;
        LS_TRY(device->backend->copy(device, memory + done, memory, more));
        done += more;
    }
    return LS_OK;
}

/* The memory of an earlier operand with this value, or NULL. */
static void *find_shared(const ls__op_memory *m, int value, int op, int operand)
{
    for (int i = 0; i <= op; i++)
        for (int j = 0; j < (i < op ? m->ops[i].op.n_operands : operand); j++)
            if (m->ops[i].operands[j] == value) return m->buffers[i][j];
    return NULL;
}

static ls_status operand_allocate(const ls__op_memory *m, const ls__op *op, size_t bytes,
                                  void **out)
{
    *out = ls__pool_allocate(m->ctx->pool, bytes);
    if (*out) return LS_OK;
    if (ls__has_error(m->ctx)) return m->ctx->error; /* the device is lost */
    return ls__pool_fail(m->ctx->pool, bytes, "%s", ls__op_name(op->kind));
}

static ls_status open_operand(ls__op_memory *m, int i, int j, ls__op_values values)
{
    ls__device *device = m->ctx->device;
    const ls__op *op = &m->ops[i].op;
    const ls__operand *operand = &op->operands[j];
    if (ls__is_absent(operand)) return LS_OK;
    m->buffers[i][j] = find_shared(m, m->ops[i].operands[j], i, j);
    if (m->buffers[i][j]) return LS_OK;
    const size_t bytes =
        (size_t)ls_shape_element_count(&operand->shape) * ls_dtype_bytes(operand->dtype);
    LS_TRY(operand_allocate(m, op, bytes, &m->buffers[i][j]));
    return values == LS__ZEROS ? device->backend->clear(device, m->buffers[i][j], bytes)
                               : fill_randomly(device, operand, m->buffers[i][j], bytes);
}

ls_status ls__op_memory_open(ls__op_memory *m, ls_context *ctx, const ls__instruction *ops, int n,
                             ls__op_values values)
{
    *m = (ls__op_memory){ .ctx = ctx, .n = n, .ops = ops };
    for (int i = 0; i < n; i++)
        for (int j = 0; j < ops[i].op.n_operands; j++) LS_TRY(open_operand(m, i, j, values));
    return LS_OK;
}

void ls__op_memory_close(ls__op_memory *m)
{
    ls__pool_release(m->ctx->pool, m->workspace);
    for (int i = m->n - 1; i >= 0; i--)
        for (int j = m->ops[i].op.n_operands - 1; j >= 0; j--)
            if (!find_shared(m, m->ops[i].operands[j], i, j))
                ls__pool_release(m->ctx->pool, m->buffers[i][j]);
}

ls_status ls__op_memory_set_workspace(ls__op_memory *m, ls__kernel *const *kernels)
{
    int largest = 0;
    for (int i = 1; i < m->n; i++)
        if (kernels[i]->workspace_bytes > kernels[largest]->workspace_bytes) largest = i;
    ls__pool_release(m->ctx->pool, m->workspace);
    return operand_allocate(m, &m->ops[largest].op, kernels[largest]->workspace_bytes,
                            &m->workspace);
}
