/* activation.c: reference ReLU, sigmoid, addition, multiplication, dropout and casts: element-wise,
 * any shape. */
#include "base/half.h"
#include "cpu/reference/reference.h"
#include <math.h>

static int64_t rows(const ls__op *op)
{
    return ls__operand_view(&op->operands[0]).n;
}

#define FOR_EACH_ELEMENT(v)                                                                        \
    for (int64_t h = 0; h < (v).h; h++)                                                            \
        for (int64_t w = 0; w < (v).w; w++)                                                        \
            for (int64_t c = 0; c < (v).c; c++)

/* x -> y */
static void relu(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, 1);
    FOR_EACH_ELEMENT(x)
    {
        const float value = *ls__view_at(&x, n, h, w, c);
        *ls__view_at(&y, n, h, w, c) = value < 0 ? 0 : value;
    }
}

/* y dy -> dx */
static void relu_backward(const ls__reference_call *call, int64_t n)
{
    const ls__view y = ls__reference_view(call, 0), dy = ls__reference_view(call, 1);
    const ls__view dx = ls__reference_view(call, 2);
    FOR_EACH_ELEMENT(y)
    {
        const bool open = *ls__view_at(&y, n, h, w, c) > 0;
        *ls__view_at(&dx, n, h, w, c) = open ? *ls__view_at(&dy, n, h, w, c) : 0;
    }
}

/* x -> y */
static void sigmoid(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, 1);
    FOR_EACH_ELEMENT(x)
    *ls__view_at(&y, n, h, w, c) = (float)(1 / (1 + exp(-(double)*ls__view_at(&x, n, h, w, c))));
}

/* y dy -> dx */
static void sigmoid_backward(const ls__reference_call *call, int64_t n)
{
    const ls__view y = ls__reference_view(call, 0), dy = ls__reference_view(call, 1);
    const ls__view dx = ls__reference_view(call, 2);
    FOR_EACH_ELEMENT(y)
    {
        const double value = (double)*ls__view_at(&y, n, h, w, c);
        const double gradient = (double)*ls__view_at(&dy, n, h, w, c) * value * (1 - value);
        *ls__view_at(&dx, n, h, w, c) = (float)gradient;
    }
}

/* a b -> y */
static void multiply(const ls__reference_call *call, int64_t n)
{
    const ls__view a = ls__reference_view(call, 0), b = ls__reference_view(call, 1);
    const ls__view y = ls__reference_view(call, 2);
    FOR_EACH_ELEMENT(a)
    *ls__view_at(&y, n, h, w, c) = *ls__view_at(&a, n, h, w, c) * *ls__view_at(&b, n, h, w, c);
}

/* a b -> y */
static void add(const ls__reference_call *call, int64_t n)
{
    const ls__view a = ls__reference_view(call, 0), b = ls__reference_view(call, 1);
    const ls__view y = ls__reference_view(call, 2);
    FOR_EACH_ELEMENT(a)
    {
        const float sum = *ls__view_at(&a, n, h, w, c) + *ls__view_at(&b, n, h, w, c);
        *ls__view_at(&y, n, h, w, c) = call->op->u.add.relu && sum < 0 ? 0 : sum;
    }
}

/* x -> y, and dy -> dx with the same draws */
static void dropout(const ls__reference_call *call, int64_t n)
{
    const ls__view x = ls__reference_view(call, 0), y = ls__reference_view(call, 1);
    const float probability = call->op->u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    FOR_EACH_ELEMENT(x)
    {
        const int64_t element = ((n * x.h + h) * x.w + w) * x.c + c;
        const ls_draw draw = { .stream = LS_RANDOM_DROPOUT,
                               .layer = call->op->u.dropout.layer,
                               .epoch = (uint32_t)call->step->epoch,
                               .step = (uint64_t)call->step->step,
                               .sample = (uint64_t)element / 4 };
        uint32_t words[4];
        ls_random_words(call->step->seed, &draw, words);
        const bool keep = ls_random_uniform(words[element % 4]) >= probability;
        const float value = *ls__view_at(&x, n, h, w, c);
        *ls__view_at(&y, n, h, w, c) = keep ? value * factor : 0;
    }
}

static float load(ls_dtype dtype, const void *memory, int64_t i)
{
    if (dtype == LS_F32) return ((const float *)memory)[i];
    const uint16_t bits = ((const uint16_t *)memory)[i];
    return dtype == LS_BF16 ? ls__bf16_to_f32(bits) : ls__f16_to_f32(bits);
}

static void store(ls_dtype dtype, void *memory, int64_t i, float value)
{
    if (dtype == LS_F32)
        ((float *)memory)[i] = value;
    else
        ((uint16_t *)memory)[i] = dtype == LS_BF16 ? ls__f32_to_bf16(value) : ls__f32_to_f16(value);
}

/* x -> y in another type */
static void cast(const ls__reference_call *call, int64_t task)
{
    (void)task;
    const ls__operand *x = &call->op->operands[0], *y = &call->op->operands[1];
    const int64_t count = ls_shape_count(&x->shape);
    for (int64_t i = 0; i < count; i++)
        store(y->dtype, call->buffers[1], i, load(x->dtype, call->buffers[0], i));
}

const ls__reference ls__reference_activation[LS__N_OPS] = {
    [LS__OP_CAST] = { NULL, cast },
    [LS__OP_RELU] = { rows, relu },
    [LS__OP_RELU_BACKWARD] = { rows, relu_backward },
    [LS__OP_SIGMOID] = { rows, sigmoid },
    [LS__OP_SIGMOID_BACKWARD] = { rows, sigmoid_backward },
    [LS__OP_ADD] = { rows, add },
    [LS__OP_MUL] = { rows, multiply },
    [LS__OP_DROPOUT] = { rows, dropout },
    [LS__OP_DROPOUT_BACKWARD] = { rows, dropout },
};
