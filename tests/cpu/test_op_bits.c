/* Every kernel gives the same bits for any number of threads, on every run, and our own kernels
 * give the same bits on every instruction set. */
#include "op_case.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void check_same(const op_case *c, const char *kernel, const op_buffers *a,
                       const op_buffers *b, const char *what, int n)
{
    for (int i = 0; i < a->n; i++)
        if (a->memory[i])
            ck_assert_msg(memcmp(a->memory[i], b->memory[i], a->bytes[i]) == 0,
                          "%s: %s: operand %d has other bits with %s %d", c->name, kernel, i, what,
                          n);
}

START_TEST(threads)
{
    static const int counts[] = { 1, 1, 2, 3, 5, 16 };
    enum { N_COUNTS = sizeof counts / sizeof counts[0] };
    const op_case *c = &all_cases()->cases[_i];
    ls_context *ctx = open_cpu(1, -1);
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, false, kernels);
    op_buffers first[LS__MAX_CANDIDATES], other;
    for (int k = 0; k < n; k++) {
        fill_buffers(c, &first[k], true);
        run_kernel(ctx, c, kernels[k].name, &first[k]);
    }
    ls_context_close(&ctx);
    for (int t = 0; t < N_COUNTS; t++) {
        ctx = open_cpu(counts[t], -1);
        for (int k = 0; k < n; k++) {
            fill_buffers(c, &other, true);
            run_kernel(ctx, c, kernels[k].name, &other);
            check_same(c, kernels[k].name, &first[k], &other, "threads", counts[t]);
            free_buffers(&other);
        }
        ls_context_close(&ctx);
    }
    for (int k = 0; k < n; k++) free_buffers(&first[k]);
}
END_TEST

/* Convolution and linear layers are left to oneDNN; all else is our own. */
static bool wants_native(const op_case *c)
{
    return c->op.kind < LS__OP_CONV2D || c->op.kind > LS__OP_LINEAR_BACKWARD_WEIGHTS;
}

START_TEST(instruction_sets)
{
    const op_case *c = &all_cases()->cases[_i];
    op_buffers first = { 0 }, other;
    for (ls__isa isa = LS__ISA_BASE; isa <= ls__isa_detect(); isa++) {
        ls_context *ctx = open_cpu(1, (int)isa);
        ls__candidate kernels[LS__MAX_CANDIDATES];
        const int n = list_kernels(ctx, c, false, kernels);
        for (int k = 0; k < n; k++) {
            if (strcmp(kernels[k].name, "native") != 0) continue;
            fill_buffers(c, &other, true);
            run_kernel(ctx, c, "native", &other);
            if (first.n == 0) {
                first = other;
                continue;
            }
            check_same(c, "native", &first, &other, "instruction set", (int)isa);
            free_buffers(&other);
        }
        ck_assert_msg((first.n > 0) == wants_native(c), "%s: native kernel: %d", c->name,
                      first.n > 0);
        ls_context_close(&ctx);
    }
    free_buffers(&first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("op bits");
    TCase *tcase = tcase_create("bits");
    tcase_add_loop_test(tcase, threads, 0, all_cases()->n);
    tcase_add_loop_test(tcase, instruction_sets, 0, all_cases()->n);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
