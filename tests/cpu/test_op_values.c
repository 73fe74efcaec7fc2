/* Every kernel against the reference kernel, on every case. */
#include "op_case.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Winograd's transforms multiply by up to 8 and divide again, so single elements stray further than
 * a direct sum's; its error is stated, here as in the literature, as relative L2 error. */
static const double WINOGRAD_L2_ERROR = 5e-6, WINOGRAD_LARGEST_ERROR = 2e-5;

static void compare(const op_case *c, const char *kernel, int operand, const op_buffers *got,
                    const op_buffers *wanted)
{
    if (c->op.operands[operand].dtype != LS_F32) {
        ck_assert_msg(memcmp(got->memory[operand], wanted->memory[operand], got->bytes[operand]) ==
                          0,
                      "%s: %s: operand %d differs from the reference", c->name, kernel, operand);
        return;
    }
    const float *a = got->memory[operand], *b = wanted->memory[operand];
    const size_t count = got->bytes[operand] / sizeof(float);
    double largest = 0, error = 0, squares = 0, error_squares = 0;
    size_t where = 0;
    const bool winograd = strstr(kernel, "winograd") != NULL;
    const double allowed = winograd ? WINOGRAD_LARGEST_ERROR : c->tolerance;
    for (size_t i = 0; i < count; i++) {
        if (isnan(a[i]) != isnan(b[i])) /* ck_assert_msg would log every element */
            ck_abort_msg("%s: %s: operand %d [%zu]: got %g, reference %g", c->name, kernel, operand,
                         i, (double)a[i], (double)b[i]);
        largest = fmax(largest, fabs((double)b[i]));
        const double e = fabs((double)a[i] - (double)b[i]);
        squares += (double)b[i] * (double)b[i];
        error_squares += e * e;
        if (e > error) {
            error = e;
            where = i;
        }
    }
    ck_assert_msg(error <= allowed * largest,
                  "%s: %s: operand %d [%zu]: got %.9g, reference %.9g; error %.3g of the largest, "
                  "allowed %.3g",
                  c->name, kernel, operand, where, (double)a[where], (double)b[where],
                  error / largest, allowed);
    if (winograd)
        ck_assert_msg(sqrt(error_squares) <= WINOGRAD_L2_ERROR * sqrt(squares),
                      "%s: %s: operand %d: relative L2 error %.3g", c->name, kernel, operand,
                      sqrt(error_squares / squares));
}

START_TEST(values)
{
    const op_case *c = &all_cases()->cases[_i];
    ls_context *ctx = open_cpu(2, -1);
    ctx->config.deterministic = LS_DETERMINISTIC_OFF; /* lists all kernels */
    ls__candidate kernels[LS__MAX_CANDIDATES];
    ck_assert_msg(list_kernels(ctx, c, true, kernels) == 1, "%s: no reference kernel", c->name);
    op_buffers wanted, got;
    fill_buffers(c, &wanted, false);
    run_kernel(ctx, c, "reference", &wanted);

    const int n = list_kernels(ctx, c, false, kernels);
    for (int k = -1; k < n; k++) {
        const char *kernel = k < 0 ? "reference" : kernels[k].name;
        fill_buffers(c, &got, true);
        run_kernel(ctx, c, kernel, &got);
        for (int i = 0; i < got.n; i++) {
            bool overwritten = false; /* an input whose memory an output took */
            for (int j = 0; j < got.n; j++) overwritten |= c->shares[j] == i + 1;
            if (got.memory[i] && !overwritten) compare(c, kernel, i, &got, &wanted);
        }
        free_buffers(&got);
    }
    free_buffers(&wanted);
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("op values");
    TCase *tcase = tcase_create("values");
    tcase_add_loop_test(tcase, values, 0, all_cases()->n);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
