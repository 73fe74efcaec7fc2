/* test_checkpoint_export.c: files for PyTorch. */
#include "../failing_allocator.h"
#include "checkpoint_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TORCH LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/"

static ls_context *open_context(void)
{
    return ls_context_open(&(ls_context_config){ .threads = 1 });
}

/* Numbers that all floating types hold; "module." and other items of the dict are left out. */
START_TEST(formats_give_the_same_file)
{
    static const char *const files[] = { TORCH "state_dict.pt", TORCH "f64.pt", TORCH "nested.pt",
                                         TORCH "model.pt" };
    char first[512];
    snprintf(first, sizeof first, "%s", path_of("first.safetensors"));
    ls_context *ctx = open_context();
    for (int i = 0; i < 4; i++) {
        int64_t n = 0;
        const char *out = i == 0 ? first : path_of("next.safetensors");
        ck_assert_msg(ls_checkpoint_export(ctx, files[i], out, &n) == LS_OK, "%s",
                      ls_context_message(ctx));
        ck_assert_int_eq(n, 10);
        ck_assert(same_files(first, out));
    }
    ls_tensor_file *file = ls_tensor_file_open(ctx, first);
    ck_assert_str_eq(ls_tensor_file_metadata(file, "format"), "pt");
    ck_assert(ls_tensor_file_find(file, "bn1.num_batches_tracked", NULL));
    ck_assert_int_eq(ls_checkpoint_export(ctx, first, path_of("next.safetensors"), NULL), LS_OK);
    ck_assert(same_files(first, path_of("next.safetensors")));
    ck_assert_int_eq(ls_checkpoint_export(ctx, TORCH "bf16.pt", first, NULL), LS_OK);
    ls_spec spec;
    ck_assert(ls_tensor_file_find(ls_tensor_file_open(ctx, first), "fc.bias", &spec));
    ck_assert_int_eq(spec.dtype, LS_BF16);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(errors_keep_the_file)
{
    char out[512];
    snprintf(out, sizeof out, "%s", path_of("out.safetensors"));
    ls_context *ctx = open_context();
    ck_assert_int_eq(ls_checkpoint_export(ctx, TORCH "state_dict.pt", out, NULL), LS_OK);
    ck_assert_int_eq(ls_checkpoint_export(ctx, out, path_of("before.safetensors"), NULL), LS_OK);
    expect_failure(ls_checkpoint_export(ctx, TORCH "types.pt", out, NULL), ctx, LS_ERR_UNSUPPORTED,
                   "types.pt", "'bool' (BOOL) has an unsupported type");
    expect_failure(ls_checkpoint_export(ctx, TORCH "layouts.pt", out, NULL), ctx,
                   LS_ERR_UNSUPPORTED, "'expanded'");
    expect_failure(ls_checkpoint_export(ctx, TORCH "none.pt", out, NULL), ctx, LS_ERR_NOT_FOUND,
                   "none.pt");
    expect_failure(ls_checkpoint_export(ctx, NULL, out, NULL), ctx, LS_ERR_INVALID, "path is NULL");
    expect_failure(ls_checkpoint_export(ctx, out, NULL, NULL), ctx, LS_ERR_INVALID, "out is NULL");
    ck_assert(same_files(out, path_of("before.safetensors")));
    ls_context_close(&ctx);
}
END_TEST

/* fc.weight is [4,6]. */
START_TEST(malformed_metadata)
{
    static const char *const texts[] = { "no JSON",
                                         "[6]",
                                         "{\"fc.weight\": 0}",
                                         "{\"fc.weight\": -3}",
                                         "{\"fc.weight\": 4}",
                                         "{\"fc.weight\": \"3\"}",
                                         "{\"fc.bias\": 2}",
                                         "{\"conv2.weight\": 2}",
                                         "{\"none\": 2}" };
    run r = open_good_run(&usual);
    ls_training_state state = { .net = r.state.net };
    for (size_t i = 0; i <= sizeof texts / sizeof *texts; i++) {
        const bool good = i == sizeof texts / sizeof *texts;
        const char *text = good ? "{\"fc.weight\": 3}" : texts[i];
        state.metadata = (const char *const[]){ "flattened", text, NULL };
        ck_assert_int_eq(ls_checkpoint_save(&state, path_of("malformed")), LS_OK);
        const ls_status status =
            ls_checkpoint_export(r.ctx, path_of("malformed.safetensors"), path_of("out"), NULL);
        if (good) ck_assert_int_eq(status, LS_OK);
        if (!good) expect_failure(status, r.ctx, LS_ERR_FORMAT, "unusable 'flattened'", text);
    }
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(every_allocation_failing)
{
    int64_t n_failed = 0;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        ls_context *ctx =
            ls_context_open(&(ls_context_config){ .threads = 1, .allocator = &a.allocator });
        a.fail_at = atomic_load(&a.n_requests) + n;
        const ls_status status =
            ls_checkpoint_export(ctx, TORCH "f64.pt", path_of("out.safetensors"), NULL);
        const bool failed = failing_allocator_failed(&a);
        a.fail_at = 0;
        ck_assert_int_eq(status, failed ? LS_ERR_MEMORY : LS_OK);
        n_failed += failed;
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failed) break;
    }
    ck_assert_int_ge(n_failed, 8);
}
END_TEST

TEST_PROGRAM(checkpoint_export)
{
    begin_runs();
    return end_runs(RUN_SUITE("checkpoint_export", formats_give_the_same_file, errors_keep_the_file,
                              malformed_metadata, every_allocation_failing));
}
