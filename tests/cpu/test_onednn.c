/* The provider of oneDNN's kernels: its lists, its errors, every allocation failing in turn, and
 * OpenMP's number of threads, which belongs to the caller. Values and bits are in test_op_*.c. */
#include "op_case.h"
#include <check.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* Fails allocation number `fail_at`; counts from 0. */
typedef struct failing {
    long n_calls, fail_at, n_live;
} failing;

static void *failing_allocate(void *user, size_t bytes, size_t alignment)
{
    failing *f = user;
    if (f->n_calls++ == f->fail_at) return NULL;
    f->n_live++;
    return aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
}

static void failing_release(void *user, void *memory)
{
    failing *f = user;
    if (memory) f->n_live--;
    free(memory);
}

static bool is_onednn(const char *name)
{
    return strncmp(name, "onednn ", 7) == 0;
}

static bool is_conv_or_linear(ls__op_kind kind)
{
    return kind >= LS__OP_CONV2D && kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS;
}

START_TEST(lists)
{
    const op_case *c = &all_cases()->cases[_i];
    ls__candidate one[LS__MAX_CANDIDATES], many[LS__MAX_CANDIDATES];
    ls_context *ctx = open_cpu(1, -1), *other = open_cpu(3, -1);
    const int n = list_kernels(ctx, c, false, one), m = list_kernels(other, c, false, many);
    ck_assert_int_eq(n, m);
    for (int i = 0; i < n; i++) {
        /* the choice must not depend on the number of threads */
        ck_assert_str_eq(one[i].name, many[i].name);
        ck_assert(one[i].cost_ms == many[i].cost_ms);
        if (!is_onednn(one[i].name)) continue;
        ck_assert(is_conv_or_linear(c->op.kind));
        ck_assert(one[i].deterministic);
        ck_assert(one[i].cost_ms > 0 && one[i].cost_ms < 1e6);
        for (int j = 0; j < i; j++) ck_assert_str_ne(one[i].name, one[j].name);
        if (i > 0 && is_onednn(one[i - 1].name)) ck_assert(one[i - 1].cost_ms <= one[i].cost_ms);
    }
    ls_context_close(&ctx);
    ls_context_close(&other);
}
END_TEST

static const op_case *find_case(ls__op_kind kind)
{
    for (int i = 0; i < all_cases()->n; i++)
        if (all_cases()->cases[i].op.kind == kind) return &all_cases()->cases[i];
    return NULL;
}

START_TEST(unknown_names)
{
    static const ls__op_kind kinds[] = { LS__OP_CONV2D, LS__OP_LINEAR, LS__OP_RELU };
    static const ls_status wanted[] = { LS_ERR_NOT_FOUND, LS_ERR_NOT_FOUND, LS_ERR_UNSUPPORTED };
    static const char *const names[] = { "onednn jit:abacus", "onednn", "onednn winograd ",
                                         "onednn winograd jit:avx2" };
    ls_context *ctx = open_cpu(2, -1);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            ls__kernel *kernel = NULL;
            const ls_status status = ctx->device->backend->kernel_open(
                ctx->device, &find_case(kinds[i])->op, names[j], &kernel);
            ck_assert_ptr_null(kernel);
            /* an algorithm that oneDNN refuses altogether is its own error */
            if (kinds[i] != LS__OP_CONV2D || j < 2) ck_assert_int_eq(status, wanted[i]);
            ck_assert_int_ne(status, LS_OK);
            ck_assert_int_eq(ls_context_status(ctx), status);
        }
    ls_context_close(&ctx);
}
END_TEST

/* A layout that the listed kernel is not made for. */
START_TEST(foreign_layout)
{
    ls_context *ctx = open_cpu(1, -1);
    op_case c = *find_case(LS__OP_CONV2D);
    c.op.operands[0] = activation(2, 6, 6, 16, 8);
    c.op.operands[1] = dense(LS_F32, LS_SHAPE(16, 3, 3, 16));
    c.op.operands[2] = absent();
    c.op.operands[3] = activation(2, 6, 6, 16, 16);
    ls__kernel *kernel;
    ls__candidate found[LS__MAX_CANDIDATES];
    ck_assert_int_eq(list_kernels(ctx, &c, false, found), 0);
    ck_assert_int_eq(
        ctx->device->backend->kernel_open(ctx->device, &c.op, "onednn jit:avx2", &kernel),
        LS_ERR_UNSUPPORTED);
    ck_assert_int_eq(ls_context_status(ctx), LS_ERR_UNSUPPORTED);
    ls_context_close(&ctx);
}
END_TEST

/* Opens every oneDNN kernel of a case while one allocation fails. Returns whether none did. */
static bool open_with_failure(const op_case *c, long fail_at)
{
    failing f = { .fail_at = -1 };
    const ls_allocator allocator = { failing_allocate, failing_release, &f };
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .threads = 2, .allocator = &allocator });
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, false, found);
    f.n_calls = 0;
    f.fail_at = fail_at;
    bool failed = false;
    for (int i = 0; i < n && !failed; i++) {
        if (!is_onednn(found[i].name)) continue;
        ls__kernel *kernel;
        const ls_status status =
            ctx->device->backend->kernel_open(ctx->device, &c->op, found[i].name, &kernel);
        failed = f.n_calls > fail_at;
        ck_assert_int_eq(status, failed ? LS_ERR_MEMORY : LS_OK);
        ck_assert_int_eq(ls_context_status(ctx), status);
        ck_assert(!failed || !kernel);
        if (kernel) kernel->close(kernel);
    }
    ls_context_close(&ctx);
    ck_assert_int_eq(f.n_live, 0);
    return !failed;
}

START_TEST(allocation_failures)
{
    long n_failures = 0;
    for (ls__op_kind kind = LS__OP_CONV2D; kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS; kind++) {
        long fail_at = 0;
        while (!open_with_failure(find_case(kind), fail_at)) fail_at++;
        n_failures += fail_at;
    }
    ck_assert_int_gt(n_failures, 0);
}
END_TEST

/* The device's own making, oneDNN's parts among it. */
START_TEST(allocation_failures_of_device)
{
    for (long fail_at = 0;; fail_at++) {
        failing f = { .fail_at = fail_at };
        const ls_allocator allocator = { failing_allocate, failing_release, &f };
        ls_context *ctx =
            ls_context_open(&(ls_context_config){ .threads = 2, .allocator = &allocator });
        const ls_status status = ls_context_status(ctx);
        const bool failed = f.n_calls > fail_at;
        ck_assert_int_eq(status, failed ? LS_ERR_MEMORY : LS_OK);
        ls_context_close(&ctx);
        ck_assert_int_eq(f.n_live, 0);
        if (!failed) return;
    }
}
END_TEST

START_TEST(callers_threads_come_back)
{
    omp_set_num_threads(7);
    ls_context *ctx = open_cpu(2, -1);
    for (ls__op_kind kind = LS__OP_CONV2D; kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS; kind++) {
        const op_case *c = find_case(kind);
        ls__candidate found[LS__MAX_CANDIDATES];
        const int n = list_kernels(ctx, c, false, found);
        ck_assert_int_eq(omp_get_max_threads(), 7);
        for (int i = 0; i < n; i++) {
            op_buffers b;
            fill_buffers(c, &b, true);
            run_kernel(ctx, c, found[i].name, &b);
            free_buffers(&b);
            ck_assert_int_eq(omp_get_max_threads(), 7);
        }
    }
    ctx->device->backend->begin(ctx->device);
    ck_assert_int_eq(omp_get_max_threads(), 1);
    ctx->device->backend->end(ctx->device);
    ck_assert_int_eq(omp_get_max_threads(), 7);
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("oneDNN");
    TCase *tcase = tcase_create("provider");
    tcase_add_loop_test(tcase, lists, 0, all_cases()->n);
    tcase_add_test(tcase, unknown_names);
    tcase_add_test(tcase, foreign_layout);
    tcase_add_test(tcase, allocation_failures);
    tcase_add_test(tcase, allocation_failures_of_device);
    tcase_add_test(tcase, callers_threads_come_back);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
