/* Every CUDA kernel of our own, on the emulated device, against the reference kernel; and the
 * emulated library's of the optional convolutions. */
#include "../suite.h"
#include "arith/activation.h"
#include "has_cudnn.h"
#include "op_case.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The process's contexts: opening a GPU takes longer than most cases. */
static ls_context *shared_cuda, *shared_cpu;

static ls_context *get_cuda(void)
{
    if (!shared_cuda) shared_cuda = ls_context_open(&(ls_context_config){ .device = "cuda" });
    ck_assert_ptr_nonnull(shared_cuda);
    ck_assert_msg(ls_context_status(shared_cuda) == LS_OK, "%s", ls_context_message(shared_cuda));
    return shared_cuda;
}

static ls_context *get_cpu(void)
{
    if (!shared_cpu) shared_cpu = open_cpu(1, -1);
    return shared_cpu;
}

/* Device memory with a copy of the blocks, guards included. */
typedef struct device_buffers {
    unsigned char *blocks[LS__MAX_OPERANDS];
    void *memory[LS__MAX_OPERANDS];
} device_buffers;

static size_t block_bytes(const op_buffers *b, int i)
{
    return b->bytes[i] + 2 * (size_t)((unsigned char *)b->memory[i] - b->blocks[i]);
}

static void to_device(ls_context *ctx, const op_case *c, const op_buffers *b, device_buffers *out)
{
    const ls__backend *backend = ctx->device->backend;
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < b->n; i++) {
        if (!b->blocks[i]) {
            if (b->memory[i]) out->memory[i] = out->memory[c->shares[i] - 1];
            continue;
        }
        const size_t bytes = block_bytes(b, i);
        out->blocks[i] = backend->allocate(ctx->device, bytes);
        ck_assert_ptr_nonnull(out->blocks[i]);
        ck_assert_int_eq(backend->write(ctx->device, out->blocks[i], b->blocks[i], bytes), LS_OK);
        out->memory[i] = out->blocks[i] + ((unsigned char *)b->memory[i] - b->blocks[i]);
    }
}

static void from_device(ls_context *ctx, device_buffers *from, op_buffers *b)
{
    const ls__backend *backend = ctx->device->backend;
    for (int i = 0; i < b->n; i++) {
        if (!from->blocks[i]) continue;
        const size_t bytes = block_bytes(b, i);
        ck_assert_int_eq(backend->read(ctx->device, b->blocks[i], from->blocks[i], bytes), LS_OK);
        backend->release(ctx->device, from->blocks[i], bytes);
    }
}

/* Returns the kernel's error bound. */
static double run_for_bound(ls_context *ctx, const op_case *c, const char *name, op_buffers *b)
{
    const ls__backend *backend = ctx->device->backend;
    ls__kernel *kernel;
    ck_assert_msg(backend->kernel_open(ctx->device, &c->op, name, &kernel) == LS_OK, "%s: %s",
                  c->name, ls_context_message(ctx));
    device_buffers on_device;
    to_device(ctx, c, b, &on_device);
    void *workspace = backend->allocate(ctx->device, kernel->workspace_bytes + 1);
    ck_assert_ptr_nonnull(workspace);
    backend->begin(ctx->device);
    const ls_status status = kernel->run(kernel, on_device.memory, workspace, &c->step);
    backend->end(ctx->device);
    ck_assert_msg(status == LS_OK, "%s: %s", c->name, ls_context_message(ctx));
    from_device(ctx, &on_device, b);
    backend->release(ctx->device, workspace, kernel->workspace_bytes + 1);
    const double bound = (double)kernel->error_bound;
    kernel->close(kernel);
    check_guards(c, b);
    return bound;
}

static void run_on_device(ls_context *ctx, const op_case *c, const char *name, op_buffers *b)
{
    (void)run_for_bound(ctx, c, name, b);
}

/* The case's tolerance is for sums in f32; some libraries' kernels round more, and say so. */
static void check_kernel(const op_case *c, const char *name, const op_buffers *wanted)
{
    op_case allowed = *c;
    op_buffers got;
    fill_buffers(c, &got, true);
    const double bound = run_for_bound(get_cuda(), c, name, &got);
    if (allowed.tolerance < bound) allowed.tolerance = bound;
    compare_buffers(&allowed, name, &got, wanted);
    free_buffers(&got);
}

/* Returns the results of our own kernel for these inputs. */
static void run_own(ls_context *ctx, const op_case *c, op_buffers *b)
{
    run_on_device(ctx, c, "own", b);
}

enum { BACK_X, BACK_Y, BACK_DY1, BACK_DY2, BACK_SCALE, BACK_MEAN, BACK_INVSTD, BACK_SHIFT };

/* y as the device's forward pass leaves it. */
static void make_y(ls_context *ctx, const op_case *back, op_buffers *b)
{
    static const int sources[] = { BACK_X,     BACK_MEAN, BACK_INVSTD, BACK_SCALE,
                                   BACK_SHIFT, BACK_DY2,  BACK_Y };
    op_case apply = { .op = { .kind = LS__OP_NORM_APPLY, .n_operands = 7, .u = back->op.u } };
    snprintf(apply.name, sizeof(apply.name), "norm_apply for %.180s", back->name);
    for (int i = 0; i < 7; i++) apply.op.operands[i] = back->op.operands[sources[i]];
    apply.op.operands[5].shape.n_dims = -1; /* nothing is added */
    op_buffers made;
    fill_buffers(&apply, &made, false);
    for (int i = 0; i < 5; i++) memcpy(made.memory[i], b->memory[sources[i]], made.bytes[i]);
    run_own(ctx, &apply, &made);
    memcpy(b->memory[BACK_Y], made.memory[6], made.bytes[6]);
    free_buffers(&made);
}

/* With shift the mask comes from x, and y is not read: the bits are those of the mask from y, where
 * y became 0 when it was stored, too. */
static void check_masks(ls_context *ctx, const op_case *c)
{
    for (int tiny = 0; tiny < 2; tiny++) {
        op_case from_y = *c;
        op_buffers a, b;
        from_y.op.operands[BACK_SHIFT].shape.n_dims = -1;
        fill_buffers(c, &a, false);
        float *scale = a.memory[BACK_SCALE], *shift = a.memory[BACK_SHIFT];
        for (size_t i = 0; tiny && i < a.bytes[BACK_SCALE] / sizeof(float); i++) {
            scale[i] *= 1e-7f; /* about the least f16 */
            shift[i] *= 1e-7f;
        }
        make_y(ctx, c, &a);
        fill_buffers(&from_y, &b, false);
        for (int i = 0; i <= BACK_INVSTD; i++)
            if (b.memory[i]) memcpy(b.memory[i], a.memory[i], b.bytes[i]);
        memset(a.memory[BACK_Y], 0xff, a.bytes[BACK_Y]);
        run_own(ctx, c, &a);
        run_own(ctx, &from_y, &b);
        for (int i = BACK_SHIFT + 1; i < c->op.n_operands; i++)
            if (a.memory[i] && memcmp(a.memory[i], b.memory[i], a.bytes[i]) != 0)
                ck_abort_msg("%s: operand %d differs", c->name, i);
        free_buffers(&a);
        free_buffers(&b);
    }
}

START_TEST(masks_from_x_are_those_from_y)
{
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride()) {
        const op_case *c = &all_cases()->cases[i];
        if (c->op.kind == LS__OP_BATCH_NORM_BACKWARD && !ls__is_absent(&c->op.operands[BACK_SHIFT]))
            check_masks(get_cuda(), c);
    }
}
END_TEST

/* Libraries offer many kernels, and compile some of them for seconds: the environment's
 * LOCKSTEP_TEST_KERNELS limits how many of an op's are run. */
static int max_kernels(void)
{
    const char *set = getenv("LOCKSTEP_TEST_KERNELS");
    return set ? atoi(set) : LS__MAX_CANDIDATES;
}

/* Libraries refuse some of what they name. */
static bool is_refused(ls_context *ctx, const op_case *c, const char *name)
{
    ls__kernel *kernel;
    if (ctx->device->backend->kernel_open(ctx->device, &c->op, name, &kernel) == LS_OK) {
        kernel->close(kernel);
        return false;
    }
    ck_assert_msg(ls_context_status(ctx) == LS_ERR_UNSUPPORTED, "%s: %s", c->name,
                  ls_context_message(ctx));
    ls_context_clear_error(ctx);
    return true;
}

static void check_values(const op_case *c)
{
    op_buffers wanted;
    fill_buffers(c, &wanted, false);
    run_kernel(get_cpu(), c, reference_name(c), &wanted);

    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(get_cuda(), c, kernels);
    ck_assert_msg(n > 0 || ls__op_is_optional(c->op.kind), "%s: there is no kernel", c->name);
    const int max = max_kernels();
    for (int k = 0; k < n; k++) {
        if (k >= max - 1 && k < n - 1) continue; /* our own stays, the last */
        if (k < n - 1 && is_refused(get_cuda(), c, kernels[k].name)) continue;
        check_kernel(c, kernels[k].name, &wanted);
    }
    free_buffers(&wanted);
}

START_TEST(values)
{
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride())
        check_values(&all_cases()->cases[i]);
}
END_TEST

/* They are few, and of a sample of all cases too few. */
START_TEST(values_of_fusions)
{
    for (int i = 0; i < all_cases()->n; i++)
        if (ls__op_is_optional(all_cases()->cases[i].op.kind)) check_values(&all_cases()->cases[i]);
}
END_TEST

/* Weight gradients that are rounded to 16 bits, as cuDNN's are. */
START_TEST(narrowed_weights)
{
    enum { ENOUGH = 20 };
    int n = 0;
    setenv("LOCKSTEP_EMULATED_LIBRARY", "narrow", 1);
    for (int i = 0; i < all_cases()->n && n < ENOUGH; i++) {
        const op_case *c = &all_cases()->cases[i];
        if (c->op.kind != LS__OP_CONV2D_BACKWARD_WEIGHTS || !ls__is_half(&c->op.operands[0]))
            continue;
        op_buffers wanted;
        fill_buffers(c, &wanted, false);
        run_kernel(get_cpu(), c, reference_name(c), &wanted);
        check_kernel(c, "emulated narrow", &wanted);
        free_buffers(&wanted);
        n++;
    }
    setenv("LOCKSTEP_EMULATED_LIBRARY", "fused", 1);
    ck_assert_int_eq(n, ENOUGH);
}
END_TEST

static void check_mixture(ls_context *cuda, const op_case *c, int operand, ls_dtype dtype)
{
    const ls__backend *backend = cuda->device->backend;
    ls__candidate kernel;
    ls__kernel *made;
    op_case mixed = *c;
    ck_assert_int_eq(backend->candidates(cuda->device, &c->op, &kernel, 1), 1);
    mixed.op.operands[operand].dtype = dtype;
    ck_assert_msg(list_kernels(cuda, &mixed, &kernel) == 0, "%s: operand %d of %s", c->name,
                  operand, ls_dtype_name(dtype));
    ck_assert_int_eq(backend->kernel_open(cuda->device, &mixed.op, kernel.name, &made),
                     LS_ERR_UNSUPPORTED);
    expect_error(cuda, LS_ERR_UNSUPPORTED, "");
    ck_assert_int_eq(backend->kernel_open(cuda->device, &mixed.op, "own nothing", &made),
                     LS_ERR_NOT_FOUND);
    expect_error(cuda, LS_ERR_NOT_FOUND, "");
}

/* 16-bit operands are all alike, and those that the op list names: an op in bf16 has no kernel when
 * one of them is f16 or f32, or when one of the others is bf16. */
START_TEST(mixed_types_have_no_kernel)
{
    ls_context *cuda = get_cuda();
    bool seen[LS__N_OPS] = { false };
    for (int i = 0; i < all_cases()->n; i++) {
        const op_case *c = &all_cases()->cases[i];
        int n_half = 0;
        for (int o = 0; o < c->op.n_operands; o++) n_half += ls__is_half(&c->op.operands[o]);
        if (n_half == 0 || seen[c->op.kind] || c->op.kind == LS__OP_CAST ||
            ls__op_is_optional(c->op.kind))
            continue;
        seen[c->op.kind] = true;
        for (int o = 0; o < c->op.n_operands; o++) {
            const ls__operand *operand = &c->op.operands[o];
            if (ls__is_absent(operand)) continue;
            if (!ls__is_half(operand)) {
                check_mixture(cuda, c, o, LS_BF16);
            } else if (n_half > 1) {
                check_mixture(cuda, c, o, LS_F32);
                check_mixture(cuda, c, o, operand->dtype == LS_BF16 ? LS_F16 : LS_BF16);
            }
        }
    }
    for (int kind = 0; kind < LS__N_OPS; kind++) {
        const ls__op_traits *traits = ls__op_traits_of((ls__op_kind)kind);
        ck_assert(seen[kind] || !traits->half || traits->optional || kind == LS__OP_COPY);
    }
}
END_TEST

START_TEST(large_logits_lose_no_accuracy)
{
    check_loss_accuracy(get_cuda(), run_on_device, "own");
}
END_TEST

/* Arithmetic that both devices compile from one header has the bits of the CPU's own kernels. */
START_TEST(shared_arithmetic_has_the_cpus_bits)
{
#define IS_SHARED(op, name) [LS__OP_##op] = true, [LS__OP_##op##_BACKWARD] = true,
    static const bool shared[LS__N_OPS] = { LS__UNARY_LIST(IS_SHARED) };
    int n = 0;
    for (int i = 0; i < all_cases()->n; i++) {
        const op_case *c = &all_cases()->cases[i];
        if (!shared[c->op.kind]) continue;
        const int y = ls__op_inputs(c->op.kind);
        ls__candidate kernels[LS__MAX_CANDIDATES];
        op_buffers cpu, cuda;
        fill_buffers(c, &cpu, true);
        fill_buffers(c, &cuda, true);
        ck_assert_int_gt(list_kernels(get_cpu(), c, kernels), 0);
        run_kernel(get_cpu(), c, kernels[0].name, &cpu);
        run_own(get_cuda(), c, &cuda);
        ck_assert_msg(memcmp(cpu.memory[y], cuda.memory[y], cpu.bytes[y]) == 0, "%s", c->name);
        free_buffers(&cpu);
        free_buffers(&cuda);
        n++;
    }
    ck_assert_int_gt(n, 0);
}
END_TEST

/* Outside of tests: nothing of Check's may be called. */
static bool has_emulated_library(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    const bool has = strstr(ls_context_device(ctx), "emulated GPU") && !has_cudnn(ctx);
    ls_context_close(&ctx);
    return has;
}

TEST_PROGRAM(cuda_ops)
{
    setenv("LOCKSTEP_EMULATED_LIBRARY", "fused", 1);
    int status = run_cases("cuda ops", values);
    status = both(status, run_cases("cuda ops' masks", masks_from_x_are_those_from_y));
    if (cases_step() > 1) status = both(status, RUN_SUITE("cuda ops' fusions", values_of_fusions));
    status =
        both(status, RUN_SUITE("cuda ops' types, bits and losses", mixed_types_have_no_kernel,
                               shared_arithmetic_has_the_cpus_bits, large_logits_lose_no_accuracy));
    if (has_emulated_library())
        status = both(status, RUN_SUITE("cuda ops' rounding", narrowed_weights));
    ls_context_close(&shared_cuda);
    ls_context_close(&shared_cpu);
    return status;
}
