/* cublaslt_matmul.c: the emulated cuBLASLt's products: checked, then queued in the stream. */
#include "cublaslt.h"
#include "driver.h"
#include "graphs.h"
#include "narrow.h"
#include "streams.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_ALIGNMENT = 256, ALIGNMENT = 16, TF32_BITS = 10, F32_BITS = 23 };

/* A queued product owns its settings, because descriptors may be destroyed before it has run. */
typedef struct job {
    emulated_matmul matmul;
    emulated_layout a_layout, b_layout, c_layout, d_layout;
    const void *a, *b, *c;
    void *d, *workspace;
    size_t workspace_bytes;
    float alpha, beta;
    int n_parts; /* a sum is made of so many sums, each of every n-th product */
} job;

static float load(const void *memory, cudaDataType_t type, int64_t at)
{
    if (type == CUDA_R_16F) return ls__f16_to_f32(((const uint16_t *)memory)[at]);
    if (type == CUDA_R_16BF) return ls__bf16_to_f32(((const uint16_t *)memory)[at]);
    return ((const float *)memory)[at];
}

static void store(void *memory, cudaDataType_t type, int64_t at, float value)
{
    if (type == CUDA_R_16F)
        ((uint16_t *)memory)[at] = ls__f32_to_f16(value);
    else if (type == CUDA_R_16BF)
        ((uint16_t *)memory)[at] = ls__f32_to_bf16(value);
    else
        ((float *)memory)[at] = value;
}

/* Element (row, col) of a matrix, or of its transpose. */
static float factor(const job *j, const void *memory, const emulated_layout *l, bool transposed,
                    int64_t row, int64_t col)
{
    const int64_t at = transposed ? row * l->ld + col : col * l->ld + row;
    return emulated_round(load(memory, l->type, at),
                          j->matmul.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? TF32_BITS : F32_BITS);
}

static float product(const job *j, int64_t row, int64_t col)
{
    enum { MAX_PARTS = 32 };
    const bool ta = j->matmul.transposed[0] == CUBLAS_OP_T;
    const bool tb = j->matmul.transposed[1] == CUBLAS_OP_T;
    const int64_t depth = ta ? j->a_layout.rows : j->a_layout.cols;
    float parts[MAX_PARTS] = { 0 }, sum = 0;
    for (int64_t k = 0; k < depth; k++)
        parts[k % j->n_parts] +=
            factor(j, j->a, &j->a_layout, ta, row, k) * factor(j, j->b, &j->b_layout, tb, k, col);
    for (int p = 0; p < j->n_parts; p++) sum += parts[p];
    return sum;
}

static void run_job(void *arg)
{
    const job *j = arg;
    const emulated_layout *d = &j->d_layout;
    const uint32_t epilogue = j->matmul.epilogue;
    const bool relu = epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    const bool bias = epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    /* Nothing else may lie in the working memory. */
    if (j->workspace_bytes > 0) memset(j->workspace, 0xa5, j->workspace_bytes);
    for (int64_t col = 0; col < d->cols; col++)
        for (int64_t row = 0; row < d->rows; row++) {
            float value = j->alpha * product(j, row, col);
            if (j->beta != 0)
                value += j->beta * load(j->c, j->c_layout.type, col * j->c_layout.ld + row);
            if (bias) value += load(j->matmul.bias, d->type, row);
            store(j->d, d->type, col * d->ld + row, relu && !(value > 0) ? 0 : value);
        }
}

/* LOCKSTEP_EMULATED_FAILING, "cublaslt" or "cublaslt 66", makes products fail. */
static bool is_failing(const emulated_algorithm *algorithm)
{
    char name[32];
    const char *set = getenv("LOCKSTEP_EMULATED_FAILING");
    snprintf(name, sizeof name, "cublaslt %d", (int)algorithm->id);
    return set && (strcmp(set, "cublaslt") == 0 || strcmp(set, name) == 0);
}

static bool is_memory(const void *memory, uint32_t alignment)
{
    return emulated_is_on_device(memory) && (uintptr_t)memory % alignment == 0;
}

static bool pointers_fit(const job *j, const emulated_algorithm *algorithm)
{
    const uint32_t alignment = algorithm->alignment ? algorithm->alignment : ALIGNMENT;
    const bool bias = j->matmul.epilogue == CUBLASLT_EPILOGUE_BIAS ||
                      j->matmul.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    return is_memory(j->a, alignment) && is_memory(j->b, alignment) && is_memory(j->c, alignment) &&
           is_memory(j->d, alignment) && (!bias || is_memory(j->matmul.bias, ALIGNMENT)) &&
           (j->workspace_bytes == 0 || is_memory(j->workspace, WORKSPACE_ALIGNMENT));
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t a, const void *B,
                              cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    const emulated_algorithm *algorithm = emulated_find_algorithm(algo);
    const cublasStatus_t status = emulated_check_product(
        (const emulated_matmul *)desc, (const emulated_layout *)a, (const emulated_layout *)b,
        (const emulated_layout *)c, (const emulated_layout *)d);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!algorithm) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!alpha || !beta || workspace_bytes < algorithm->workspace)
        return CUBLAS_STATUS_INVALID_VALUE;
    job made = { .a = A,
                 .b = B,
                 .c = C,
                 .d = D,
                 .workspace = workspace,
                 .workspace_bytes = algorithm->workspace,
                 .n_parts = 4 + (int)algorithm->tile % 8 };
    memcpy(&made.matmul, desc, sizeof made.matmul);
    memcpy(&made.a_layout, a, sizeof made.a_layout);
    memcpy(&made.b_layout, b, sizeof made.b_layout);
    memcpy(&made.c_layout, c, sizeof made.c_layout);
    memcpy(&made.d_layout, d, sizeof made.d_layout);
    memcpy(&made.alpha, alpha, sizeof made.alpha);
    memcpy(&made.beta, beta, sizeof made.beta);
    if (!pointers_fit(&made, algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
    if (is_failing(algorithm)) {
        emulated_leave_error();
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (emulated_enter(stream) != 0) return CUBLAS_STATUS_EXECUTION_FAILED;
    job *queued = emulated_queue(stream, run_job, sizeof *queued);
    if (!queued) return CUBLAS_STATUS_ALLOC_FAILED;
    *queued = made;
    emulated_streams_advance();
    return CUBLAS_STATUS_SUCCESS;
}
