/* The CPU device: the floating-point environment, scratch memory, names of kernels, and every
 * allocation failing in turn. */
#include "../failing_allocator.h"
#include "../reference_kernels/reference_kernels.h"
#include "base/context.h"
#include "arith/half.h"
#include "cpu/cpu.h"
#include "cpu/ops/digest.h"
#include "../suite.h"
#include "missing_isa.h"
#include <stdlib.h>
#include <string.h>

static ls_context *open_device(int threads, const ls_allocator *allocator)
{
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .threads = threads, .allocator = allocator });
    if (ls_context_status(ctx) == LS_OK) offer_reference_kernels(ctx);
    return ctx;
}

static ls__op relu_op(void)
{
    const ls__operand x = { LS_F32, LS_SHAPE(2, 3, 4, 8) };
    return (ls__op){ .kind = LS__OP_RELU, .n_operands = 2, .operands = { x, x } };
}

/* A window of 3x3 on an image of size x size, or one of its gradients. */
static ls__op conv_op(ls__op_kind kind, int64_t size, int64_t in, int64_t out)
{
    const ls__operand x = { LS_F32, LS_SHAPE(1, size, size, in) };
    const ls__operand y = { LS_F32, LS_SHAPE(1, size, size, out) };
    const ls__operand w = { LS_F32, LS_SHAPE(out, 3, 3, in) };
    const ls__operand none = { LS_F32, { -1, { 0 } } };
    ls__op op = { .kind = kind,
                  .n_operands = 4,
                  .operands = { x, w, none, y },
                  .u.conv = { .kernel = { 3, 3 },
                              .stride = { 1, 1 },
                              .padding = { 1, 1 },
                              .dilation = { 1, 1 },
                              .groups = 1 } };
    if (kind == LS__OP_CONV2D_BACKWARD_DATA) {
        op.n_operands = 3;
        op.operands[0] = y;
        op.operands[2] = x;
    } else if (kind == LS__OP_CONV2D_BACKWARD_WEIGHTS) {
        op.operands[1] = y;
        op.operands[2] = w;
        op.operands[3] = none;
    }
    return op;
}

static atomic_int n_other_roundings;
static void see_rounding(void *arg, int64_t task, int thread)
{
    (void)arg;
    (void)task;
    (void)thread;
    if (fegetround() != FE_TONEAREST) n_other_roundings++;
}

START_TEST(program_has_default_rounding)
{
    ls_context *ctx = open_device(3, NULL);
    fesetround(FE_UPWARD);
    ctx->device->backend->begin(ctx->device);
    n_other_roundings = 0;
    ls__threads_run(((ls__cpu *)ctx->device)->threads, 100, see_rounding, NULL);
    ctx->device->backend->end(ctx->device);
    ck_assert_int_eq(n_other_roundings, 0);
    ck_assert_int_eq(fegetround(), FE_UPWARD); /* the caller's own is back */
    fesetround(FE_TONEAREST);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(unknown_kernel_is_an_error)
{
    ls_context *ctx = open_device(1, NULL);
    const ls__op op = relu_op();
    ls__kernel *kernel;
    ck_assert_int_eq(ctx->device->backend->kernel_open(ctx->device, &op, "ownership", &kernel),
                     LS_ERR_NOT_FOUND);
    ck_assert_ptr_null(kernel);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "ownership"));
    ls_context_close(&ctx);
}
END_TEST

/* A plan may name kernels that another version has. */
START_TEST(kernels_go_by_their_whole_names)
{
    static const char *const names[] = { "winograd 2x2", "winograd", "implicit gemm 4",
                                         "direct 4" };
    const ls__op op = conv_op(LS__OP_CONV2D, 8, 16, 16);
    ls_context *ctx = open_device(1, NULL);
    for (int i = 0; i < 4; i++) {
        ls__kernel *kernel = NULL;
        ck_assert_int_ne(ctx->device->backend->kernel_open(ctx->device, &op, names[i], &kernel),
                         LS_OK);
        ck_assert_ptr_null(kernel);
        ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), names[i]));
        ls_context_clear_error(ctx);
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(scratch_grows_for_every_thread)
{
    ls_context *ctx = open_device(3, NULL);
    ls__cpu *cpu = (ls__cpu *)ctx->device;
    const size_t before = cpu->scratch_bytes;
    ck_assert_int_eq(ls__cpu_reserve_scratch(cpu, before + 1000), LS_OK);
    for (int i = 0; i < 3; i++) memset(cpu->scratch[i], 1, before + 1000);
    ck_assert_uint_eq(ctx->device->backend->scratch_bytes(ctx->device), 3 * (before + 1000));
    ck_assert_int_eq(ls__cpu_reserve_scratch(cpu, before), LS_OK); /* never shrinks */
    ck_assert_uint_eq(cpu->scratch_bytes, before + 1000);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(digest_is_the_same_for_any_threads)
{
    enum { BYTES = (5 << 20) + 24 };
    unsigned char *bytes = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * 7 + (i >> 9));
    ls__digest_sum plain = { { 0, 0 } };
    ls__digest_bytes(&plain, bytes, BYTES, 40);
    for (int threads = 1; threads <= 5; threads += 4) {
        ls_context *ctx = open_device(threads, NULL);
        ls__digest_sum sum = { { 0, 0 } }; /* to which both parts are added */
        const ls__backend *backend = ctx->device->backend;
        ck_assert_int_eq(backend->digest(ctx->device, LS_U8, bytes, 48, 40, &sum), LS_OK);
        ck_assert_int_eq(backend->digest(ctx->device, LS_U8, bytes + 48, BYTES - 48, 88, &sum),
                         LS_OK);
        ck_assert_mem_eq(&sum, &plain, sizeof sum);
        ls_context_close(&ctx);
    }
    free(bytes);
}
END_TEST

START_TEST(digest_is_the_same_on_every_instruction_set)
{
    enum { BYTES = 300 };
    unsigned char bytes[BYTES];
    for (int i = 0; i < BYTES; i++) bytes[i] = (unsigned char)(i * 7 + (i >> 3) * 13);
    /* the last one is beyond 32 bits of words */
    static const uint64_t offsets[] = { 0, 8, 1000, UINT64_C(8) << 40 };
    for (ls__isa isa = LS__ISA_PLAIN; isa <= ls__isa_detect(); isa++)
        for (size_t o = 0; o < sizeof offsets / sizeof offsets[0]; o++)
            for (size_t begin = 0; begin < 9; begin++)
                for (size_t size = 0; size <= BYTES - begin; size++) {
                    ls__digest_sum plain = { { 1, 2 } }, sum = plain;
                    ls__digest_bytes(&plain, bytes + begin, size, offsets[o]);
                    ls__ops_digest(isa, &sum, bytes + begin, size, offsets[o],
                                   ls__nan_words_of(LS_U8));
                    ck_assert_mem_eq(&sum, &plain, sizeof sum);
                }
}
END_TEST

static const struct {
    ls_dtype dtype;
    uint64_t infinity, nan; /* of an element; the NaN that stands for all */
} float_types[] = { { LS_F32, 0x7f800000, 0x7fc00000 },
                    { LS_BF16, 0x7f80, 0x7fc0 },
                    { LS_F16, 0x7c00, 0x7e00 } };
enum { N_FLOAT_TYPES = sizeof float_types / sizeof float_types[0] };

static void put_element(unsigned char *bytes, int element_bytes, int64_t i, uint64_t bits)
{
    for (int b = 0; b < element_bytes; b++)
        bytes[i * element_bytes + b] = (unsigned char)(bits >> 8 * b);
}

/* At each place of a vector, in the first block, at its end and in the last bytes. */
START_TEST(every_nan_has_one_digest_on_every_instruction_set)
{
    enum { BYTES = 8192 + 8 * 64 + 4 };
    static unsigned char finite[BYTES], bytes[BYTES], wanted[BYTES];
    for (int t = 0; t < N_FLOAT_TYPES; t++) {
        const ls_dtype dtype = float_types[t].dtype;
        const int size = (int)ls_dtype_bytes(dtype);
        const uint64_t infinity = float_types[t].infinity, sign = UINT64_C(1) << (8 * size - 1);
        const uint64_t nans[] = { float_types[t].nan,    float_types[t].nan | sign, infinity + 1,
                                  (infinity + 1) | sign, float_types[t].nan | 0x5,  sign - 1,
                                  2 * sign - 1 };
        const ls__nan_words words = ls__nan_words_of(dtype);
        const int64_t n = BYTES / size;
        /* infinities are not replaced */
        for (int64_t i = 0; i < n; i++)
            put_element(finite, size, i, i % 3 ? (uint64_t)i * 7919 % infinity : infinity | sign);
        for (ls__isa isa = LS__ISA_PLAIN; isa <= ls__isa_detect(); isa++) {
            ls__digest_sum plain = { { 1, 2 } }, sum = plain;
            ls__digest_bytes(&plain, finite, BYTES, 8);
            ls__ops_digest(isa, &sum, finite, BYTES, 8, words);
            ck_assert_mem_eq(&sum, &plain, sizeof sum);
            for (int64_t i = 0; i < n; i += i < 64 || i > n - 200 ? 1 : 97) {
                memcpy(wanted, finite, BYTES);
                memcpy(bytes, finite, BYTES);
                put_element(wanted, size, i, float_types[t].nan);
                plain = (ls__digest_sum){ { 1, 2 } };
                ls__digest_bytes(&plain, wanted, BYTES, 8);
                for (size_t k = 0; k < sizeof nans / sizeof nans[0]; k++) {
                    put_element(bytes, size, i, nans[k]);
                    sum = (ls__digest_sum){ { 1, 2 } };
                    ls__ops_digest(isa, &sum, bytes, BYTES, 8, words);
                    ck_assert_msg(memcmp(&sum, &plain, sizeof sum) == 0,
                                  "%s, isa %d, element %lld: NaN %llx", ls_dtype_name(dtype),
                                  (int)isa, (long long)i, (unsigned long long)nans[k]);
                }
            }
        }
    }
}
END_TEST

enum { N_HALVES = 1 << 16 };

static void run_cast(ls_context *ctx, ls_dtype to, void *dst, ls_dtype from, void *src)
{
    const ls__operand x = { from, LS_SHAPE(N_HALVES) }, y = { to, LS_SHAPE(N_HALVES) };
    const ls__op op = { .kind = LS__OP_CAST, .n_operands = 2, .operands = { x, y } };
    ls__kernel *kernel;
    ck_assert_int_eq(ctx->device->backend->kernel_open(ctx->device, &op, "own", &kernel), LS_OK);
    ck_assert_int_eq(kernel->run(kernel, (void *[]){ src, dst }, NULL, NULL), LS_OK);
    kernel->close(kernel);
}

/* All 16-bit numbers, and of what rounds to them that which lies between two, and NaNs. */
START_TEST(casts_have_the_bits_of_half_h)
{
    static const uint32_t beside[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0x1000, 0x0fff, 0x1001 };
    static uint16_t halves[N_HALVES], narrow[N_HALVES], want_narrow[N_HALVES];
    static float wide[N_HALVES], want_wide[N_HALVES];
    for (int i = 0; i < N_HALVES; i++) halves[i] = (uint16_t)i;
    for (ls__isa isa = LS__ISA_PLAIN; isa <= ls__isa_detect(); isa++)
        for (int t = 0; t < 2; t++) {
            const ls_dtype type = t ? LS_F16 : LS_BF16;
            ls_context *ctx = open_device(2, NULL);
            ((ls__cpu *)ctx->device)->isa = isa;
            run_cast(ctx, LS_F32, wide, type, halves);
            for (int i = 0; i < N_HALVES; i++)
                want_wide[i] = t ? ls__f16_to_f32(halves[i]) : ls__bf16_to_f32(halves[i]);
            ck_assert(memcmp(wide, want_wide, sizeof wide) == 0);
            for (size_t b = 0; b < sizeof beside / sizeof beside[0]; b++) {
                for (int i = 0; i < N_HALVES; i++) {
                    wide[i] = ls__bits_float(ls__float_bits(want_wide[i]) ^ beside[b]);
                    want_narrow[i] = t ? ls__f32_to_f16(wide[i]) : ls__f32_to_bf16(wide[i]);
                }
                run_cast(ctx, type, narrow, LS_F32, wide);
                ck_assert(memcmp(narrow, want_narrow, sizeof narrow) == 0);
            }
            ls_context_close(&ctx);
        }
}
END_TEST

/* Opens a device, a kernel, scratch and an event; each step that fails must say so. */
static void use_device(ls_context *ctx)
{
    ls__cpu *cpu = (ls__cpu *)ctx->device;
    const ls__backend *backend = ctx->device->backend;
    const ls__op op = relu_op();
    static const char *const names[] = { "own", "reference" };
    for (int i = 0; i < 2; i++) {
        ls__kernel *kernel;
        if (backend->kernel_open(ctx->device, &op, names[i], &kernel) == LS_OK)
            kernel->close(kernel);
        else
            expect_error(ctx, LS_ERR_MEMORY, "");
    }
    if (ls__cpu_reserve_scratch(cpu, cpu->scratch_bytes + 64) != LS_OK)
        expect_error(ctx, LS_ERR_MEMORY, "");
    for (int i = 0; i < 2 && cpu->scratch_bytes > 0; i++)
        memset(cpu->scratch[i], 1, cpu->scratch_bytes);
    ls__event *event;
    if (backend->event_open(ctx->device, &event) == LS_OK) backend->event_close(ctx->device, event);
    ls_context_clear_error(ctx);
}

START_TEST(allocation_failures)
{
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context *ctx = open_device(2, &a.allocator);
        if (ctx && ls_context_status(ctx) == LS_OK) use_device(ctx);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failing_allocator_failed(&a)) break;
    }
}
END_TEST

/* Winograd in strips and wide, products, and few channels: each in three directions. */
START_TEST(convolutions_without_memory)
{
    static const struct {
        const char *name;
        int64_t size, in, out;
    } layers[] = { { "winograd 4x4", 16, 32, 32 },
                   { "winograd 4x4", 4, 512, 512 },
                   { "implicit gemm", 8, 64, 64 },
                   { "direct", 8, 3, 16 } };
    const int layer = _i / 3;
    const char *name = layers[layer].name;
    const ls__op op = conv_op((ls__op_kind)(LS__OP_CONV2D + _i % 3), layers[layer].size,
                              layers[layer].in, layers[layer].out);
    int64_t n_failed = 0;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context *ctx = open_device(2, &a.allocator);
        ls_status status = ctx ? ls_context_status(ctx) : LS_ERR_MEMORY;
        ls__kernel *kernel = NULL;
        if (status == LS_OK) {
            status = ctx->device->backend->kernel_open(ctx->device, &op, name, &kernel);
            n_failed += status != LS_OK;
            expect_error(ctx, status, "");
        }
        ck_assert((kernel != NULL) == (status == LS_OK));
        if (kernel) kernel->close(kernel);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        ck_assert_int_eq(status, failing_allocator_failed(&a) ? LS_ERR_MEMORY : LS_OK);
        if (status == LS_OK) break;
    }
    ck_assert_int_gt(n_failed, 0); /* the kernel itself, if no scratch */
}
END_TEST

TEST_PROGRAM(cpu_device)
{
    Suite *suite = suite_create("cpu device");
    TCase *tcase = tcase_create("device");
    tcase_add_test(tcase, program_has_default_rounding);
    tcase_add_test(tcase, unknown_kernel_is_an_error);
    tcase_add_test(tcase, kernels_go_by_their_whole_names);
    tcase_add_test(tcase, scratch_grows_for_every_thread);
    tcase_add_test(tcase, digest_is_the_same_for_any_threads);
    tcase_add_test(tcase, digest_is_the_same_on_every_instruction_set);
    tcase_add_test(tcase, every_nan_has_one_digest_on_every_instruction_set);
    tcase_add_test(tcase, casts_have_the_bits_of_half_h);
    tcase_add_test(tcase, allocation_failures);
    tcase_add_loop_test(tcase, convolutions_without_memory, 0, 4 * 3);
    note_missing_isa("digest_is_the_same_on_every_instruction_set");
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}
