/* linear.c: reference linear layer, y[n,o] = relu?(b[o] + sum over i of x[n,i] w[o,i]). */
#include "reference.h"

/* x w b? -> y */
static void linear(const reference_call *call, int64_t n)
{
    const tensor_view x = view_of(call, 0), y = view_of(call, 3);
    const float *w = call->buffers[1], *b = call->buffers[2];
    for (int64_t o = 0; o < y.c; o++) {
        double sum = b ? b[o] : 0.0;
        for (int64_t i = 0; i < x.c; i++) sum += (double)x.data[n * x.c + i] * w[o * x.c + i];
        y.data[n * y.c + o] = call->op->u.linear.relu && sum < 0 ? 0 : (float)sum;
    }
}

/* dy w -> dx */
static void linear_backward_data(const reference_call *call, int64_t n)
{
    const tensor_view dy = view_of(call, 0), dx = view_of(call, 2);
    const float *w = call->buffers[1];
    for (int64_t i = 0; i < dx.c; i++) {
        double sum = 0.0;
        for (int64_t o = 0; o < dy.c; o++) sum += (double)dy.data[n * dy.c + o] * w[o * dx.c + i];
        dx.data[n * dx.c + i] = (float)sum;
    }
}

/* x dy -> dw db? */
static void linear_backward_weights(const reference_call *call, int64_t o)
{
    const tensor_view x = view_of(call, 0), dy = view_of(call, 1);
    float *dw = call->buffers[2], *db = call->buffers[3];
    for (int64_t i = 0; i < x.c; i++) {
        double sum = 0.0;
        for (int64_t n = 0; n < x.n; n++)
            sum += (double)x.data[n * x.c + i] * dy.data[n * dy.c + o];
        dw[o * x.c + i] = (float)sum;
    }
    if (!db) return;
    double sum = 0.0;
    for (int64_t n = 0; n < dy.n; n++) sum += dy.data[n * dy.c + o];
    db[o] = (float)sum;
}

const reference_row reference_linear[LS__N_OPS] = {
    [LS__OP_LINEAR] = { linear, TASK_PER_IMAGE },
    [LS__OP_LINEAR_BACKWARD_DATA] = { linear_backward_data, TASK_PER_IMAGE },
    [LS__OP_LINEAR_BACKWARD_WEIGHTS] = { linear_backward_weights, TASK_PER_CHANNEL, 1 },
};
