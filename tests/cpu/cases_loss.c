/* Losses and top-k. */
#include "op_case.h"

/* exp and log of our own are good to 2 ulp, sums of up to 1000 terms to some more, and a loss near
 * log K is a difference of such numbers. */
static const double TOLERANCE = 2e-6;

static const struct {
    int64_t n, classes;
    float smoothing;
    bool weights;
} losses[] = {
    { 1, 2, 0, false },       { 4, 3, 0, false },      { 5, 7, 0.1f, false },
    { 6, 10, 0, true },       { 9, 10, 0.2f, true },   { 3, 1, 0, false },
    { 128, 10, 0.1f, false }, { 128, 1000, 0, false }, { 70, 100, 0.1f, true },
    { 1000, 33, 0, true },
};

/* The gradients are compared with differences of the reference's f64 losses of f32 logits; the
 * tolerance is the truncation error of the difference. */
static void check_gradients(op_case *c, int64_t n, int64_t classes)
{
    if (n >= 10 || classes == 1) return;
    c->gradient_step = 1e-2;
    c->gradient_tolerance = 1e-3;
}

static void add_target_cases(case_list *list, int64_t n, int64_t classes, float smoothing,
                             ls__operand weights)
{
    const ls__operand logits = dense(LS_F32, LS_SHAPE(n, classes));
    const ls__operand row = dense(LS_F32, LS_SHAPE(n, 2)), one = dense(LS_F32, LS_SHAPE(1));
    const char *text = ls__is_absent(&weights) ? "" : "weights";
    const struct {
        ls__op_kind kind;
        int n;
        ls__operand operands[6];
    } ops[] = {
        { LS__OP_SOFT_CROSS_ENTROPY, 5, { logits, logits, weights, one, row } },
        { LS__OP_SOFT_CROSS_ENTROPY_BACKWARD, 6, { logits, logits, weights, row, one, logits } },
        { LS__OP_BINARY_CROSS_ENTROPY, 4, { logits, logits, weights, one } },
        { LS__OP_BINARY_CROSS_ENTROPY_BACKWARD, 5, { logits, logits, weights, one, logits } },
        { LS__OP_MSE, 3, { logits, logits, one } },
        { LS__OP_MSE_BACKWARD, 4, { logits, logits, one, logits } },
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        op_case *c = add_case(list, ops[i].kind, ops[i].n, ops[i].operands, "smoothing %g %s",
                              (double)smoothing, text);
        if (i < 2) c->op.u.loss.label_smoothing = smoothing;
        c->tolerance = TOLERANCE;
        if (i % 2 == 0) check_gradients(c, n, classes);
    }
}

void add_loss_cases(case_list *list)
{
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        const int64_t n = losses[i].n, classes = losses[i].classes;
        const ls__operand logits = dense(LS_F32, LS_SHAPE(n, classes));
        const ls__operand labels = dense(LS_I32, LS_SHAPE(n)), row = dense(LS_F32, LS_SHAPE(n, 2));
        const ls__operand one = dense(LS_F32, LS_SHAPE(1));
        const ls__operand weights = losses[i].weights ? dense(LS_F32, LS_SHAPE(classes)) : absent();
        const char *text = losses[i].weights ? "weights" : "";

        op_case *c = add_case(list, LS__OP_CROSS_ENTROPY, 6,
                              (ls__operand[]){ logits, labels, weights, one, row, one },
                              "smoothing %g %s", (double)losses[i].smoothing, text);
        c->op.u.loss.label_smoothing = losses[i].smoothing;
        c->tolerance = TOLERANCE;
        check_gradients(c, n, classes);
        c = add_case(list, LS__OP_CROSS_ENTROPY_BACKWARD, 7,
                     (ls__operand[]){ logits, labels, weights, row, one, one, logits },
                     "smoothing %g %s", (double)losses[i].smoothing, text);
        c->op.u.loss.label_smoothing = losses[i].smoothing;
        c->tolerance = TOLERANCE;
        for (int64_t k = 1; k <= classes && k <= 5; k += 4) {
            c = add_case(list, LS__OP_TOP_K, 3, (ls__operand[]){ logits, labels, one }, "k %d",
                         (int)k);
            c->op.u.top_k.k = k;
        }
        add_target_cases(list, n, classes, losses[i].smoothing, weights);
    }
}
