/* activation.c: reference ReLU, addition and dropout: element-wise, any shape. */
#include "cpu/reference/reference.h"

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
        const ls_draw draw = { .stream = LS_STREAM_DROPOUT,
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

const ls__reference ls__reference_activation[LS__N_OPS] = {
    [LS__OP_RELU] = { rows, relu },
    [LS__OP_RELU_BACKWARD] = { rows, relu_backward },
    [LS__OP_ADD] = { rows, add },
    [LS__OP_DROPOUT] = { rows, dropout },
    [LS__OP_DROPOUT_BACKWARD] = { rows, dropout },
};
