/* Every kernel gives the same bits for any number of threads, on every run, our own kernels give
 * the same bits on every instruction set, and in bf16 those of the emulation, and a norm's result
 * has the same bits when it is computed again from what the norm has saved, as has its gradient. */
#include "../suite.h"
#include "missing_isa.h"
#include "../reference_kernels/element.h"
#include "op_case.h"
#include <math.h>
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

/* More threads than processors, too. The first is what the others are held against. */
static const int counts[] = { 1, 2, 3, 16 };
enum { N_COUNTS = sizeof counts / sizeof counts[0] };

static void compare_threads(ls_context *const *contexts, const op_case *c)
{
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(contexts[0], c, kernels);
    op_buffers inputs, first = { 0 }, other = { 0 };
    fill_buffers(c, &inputs, true);
    for (int k = 0; k < n; k++) {
        copy_buffers(c, &inputs, &first);
        run_kernel(contexts[0], c, kernels[k].name, &first);
        for (int t = 1; t < N_COUNTS; t++) {
            copy_buffers(c, &inputs, &other);
            run_kernel(contexts[t], c, kernels[k].name, &other);
            check_same(c, kernels[k].name, &first, &other, "threads", counts[t]);
        }
    }
    free_buffers(&first);
    free_buffers(&other);
    free_buffers(&inputs);
}

START_TEST(threads)
{
    ls_context *contexts[N_COUNTS];
    for (int t = 0; t < N_COUNTS; t++) contexts[t] = open_cpu(counts[t], -1);
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride())
        compare_threads(contexts, &all_cases()->cases[i]);
    for (int t = 0; t < N_COUNTS; t++) ls_context_close(&contexts[t]);
}
END_TEST

/* Convolution and linear layers have kernels of other names, fused norms but for two shares are
 * left to devices that gain by them; all else has a kernel "own". */
static bool expects_own(const op_case *c)
{
    const ls__op_kind kind = c->op.kind;
    return !is_conv_or_linear(kind) && (!ls__op_is_optional(kind) || kind == LS__OP_NORM_APPLY ||
                                        kind == LS__OP_NORM_BACKWARD_APPLY);
}

enum { N_ISAS = LS__ISA_AVX512 + 1 };

static void compare_isas(ls_context *const *contexts, const op_case *c)
{
    op_buffers inputs, first = { 0 }, other = { 0 };
    fill_buffers(c, &inputs, true);
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(contexts[0], c, kernels);
    int n_own = 0;
    for (int k = 0; k < n; k++) {
        if (strstr(kernels[k].name, "onednn")) continue;
        n_own += strstr(kernels[k].name, "own") != NULL; /* or "emulated own" */
        for (int isa = 0; isa < N_ISAS && contexts[isa]; isa++) {
            op_buffers *b = isa == 0 ? &first : &other;
            copy_buffers(c, &inputs, b);
            run_kernel(contexts[isa], c, kernels[k].name, b);
            check_same(c, kernels[k].name, &first, b, "instruction set", isa);
        }
    }
    ck_assert_msg((n_own > 0) == expects_own(c), "%s: %d own kernels", c->name, n_own);
    free_buffers(&first);
    free_buffers(&other);
    free_buffers(&inputs);
}

START_TEST(instruction_sets)
{
    ls_context *contexts[N_ISAS] = { NULL };
    for (int isa = LS__ISA_PLAIN; isa <= (int)ls__isa_detect(); isa++)
        contexts[isa] = open_cpu(1, isa);
    for (int i = first_case(_i); i < all_cases()->n; i += case_stride())
        compare_isas(contexts, &all_cases()->cases[i]);
    for (int isa = 0; isa < N_ISAS; isa++) ls_context_close(&contexts[isa]);
}
END_TEST

/* ---- bf16 ---- */

static bool has_kernel(const ls__candidate *kernels, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(kernels[i].name, name) == 0) return true;
    return false;
}

static const char PREFIX[] = "emulated ";

/* A kernel that takes bf16 itself against the one in f32 between casts. Returns how many. */
static int compare_emulated(ls_context *ctx, const op_case *c)
{
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, kernels);
    op_buffers inputs, own = { 0 }, emulated = { 0 };
    int n_compared = 0;
    fill_buffers(c, &inputs, true);
    for (int k = 0; k < n; k++) {
        const char *name = kernels[k].name, *twin = name + sizeof PREFIX - 1;
        if (strncmp(name, PREFIX, sizeof PREFIX - 1) != 0 || !has_kernel(kernels, n, twin))
            continue;
        copy_buffers(c, &inputs, &own);
        copy_buffers(c, &inputs, &emulated);
        run_kernel(ctx, c, twin, &own);
        run_kernel(ctx, c, name, &emulated);
        check_same(c, twin, &own, &emulated, "emulation", 0);
        n_compared++;
    }
    free_buffers(&own);
    free_buffers(&emulated);
    free_buffers(&inputs);
    return n_compared;
}

START_TEST(emulation)
{
    ls_context *ctx = open_cpu(1, -1);
    int n[LS__N_OPS] = { 0 };
    for (int i = 0; i < all_cases()->n; i++) {
        const op_case *c = &all_cases()->cases[i];
        if (!rounds_between(c)) n[c->op.kind] += compare_emulated(ctx, c);
    }
    static const ls__op_kind kinds[] = {
        LS__OP_NORMALIZE, LS__OP_BATCH_NORM, LS__OP_BATCH_NORM_BACKWARD, LS__OP_RELU,
        LS__OP_ADD,       LS__OP_MAX_POOL,   LS__OP_MAX_POOL_BACKWARD,   LS__OP_GLOBAL_AVG_POOL,
        LS__OP_DROPOUT
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        ck_assert_msg(n[kinds[i]] > 0, "%s: no kernel takes bf16 itself", ls__op_name(kinds[i]));
    for (int kind = LS__OP_CONV2D; kind <= LS__OP_LINEAR_BACKWARD_WEIGHTS; kind++)
        ck_assert_msg(n[kind] > 0, "%s: no kernel takes bf16 itself",
                      ls__op_name((ls__op_kind)kind));
    ls_context_close(&ctx);
}
END_TEST

/* ---- What a norm leaves is enough to have its result once more ---- */

enum { NORM_OPERANDS = 9, NORM_Y = 6, APPLY_OPERANDS = 7, APPLY_Y = 6 };

/* Applies the norm by the kernel of the same name, in another context. */
static void apply_again(ls_context *norm_ctx, ls_context *apply_ctx, const op_case *c,
                        const char *kernel, const op_buffers *inputs)
{
    static const int of_norm[APPLY_OPERANDS] = { 0, 7, 8, 1, 2, 5, NORM_Y };
    op_case apply = { .op = { .kind = LS__OP_NORM_APPLY, .n_operands = APPLY_OPERANDS } };
    memcpy(apply.name, c->name, sizeof apply.name);
    apply.op.u.norm = c->op.u.norm;
    for (int i = 0; i < APPLY_OPERANDS; i++) apply.op.operands[i] = c->op.operands[of_norm[i]];
    op_buffers norm = { 0 }, again = { 0 };
    copy_buffers(c, inputs, &norm);
    run_kernel(norm_ctx, c, kernel, &norm);
    fill_buffers(&apply, &again, true);
    for (int i = 0; i < APPLY_Y; i++)
        if (again.memory[i])
            memcpy(again.memory[i], norm.memory[of_norm[i]], norm.bytes[of_norm[i]]);
    run_kernel(apply_ctx, &apply, kernel, &again);
    ck_assert_msg(memcmp(again.memory[APPLY_Y], norm.memory[NORM_Y], norm.bytes[NORM_Y]) == 0,
                  "%s: %s: norm_apply has other bits", c->name, kernel);
    free_buffers(&again);
    free_buffers(&norm);
}

START_TEST(norms_again)
{
    ls_context *one = open_cpu(1, -1), *three = open_cpu(3, LS__ISA_PLAIN);
    int n_norms = 0;
    for (int i = 0; i < all_cases()->n; i++) {
        const op_case *c = &all_cases()->cases[i];
        ls__candidate kernels[LS__MAX_CANDIDATES];
        if (c->op.kind != LS__OP_BATCH_NORM) continue;
        ck_assert_int_eq(c->op.n_operands, NORM_OPERANDS);
        const int n = list_kernels(one, c, kernels);
        op_buffers inputs;
        fill_buffers(c, &inputs, true);
        for (int k = 0; k < n; k++) apply_again(one, three, c, kernels[k].name, &inputs);
        apply_again(one, three, c, reference_name(c), &inputs);
        free_buffers(&inputs);
        n_norms++;
    }
    ck_assert_int_gt(n_norms, 60); /* those of cases_norm.c, and more of 16 bits */
    ls_context_close(&three);
    ls_context_close(&one);
}
END_TEST

/* ---- A norm's gradient from its shift and x, and from its y, which is not read then ---- */

/* Arguments of the activation at the ends of its range: what bf16 rounds to 0 and to 6, too. The
 * norm halves x and adds the shift. */
static const struct {
    float x, shift;
} at_ends[] = { { 0, 0 },          { -0.0f, 0 },
                { 0x1p-133f, 0 },  { 0x1p-132f, 0 },
                { -0x1p-133f, 0 }, { 12, 0 },
                { 11.9375f, 0 },   { 11.9375f, 0.015625f },
                { 12.0625f, 0 },   { 11.9375f, 0.0155f },
                { 3, -1.5f },      { 3, -1.4999999f },
                { 3, 1 },          { -3, 1 },
                { INFINITY, 0 },   { -INFINITY, 0 } };
enum { N_ENDS = sizeof at_ends / sizeof at_ends[0] };

/* Channels have the values of at_ends in turn. */
static void check_mask(ls_context *ctx, ls_dtype dtype, ls__activation activation, int64_t rows,
                       int64_t channels, bool dy2)
{
    enum { X, Y, SCALE = 4, MEAN, INVSTD, SHIFT, DX };
    const ls__operand a = dense(dtype, LS_SHAPE(1, 1, rows, channels)),
                      v = dense(LS_F32, LS_SHAPE(channels)), none = absent();
    case_list list = { 0 };
    op_case apply = *add_case(&list, LS__OP_NORM_APPLY, 7,
                              (ls__operand[]){ a, v, v, v, v, none, a }, "mask"),
            back = *add_case(&list, LS__OP_BATCH_NORM_BACKWARD, 12,
                             (ls__operand[]){ a, a, a, dy2 ? a : none, v, v, v, v, a, v, v, none },
                             "mask");
    free(list.cases);
    apply.op.u.norm.activation = back.op.u.norm.activation = activation;
    op_buffers norm, from_x, from_y = { 0 };
    fill_buffers(&apply, &norm, false);
    fill_buffers(&back, &from_x, false);
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t r = 0; r < rows; r++)
            store_element(dtype, from_x.memory[X], r * channels + c, at_ends[c % N_ENDS].x);
        const float of_channel[] = { 0.5f, 0, 1, at_ends[c % N_ENDS].shift };
        for (int i = SCALE; i <= SHIFT; i++) ((float *)from_x.memory[i])[c] = of_channel[i - SCALE];
    }
    static const int of_norm[] = { X, MEAN, INVSTD, SCALE, SHIFT };
    for (int i = 0; i < 5; i++)
        memcpy(norm.memory[i], from_x.memory[of_norm[i]], from_x.bytes[of_norm[i]]);
    run_kernel(ctx, &apply, "own", &norm);
    memcpy(from_x.memory[Y], norm.memory[6], norm.bytes[6]);
    copy_buffers(&back, &from_x, &from_y);
    memset(from_x.memory[Y], 0xff, from_x.bytes[Y]);
    run_kernel(ctx, &back, "own", &from_x);
    back.op.operands[SHIFT] = none;
    run_kernel(ctx, &back, "own", &from_y);
    for (int i = DX; i < DX + 3; i++)
        ck_assert_msg(memcmp(from_x.memory[i], from_y.memory[i], from_x.bytes[i]) == 0,
                      "%s, activation %d, %d rows of %d%s: operand %d has other bits from x than "
                      "from y",
                      ls_dtype_name(dtype), (int)activation, (int)rows, (int)channels,
                      dy2 ? ", dy2" : "", i);
    free_buffers(&norm);
    free_buffers(&from_x);
    free_buffers(&from_y);
}

START_TEST(masks_from_x)
{
    static const struct {
        int64_t rows, channels;
    } shapes[] = { { 9, 40 }, { 9, 19 }, { 1, 19 }, { 9, 16 }, { 9, 8 }, { 9, 5 }, { 37, 1 } };
    for (int isa = LS__ISA_PLAIN; isa <= (int)ls__isa_detect(); isa++) {
        ls_context *ctx = open_cpu(1, isa);
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int i = 0; i < 8; i++)
                check_mask(ctx, i % 2 ? LS_BF16 : LS_F32,
                           i / 2 % 2 ? LS__ACTIVATION_RELU6 : LS__ACTIVATION_RELU, shapes[s].rows,
                           shapes[s].channels, i / 4);
        ls_context_close(&ctx);
    }
}
END_TEST

TEST_PROGRAM(op_bits)
{
    Suite *suite = suite_create("op bits");
    TCase *tcase = tcase_create("bits");
    tcase_add_loop_test(tcase, threads, 0, CASE_TESTS);
    tcase_add_loop_test(tcase, instruction_sets, 0, CASE_TESTS);
    note_missing_isa("instruction_sets");
    tcase_add_test(tcase, emulation);
    tcase_add_test(tcase, norms_again);
    tcase_add_test(tcase, masks_from_x);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}
