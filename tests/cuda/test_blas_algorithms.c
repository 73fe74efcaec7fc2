/* test_blas_algorithms.c: kernels of linear layers by their names. Functions of cuBLASLt's names
 * stand in this file: of the two algorithms that the heuristics give, the second can't be built
 * from its settings. */
#include "../suite.h"
#include "base/context.h"
#include "cuda/kernels/kernels.h"
#include "cuda/provider.h"
#include "cuda/device/libraries.h"

#include <cublasLt.h>
#include <string.h>

enum { PLAIN = 66, LISTED_ONLY = 71 };

static int n_heuristics;

bool ls__cublaslt_load(char *text, size_t size)
{
    (void)text;
    (void)size;
    return true;
}

ls_status ls__cuda_check(ls__cuda *cuda, int status, const char *what)
{
    (void)cuda;
    (void)what;
    return status == 0 ? LS_OK : LS_ERR_DEVICE;
}

size_t ls__cuda_column_sums_workspace(const ls__operand *x, int64_t rows, int64_t columns)
{
    (void)x;
    (void)rows;
    (void)columns;
    return 0;
}

int ls__cuda_column_sums(const ls__operand *dtype_of, const void *x, int64_t rows, int64_t columns,
                         void *sums, void *workspace, void *stream)
{
    (void)dtype_of;
    (void)x;
    (void)rows;
    (void)columns;
    (void)sums;
    (void)workspace;
    (void)stream;
    return 0;
}

/* ---- cuBLASLt ---- */

size_t cublasLtGetVersion(void)
{
    return 130100;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "an error";
}

/* The functions that only have to succeed; what they make is never looked at. */
#define SUCCEEDS(name, parameters, made)                                                           \
    cublasStatus_t name parameters                                                                 \
    {                                                                                              \
        made;                                                                                      \
        return CUBLAS_STATUS_SUCCESS;                                                              \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
SUCCEEDS(cublasLtCreate, (cublasLtHandle_t * out), *out = (cublasLtHandle_t)&n_heuristics)
SUCCEEDS(cublasLtDestroy, (cublasLtHandle_t handle), (void)0)
SUCCEEDS(cublasLtMatrixLayoutCreate,
         (cublasLtMatrixLayout_t * out, cudaDataType type, uint64_t rows, uint64_t columns,
          int64_t stride),
         *out = (cublasLtMatrixLayout_t)&n_heuristics)
SUCCEEDS(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (void)0)
SUCCEEDS(cublasLtMatmulDescCreate,
         (cublasLtMatmulDesc_t * out, cublasComputeType_t compute, cudaDataType_t scale),
         *out = (cublasLtMatmulDesc_t)&n_heuristics)
SUCCEEDS(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t d), (void)0)
SUCCEEDS(cublasLtMatmulDescSetAttribute,
         (cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, const void *value,
          size_t bytes),
         (void)0)
SUCCEEDS(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * out),
         *out = (cublasLtMatmulPreference_t)&n_heuristics)
SUCCEEDS(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t p), (void)0)
SUCCEEDS(cublasLtMatmulPreferenceSetAttribute,
         (cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t name,
          const void *value, size_t bytes),
         (void)0)
SUCCEEDS(cublasLtMatmulAlgoConfigSetAttribute,
         (cublasLtMatmulAlgo_t * algo, cublasLtMatmulAlgoConfigAttributes_t name, const void *value,
          size_t bytes),
         (void)0)
SUCCEEDS(cublasLtMatmulAlgoCheck,
         (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
          const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *out),
         out->workspaceSize = 1024)
SUCCEEDS(cublasLtMatmul,
         (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,
          const void *a_data, cublasLtMatrixLayout_t a, const void *b_data,
          cublasLtMatrixLayout_t b, const void *beta, const void *c_data, cublasLtMatrixLayout_t c,
          void *d_data, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, void *workspace,
          size_t workspace_bytes, cudaStream_t stream),
         (void)0)

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                      cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t *out)
{
    memset(out, 0, sizeof *out);
    out->data[0] = (uint64_t)id;
    return id == PLAIN ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void *value, size_t bytes, size_t *written)
{
    memset(value, 0, bytes);
    if (name == CUBLASLT_ALGO_CONFIG_ID) *(int32_t *)value = (int32_t)algo->data[0];
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int capacity,
                                              cublasLtMatmulHeuristicResult_t out[], int *count)
{
    static const int ids[] = { PLAIN, LISTED_ONLY };
    ck_assert_int_ge(capacity, 2);
    memset(out, 0, 2 * sizeof *out);
    for (int i = 0; i < 2; i++) {
        out[i].algo.data[0] = (uint64_t)ids[i];
        out[i].workspaceSize = 2048;
    }
    *count = 2;
    n_heuristics++;
    return CUBLAS_STATUS_SUCCESS;
}
#pragma GCC diagnostic pop

static ls__op linear(ls_dtype weights)
{
    const ls__operand x = { LS_F16, LS_SHAPE(8, 32) }, w = { weights, LS_SHAPE(16, 32) },
                      b = { LS_F16, LS_SHAPE(16) }, y = { LS_F16, LS_SHAPE(8, 16) };
    return (ls__op){ .kind = LS__OP_LINEAR, .n_operands = 4, .operands = { x, w, b, y } };
}

START_TEST(algorithms_that_settings_do_not_build)
{
    const ls__cuda_provider *blas = &ls__cuda_cublaslt;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls__cuda cuda = { .device.ctx = ctx };
    const ls__op op = linear(LS_F16), mixed = linear(LS_F32);
    ls__candidate list[LS__MAX_CANDIDATES];
    void *state;
    ck_assert_int_eq(blas->open(&cuda, &state), LS_OK);
    ck_assert_int_eq(blas->candidates(&cuda, state, &op, list, LS__MAX_CANDIDATES), 2);
    ck_assert_str_eq(list[1].name, "cublaslt 71 0,0,0,0,0,0,0,0");
    for (int i = 0; i < 2; i++) {
        ls__kernel *kernel;
        n_heuristics = 0;
        ck_assert_msg(blas->kernel_open(&cuda, state, &op, list[i].name, &kernel) == LS_OK, "%s",
                      ls_context_message(ctx));
        ck_assert_str_eq(kernel->name, list[i].name);
        ck_assert_uint_eq(kernel->workspace_bytes, i == 0 ? 1024 : 2048);
        ck_assert_int_eq(n_heuristics, i); /* only where the settings are not enough */
        kernel->close(kernel);
    }
    const struct {
        const ls__op *op;
        const char *name;
        ls_status status;
        const char *text;
    } errors[] = {
        { &op, "cublaslt 72 0,0,0,0,0,0,0,0", LS_ERR_UNSUPPORTED, "heuristics don't list them" },
        { &mixed, list[0].name, LS_ERR_UNSUPPORTED, "types" },
        { &op, "cublaslt 66", LS_ERR_NOT_FOUND, "has no kernel 'cublaslt 66'" },
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        ls__kernel *kernel = NULL;
        ck_assert_int_eq(blas->kernel_open(&cuda, state, errors[i].op, errors[i].name, &kernel),
                         errors[i].status);
        expect_error(ctx, errors[i].status, errors[i].text);
    }
    blas->close(&cuda, state);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(blas_algorithms)
{
    return RUN_SUITE("blas algorithms", algorithms_that_settings_do_not_build);
}
