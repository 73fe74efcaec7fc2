/* The CUDA device without a GPU: why it can't be opened, and on the emulated one memory, copies,
 * casts, digests, and every call failing in turn. */
#include "../suite.h"
#include "base/context.h"
#include "base/own_kernels.h"
#include "emulator/driver.h"
#include "emulator/symbol.h"
#include "backend/pool.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_context *open_on(const char *device, const ls_context_config *more)
{
    ls_context_config config = more ? *more : (ls_context_config){ 0 };
    config.device = device;
    ls_context *ctx = ls_context_open(&config);
    ck_assert_ptr_nonnull(ctx);
    return ctx;
}

static ls_context *open_cuda(void)
{
    ls_context *ctx = open_on("cuda", NULL);
    ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
    return ctx;
}

/* The context can't be opened; its message has the text. */
static void check_refused(const char *device, ls_status status, const char *text)
{
    ls_context *ctx = open_on(device, NULL);
    expect_error(ctx, status, text);
    ls_context_close(&ctx);
}

START_TEST(reasons_for_not_opening)
{
    check_refused("cuda:2", LS_ERR_NOT_FOUND, "there are 2");
    check_refused("cuda:x", LS_ERR_NOT_FOUND, "cuda:x");
    check_refused("gpu", LS_ERR_NOT_FOUND, "gpu");
    check_refused("cpu:1", LS_ERR_NOT_FOUND, "only cpu device");
    setenv("LOCKSTEP_EMULATED_DRIVER", "0", 1);
    check_refused("cuda", LS_ERR_UNSUPPORTED, "no NVIDIA driver");
    setenv("LOCKSTEP_EMULATED_DRIVER", "12040", 1);
    check_refused("cuda", LS_ERR_UNSUPPORTED, "for CUDA 12.4, this needs 13.0");
    unsetenv("LOCKSTEP_EMULATED_DRIVER");
    setenv("LOCKSTEP_EMULATED_DEVICES", "0", 1);
    check_refused("cuda", LS_ERR_UNSUPPORTED, "emulated error");
    unsetenv("LOCKSTEP_EMULATED_DEVICES");
    setenv("LOCKSTEP_EMULATED_ARCHITECTURE", "8", 1);
    check_refused("cuda", LS_ERR_UNSUPPORTED,
                  "the GPU is sm_80, the module has code for sm_90 and later");
}
END_TEST

START_TEST(module_that_is_not_there)
{
    char *empty = new_folder();
    setenv("LOCKSTEP_MODULES", empty, 1);
    check_refused("cuda", LS_ERR_UNSUPPORTED, "there is no liblockstep_cuda.so");
    write_text(path_in(empty, "liblockstep_cuda.so"), "no module\n");
    check_refused("cuda", LS_ERR_UNSUPPORTED, "can't be loaded");
    remove_folder(empty);
}
END_TEST

static char logged[1024];
static void keep_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    ck_assert_int_eq(level, LS_LOG_WARNING);
    snprintf(logged, sizeof(logged), "%s", message);
}

START_TEST(auto_is_the_best_there_is)
{
    ls_context *ctx = open_on("auto", NULL);
    ck_assert_ptr_nonnull(strstr(ls_context_device(ctx), "cuda:0, emulated GPU"));
    ls_context_close(&ctx);
    setenv("LOCKSTEP_EMULATED_DEVICES", "0", 1);
    ctx = open_on("auto", &(ls_context_config){ .log = keep_log });
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    ck_assert_str_eq(ls_context_message(ctx), "");
    ck_assert_ptr_nonnull(strstr(ls_context_device(ctx), "cpu"));
    ck_assert_msg(strstr(logged, "the cpu: device 'cuda': emulated error") != NULL, "%s", logged);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(second_device)
{
    ls_context *ctx = open_on("cuda:1", NULL);
    ck_assert_int_eq(ls_context_status(ctx), LS_OK);
    ck_assert_ptr_nonnull(strstr(ls_context_device(ctx), "cuda:1, emulated GPU, sm_90"));
    ls_context_close(&ctx);
}
END_TEST

/* The bytes equal those on the CPU. */
START_TEST(tensors)
{
    enum { N = 1003 };
    float values[N];
    uint16_t got[2][N];
    ls_context *contexts[2] = { open_cuda(), open_on("cpu", NULL) };
    for (int i = 0; i < N; i++) values[i] = (float)(i - 500) * 1.37e-3f;
    const uint32_t nans[2][2] = { { 0xffc00000, 0x3f800000 }, { 0x7fc12345, 0x3f800000 } };
    ls_digest digests[2], of_nans[2];
    for (int i = 0; i < 2; i++) {
        ls_tensor *nan = ls_tensor_from_data(contexts[i], LS_F32, LS_SHAPE(2), nans[i]);
        ck_assert_int_eq(ls_tensor_digest(nan, &of_nans[i]), LS_OK);
        ls_tensor *x = ls_tensor_from_data(contexts[i], LS_F32, LS_SHAPE(17, 59), values);
        ls_tensor *half = ls_tensor_open(contexts[i], LS_F16, LS_SHAPE(17, 59));
        ck_assert(i == 1 || ls_tensor_data(x) == NULL);
        ck_assert_int_eq(ls_tensor_cast(half, x), LS_OK);
        ck_assert_int_eq(ls_tensor_digest(half, &digests[i]), LS_OK);
        ck_assert_int_eq(ls_tensor_read(half, got[i], sizeof(got[i])), LS_OK);
        ls_tensor *integers = ls_tensor_open(contexts[i], LS_I32, LS_SHAPE(17, 59));
        ck_assert_int_eq(ls_tensor_cast(integers, x), LS_OK);
        ck_assert_int_eq(ls_tensor_cast(x, integers), LS_OK);
        ck_assert_int_eq(ls_tensor_fill(x, 2.5), LS_OK);
    }
    ck_assert_mem_eq(got[0], got[1], sizeof(got[0]));
    ck_assert_mem_eq(&digests[0], &digests[1], sizeof(digests[0]));
    ck_assert_mem_eq(&of_nans[0], &of_nans[1], sizeof(of_nans[0]));
    for (int i = 0; i < 2; i++) ls_context_close(&contexts[i]);
}
END_TEST

START_TEST(memory_runs_out)
{
    ls_context *ctx = open_cuda();
    ck_assert_ptr_null(ls_tensor_open(ctx, LS_F32, LS_SHAPE(1 << 20, 1 << 10)));
    expect_error(ctx, LS_ERR_MEMORY, "");
    ck_assert_ptr_nonnull(ls_tensor_open(ctx, LS_F32, LS_SHAPE(1 << 10)));
    ls_context_close(&ctx);
}
END_TEST

/* For copies; a context does not ask for it again. */
START_TEST(host_memory)
{
    ls_context *ctx = open_cuda();
    unsigned char *a = ls__pool_allocate(ctx->host_pool, 5000), back[5000];
    ck_assert_ptr_nonnull(a);
    for (int i = 0; i < 5000; i++) a[i] = (unsigned char)i;
    ls_tensor *x = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(5000), a);
    ck_assert_int_eq(ls_tensor_read(x, back, sizeof(back)), LS_OK);
    ck_assert_mem_eq(a, back, sizeof(back));
    ls__pool_release(ctx->host_pool, a);
    ck_assert_ptr_eq(ls__pool_allocate(ctx->host_pool, 5000), a);
    ck_assert_int_eq(ls__pool_stats(ctx->host_pool).n_allocated, 1);
    ls_context_close(&ctx);
    ck_assert_int_eq(emulated_held(), 0);
}
END_TEST

/* What NVIDIA's libraries read from the environment, and a driver that compiles, decide over bits:
 * they are in the texts that make a run's identity. */
static const char *libraries_and_processor(void)
{
    static char text[2048];
    ls_context *ctx = open_cuda();
    const ls__backend *backend = ctx->device->backend;
    snprintf(text, sizeof(text), "%s; %s", backend->libraries(ctx->device, LS_F32),
             backend->processor(ctx->device, LS_F32));
    ck_assert_str_eq(backend->driver(ctx->device), "emulated driver");
    ls_context_close(&ctx);
    return text;
}

START_TEST(what_bits_depend_on)
{
    static const char gpu[] = "emulated GPU, sm_90, 2 multiprocessors";
    char wanted[2048], hashed[2048];
    snprintf(wanted, sizeof(wanted), "CUDA 13.0, own kernels %d.%d; %s", LS__OWN_KERNELS,
             LS__CUDA_KERNELS, gpu);
    ck_assert_str_eq(libraries_and_processor(), wanted);
    setenv("CUDNN_LOGLEVEL_DBG", "3", 1);
    setenv("CUBLAS_LOGINFO_DBG", "1", 1);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    ck_assert_str_eq(libraries_and_processor(), wanted);
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1);
    setenv("CUDNN_SOMETHING", "x", 1);
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
    snprintf(wanted, sizeof(wanted),
             "CUDA 13.0, own kernels %d.%d, CUBLAS_WORKSPACE_CONFIG=:4096:8, CUDNN_SOMETHING=x, "
             "NVIDIA_TF32_OVERRIDE=0; %s",
             LS__OWN_KERNELS, LS__CUDA_KERNELS, gpu);
    ck_assert_str_eq(libraries_and_processor(), wanted);
    /* What can't stand in a list is told apart all the same. */
    setenv("CUDNN_SOMETHING", "\"x\"", 1);
    snprintf(hashed, sizeof(hashed), "%s", libraries_and_processor());
    ck_assert_ptr_nonnull(strstr(hashed, ", 3 environment variables #"));
    setenv("CUDNN_SOMETHING", "\"y\"", 1);
    ck_assert_str_ne(libraries_and_processor(), hashed);
    memset(hashed, 'a', 1000);
    hashed[1000] = '\0';
    setenv("CUDNN_SOMETHING", hashed, 1);
    ck_assert_ptr_nonnull(strstr(libraries_and_processor(), ", 3 environment variables #"));
    setenv("LOCKSTEP_EMULATED_ARCHITECTURE", "12", 1);
    ck_assert_ptr_nonnull(strstr(libraries_and_processor(),
                                 "sm_120, 2 multiprocessors, code from PTX by emulated driver"));
}
END_TEST

/* Opens a context and uses what it can of it; every call may fail. */
static ls_status use_all(void)
{
    float data[64] = { 1 }, back[64];
    ls_context *ctx = open_on("cuda", NULL);
    ls_tensor *a = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(8, 8), data);
    ls_tensor *b = ls_tensor_open(ctx, LS_BF16, LS_SHAPE(8, 8));
    ls_digest digest;
    ls_status status = ls_tensor_cast(b, a);
    if (status == LS_OK) status = ls_tensor_digest(b, &digest);
    if (status == LS_OK) status = ls_tensor_read(a, back, sizeof(back));
    if (status == LS_OK) ck_assert_mem_eq(data, back, sizeof(data));
    const ls_status kept = ls_context_status(ctx);
    if (status != LS_OK) ck_assert_int_ne(kept, LS_OK);
    if (status != LS_OK) ck_assert_str_ne(ls_context_message(ctx), "");
    ls_context_close(&ctx);
    return kept;
}

START_TEST(every_call_fails_in_turn)
{
    ck_assert_int_eq(use_all(), LS_OK);
    emulate_fail_at_fn *fail_at;
    emulate_calls_fn *calls;
    void *symbols[2] = { module_symbol("emulate_fail_at"), module_symbol("emulate_calls") };
    memcpy(&fail_at, &symbols[0], sizeof(fail_at));
    memcpy(&calls, &symbols[1], sizeof(calls));
    fail_at(0, false);
    ck_assert_int_eq(use_all(), LS_OK);
    const int64_t n = calls();
    ck_assert_int_gt(n, 10);
    int n_recovered = 0;
    for (int64_t i = 1; i <= n; i++)
        for (int sticky = 0; sticky < 2; sticky++) {
            fail_at(i, sticky != 0);
            const ls_status status = use_all();
            n_recovered += status == LS_OK;
            /* What fails while closing, a wait for each stream, is nobody's error any more; and
             * where a segment can't be had, the pool asks for as much as it needs just now. */
            ck_assert_msg(status != LS_OK || i > n - LS__N_STREAMS || !sticky,
                          "call %d of %d: no error", (int)i, (int)n);
        }
    ck_assert_int_eq(n_recovered, 2 + 2 * LS__N_STREAMS);
    fail_at(0, false);
    ck_assert_int_eq(use_all(), LS_OK);
}
END_TEST

TEST_PROGRAM(cuda_device)
{
    return RUN_SUITE("cuda device", reasons_for_not_opening, module_that_is_not_there,
                     auto_is_the_best_there_is, second_device, what_bits_depend_on, tensors,
                     memory_runs_out, host_memory, every_call_fails_in_turn);
}
