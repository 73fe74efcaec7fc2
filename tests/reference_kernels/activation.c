/* activation.c: reference activation functions, addition, multiplication, dropout and casts:
 * element-wise, any shape. */
#include "element.h"
#include "reference.h"
#include <math.h>

/* Element i of image n. */
#define FOR_EACH_ELEMENT(v)                                                                        \
    for (int64_t i = n * (v).h * (v).w * (v).c; i < (n + 1) * (v).h * (v).w * (v).c; i++)

static const double PI = 3.14159265358979323846;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double normal_cdf(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

/* An element of the result from those of the inputs; an op of one input ignores b. */
static float element(const ls__op *op, float a, float b)
{
    switch (op->kind) {
    case LS__OP_RELU: return a < 0 ? 0 : a;
    case LS__OP_RELU_BACKWARD: return a > 0 ? b : 0;
    case LS__OP_RELU6: return a < 0 ? 0 : a > 6 ? 6 : a;
    case LS__OP_RELU6_BACKWARD: return a > 0 && a < 6 ? b : 0;
    case LS__OP_TANH: return (float)tanh(a);
    case LS__OP_TANH_BACKWARD: return (float)(b * (1 - (double)a * a));
    case LS__OP_SILU: return (float)(a * sigmoid(a));
    case LS__OP_SILU_BACKWARD: return (float)(b * sigmoid(a) * (1 + a * (1 - sigmoid(a))));
    case LS__OP_GELU: return (float)(a * normal_cdf(a));
    case LS__OP_GELU_BACKWARD:
        return (float)(b * (normal_cdf(a) + a * exp(-(double)a * a / 2) / sqrt(2 * PI)));
    case LS__OP_SIGMOID: return (float)sigmoid(a);
    case LS__OP_SIGMOID_BACKWARD: return (float)((double)b * a * (1 - (double)a));
    case LS__OP_LEAKY_RELU: return a < 0 ? op->u.leaky_relu.slope * a : a;
    case LS__OP_LEAKY_RELU_BACKWARD: return a > 0 ? b : op->u.leaky_relu.slope * b;
    case LS__OP_HARD_SIGMOID: return (float)(fmin(fmax((double)a + 3, 0), 6) / 6);
    case LS__OP_HARD_SIGMOID_BACKWARD: return a > -3 && a < 3 ? b / 6 : 0;
    case LS__OP_HARD_SWISH: return (float)(a * fmin(fmax((double)a + 3, 0), 6) / 6);
    case LS__OP_HARD_SWISH_BACKWARD:
        return a <= -3 ? 0 : a >= 3 ? b : (float)(b * ((double)a / 3 + 0.5));
    case LS__OP_EXP: return (float)exp(a);
    case LS__OP_EXP_BACKWARD: return a * b;
    case LS__OP_LOG: return (float)log(a);
    case LS__OP_LOG_BACKWARD: return b / a;
    case LS__OP_SQRT: return (float)sqrt(a);
    case LS__OP_SQRT_BACKWARD: return (float)(b / (2 * (double)a));
    case LS__OP_ABS: return a < 0 ? -a : a;
    case LS__OP_ABS_BACKWARD: return a > 0 ? b : a < 0 ? -b : 0;
    case LS__OP_MUL: return a * b;
    default: return op->u.add.relu && a + b < 0 ? 0 : a + b; /* LS__OP_ADD */
    }
}

/* x -> y, y dy -> dx or a b -> y */
static void element_wise(const reference_call *call, int64_t n)
{
    const int n_inputs = call->op->n_operands - 1;
    const tensor_view a = view_of(call, 0), b = view_of(call, n_inputs - 1);
    const tensor_view y = view_of(call, n_inputs);
    FOR_EACH_ELEMENT(a)
    y.data[i] = element(call->op, a.data[i], b.data[i]);
}

/* x -> y, or dy -> dx with the same draws */
static void dropout(const reference_call *call, int64_t n)
{
    const tensor_view x = view_of(call, 0), y = view_of(call, 1);
    const float probability = call->op->u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    const int64_t unit_elements = ls__dropout_unit_elements(call->op);
    const int64_t first = ls__dropout_first_unit(call->op, call->step->first_sample);
    FOR_EACH_ELEMENT(x)
    {
        const int64_t unit = first + i / unit_elements;
        const ls_draw draw = { .stream = LS_RANDOM_DROPOUT,
                               .layer = call->op->u.dropout.layer,
                               .epoch = (uint32_t)call->step->epoch,
                               .step = (uint64_t)call->step->step,
                               .sample = (uint64_t)unit / 4 };
        uint32_t words[4];
        ls_random_words(call->step->seed, &draw, words);
        const bool keep = ls_random_uniform(words[unit % 4]) >= probability;
        y.data[i] = keep ? x.data[i] * factor : 0;
    }
}

/* x -> y in another type */
static void cast(const reference_call *call, int64_t task)
{
    (void)task;
    const ls__operand *x = &call->op->operands[0], *y = &call->op->operands[1];
    const int64_t count = ls_shape_element_count(&x->shape);
    for (int64_t i = 0; i < count; i++)
        store_element(y->dtype, call->buffers[1], i, load_element(x->dtype, call->buffers[0], i));
}

const reference_row reference_activation[LS__N_OPS] = {
    [LS__OP_CAST] = { cast },
    [LS__OP_RELU] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_RELU_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_RELU6] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_RELU6_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_SIGMOID] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_SIGMOID_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_TANH] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_TANH_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_SILU] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_SILU_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_GELU] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_GELU_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_LEAKY_RELU] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_LEAKY_RELU_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_HARD_SIGMOID] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_HARD_SIGMOID_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_HARD_SWISH] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_HARD_SWISH_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_EXP] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_EXP_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_LOG] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_LOG_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_SQRT] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_SQRT_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_ABS] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_ABS_BACKWARD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_ADD] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_MUL] = { element_wise, TASK_PER_IMAGE },
    [LS__OP_DROPOUT] = { dropout, TASK_PER_IMAGE },
    [LS__OP_DROPOUT_BACKWARD] = { dropout, TASK_PER_IMAGE },
};
