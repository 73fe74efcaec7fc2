/* Cross-entropy and its gradient against f64, with a constant added to all logits: the loss and the
 * gradient do not depend on it, so neither may their errors. */
#include "op_case.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, CLASSES = 37 };

/* exp of our own is good to 2 ulp and log_sum <= 6 is rounded to f32: 2 * 1.2e-7 + 6 * 6e-8 of a
 * probability of at most 1. */
static const double GRADIENT_ERROR = 6e-7, LOSS_ERROR = 3e-7;

/* Multiples of 1/16, which f32 holds exactly at 1e6 too. */
static void fill_logits(float *logits, float shift)
{
    for (int i = 0; i < ROWS * CLASSES; i++) logits[i] = shift + (float)((i * 7919) % 97 - 48) / 16;
}

/* The gradient of the sum of rows' losses, and their mean. */
static double exact(const float *logits, const int32_t *labels, double smoothing, double *gradient)
{
    double loss = 0;
    for (int n = 0; n < ROWS; n++) {
        const float *row = logits + (ptrdiff_t)n * CLASSES;
        double sum = 0;
        for (int k = 0; k < CLASSES; k++) sum += exp((double)row[k] - (double)row[0]);
        for (int k = 0; k < CLASSES; k++) {
            const double log_p = (double)row[k] - (double)row[0] - log(sum);
            const double target = (1 - smoothing) * (k == labels[n]) + smoothing / CLASSES;
            loss -= target * log_p / ROWS;
            gradient[n * CLASSES + k] = exp(log_p) - target;
        }
    }
    return loss;
}

static void check_kernel(ls_context *ctx, run_fn *run, const op_case *cases, const char *kernel,
                         float shift)
{
    op_buffers forward, backward;
    fill_buffers(&cases[0], &forward, false);
    fill_buffers(&cases[1], &backward, false);
    for (int n = 0; n < ROWS; n++) ((int32_t *)forward.memory[1])[n] = n * 5 % CLASSES;
    fill_logits(forward.memory[0], shift);
    fill_logits(backward.memory[0], shift);
    memcpy(backward.memory[1], forward.memory[1], forward.bytes[1]);
    run(ctx, &cases[0], kernel, &forward);
    memcpy(backward.memory[3], forward.memory[4], forward.bytes[4]);
    *(float *)backward.memory[4] = *(float *)backward.memory[5] = 1; /* total, dloss */
    run(ctx, &cases[1], kernel, &backward);

    static double wanted[ROWS * CLASSES];
    const double smoothing = (double)cases[0].op.u.loss.label_smoothing;
    const double loss = exact(forward.memory[0], forward.memory[1], smoothing, wanted);
    const double loss_error = fabs((double)*(float *)forward.memory[3] - loss);
    double error = 0;
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const double off = fabs((double)((float *)backward.memory[6])[i] - wanted[i]);
        if (!(off <= error)) error = off; /* NaN, too; GCC 12 for arm64 can't compile fmax here */
    }
    ck_assert_msg(error <= GRADIENT_ERROR,
                  "%s, logits about %g: error %.2g of the gradient, %.2g allowed", kernel,
                  (double)shift, error, GRADIENT_ERROR);
    ck_assert_msg(loss_error <= LOSS_ERROR * loss, "%s, logits about %g: error %.2g of the loss %g",
                  kernel, (double)shift, loss_error, loss);
    free_buffers(&forward);
    free_buffers(&backward);
}

void check_loss_accuracy(ls_context *ctx, run_fn *run, const char *kernel)
{
    static const float shifts[] = { 0, 1e4f, -1e4f, 1e6f, -1e6f }, smoothings[] = { 0, 0.1f };
    const ls__operand logits = dense(LS_F32, LS_SHAPE(ROWS, CLASSES));
    const ls__operand labels = dense(LS_I32, LS_SHAPE(ROWS));
    const ls__operand saved = dense(LS_F32, LS_SHAPE(ROWS, 2)), one = dense(LS_F32, LS_SHAPE(1));
    case_list list = { 0 };
    add_case(&list, LS__OP_CROSS_ENTROPY, 6,
             (ls__operand[]){ logits, labels, absent(), one, saved, one }, "accuracy");
    add_case(&list, LS__OP_CROSS_ENTROPY_BACKWARD, 7,
             (ls__operand[]){ logits, labels, absent(), saved, one, one, logits }, "accuracy");
    for (int i = 0; i < 10; i++) {
        for (int k = 0; k < 2; k++) list.cases[k].op.u.loss.label_smoothing = smoothings[i % 2];
        check_kernel(ctx, run, list.cases, kernel, shifts[i / 2]);
    }
    free(list.cases);
}
