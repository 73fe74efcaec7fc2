/* The provider of oneDNN's kernels: its lists, its errors, every allocation failing in turn, and
 * OpenMP's number of threads, which belongs to the caller. Values and bits are in test_bf16.c. */
#include "cpu/emulated.h"
#include "cpu/onednn/onednn.h"
#include "cpu/onednn/openmp.h"
#include "missing_isa.h"
#include "op_case.h"
#include "../sanitizers.h"
#include "../suite.h"
#include <dlfcn.h>
#include <signal.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

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

/* Stands before oneDNN's own, so that a test can pretend to have another library. */
static const dnnl_version_t *pretended;

const dnnl_version_t *dnnl_version(void)
{
    if (pretended) return pretended;
    const dnnl_version_t *(*own)(void);
    *(void **)&own = dlsym(RTLD_NEXT, "dnnl_version");
    return own();
}

static bool is_onednn(const char *name)
{
    return strncmp(name, "onednn ", 7) == 0;
}

static void check_lists(ls_context *ctx, ls_context *other, const op_case *c)
{
    ls__candidate one[LS__MAX_CANDIDATES], many[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, one), m = list_kernels(other, c, many);
    ck_assert_int_eq(n, m);
    int n_onednn = 0;
    for (int i = 0; i < n; i++) {
        /* the choice must not depend on the number of threads */
        ck_assert_str_eq(one[i].name, many[i].name);
        ck_assert(one[i].cost_ms == many[i].cost_ms);
        if (!is_onednn(one[i].name)) continue;
        ck_assert(is_conv_or_linear(c->op.kind));
        ck_assert(one[i].deterministic);
        ck_assert(one[i].cost_ms > 0 && one[i].cost_ms < 1e6);
        n_onednn++;
    }
    ck_assert_int_le(n_onednn, 1);
}

START_TEST(lists)
{
    ls_context *ctx = open_cpu(1, -1), *other = open_cpu(3, -1);
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride())
        check_lists(ctx, other, &all_cases()->cases[i]);
    ls_context_close(&ctx);
    ls_context_close(&other);
}
END_TEST

/* The first case of a kind, in bf16. */
static const op_case *find_case(ls__op_kind kind)
{
    static op_case halves[LS__N_OPS];
    int i = 0;
    while (all_cases()->cases[i].op.kind != kind) i++;
    halves[kind] = half_case(&all_cases()->cases[i], LS_BF16);
    return &halves[kind];
}

START_TEST(unknown_names)
{
    static const ls__op_kind kinds[] = { LS__OP_CONV2D, LS__OP_LINEAR, LS__OP_RELU };
    static const char *const names[] = { "onednn jit:abacus", "onednn", "onednn ",
                                         "onednn bf16 jit:avx2" };
    ls_context *ctx = open_cpu(2, -1);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++) {
            ls__kernel *kernel = NULL;
            const ls_status status = ctx->device->backend->kernel_open(
                ctx->device, &find_case(kinds[i])->op, names[j], &kernel);
            ck_assert_ptr_null(kernel);
            ck_assert_int_eq(status, LS_ERR_NOT_FOUND);
            expect_error(ctx, status, "");
        }
    ls_context_close(&ctx);
}
END_TEST

/* A library of another major version, or with threads that we cannot tell to be one, is refused. */
START_TEST(other_libraries)
{
    static const struct {
        int majors;
        unsigned runtime;
        ls_status status;
        const char *text;
    } cases[] = {
        { 0, DNNL_RUNTIME_OMP, LS_OK, "" },
        { 0, DNNL_RUNTIME_SEQ, LS_OK, "" },
        { 1, DNNL_RUNTIME_OMP, LS_ERR_UNSUPPORTED, "got version" },
        { -1, DNNL_RUNTIME_OMP, LS_ERR_UNSUPPORTED, "got version" },
        { 0, DNNL_RUNTIME_TBB, LS_ERR_UNSUPPORTED, "expected OpenMP" },
        { 0, DNNL_RUNTIME_THREADPOOL, LS_ERR_UNSUPPORTED, "expected OpenMP" },
    };
    if (ls__isa_is_limited()) SKIP("oneDNN is not used under LOCKSTEP_MAX_ISA");
    dnnl_version_t version = *dnnl_version();
    version.major += cases[_i].majors;
    version.cpu_runtime = cases[_i].runtime;
    pretended = &version;
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .arithmetic = LS_ARITHMETIC_NATIVE, .threads = 2 });
    expect_error(ctx, cases[_i].status, "");
    if (cases[_i].status != LS_OK)
        ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), cases[_i].text));
    ls_context_close(&ctx);
    pretended = NULL;
}
END_TEST

/* Opens every oneDNN kernel of a case while one allocation fails. Returns whether none did. */
static bool open_with_failure(const op_case *c, long fail_at)
{
    failing f = { .fail_at = -1 };
    const ls_allocator allocator = { failing_allocate, failing_release, &f };
    ls_context *ctx = ls_context_open(&(ls_context_config){
        .arithmetic = LS_ARITHMETIC_NATIVE, .threads = 2, .allocator = &allocator });
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, found);
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
        expect_error(ctx, status, "");
        ck_assert(!failed || !kernel);
        if (kernel) kernel->close(kernel);
    }
    ls_context_close(&ctx);
    ck_assert_int_eq(f.n_live, 0);
    return !failed;
}

START_TEST(allocation_failures)
{
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
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
        ls_context *ctx = ls_context_open(&(ls_context_config){
            .arithmetic = LS_ARITHMETIC_NATIVE, .threads = 2, .allocator = &allocator });
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
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    omp_set_num_threads(7);
    ls_context *ctx = open_cpu(2, -1);
    for (ls__op_kind kind = LS__OP_CONV2D; kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS; kind++) {
        const op_case *c = find_case(kind);
        ls__candidate found[LS__MAX_CANDIDATES];
        const int n = list_kernels(ctx, c, found);
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

/* ---- The number of threads. ---- */

/* Whether all of a kernel's outputs have the bits that it gives with one thread. */
static bool same_with_threads(const op_case *c, const char *kernel, int threads)
{
    op_buffers buffers[2];
    for (int i = 0; i < 2; i++) {
        ls_context *ctx = open_cpu(i ? threads : 1, -1);
        fill_buffers(c, &buffers[i], true);
        run_kernel(ctx, c, kernel, &buffers[i]);
        ls_context_close(&ctx);
    }
    bool same = true;
    for (int i = 0; i < buffers[0].n; i++)
        same &= !buffers[0].memory[i] ||
                memcmp(buffers[0].memory[i], buffers[1].memory[i], buffers[0].bytes[i]) == 0;
    for (int i = 0; i < 2; i++) free_buffers(&buffers[i]);
    return same;
}

/* The shapes are those of a first and of an inner layer, whose products are large enough for
 * oneDNN's own threads to divide sums. */
START_TEST(weights_do_not_depend_on_threads)
{
    static const int counts[] = { 2, 3, 4, 8 };
    static const int64_t shapes[][4] = { { 8, 16, 3, 16 }, { 16, 8, 64, 64 } };
    int n_compared = 0;
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    for (int s = 0; s < 2; s++) {
        const int64_t n_images = shapes[s][0], size = shapes[s][1], in = shapes[s][2],
                      out = shapes[s][3];
        op_case c = *find_case(LS__OP_CONV2D_BACKWARD_WEIGHTS);
        c.op.operands[0] = dense(LS_BF16, LS_SHAPE(n_images, size, size, in));
        c.op.operands[1] = dense(LS_BF16, LS_SHAPE(n_images, size, size, out));
        c.op.operands[2] = dense(LS_F32, LS_SHAPE(out, 3, 3, in));
        c.op.operands[3] = absent();
        for (int d = 0; d < 2; d++) {
            c.op.u.conv.kernel[d] = 3;
            c.op.u.conv.stride[d] = c.op.u.conv.padding[d] = c.op.u.conv.dilation[d] = 1;
        }
        c.op.u.conv.groups = 1;
        ls_context *ctx = open_cpu(1, -1);
        ls__candidate found[LS__MAX_CANDIDATES];
        const int n = list_kernels(ctx, &c, found);
        ls_context_close(&ctx);
        for (int i = 0; i < n; i++)
            for (int t = 0; t < 4 && is_onednn(found[i].name); t++) {
                ck_assert_msg(same_with_threads(&c, found[i].name, counts[t]), "%s: %d threads",
                              found[i].name, counts[t]);
                n_compared++;
            }
    }
    ck_assert_int_gt(n_compared, 0);
}
END_TEST

/* ---- Address space that runs out. ---- */

/* Sanitizers map far more than a limit allows. */
#if !ADDRESS_SANITIZER && !THREAD_SANITIZER

static struct rlimit limit_address_space(rlim_t bytes)
{
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &(struct rlimit){ bytes, before.rlim_max }), 0);
    return before;
}

/* Forbids new mappings; memory that is held can be unmapped, but not mapped again. */
static struct rlimit forbid_mappings(void)
{
    return limit_address_space(1 << 20);
}

/* Forbids mappings beyond those of now. */
static struct rlimit forbid_growth(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    return limit_address_space(pages * (rlim_t)sysconf(_SC_PAGESIZE));
}

/* The first case of a kind, in bf16, for which this oneDNN has a kernel; and the first such kernel.
 * NULL where it has none: versions differ in this, but all have forward convolutions. */
static const op_case *case_with_onednn(ls_context *ctx, ls__op_kind kind, ls__candidate *first)
{
    static op_case half;
    for (int k = 0; k < all_cases()->n; k++) {
        if (all_cases()->cases[k].op.kind != kind) continue;
        half = half_case(&all_cases()->cases[k], LS_BF16);
        ls__candidate found[LS__MAX_CANDIDATES];
        const int n = list_kernels(ctx, &half, found);
        for (int i = 0; i < n; i++)
            if (is_onednn(found[i].name)) {
                *first = found[i];
                return &half;
            }
    }
    ck_assert_msg(kind != LS__OP_CONV2D, "oneDNN has no kernel of convolutions");
    note_left_out(ls__op_name(kind), "this version of oneDNN has no kernel of it");
    return NULL;
}

/* Lists and kernels are made of the memory that is held back, then fail; neither ends the process,
 * and no list is shorter than it would be. */
START_TEST(kernels_without_address_space)
{
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    ls_context *ctx = open_cpu(2, -1);
    const ls__backend *backend = ctx->device->backend;
    ls__candidate wanted, found[LS__MAX_CANDIDATES];
    const ls__op_kind kind = LS__OP_CONV2D + _i;
    const op_case *c = case_with_onednn(ctx, kind, &wanted);
    if (!c) return ls_context_close(&ctx);
    const ls__op *op = &c->op;
    const int n = backend->candidates(ctx->device, op, found, LS__MAX_CANDIDATES);
    enum { MANY = 2000 };
    static ls__kernel *kernels[MANY];
    int n_made = 0;
    ls_status status = LS_OK;
    const struct rlimit before = forbid_growth();
    while (status == LS_OK && n_made < MANY) {
        const int n_now = backend->candidates(ctx->device, op, found, LS__MAX_CANDIDATES);
        status = ctx->error;
        if (status == LS_OK) ck_assert_int_eq(n_now, n);
        if (status == LS_OK)
            status = backend->kernel_open(ctx->device, op, wanted.name, &kernels[n_made++]);
    }
    setrlimit(RLIMIT_AS, &before);
    ck_assert_int_eq(status, LS_ERR_MEMORY);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "out of memory"));
    ls_context_clear_error(ctx);
    ck_assert_int_eq(backend->kernel_open(ctx->device, op, wanted.name, &kernels[n_made]), LS_OK);
    for (int i = 0; i <= n_made; i++)
        if (kernels[i]) kernels[i]->close(kernels[i]);
    ls_context_close(&ctx);
}
END_TEST

/* First and later runs: the memory that is held back is lent at the program's begin, once. Where
 * nothing can be mapped, it is lost then, so that kernels that allocate in each run fail. */
START_TEST(runs_without_address_space)
{
    static const struct {
        struct rlimit (*limit)(void);
        ls_status expected;
        bool may_fail; /* in oneDNN */
    } runs[] = { { forbid_mappings, LS_ERR_MEMORY },
                 { forbid_mappings, LS_ERR_MEMORY },
                 { NULL, LS_OK },
                 { forbid_growth, LS_OK },
                 { NULL, LS_OK },
                 { forbid_mappings, LS_OK, .may_fail = true },
                 { forbid_mappings, LS_ERR_MEMORY },
                 { NULL, LS_OK } };
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    ls_context *ctx = open_cpu(1, -1);
    const ls__backend *backend = ctx->device->backend;
    ls__candidate wanted;
    const ls__op_kind kind = LS__OP_CONV2D + _i;
    const op_case *c = case_with_onednn(ctx, kind, &wanted);
    if (!c) return ls_context_close(&ctx);
    const ls__op *op = &c->op;
    ls__kernel *kernel;
    ck_assert_int_eq(backend->kernel_open(ctx->device, op, wanted.name, &kernel), LS_OK);
    op_buffers b;
    fill_buffers(c, &b, true);
    void *workspace = aligned_alloc(64, (kernel->workspace_bytes + 127) / 64 * 64);
    for (int run = 0; run < (int)(sizeof runs / sizeof runs[0]); run++) {
        struct rlimit before;
        if (runs[run].limit) before = runs[run].limit();
        backend->begin(ctx->device);
        const ls_status status = kernel->run(kernel, b.memory, workspace, &c->step);
        backend->end(ctx->device);
        if (runs[run].limit) setrlimit(RLIMIT_AS, &before);
        const bool failed = runs[run].may_fail && status == LS_ERR_DEVICE;
        ck_assert_msg(failed || status == runs[run].expected, "run %d: status %d", run,
                      (int)status);
        if (status == LS_ERR_MEMORY)
            ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "of free address space"));
        ls_context_clear_error(ctx);
    }
    kernel->close(kernel);
    free(workspace);
    free_buffers(&b);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(device_without_address_space)
{
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    const struct rlimit before = forbid_mappings();
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .arithmetic = LS_ARITHMETIC_NATIVE, .threads = 1 });
    setrlimit(RLIMIT_AS, &before);
    expect_error(ctx, LS_ERR_MEMORY, "of free address space");
    ls_context_close(&ctx);
}
END_TEST

static void add_limited(TCase *tcase)
{
    enum { N_KINDS = LS__OP_LINEAR_BACKWARD_WEIGHTS - LS__OP_CONV2D + 1 };
    tcase_add_loop_test(tcase, kernels_without_address_space, 0, N_KINDS);
    tcase_add_loop_test(tcase, runs_without_address_space, 0, N_KINDS);
    tcase_add_test(tcase, device_without_address_space);
}

#else

static void add_limited(TCase *tcase)
{
    (void)tcase;
    note_left_out("address space that runs out", "sanitizers map far more than a limit allows");
}

#endif

static volatile sig_atomic_t n_signals;

static void count_signal(int number)
{
    n_signals += number == SIGALRM;
}

/* Kernels of oneDNN 2.6 keep data below the stack pointer, where a handler would write. */
START_TEST(handlers_of_signals_change_no_product)
{
    enum { N_SIGNALS = 1000 };
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    op_case c = *find_case(LS__OP_LINEAR);
    c.op.operands[0] = dense(LS_BF16, LS_SHAPE(40, 768));
    c.op.operands[1] = dense(LS_BF16, LS_SHAPE(64, 768));
    c.op.operands[2] = absent();
    c.op.operands[3] = dense(LS_BF16, LS_SHAPE(40, 64));
    ls_context *ctx = open_cpu(1, -1);
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, &c, found);
    const struct sigaction action = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
    int n_tested = 0;
    const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
    ck_assert_int_eq(sigaction(SIGALRM, &action, NULL), 0);
    for (int k = 0; k < n; k++) {
        if (!is_onednn(found[k].name)) continue;
        op_buffers expected, got;
        fill_buffers(&c, &expected, true);
        run_kernel(ctx, &c, found[k].name, &expected);
        fill_buffers(&c, &got, true);
        ls__kernel *kernel;
        const ls__backend *backend = ctx->device->backend;
        ck_assert_int_eq(backend->kernel_open(ctx->device, &c.op, found[k].name, &kernel), LS_OK);
        void *workspace = aligned_alloc(64, (kernel->workspace_bytes + 127) / 64 * 64);
        n_signals = 0;
        ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
        bool same = true;
        ls_status status = LS_OK;
        while (status == LS_OK && same && n_signals < N_SIGNALS) {
            backend->begin(ctx->device);
            status = kernel->run(kernel, got.memory, workspace, &c.step);
            backend->end(ctx->device);
            same = memcmp(got.memory[3], expected.memory[3], got.bytes[3]) == 0;
        }
        ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
        ck_assert_int_eq(status, LS_OK);
        n_tested++;
        ck_assert_msg(same, "%s", found[k].name);
        kernel->close(kernel);
        free(workspace);
        free_buffers(&expected);
        free_buffers(&got);
    }
    ck_assert_int_gt(n_tested, 0);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(onednn)
{
    Suite *suite = suite_create("oneDNN");
    TCase *tcase = tcase_create("provider");
    tcase_add_loop_test(tcase, lists, 0, CASE_TESTS);
    tcase_add_test(tcase, unknown_names);
    tcase_add_loop_test(tcase, other_libraries, 0, 6);
    tcase_add_test(tcase, allocation_failures);
    tcase_add_test(tcase, allocation_failures_of_device);
    tcase_add_test(tcase, callers_threads_come_back);
    tcase_add_test(tcase, weights_do_not_depend_on_threads);
    tcase_add_test(tcase, handlers_of_signals_change_no_product);
    add_limited(tcase);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}
