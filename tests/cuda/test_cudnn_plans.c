/* test_cudnn_plans.c: cuDNN's plans for every convolution of the bundled nets, made for the device
 * that h200.json describes; no GPU is needed. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "base/alloc.h"
#include "conv_ops.h"
#include "cuda/cudnn/cudnn.h"

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

static ls_context *open_context(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    return ctx;
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

/* All of the kernels are made, under their own names and within the limit; the best one comes back
 * from its text. Returns how many. */
static int check_plans(ls_context *ctx, ls__cudnn *cudnn, const ls__op *op)
{
    char op_text[LS__OP_TEXT_SIZE];
    ls__candidate list[LS__MAX_CANDIDATES], again[LS__MAX_CANDIDATES];
    int n_deterministic = 0;
    ls__op_text(op, op_text, sizeof op_text);
    const int n = ls__cudnn_conv_candidates(cudnn, op, list, LS__MAX_CANDIDATES);
    if (n == 0) ck_abort_msg("%s: no candidate. %s", op_text, ls_context_message(ctx));
    for (int i = 0; i < n; i++) {
        ls__kernel *kernel;
        n_deterministic += list[i].deterministic;
        if (i > 0) ck_assert_double_gt(list[i].cost_ms, list[i - 1].cost_ms);
        for (int j = 0; j < i; j++) ck_assert_str_ne(list[i].name, list[j].name);
        if (ls__cudnn_conv_open(cudnn, op, list[i].name, &kernel) != LS_OK)
            ck_abort_msg("%s", ls_context_message(ctx));
        ck_assert_str_eq(kernel->name, list[i].name);
        ck_assert_uint_le(kernel->workspace_bytes, LS__CUDNN_WORKSPACE_LIMIT);
        if (i == 0) {
            char *text;
            ls__kernel *restored;
            ck_assert_int_eq(ls__cudnn_plan_text(kernel, &text), LS_OK);
            if (ls__cudnn_conv_restore(cudnn, op, text, &restored) != LS_OK)
                ck_abort_msg("%s", ls_context_message(ctx));
            ck_assert_str_eq(restored->name, kernel->name);
            ck_assert_uint_eq(restored->workspace_bytes, kernel->workspace_bytes);
            restored->close(restored);
            ls__free(ctx, text);
        }
        kernel->close(kernel);
    }
    if (n_deterministic == 0) ck_abort_msg("%s: none of %d is deterministic", op_text, n);
    ck_assert_int_eq(ls__cudnn_conv_candidates(cudnn, op, again, LS__MAX_CANDIDATES), n);
    ck_assert_mem_eq(list, again, (size_t)n * sizeof *list);
    return n;
}

START_TEST(every_convolution_has_its_plans)
{
    ls_context *ctx = open_context();
    ls__cudnn *cudnn = open_cudnn(ctx);
    conv_ops *list = calloc(1, sizeof *list);
    conv_ops_add(list, "resnet18", 256, 224);
    conv_ops_add(list, "resnet50", 256, 224);
    conv_ops_add(list, "resnet20", 128, 32);
    conv_ops_add(list, "resnet18", 128, 32);
    for (int p = 0; p < N_PRECISIONS; p++) {
        int n_plans = 0;
        for (int i = 0; i < list->n; i++) {
            const ls__op op = conv_op_in(&list->ops[i], precisions[p].dtype, precisions[p].tf32);
            n_plans += check_plans(ctx, cudnn, &op);
        }
        printf("%s: %d ops, %d plans\n", precisions[p].name, list->n, n_plans);
    }
    free(list);
    ls__cudnn_close(&cudnn);
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    return RUN_SUITE("cudnn_plans", every_convolution_has_its_plans);
}
