/* test_cudnn_plans.c: cuDNN's plans for every convolution of the bundled nets, made for the device
 * that h200.json describes; no GPU is needed. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "base/alloc.h"
#include "conv_ops.h"
#include "cuda/cudnn/cudnn.h"

#include <cudnn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char device_json[2048];

static void read_device(void)
{
    FILE *file = fopen(LOCKSTEP_SOURCE_DIR "/tests/cuda/h200.json", "r");
    ck_assert_ptr_nonnull(file);
    device_json[fread(device_json, 1, sizeof device_json - 1, file)] = '\0';
    fclose(file);
}

/* Contexts whose memory is counted: closing one tells what was not released. */
static failing_allocator counted;

static ls_context *open_context(void)
{
    failing_allocator_init(&counted, 0);
    ls_context *ctx =
        ls_context_open(&(ls_context_config){ .threads = 1, .allocator = &counted.allocator });
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    return ctx;
}

static void close_context(ls_context **ctx)
{
    ls_context_close(ctx);
    ck_assert_int_eq(failing_allocator_live(&counted), 0);
}

static ls__cudnn *open_cudnn(ls_context *ctx)
{
    ls__cudnn *cudnn;
    read_device();
    if (ls__cudnn_open(ctx, device_json, &cudnn) != LS_OK)
        ck_abort_msg("%s", ls_context_message(ctx));
    return cudnn;
}

static const struct {
    const char *name;
    ls_dtype dtype;
    bool tf32;
} precisions[] = { { "f16", LS_F16, false },
                   { "bf16", LS_BF16, false },
                   { "tf32", LS_F32, true },
                   { "f32", LS_F32, false } };
enum { N_PRECISIONS = sizeof precisions / sizeof *precisions };

typedef struct subject {
    const ls__op *op;
    char text[LS__OP_TEXT_SIZE];
} subject;

static int list_kernels(ls__cudnn *cudnn, const subject *s, ls__candidate out[LS__MAX_CANDIDATES])
{
    return ls__cudnn_candidates(cudnn, s->op, out, LS__MAX_CANDIDATES);
}

static ls_status open_kernel(ls__cudnn *cudnn, const subject *s, const char *name, ls__kernel **out)
{
    return ls__cudnn_kernel_open(cudnn, s->op, name, out);
}

static ls_status restore_kernel(ls__cudnn *cudnn, const subject *s, const char *text,
                                ls__kernel **out)
{
    return ls__cudnn_kernel_restore(cudnn, s->op, text, out);
}

static void check_restored(ls_context *ctx, ls__cudnn *cudnn, const subject *s,
                           const ls__kernel *kernel)
{
    char *text;
    ls__kernel *restored;
    ck_assert_int_eq(ls__cudnn_plan_text(kernel, &text), LS_OK);
    if (restore_kernel(cudnn, s, text, &restored) != LS_OK)
        ck_abort_msg("%s", ls_context_message(ctx));
    ck_assert_str_eq(restored->name, kernel->name);
    ck_assert_uint_eq(restored->workspace_bytes, kernel->workspace_bytes);
    restored->close(restored);
    ls__free(ctx, text);
}

static void check_same_candidates(int n, const ls__candidate *a, const ls__candidate *b)
{
    for (int i = 0; i < n; i++) {
        ck_assert_str_eq(a[i].name, b[i].name);
        ck_assert(a[i].deterministic == b[i].deterministic && a[i].cost_ms == b[i].cost_ms);
    }
}

/* All of the kernels are made, under their own names and within the limit; the best one comes back
 * from its text. Returns how many. */
static int check_plans(ls_context *ctx, ls__cudnn *cudnn, const subject *s)
{
    ls__candidate list[LS__MAX_CANDIDATES], again[LS__MAX_CANDIDATES];
    int n_deterministic = 0;
    const int n = list_kernels(cudnn, s, list);
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    for (int i = 0; i < n; i++) {
        ls__kernel *kernel;
        n_deterministic += list[i].deterministic;
        if (i > 0) ck_assert_double_gt(list[i].cost_ms, list[i - 1].cost_ms);
        for (int j = 0; j < i; j++) ck_assert_str_ne(list[i].name, list[j].name);
        if (open_kernel(cudnn, s, list[i].name, &kernel) != LS_OK)
            ck_abort_msg("%s", ls_context_message(ctx));
        ck_assert_str_eq(kernel->name, list[i].name);
        ck_assert_uint_le(kernel->workspace_bytes, LS__CUDNN_WORKSPACE_LIMIT);
        if (i == 0) check_restored(ctx, cudnn, s, kernel);
        kernel->close(kernel);
    }
    if (n > 0 && n_deterministic == 0) ck_abort_msg("%s: none of %d is deterministic", s->text, n);
    ck_assert_int_eq(list_kernels(cudnn, s, again), n);
    check_same_candidates(n, list, again);
    return n;
}

START_TEST(every_convolution_has_its_plans)
{
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    ls__candidate first[LS__MAX_CANDIDATES], again[LS__MAX_CANDIDATES];
    conv_ops *list = calloc(1, sizeof *list);
    conv_ops_add(list, "resnet18", 256, 224);
    conv_ops_add(list, "resnet50", 256, 224);
    conv_ops_add(list, "resnet20", 128, 32);
    conv_ops_add(list, "resnet18", 128, 32);
    const ls__op first_op = conv_op_in(&list->ops[0], LS_F16, false);
    const int n_first = ls__cudnn_candidates(cudnn, &first_op, first, LS__MAX_CANDIDATES);
    for (int p = 0; p < N_PRECISIONS; p++) {
        int n_plans = 0;
        for (int i = 0; i < list->n; i++) {
            const ls__op full = conv_op_in(&list->ops[i], precisions[p].dtype, precisions[p].tf32);
            const ls__op op = ls__cudnn_conv_of(&full);
            subject s = { .op = &op };
            ls__op_text(&op, s.text, sizeof s.text);
            const int n = check_plans(ctx, cudnn, &s);
            if (n == 0) ck_abort_msg("%s: no kernel", s.text);
            n_plans += n;
        }
        printf("%s: %d ops, %d plans\n", precisions[p].name, list->n, n_plans);
    }
    /* More ops than the cache that are kept: the first one's have gone, and come anew. */
    ck_assert_int_eq(ls__cudnn_candidates(cudnn, &first_op, again, LS__MAX_CANDIDATES), n_first);
    check_same_candidates(n_first, first, again);
    ck_assert_int_eq(ls__cudnn_dropped(cudnn), 0);
    free(list);
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

/* A middle-sized convolution of resnet50. */
static const conv_shape middle = { 32, 28, 28, 128, 128, 3, 1, 1, 1 };

START_TEST(biases_groups_and_dilations)
{
    static const conv_shape shapes[] = {
        { 32, 28, 28, 128, 128, 3, 1, 1, 1 },   { 32, 28, 28, 128, 128, 3, 2, 1, 4 },
        { 32, 28, 28, 128, 128, 3, 1, 1, 128 }, { 8, 31, 17, 24, 40, 5, 3, 2, 1 },
        { 4, 14, 14, 8, 8, 3, 1, 1, 1 },        { 4, 14, 14, 16, 16, 3, 2, 1, 1 },
        { 4, 14, 14, 24, 24, 1, 1, 0, 1 },      { 1, 1, 1, 8, 8, 1, 1, 0, 1 }
    };
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    for (int p = 0; p < N_PRECISIONS; p++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            for (int kind = LS__OP_CONV2D; kind <= LS__OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
                const ls__op plain = conv_op(kind, &shapes[i], kind != LS__OP_CONV2D_BACKWARD_DATA);
                const ls__op full = conv_op_in(&plain, precisions[p].dtype, precisions[p].tf32);
                ls__op op = ls__cudnn_conv_of(&full);
                subject s = { .op = &op };
                if (i == 0) { /* y's size stays */
                    op.u.conv.dilation[0] = op.u.conv.dilation[1] = 2;
                    op.u.conv.padding[0] = op.u.conv.padding[1] = 2;
                }
                ls__op_text(&op, s.text, sizeof s.text);
                if (check_plans(ctx, cudnn, &s) == 0) ck_abort_msg("%s: no kernel", s.text);
            }
    ck_assert_int_eq(ls__cudnn_dropped(cudnn), 0);
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

START_TEST(fusions_have_their_plans)
{
    static const ls__op_kind kinds[] = { LS__OP_CONV2D_STATISTICS, LS__OP_NORM_CONV2D_STATISTICS,
                                         LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS,
                                         LS__OP_NORM_CONV2D_BACKWARD_DATA, LS__OP_NORM_FINALIZE };
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    conv_ops *list = calloc(1, sizeof *list);
    conv_ops_add(list, "resnet18", 256, 224);
    conv_ops_add(list, "resnet50", 256, 224);
    for (int64_t channels = 8; channels <= 24; channels += 8) { /* as in small nets */
        const conv_shape shape = { 4, 6, 6, channels, channels, 3, 1, 1, 1 };
        ck_assert_int_lt(list->n, MAX_CONV_OPS);
        list->ops[list->n++] = conv_op(LS__OP_CONV2D, &shape, false);
    }
    static const conv_shape stem = { 128, 32, 32, 8, 64, 3, 1, 1, 1 }; /* of padded images */
    list->ops[list->n++] = conv_op(LS__OP_CONV2D, &stem, false);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int n_plans = 0, n_convs = 0;
        for (int i = 0; i < list->n; i++) {
            if (list->ops[i].kind != LS__OP_CONV2D) continue;
            const ls__op full = fused_op(kinds[k], &list->ops[i], LS_F16);
            const ls__op op = ls__cudnn_conv_of(&full);
            subject s = { .op = &op };
            ls__op_text(&op, s.text, sizeof s.text);
            const int n = check_plans(ctx, cudnn, &s);
            /* Rows of 16 bytes: images of 3 channels have none. */
            const bool wanted =
                kinds[k] == LS__OP_NORM_FINALIZE || list->ops[i].operands[0].shape.dims[3] % 8 == 0;
            if ((n > 0) != wanted) ck_abort_msg("%s: %d kernels", s.text, n);
            n_convs += wanted;
            n_plans += n;
        }
        printf("%s: %d convolutions, %d plans\n", ls__op_name(kinds[k]), n_convs, n_plans);
    }
    ck_assert_int_eq(ls__cudnn_dropped(cudnn), 0);
    free(list);
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

/* The next error is this one, and names the op. */
static void expect(ls_context *ctx, ls_status status, ls_status wanted, const char *text)
{
    ck_assert_int_eq(status, wanted);
    const char *message = ls_context_message(ctx);
    if (strstr(message, text) == NULL) ck_abort_msg("'%s' is not in '%s'", text, message);
    ls_context_clear_error(ctx);
}

/* The stem of resnet50 in 16 bits. The workspaces that are printed show why images are padded: with
 * 3 channels cuDNN 9.19's best kernels copy x, padded to 8, into them, but for f16's forward one.
 */
START_TEST(images_with_and_without_padding_have_kernels)
{
    static const ls__op_kind kinds[] = { LS__OP_CONV2D, LS__OP_CONV2D_BACKWARD_WEIGHTS };
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    for (int i = 0; i < 8; i++) {
        const int64_t channels = i % 2 ? LS__CUDNN_CHANNEL_MULTIPLE : 3;
        const conv_shape stem = { 256, 224, 224, channels, 64, 7, 2, 3, 1 };
        const ls__op f32 = conv_op(kinds[i / 2 % 2], &stem, false);
        const ls__op full = conv_op_in(&f32, i / 4 ? LS_BF16 : LS_F16, false);
        const ls__op op = ls__cudnn_conv_of(&full);
        ls__candidate list[LS__MAX_CANDIDATES];
        ls__kernel *kernel;
        subject s = { .op = &op };
        ls__op_text(&op, s.text, sizeof s.text);
        ck_assert_int_gt(list_kernels(cudnn, &s, list), 0);
        ck_assert_int_eq(open_kernel(cudnn, &s, list[0].name, &kernel), LS_OK);
        printf("%s: %s, workspace %.1f MB\n", s.text, kernel->name,
               1e-6 * (double)kernel->workspace_bytes);
        kernel->close(kernel);
    }
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

START_TEST(names_say_which_configuration)
{
    /* those that name a configuration first */
    enum { N_NAMES = 4 };
    static const char *const wrong[] = { "cudnn 62 2=9999",
                                         "cudnn 99999",
                                         "cudnn -1",
                                         "cudnn 62 2=99999999999999999999",
                                         "",
                                         "reference",
                                         "cudnn",
                                         "cudnn ",
                                         "cudnn 62 ",
                                         "cudnn 62 2",
                                         "cudnn 62 2=",
                                         "cudnn 62 2=4,",
                                         "cudnn 62 2=4 13=0",
                                         "cudnn 62 2=4,13=0,",
                                         "cudnn 62 99=0",
                                         "cudnn 62 -1=0",
                                         "cudnn 62 1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,"
                                         "1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,"
                                         "1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,"
                                         "1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1,1=1" };
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    const ls__op plain = conv_op(LS__OP_CONV2D, &middle, false);
    const ls__op f16 = conv_op_in(&plain, LS_F16, false), tf32 = conv_op_in(&plain, LS_F32, true);
    ls__candidate list[LS__MAX_CANDIDATES];
    ls__kernel *kernel;
    ck_assert_int_gt(ls__cudnn_candidates(cudnn, &f16, list, LS__MAX_CANDIDATES), 3);
    ck_assert_ptr_nonnull(strchr(list[0].name, '=')); /* the knobs are in the names */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect(ctx, ls__cudnn_kernel_open(cudnn, &f16, wrong[i], &kernel),
               i < N_NAMES ? LS_ERR_UNSUPPORTED : LS_ERR_NOT_FOUND, "conv2d x=F16:32x28x28x128");
        ck_assert_ptr_null(kernel);
    }
    /* The best tf32 kernel is none for f32; choices are kept apart by the op's text. */
    char text[LS__OP_TEXT_SIZE];
    ls__op_text(&tf32, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, " tf32"));
    ls__op_text(&plain, text, sizeof text);
    ck_assert_ptr_null(strstr(text, "tf32"));
    ck_assert_int_gt(ls__cudnn_candidates(cudnn, &tf32, list, LS__MAX_CANDIDATES), 0);
    expect(ctx, ls__cudnn_kernel_open(cudnn, &plain, list[0].name, &kernel), LS_ERR_UNSUPPORTED,
           "tf32");
    /* Room for fewer than there are: of an op that is known, and of one that is not. */
    const ls__op bf16 = conv_op_in(&plain, LS_BF16, false);
    memset(list, 0, sizeof list);
    ck_assert_int_eq(ls__cudnn_candidates(cudnn, &f16, list, 3), 3);
    ck_assert_int_eq(ls__cudnn_candidates(cudnn, &bf16, list, 3), 3);
    ck_assert_str_eq(list[3].name, "");
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

START_TEST(what_is_not_cudnns_is_left_to_others)
{
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    ls__candidate list[LS__MAX_CANDIDATES];
    ls__kernel *kernel;
    ls__op ops[5];
    for (int i = 0; i < 5; i++)
        ops[i] = conv_op(i >= 2 ? LS__OP_CONV2D_BACKWARD_WEIGHTS : LS__OP_CONV2D, &middle, i == 2);
    ops[0].operands[0].dtype = LS_U8;
    ops[1].kind = LS__OP_ADD;
    ops[1].u.add.relu = false;
    ops[3] = conv_op_in(&ops[3], LS_BF16, false); /* dw is f32 */
    ops[4].operands[0].dtype = LS_F16;
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(ls__cudnn_candidates(cudnn, &ops[i], list, LS__MAX_CANDIDATES), 0);
        ck_assert_int_eq(ls_context_status(ctx), LS_OK);
        expect(ctx, ls__cudnn_kernel_open(cudnn, &ops[i], "cudnn 0", &kernel), LS_ERR_UNSUPPORTED,
               "cuDNN's");
        expect(ctx, ls__cudnn_kernel_restore(cudnn, &ops[i], "{}", &kernel), LS_ERR_UNSUPPORTED,
               "cuDNN's");
    }
    /* Fusions of f32, of bf16, which cuDNN would compile, of an f32 dw. */
    ls__op fused[3];
    const ls__op plain = conv_op(LS__OP_CONV2D, &middle, false);
    fused[0] = fused_op(LS__OP_CONV2D_STATISTICS, &plain, LS_F32);
    fused[1] = fused_op(LS__OP_NORM_CONV2D_STATISTICS, &plain, LS_BF16);
    fused[2] = fused_op(LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS, &plain, LS_F16);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ls__cudnn_candidates(cudnn, &fused[i], list, LS__MAX_CANDIDATES), 0);
        ck_assert_int_eq(ls_context_status(ctx), LS_OK);
        if (i == 1 || i == 2) continue; /* it depends on cuDNN whether it refuses them */
        expect(ctx, ls__cudnn_kernel_open(cudnn, &fused[i], "cudnn 2", &kernel), LS_ERR_UNSUPPORTED,
               "f16");
    }
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

/* The linker puts this in the place of cuDNN's function: it counts the heuristics that are asked.
 */
cudnnStatus_t __real_cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t *out);
cudnnStatus_t __wrap_cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t *out);
static int n_heuristics;

cudnnStatus_t __wrap_cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                  cudnnBackendDescriptor_t *out)
{
    n_heuristics += type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR;
    return __real_cudnnBackendCreateDescriptor(type, out);
}

/* A name is all that a plan file needs: another process makes the same plan of it without asking.
 */
START_TEST(names_need_no_heuristics)
{
    ls_context *ctx = open_context();
    conv_ops *list = calloc(1, sizeof *list);
    conv_ops_add(list, "resnet20", 128, 32);
    ls__cudnn *first = open_cudnn(ctx);
    for (int p = 0; p < N_PRECISIONS; p++)
        for (int i = 0; i < list->n; i++) {
            const ls__op full = conv_op_in(&list->ops[i], precisions[p].dtype, precisions[p].tf32);
            const ls__op op = ls__cudnn_conv_of(&full);
            ls__candidate candidates[LS__MAX_CANDIDATES];
            ls__kernel *kernel;
            n_heuristics = 0;
            const int n = ls__cudnn_candidates(first, &op, candidates, LS__MAX_CANDIDATES);
            ck_assert_int_gt(n, 0);
            ck_assert_int_gt(n_heuristics, 0);
            n_heuristics = 0;
            ls__cudnn *second;
            ck_assert_int_eq(ls__cudnn_open(ctx, device_json, &second), LS_OK);
            if (ls__cudnn_kernel_open(second, &op, candidates[0].name, &kernel) != LS_OK)
                ck_abort_msg("%s", ls_context_message(ctx));
            ck_assert_str_eq(kernel->name, candidates[0].name);
            ck_assert_int_eq(kernel->nondeterministic, !candidates[0].deterministic);
            ck_assert_int_eq(n_heuristics, 0);
            kernel->close(kernel);
            ls__cudnn_close(&second);
        }
    free(list);
    ls__cudnn_close(&first);
    close_context(&ctx);
}
END_TEST

START_TEST(texts_of_plans_are_checked)
{
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    const ls__op plain = conv_op(LS__OP_CONV2D, &middle, false);
    const ls__op f16 = conv_op_in(&plain, LS_F16, false), bf16 = conv_op_in(&plain, LS_BF16, false);
    ls__candidate list[LS__MAX_CANDIDATES];
    ls__kernel *kernel, *restored;
    char *text;
    ck_assert_int_gt(ls__cudnn_candidates(cudnn, &f16, list, LS__MAX_CANDIDATES), 1);
    ck_assert_int_eq(ls__cudnn_kernel_open(cudnn, &f16, list[0].name, &kernel), LS_OK);
    ck_assert_int_eq(ls__cudnn_plan_text(kernel, &text), LS_OK);

    expect(ctx, ls__cudnn_kernel_restore(cudnn, &bf16, text, &restored), LS_ERR_MISMATCH,
           "x=BF16:");
    ck_assert_ptr_null(restored);
    expect(ctx, ls__cudnn_kernel_restore(cudnn, &f16, "", &restored), LS_ERR_MISMATCH, "x=F16:");
    /* Cut anywhere it is no plan. */
    const size_t length = strlen(text);
    for (size_t n = 0; n < length; n += 37) {
        const char kept = text[n];
        text[n] = '\0';
        ck_assert_int_ne(ls__cudnn_kernel_restore(cudnn, &f16, text, &restored), LS_OK);
        ck_assert_ptr_null(restored);
        ck_assert_int_ne(ls_context_status(ctx), LS_OK);
        ls_context_clear_error(ctx);
        text[n] = kept;
    }
    /* Another device: an A100's compute capability. */
    ls__cudnn *other;
    memcpy(strstr(device_json, "\"deviceVer\":900"), "\"deviceVer\":800", 15);
    ck_assert_int_eq(ls__cudnn_open(ctx, device_json, &other), LS_OK);
    expect(ctx, ls__cudnn_kernel_restore(other, &f16, text, &restored), LS_ERR_UNSUPPORTED, "");
    ls__cudnn_close(&other);
    /* Another name than its plan's. */
    char *name = strstr(text, list[0].name) + strlen("cudnn ");
    *name = *name == '1' ? '2' : '1';
    ck_assert_int_ne(ls__cudnn_kernel_restore(cudnn, &f16, text, &restored), LS_OK);
    expect(ctx, LS_OK, LS_OK, "cuDNN made");
    /* Nothing runs on a device that is only described. */
    expect(ctx, kernel->run(kernel, (void *[4]){ NULL }, NULL, &(ls__step){ 0 }),
           LS_ERR_UNSUPPORTED, "described device");
    expect(ctx, ls__cudnn_set_stream(cudnn, NULL), LS_ERR_UNSUPPORTED, "described device");
    kernel->close(kernel);
    ls__free(ctx, text);
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

START_TEST(devices_are_checked)
{
    static const char *const wrong[] = { "", "{}", "H200", "{\"deviceName\":\"NVIDIA H200\"}" };
    ls_context *ctx = open_context();
    ls__cudnn *cudnn;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_ne(ls__cudnn_open(ctx, wrong[i], &cudnn), LS_OK);
        ck_assert_ptr_null(cudnn);
        ck_assert_int_ne(ls_context_status(ctx), LS_OK);
        ls_context_clear_error(ctx);
    }
    /* Where there is no GPU this is an error, else it is not. */
    if (ls__cudnn_open(ctx, NULL, &cudnn) != LS_OK) {
        ck_assert_ptr_null(cudnn);
        ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "opening cuDNN: cuDNN: "));
        ls_context_clear_error(ctx);
    }
    ls__cudnn_close(&cudnn);
    ls__cudnn_close(&cudnn);
    close_context(&ctx);
}
END_TEST

/* Opens, lists, makes, writes, restores. */
static ls_status use_memory(ls_context *ctx, const ls__op *op)
{
    ls__cudnn *cudnn = NULL;
    ls__candidate list[LS__MAX_CANDIDATES];
    ls__kernel *kernel = NULL, *restored = NULL;
    char *text = NULL;
    ls_status status = ls__cudnn_open(ctx, device_json, &cudnn);
    if (status == LS_OK && ls__cudnn_candidates(cudnn, op, list, LS__MAX_CANDIDATES) == 0)
        status = LS_ERR_MEMORY; /* the context says so too */
    if (status == LS_OK) status = ls__cudnn_kernel_open(cudnn, op, list[0].name, &kernel);
    if (status == LS_OK) status = ls__cudnn_plan_text(kernel, &text);
    if (status == LS_OK) status = ls__cudnn_kernel_restore(cudnn, op, text, &restored);
    if (restored != NULL) restored->close(restored);
    if (kernel != NULL) kernel->close(kernel);
    ls__free(ctx, text);
    ls__cudnn_close(&cudnn);
    return status;
}

START_TEST(failing_allocations_are_errors)
{
    const ls__op op = conv_op(LS__OP_CONV2D, &middle, false);
    int n_failed = 0;
    read_device();
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        ls_context *ctx =
            ls_context_open(&(ls_context_config){ .allocator = &a.allocator, .threads = 1 });
        const int64_t live = failing_allocator_live(&a);
        a.fail_at = a.n_requests + n;
        const ls_status status = use_memory(ctx, &op);
        expect_error(ctx, status, "");
        ck_assert(status == LS_OK || status == LS_ERR_MEMORY);
        ck_assert_int_eq(failing_allocator_live(&a), live);
        n_failed += status != LS_OK;
        const bool done = !failing_allocator_failed(&a);
        ls_context_close(&ctx);
        if (done) break;
    }
    ck_assert_int_ge(n_failed, 5);
}
END_TEST

TEST_PROGRAM(cudnn_plans)
{
    return RUN_SUITE("cudnn_plans", every_convolution_has_its_plans, biases_groups_and_dilations,
                     fusions_have_their_plans, images_with_and_without_padding_have_kernels,
                     names_say_which_configuration, names_need_no_heuristics,
                     what_is_not_cudnns_is_left_to_others, texts_of_plans_are_checked,
                     devices_are_checked, failing_allocations_are_errors);
}
