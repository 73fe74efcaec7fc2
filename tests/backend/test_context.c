/* Opening and closing contexts: configuration, devices, errors, ownership, memory. */
#include "base/context.h"

#include <lockstep/tensor.h>

#include "../failing_allocator.h"
#include "../suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(defaults)
{
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    ck_assert_str_eq(ls_context_message(ctx), "");
    ck_assert_int_eq(strncmp(ls_context_device(ctx), "cpu, ", 5), 0);
    ck_assert_int_ge(ls_context_thread_count(ctx), 1);
    ck_assert_uint_eq(ls_context_seed(ctx), 0);
    ck_assert_str_eq(ls_version(), LS_VERSION);
    ls_context_close(&ctx);
    ck_assert_ptr_null(ctx);
    ls_context_close(&ctx);
    ls_context_close(NULL);
}
END_TEST

/* What headers of other versions pass. */
START_TEST(programs_of_other_versions)
{
    static const struct {
        int version;
        ls_status status;
        const char *message; /* a part of it */
    } cases[] = {
        { LS_VERSION_NUMBER, LS_OK, "" },
        { LS_VERSION_NUMBER + 1, LS_ERR_UNSUPPORTED, "the library is " LS_VERSION },
        { LS_VERSION_NUMBER + 100, LS_ERR_UNSUPPORTED, "expected a library of " },
        { LS_VERSION_NUMBER - 100, LS_ERR_UNSUPPORTED, "expected a library of " },
        { LS_VERSION_NUMBER + 10000, LS_ERR_UNSUPPORTED, "expected a library of " },
        { -1, LS_ERR_UNSUPPORTED, "headers of Lockstep" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_context *ctx = ls_context_open_for(cases[i].version, NULL);
        expect_error(ctx, cases[i].status, cases[i].message);
        ls_context_close(&ctx);
    }
    ls_context *ctx = (ls_context_open)(NULL); /* the function, which bindings call */
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(every_field_acts_or_is_rejected)
{
    static const ls_allocator no_functions = { 0 };
    static const struct {
        ls_context_config config;
        ls_status status;
        const char *message; /* a part of it */
    } cases[] = {
        { { .device = "cpu" }, LS_OK, "" },
        { { .device = "auto" }, LS_OK, "" },
        { { .device = "cuda" }, LS_ERR_UNSUPPORTED, "there is no liblockstep_cuda.so" },
        { { .device = "tpu" }, LS_ERR_NOT_FOUND, "no device 'tpu', there are cpu, cuda" },
        { { .device = "" }, LS_ERR_NOT_FOUND, "there are cpu" },
        { { .deterministic = LS_DETERMINISTIC_OFF }, LS_OK, "" },
        { { .deterministic = (ls_deterministic)3 }, LS_ERR_INVALID, "deterministic is 3" },
        { { .deterministic = (ls_deterministic)-1 }, LS_ERR_INVALID, "deterministic is -1" },
        { { .arithmetic = (ls_arithmetic)2 }, LS_ERR_INVALID, "arithmetic is 2" },
        { { .benchmark = LS_BENCHMARK_ON, .device = "auto" }, LS_OK, "" },
        { { .benchmark = LS_BENCHMARK_ON }, LS_ERR_INVALID, "expected arithmetic native" },
        { { .arithmetic = LS_ARITHMETIC_NATIVE, .benchmark = LS_BENCHMARK_ON },
          HAS_ONEDNN ? LS_OK : LS_ERR_UNSUPPORTED,
          HAS_ONEDNN ? "" : "this build is without oneDNN" },
        { { .benchmark = (ls_benchmark)2 }, LS_ERR_INVALID, "benchmark is 2" },
        { { .threads = 3 }, LS_OK, "" },
        { { .threads = -1 }, LS_ERR_INVALID, "threads is -1, expected 1 to 1024" },
        { { .threads = 1025 }, LS_ERR_INVALID, "threads is 1025" },
        { { .communicator = "auto" }, LS_OK, "" },
        { { .communicator = "mpi" },
          LS_ERR_UNSUPPORTED,
          "communicator 'mpi': its module can't be loaded: there is no liblockstep_mpi.so" },
        { { .communicator = "nccl" },
          LS_ERR_NOT_FOUND,
          "no communicator 'nccl', there are mpi and auto" },
        { { .communicator = "" }, LS_ERR_NOT_FOUND, "no communicator ''" },
        { { .audit_every = -1 }, LS_ERR_INVALID, "audit_every is -1" },
        { { .audit_every = 2, .sync_batch_norm = true },
          LS_ERR_UNSUPPORTED,
          "audit_every with sync_batch_norm" },
        { { .communication_timeout_seconds = 2.5 }, LS_OK, "" },
        { { .communication_timeout_seconds = -1 },
          LS_ERR_INVALID,
          "communication_timeout_seconds is -1" },
        { { .communication_timeout_seconds = NAN },
          LS_ERR_INVALID,
          "communication_timeout_seconds is nan" },
        { { .allocator = &no_functions }, LS_ERR_INVALID, "allocate and release" },
    };
    setenv("LOCKSTEP_MODULES", "/nowhere", 1);
    unsetenv("OMPI_COMM_WORLD_SIZE");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_context *ctx = ls_context_open(&cases[i].config);
        ck_assert_ptr_nonnull(ctx);
        expect_error(ctx, cases[i].status, cases[i].message);
        if (cases[i].status != LS_OK) { /* the error stays, and nothing can be done */
            ck_assert_ptr_null(ls_tensor_open(ctx, LS_F32, LS_SHAPE(1)));
            ck_assert_int_eq(ls_context_trim(ctx), LS_ERR_EARLIER);
            expect_error(ctx, cases[i].status, "");
            ck_assert_str_eq(ls_context_device(ctx), "");
            ck_assert_int_eq(ls_context_thread_count(ctx), 0);
            ck_assert_uint_eq(ls_context_memory(ctx).current_bytes, 0);
        } else if (cases[i].config.threads) {
            ck_assert_int_eq(ls_context_thread_count(ctx), cases[i].config.threads);
        }
        ck_assert_int_eq(ls_context_rank(ctx), 0);
        ck_assert_int_eq(ls_context_rank_count(ctx), 1);
        ls_context_close(&ctx);
    }
}
END_TEST

START_TEST(the_configuration_need_not_outlive_the_call)
{
    char device[] = "cpu";
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ls_allocator allocator = a.allocator;
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = device, .allocator = &allocator, .seed = 77 });
    memset(device, 'x', sizeof(device));
    memset(&allocator, 0, sizeof(allocator));
    ls_tensor *tensor = ls_tensor_open(ctx, LS_F32, LS_SHAPE(100));
    ck_assert_ptr_nonnull(tensor);
    ck_assert_str_eq(ctx->config.device, "cpu");
    ck_assert_uint_eq(ls_context_seed(ctx), 77);
    ls_context_close(&ctx);
    ck_assert_int_eq(failing_allocator_live(&a), 0);
}
END_TEST

START_TEST(a_kept_error_refuses_everything)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor *a = ls_tensor_open(ctx, LS_F32, LS_SHAPE(2));
    ls_tensor *b = ls_tensor_open(ctx, LS_I64, LS_SHAPE(2));
    ls_tensor_fill(a, 1.0);
    ls_difference difference;
    ls_digest digest;
    float host[2];
    char text[100] = "x";

    ck_assert_int_eq(ls_tensor_copy(a, b), LS_ERR_TYPE);
    ck_assert_ptr_null(ls_tensor_open(ctx, LS_F32, LS_SHAPE(1)));
    ck_assert_ptr_null(ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(2), host));
    ck_assert_ptr_null(ls_tensor_file_open(ctx, "x"));
    ck_assert_int_eq(ls_tensor_fill(a, 2.0), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_write(a, host, sizeof(host)), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_read(a, host, sizeof(host)), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_copy(a, a), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_cast(a, b), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_random_uniform(a, 0, 0, 1), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_random_normal(a, 0, 0, 1), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_compare(a, a, &difference), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_digest(a, &digest), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_format(a, text, sizeof(text)), -1);
    ck_assert_str_eq(text, "");
    ck_assert_int_eq(ls_tensors_save(ctx, "x", 0, NULL, NULL, NULL), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_context_trim(ctx), LS_ERR_EARLIER);

    expect_error(ctx, LS_ERR_TYPE, "");
    ck_assert_int_eq(ls_tensor_read(a, host, sizeof(host)), LS_OK);
    ck_assert_float_eq(host[1], 1.0f); /* as it was */
    ls_context_close(&ctx);
}
END_TEST

START_TEST(null_in_null_out)
{
    ls_difference difference;
    ls_digest digest;
    ls_spec spec;
    ls_tensor *no_tensor = NULL;
    ls_tensor_file *no_file = NULL;
    char text[8];
    ck_assert_ptr_null(ls_tensor_open(NULL, LS_F32, LS_SHAPE(1)));
    ck_assert_ptr_null(ls_tensor_from_data(NULL, LS_F32, LS_SHAPE(1), text));
    ck_assert_ptr_null(ls_tensor_file_open(NULL, "x"));
    ck_assert_ptr_null(ls_tensor_file_load(NULL, "x"));
    ck_assert_int_eq(ls_tensor_file_read(NULL, "x", NULL), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_fill(NULL, 1), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_write(NULL, text, 8), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_read(NULL, text, 8), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_copy(NULL, NULL), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_cast(NULL, NULL), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_random_uniform(NULL, 0, 0, 1), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_random_normal(NULL, 0, 0, 1), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_compare(NULL, NULL, &difference), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_digest(NULL, &digest), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_tensor_format(NULL, text, sizeof(text)), -1);
    ck_assert_int_eq(ls_tensors_save(NULL, "x", 0, NULL, NULL, NULL), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_context_trim(NULL), LS_ERR_EARLIER);
    ck_assert_ptr_null(ls_tensor_shape(NULL));
    ck_assert_ptr_null(ls_tensor_data(NULL));
    ck_assert_ptr_null(ls_tensor_data_const(NULL));
    ck_assert_int_eq(ls_tensor_element_count(NULL), 0);
    ck_assert_uint_eq(ls_tensor_bytes(NULL), 0);
    ck_assert_int_eq(ls_tensor_file_tensor_count(NULL), 0);
    ck_assert_ptr_null(ls_tensor_file_name(NULL, 0));
    ck_assert(!ls_tensor_file_find(NULL, "x", &spec));
    ck_assert_ptr_null(ls_tensor_file_metadata(NULL, "x"));
    ls_tensor_close(&no_tensor);
    ls_tensor_close(NULL);
    ls_tensor_file_close(&no_file);
    ls_tensor_file_close(NULL);
    ck_assert_str_eq(ls_context_device(NULL), "");
    ck_assert_int_eq(ls_context_thread_count(NULL), 0);
    ck_assert_uint_eq(ls_context_seed(NULL), 0);
    ck_assert_uint_eq(ls_context_memory(NULL).peak_bytes, 0);
}
END_TEST

START_TEST(memory_statistics_and_limit)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .memory_limit_bytes = 1 << 20 });
    ls_tensor *a = ls_tensor_open(ctx, LS_U8, LS_SHAPE(1 << 19));
    ls_memory_stats stats = ls_context_memory(ctx);
    ck_assert_uint_eq(stats.limit_bytes, 1 << 20);
    ck_assert_uint_eq(stats.current_bytes, 1 << 19);
    ck_assert_int_eq(stats.n_blocks, 1);

    ck_assert_ptr_null(ls_tensor_open(ctx, LS_U8, LS_SHAPE((1 << 19) + 1)));
    ck_assert_str_eq(ls_context_message(ctx),
                     "ls_tensor_open: U8 [524289]: out of device memory: 524289 bytes requested, "
                     "524288 free, 0 cached");
    ls_context_clear_error(ctx);
    ls_tensor *b = ls_tensor_open(ctx, LS_U8, LS_SHAPE(1 << 19)); /* what it said is free is free */
    ck_assert_ptr_nonnull(b);
    ls_tensor_close(&a);
    stats = ls_context_memory(ctx);
    ck_assert_uint_eq(stats.current_bytes, 1 << 19);
    ck_assert_uint_eq(stats.cached_bytes, 1 << 19);
    ck_assert_uint_eq(stats.peak_bytes, 1 << 20);
    ck_assert_int_eq(ls_context_trim(ctx), LS_OK);
    ck_assert_uint_eq(ls_context_memory(ctx).cached_bytes, 0);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(every_allocation_fails_in_turn)
{
    for (int64_t fail_at = 1;; fail_at++) {
        failing_allocator a;
        failing_allocator_init(&a, fail_at);
        ls_context *ctx =
            ls_context_open(&(ls_context_config){ .allocator = &a.allocator, .threads = 3 });
        ck_assert(fail_at > 1 || !ctx);
        /* sizes that the pool does not round: it would ask again for less, and succeed */
        ls_tensor *x = ls_tensor_open(ctx, LS_F32, LS_SHAPE(64, 64));
        ls_tensor *y = ls_tensor_open(ctx, LS_F16, LS_SHAPE(64, 64));
        ls_tensor_fill(x, 3.0);
        ls_tensor_cast(y, x);
        ls_digest digest;
        ls_tensor_digest(y, &digest);
        const ls_status status = ls_context_status(ctx);
        ck_assert_int_eq(status, failing_allocator_failed(&a) ? LS_ERR_MEMORY : LS_OK);
        ck_assert_msg(status == LS_OK || strstr(ls_context_message(ctx), " memory"), "%s",
                      ls_context_message(ctx));
        ls_context_close(&ctx); /* x and y too */
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failing_allocator_failed(&a)) break;
    }
}
END_TEST

TEST_PROGRAM(context)
{
    return RUN_SUITE("context", defaults, programs_of_other_versions,
                     every_field_acts_or_is_rejected, the_configuration_need_not_outlive_the_call,
                     a_kept_error_refuses_everything, null_in_null_out, memory_statistics_and_limit,
                     every_allocation_fails_in_turn);
}
