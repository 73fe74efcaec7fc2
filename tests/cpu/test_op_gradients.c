/* The reference's backward ops against central finite differences of its forward ops. The loss is
 * the inner product of the op's first output with a random tensor G. A backward op's operands are
 * found by name: "x" is forward's x, "dy" is G, and an output "dx" is the gradient by x. */
#include "../suite.h"
#include "op_case.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PROBES = 24 }; /* elements differentiated per operand */

/* The backward ops of a forward op are those whose names begin with its own. */
static bool is_backward_of(ls__op_kind backward, ls__op_kind forward)
{
    const char *name = ls__op_name(forward);
    const size_t length = strlen(name);
    return strncmp(ls__op_name(backward), name, length) == 0 &&
           strncmp(ls__op_name(backward) + length, "_backward", 9) == 0;
}

/* Runs the reference forward and returns <G, output 0>. */
static double loss(ls_context *ctx, const op_case *forward, const op_buffers *inputs,
                   const float *g)
{
    op_buffers b;
    fill_buffers(forward, &b, false);
    const int n_inputs = ls__op_inputs(forward->op.kind);
    for (int i = 0; i < n_inputs; i++)
        if (b.memory[i]) memcpy(b.memory[i], inputs->memory[i], b.bytes[i]);
    run_kernel(ctx, forward, "reference", &b);
    const float *y = b.memory[n_inputs];
    double sum = 0;
    for (size_t i = 0; i < b.bytes[n_inputs] / sizeof(float); i++)
        sum += (double)y[i] * (double)g[i];
    free_buffers(&b);
    return sum;
}

/* Compares `got`, the gradient by forward's input `operand`. */
static void check_gradient(ls_context *ctx, const op_case *forward, op_buffers *inputs,
                           const float *g, int operand, const float *got)
{
    const int64_t count = (int64_t)(inputs->bytes[operand] / sizeof(float));
    const int64_t stride = count > MAX_PROBES ? (count + MAX_PROBES - 1) / MAX_PROBES : 1;
    float *x = inputs->memory[operand];
    const double here = loss(ctx, forward, inputs, g);
    double left[MAX_PROBES], right[MAX_PROBES], central[MAX_PROBES], size = 0, error = 0;
    int n = 0, n_bends = 0;
    for (int64_t i = 0; i < count; i += stride, n++) {
        const float before = x[i];
        const float above = before + (float)forward->gradient_step;
        const float below = before - (float)forward->gradient_step;
        x[i] = above;
        const double high = loss(ctx, forward, inputs, g);
        x[i] = below;
        const double low = loss(ctx, forward, inputs, g);
        x[i] = before;
        right[n] = (high - here) / ((double)above - (double)before);
        left[n] = (here - low) / ((double)before - (double)below);
        central[n] = (high - low) / ((double)above - (double)below);
        size += central[n] * central[n];
    }
    /* Where the differences to both sides disagree, ReLU or a maximum bends within the step. */
    for (int i = 0; i < n; i++) {
        const bool bend = fabs(right[i] - left[i]) > 0.1 * sqrt(size / n);
        n_bends += bend;
        const double e = bend ? 0 : (double)got[i * stride] - central[i];
        error += e * e;
    }
    ck_assert_msg(4 * n_bends <= n, "%s: operand %d: %d of %d probes bend", forward->name, operand,
                  n_bends, n);
    ck_assert_msg(sqrt(error) <= forward->gradient_tolerance * sqrt(size),
                  "%s: gradient by operand %d: relative error %.3g, allowed %.3g", forward->name,
                  operand, sqrt(error / size), forward->gradient_tolerance);
}

/* The backward op's case: operands by name, "dy" and "dy1" stand for G. */
static op_case make_backward(const op_case *forward, ls__op_kind kind, op_buffers *values,
                             op_buffers *b)
{
    op_case c = { .op = forward->op, .step = forward->step };
    snprintf(c.name, sizeof c.name, "backward of %.180s", forward->name);
    c.op.kind = kind;
    c.op.n_operands = 0;
    size_t length;
    const char *name;
    const int output = ls__op_inputs(forward->op.kind), n_inputs = ls__op_inputs(kind);
    size_t output_length;
    const char *output_name = operand_name(forward->op.kind, output, &output_length);
    int source[LS__MAX_OPERANDS];
    for (int i = 0; (name = operand_name(kind, i, &length)); i++) {
        const bool gradient = i < n_inputs && name[0] == 'd' && length > output_length &&
                              memcmp(name + 1, output_name, output_length) == 0;
        source[i] = gradient && name[length - 1] != '2' ? output
                    : gradient                          ? -1
                    : i < n_inputs ? find_operand(forward->op.kind, name, length)
                                   : find_operand(forward->op.kind, name + 1, length - 1);
        c.op.operands[i] = source[i] < 0 ? absent() : forward->op.operands[source[i]];
        c.op.n_operands = i + 1;
        if (gradient) source[i] = -1;
    }
    fill_buffers(&c, b, false); /* fills dy with G */
    for (int i = 0; i < n_inputs; i++)
        if (source[i] >= 0 && b->memory[i])
            memcpy(b->memory[i], values->memory[source[i]], b->bytes[i]);
    return c;
}

static void check_gradients(ls_context *ctx, const op_case *forward)
{
    op_buffers inputs, values;
    fill_buffers(forward, &inputs, false);
    fill_buffers(forward, &values, false);
    run_kernel(ctx, forward, "reference", &values);
    const int n_inputs = ls__op_inputs(forward->op.kind);
    for (int kind = 0; kind < LS__N_OPS; kind++) {
        if (!is_backward_of((ls__op_kind)kind, forward->op.kind)) continue;
        op_buffers b;
        const op_case backward = make_backward(forward, (ls__op_kind)kind, &values, &b);
        const float *g = NULL;
        size_t length;
        const char *name;
        const int first_output = ls__op_inputs((ls__op_kind)kind);
        for (int i = 0; i < first_output; i++) {
            name = operand_name((ls__op_kind)kind, i, &length);
            if (name[0] == 'd' && b.memory[i]) g = b.memory[i];
        }
        ck_assert_ptr_nonnull(g);
        run_kernel(ctx, &backward, "reference", &b);
        for (int i = first_output; (name = operand_name((ls__op_kind)kind, i, &length)); i++) {
            const int operand = find_operand(forward->op.kind, name + 1, length - 1);
            /* batch norm's gradient by add is called dadd; everything is named like this */
            ck_assert_int_ge(operand, 0);
            ck_assert_int_lt(operand, n_inputs);
            if (b.memory[i]) check_gradient(ctx, forward, &inputs, g, operand, b.memory[i]);
        }
        free_buffers(&b);
    }
    free_buffers(&inputs);
    free_buffers(&values);
}

START_TEST(gradients)
{
    ls_context *ctx = open_cpu(1, -1);
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride())
        if (all_cases()->cases[i].gradient_step != 0) check_gradients(ctx, &all_cases()->cases[i]);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(op_gradients)
{
    return run_cases("op gradients", gradients);
}
