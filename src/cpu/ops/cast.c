/* cast.c: f32 to bf16 or f16 and back: x -> y. */
#include "arith/half.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/half.h"

/* Tasks begin at cache lines. */
enum { LINE = 32 };

#define CAST_TASK(name, from, to, convert)                                                         \
    static void name(const ls__ops_kernel *k, int64_t task)                                        \
    {                                                                                              \
        const from *restrict x = k->buffers[0];                                                    \
        to *restrict y = k->buffers[1];                                                            \
        const ls__range r = ls__task_elements(k, task, LINE);                                      \
        for (int64_t i = r.begin; i < r.end; i++) y[i] = convert(x[i]);                            \
    }
CAST_TASK(f32_to_bf16, float, uint16_t, ls__f32_to_bf16)
CAST_TASK(bf16_to_f32, uint16_t, float, ls__bf16_to_f32)

/* These casts have the bits of arith/half.h where the processor has no instruction for them. */
static void f32_to_f16(const ls__ops_kernel *k, int64_t task)
{
    const float *x = k->buffers[0];
    uint16_t *y = k->buffers[1];
    const ls__range r = ls__task_elements(k, task, LINE);
    int64_t i = r.begin;
#if defined(__F16C__)
    for (; i + 8 <= r.end; i += 8) ls__write_8_f16(x + i, y + i);
#endif
    for (; i < r.end; i++) y[i] = ls__f32_to_f16(x[i]);
}

static void f16_to_f32(const ls__ops_kernel *k, int64_t task)
{
    const uint16_t *x = k->buffers[0];
    float *y = k->buffers[1];
    const ls__range r = ls__task_elements(k, task, LINE);
    int64_t i = r.begin;
#if defined(__F16C__)
    for (; i + 8 <= r.end; i += 8) ls__read_8_f16(x + i, y + i);
#endif
    for (; i < r.end; i++) y[i] = ls__f16_to_f32(x[i]);
}

static bool prepare_cast(ls__ops_kernel *k)
{
    static const ls__ops_task tasks[LS_N_DTYPES][LS_N_DTYPES] = {
        [LS_F32] = { [LS_BF16] = f32_to_bf16, [LS_F16] = f32_to_f16 },
        [LS_BF16] = { [LS_F32] = bf16_to_f32 },
        [LS_F16] = { [LS_F32] = f16_to_f32 },
    };
    const ls__operand *x = &k->op.operands[0], *y = &k->op.operands[1];
    const ls__ops_task task = tasks[x->dtype][y->dtype];
    if (!task) return false;
    k->n_chunks = ls__pass_tasks(ls__count(x));
    ls__add_phase(k, task, k->n_chunks);
    return true;
}

const ls__ops_prepare LS__ISA_NAME(ls__ops_cast)[LS__N_OPS] = {
    [LS__OP_CAST] = prepare_cast,
};
