/* oneDNN's kernels: offered in bf16 where the processor multiplies bf16 and nowhere else, their
 * values beside the reference, and their bits with 1 and 2 threads. */
#include "../suite.h"
#include "cpu/onednn/onednn.h"
#include "missing_isa.h"
#include "op_case.h"
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <string.h>

/* Stands before oneDNN's own, so that a test can pretend to be on another processor. */
static const dnnl_cpu_isa_t *pretended;

dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void)
{
    if (pretended) return *pretended;
    dnnl_cpu_isa_t (*own)(void);
    *(void **)&own = dlsym(RTLD_NEXT, "dnnl_get_effective_cpu_isa");
    return own();
}

bool onednn_has_kernels(void)
{
    return !ls__isa_is_limited() && ls__dnn_has_bf16();
}

static bool is_onednn(const char *name)
{
    return strncmp(name, "onednn ", 7) == 0;
}

START_TEST(offered_by_processor)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        bool has_bf16;
    } cases[] = { { dnnl_cpu_isa_sse41, false },
                  { dnnl_cpu_isa_avx2, false },
                  { dnnl_cpu_isa_avx2_vnni, false },
                  { dnnl_cpu_isa_avx512_core, false },
                  { dnnl_cpu_isa_avx512_core_vnni, false },
                  { dnnl_cpu_isa_avx512_core_bf16, true },
                  { dnnl_cpu_isa_avx512_core_amx, true } };
    if (ls__isa_is_limited()) SKIP("LOCKSTEP_MAX_ISA also limits pretended processors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pretended = &cases[i].isa;
        ls_context *ctx = ls_context_open(
            &(ls_context_config){ .arithmetic = LS_ARITHMETIC_NATIVE, .threads = 1 });
        pretended = NULL;
        ck_assert_int_eq(ls_context_status(ctx), LS_OK);
        const ls__device *device = ctx->device;
        ck_assert_int_eq(((const ls__cpu *)device)->onednn != NULL, cases[i].has_bf16);
        /* without oneDNN as with portable arithmetic */
        ck_assert_int_eq(strncmp(device->backend->libraries(device, LS_BF16), "oneDNN ", 7) == 0,
                         cases[i].has_bf16);
        ck_assert_int_eq(device->backend->processor(device, LS_BF16)[0] != '\0', cases[i].has_bf16);
        ck_assert_int_eq(device->backend->emulates(device, LS_BF16), !cases[i].has_bf16);
        ck_assert(device->backend->emulates(device, LS_F16));
        ls_context_close(&ctx);
    }
}
END_TEST

/* Returns true for the list's f32 cases; larger ones are not repeated in bf16. */
static bool is_full_product(const op_case *c)
{
    return is_conv_or_linear(c->op.kind) && c->op.operands[0].dtype == LS_F32;
}

START_TEST(not_offered_elsewhere)
{
    static const dnnl_cpu_isa_t without = dnnl_cpu_isa_avx512_core;
    pretended = &without;
    ls_context *ctx = open_cpu(1, -1);
    pretended = NULL;
    int n_ops[LS__N_OPS] = { 0 };
    for (int i = 0; i < all_cases()->n; i++) {
        if (!is_full_product(&all_cases()->cases[i])) continue;
        const op_case half = half_case(&all_cases()->cases[i], LS_BF16), *const c = &half;
        ls__candidate found[LS__MAX_CANDIDATES];
        const int n = list_kernels(ctx, c, found);
        for (int k = 0; k < n; k++)
            ck_assert_msg(!is_onednn(found[k].name), "%s: %s", c->name, found[k].name);
        ls__kernel *kernel;
        const ls_status status = ctx->device->backend->kernel_open(
            ctx->device, &c->op, "onednn jit_bf16:avx512_core", &kernel);
        ck_assert_int_eq(status, LS_ERR_NOT_FOUND);
        ck_assert_ptr_null(kernel);
        ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "the cpu has no kernel"));
        ls_context_clear_error(ctx);
        n_ops[c->op.kind]++;
    }
    for (int kind = LS__OP_CONV2D; kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS; kind++)
        ck_assert_int_gt(n_ops[kind], 0);
    ls_context_close(&ctx);
}
END_TEST

/* An op in f32, and a kernel for f32 of an op in bf16. */
START_TEST(not_in_f32)
{
    static const char *const names[] = { "onednn jit_bf16:avx512_core", "onednn jit:avx2" };
    ls_context *ctx = open_cpu(1, -1);
    for (int i = 0; i < all_cases()->n; i++) {
        const op_case *c = &all_cases()->cases[i];
        if (!is_full_product(c)) continue;
        const op_case half = half_case(c, LS_BF16);
        for (int type = 0; type < 2; type++) {
            ls__kernel *kernel;
            const ls_status status = ctx->device->backend->kernel_open(
                ctx->device, type ? &half.op : &c->op, names[type], &kernel);
            const bool by_type = type == 0 && onednn_has_kernels(); /* else also by shape */
            ck_assert(status == LS_ERR_UNSUPPORTED || (!by_type && status == LS_ERR_NOT_FOUND));
            ck_assert_ptr_null(kernel);
            ls_context_clear_error(ctx);
        }
    }
    ls_context_close(&ctx);
}
END_TEST

/* Compares a kernel with the reference, and with itself with another number of threads. */
static void check_kernel(ls_context *const contexts[2], const op_case *c,
                         const ls__candidate *kernel, const op_buffers *wanted)
{
    op_buffers got[2];
    for (int i = 0; i < 2; i++) {
        fill_buffers(c, &got[i], true);
        run_kernel(contexts[i], c, kernel->name, &got[i]);
        compare_buffers(c, kernel->name, &got[i], wanted);
    }
    for (int i = 0; i < got[0].n; i++)
        ck_assert_msg(!got[0].memory[i] ||
                          memcmp(got[0].memory[i], got[1].memory[i], got[0].bytes[i]) == 0,
                      "%s: %s: operand %d has other bits with 2 threads", c->name, kernel->name, i);
    for (int i = 0; i < 2; i++) free_buffers(&got[i]);
}

START_TEST(values_and_bits)
{
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    const op_case half = half_case(&all_cases()->cases[_i], LS_BF16), *const c = &half;
    ls_context *contexts[] = { open_cpu(1, -1), open_cpu(2, -1) };
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n = list_kernels(contexts[0], c, found);
    op_buffers wanted = { 0 };
    for (int k = 0; k < n; k++) {
        if (!is_onednn(found[k].name)) continue;
        if (wanted.n == 0) {
            fill_buffers(c, &wanted, false);
            run_kernel(contexts[0], c, reference_name(c), &wanted);
        }
        check_kernel(contexts, c, &found[k], &wanted);
    }
    free_buffers(&wanted);
    for (int i = 0; i < 2; i++) ls_context_close(&contexts[i]);
}
END_TEST

START_TEST(every_direction_has_one)
{
    if (!onednn_has_kernels()) SKIP(NO_ONEDNN);
    ls_context *ctx = open_cpu(1, -1);
    int n_kernels[LS__N_OPS] = { 0 };
    for (int i = 0; i < all_cases()->n; i++) {
        if (!is_full_product(&all_cases()->cases[i])) continue;
        const op_case half = half_case(&all_cases()->cases[i], LS_BF16);
        ls__candidate found[LS__MAX_CANDIDATES];
        const int n = list_kernels(ctx, &half, found);
        for (int k = 0; k < n; k++) n_kernels[half.op.kind] += is_onednn(found[k].name);
    }
    for (int kind = LS__OP_CONV2D; kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS; kind++)
        ck_assert_int_gt(n_kernels[kind], 0);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(bf16)
{
    Suite *suite = suite_create("bf16 by oneDNN");
    TCase *tcase = tcase_create("bf16");
    tcase_add_test(tcase, offered_by_processor);
    tcase_add_test(tcase, not_offered_elsewhere);
    tcase_add_test(tcase, not_in_f32);
    tcase_add_test(tcase, every_direction_has_one);
    const int n_cases =
        onednn_has_kernels() ? all_cases()->n : 1; /* the one reports that it is skipped */
    for (int i = 0, n = 0; i < n_cases; i++)
        if (!onednn_has_kernels() ||
            (is_full_product(&all_cases()->cases[i]) && n++ % cases_step() == 0))
            tcase_add_loop_test(tcase, values_and_bits, i, i + 1);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}
