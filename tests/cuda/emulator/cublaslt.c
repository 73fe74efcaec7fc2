/* cublaslt.c: the emulated cuBLASLt: its descriptors, checked as its header and documentation say,
 * and the heuristics' answer. What multiplies is in cublaslt_matmul.c. */
#include "cublaslt.h"
#include "driver.h"
#include "graphs.h"
#include "library_count.h"
#include <stdlib.h>
#include <string.h>

struct cublasLtContext {
    int unused;
};

/* What the heuristics know, fastest first. Each is for another of a preference's limits, but for
 * 66 and 67, which fit ours. The settings of 1 do not say all of it: what AlgoInit makes of them
 * is refused. */
static const emulated_algorithm algorithms[] = {
    { .id = 90, .tile = 20, .split_k = 1, .alignment = 256, .cluster = 2 },
    { .id = 24, .tile = 20, .split_k = 2, .reduction = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE },
    { .id = 68, .tile = 24, .split_k = 1, .workspace = (size_t)128 << 20 },
    { .id = 1, .tile = 15, .split_k = 1, .stages = 4, .revision = 3 },
    { .id = 66, .tile = 20, .split_k = 1, .stages = 5, .cluster = 2, .workspace = 4000 },
    { .id = 67, .tile = 18, .split_k = 1, .stages = 12, .inner = 1, .custom = 3 },
};
enum { N_ALGORITHMS = sizeof algorithms / sizeof *algorithms, ALIGNMENT = 16 };

static const emulated_algorithm *known(int32_t id)
{
    for (int i = 0; i < N_ALGORITHMS; i++)
        if (algorithms[i].id == id) return &algorithms[i];
    return NULL;
}

/* ---- The library ---- */

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the GPU program failed to execute";
    default: return "an internal operation failed";
    }
}

/* This call allocates, which a capture forbids. */
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    if (emulated_failure_status() != 0 || emulated_forbids() != 0)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return CUBLAS_STATUS_ALLOC_FAILED;
    emulated_library_count(1);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(void *object)
{
    if (!object) return CUBLAS_STATUS_INVALID_VALUE;
    free(object);
    emulated_library_count(-1);
    return CUBLAS_STATUS_SUCCESS;
}

static void *create(size_t bytes)
{
    void *made = calloc(1, bytes);
    if (made) emulated_library_count(1);
    return made;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return destroy(handle);
}

/* ---- Descriptors: ours lie in the space of the opaque ones ---- */

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *layout = create(sizeof **layout);
    if (!*layout) return CUBLAS_STATUS_ALLOC_FAILED;
    const emulated_layout made = { type, (int64_t)rows, (int64_t)cols, ld };
    memcpy(*layout, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *desc = create(sizeof **desc);
    if (!*desc) return CUBLAS_STATUS_ALLOC_FAILED;
    const emulated_matmul made = { .compute = compute,
                                   .scale = scale,
                                   .transposed = { CUBLAS_OP_N, CUBLAS_OP_N },
                                   .epilogue = CUBLASLT_EPILOGUE_DEFAULT };
    memcpy(*desc, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy(desc);
}

/* Copies a value of exactly that size. */
static cublasStatus_t set(void *field, size_t field_bytes, const void *value, size_t bytes)
{
    if (!value || bytes != field_bytes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

#define SET(field) set(&(field), sizeof(field), buf, sizeInBytes)

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *buf, size_t sizeInBytes)
{
    emulated_matmul *m = (emulated_matmul *)desc;
    if (!m) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return SET(m->transposed[0]);
    case CUBLASLT_MATMUL_DESC_TRANSB: return SET(m->transposed[1]);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return SET(m->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return SET(m->bias);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = create(sizeof **preference);
    if (!*preference) return CUBLAS_STATUS_ALLOC_FAILED;
    const emulated_preference made = { .reductions = CUBLASLT_REDUCTION_SCHEME_MASK,
                                       .alignment = { 256, 256, 256, 256 } };
    memcpy(*preference, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return destroy(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *buf, size_t sizeInBytes)
{
    emulated_preference *p = (emulated_preference *)preference;
    if (!p) return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return SET(p->workspace);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return SET(p->reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return SET(p->alignment[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return SET(p->alignment[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return SET(p->alignment[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return SET(p->alignment[3]);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

/* ---- Algorithms ---- */

/* The row of cublasLtMatmul's table of types that sums in f32. */
static bool types_fit(cublasComputeType_t compute, cudaDataType_t scale, cudaDataType_t a,
                      cudaDataType_t b, cudaDataType_t c, cudaDataType_t d)
{
    const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    if ((!tf32 && compute != CUBLAS_COMPUTE_32F) || scale != CUDA_R_32F) return false;
    if (a != CUDA_R_32F && (tf32 || (a != CUDA_R_16F && a != CUDA_R_16BF))) return false;
    return a == b && c == d && (d == a || d == CUDA_R_32F);
}

cublasStatus_t emulated_check_product(const emulated_matmul *m, const emulated_layout *a,
                                      const emulated_layout *b, const emulated_layout *c,
                                      const emulated_layout *d)
{
    if (!m || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
    const emulated_layout *all[] = { a, b, c, d };
    for (int i = 0; i < 4; i++)
        if (all[i]->rows <= 0 || all[i]->cols <= 0 || all[i]->ld < all[i]->rows)
            return CUBLAS_STATUS_INVALID_VALUE;
    const bool ta = m->transposed[0] == CUBLAS_OP_T, tb = m->transposed[1] == CUBLAS_OP_T;
    if ((ta ? a->cols : a->rows) != d->rows || (tb ? b->rows : b->cols) != d->cols ||
        (ta ? a->rows : a->cols) != (tb ? b->cols : b->rows) || c->rows != d->rows ||
        c->cols != d->cols)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m->epilogue != CUBLASLT_EPILOGUE_DEFAULT && m->epilogue != CUBLASLT_EPILOGUE_RELU &&
        m->epilogue != CUBLASLT_EPILOGUE_BIAS && m->epilogue != CUBLASLT_EPILOGUE_RELU_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return types_fit(m->compute, m->scale, a->type, b->type, c->type, d->type)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

static bool preferred(const emulated_algorithm *a, const emulated_preference *p)
{
    for (int i = 0; i < 4; i++)
        if (p->alignment[i] < (a->alignment ? a->alignment : ALIGNMENT)) return false;
    return a->workspace <= p->workspace && (a->reduction == 0 || (a->reduction & p->reductions));
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int *n)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requested <= 0 || !preference || !results || !n) return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status = emulated_check_product(
        (const emulated_matmul *)desc, (const emulated_layout *)a, (const emulated_layout *)b,
        (const emulated_layout *)c, (const emulated_layout *)d);
    *n = 0;
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (int i = 0; i < N_ALGORITHMS && *n < requested; i++) {
        if (!preferred(&algorithms[i], (const emulated_preference *)preference)) continue;
        cublasLtMatmulHeuristicResult_t *r = &results[(*n)++];
        memset(r, 0, sizeof *r);
        memcpy(&r->algo, &algorithms[i], sizeof algorithms[i]);
        r->workspaceSize = algorithms[i].workspace;
    }
    return *n > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                      cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t *algo)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || !known(id)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_fit(compute, scale, a, b, c, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
    const emulated_algorithm made = { .id = id, .split_k = 1, .alignment = known(id)->alignment };
    memset(algo, 0, sizeof *algo);
    memcpy(algo, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

/* The place and the size of a setting. */
static void *setting(emulated_algorithm *a, cublasLtMatmulAlgoConfigAttributes_t attribute,
                     size_t *bytes)
{
    *bytes = sizeof(uint32_t);
    switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID: return &a->id;
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return &a->tile;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return &a->split_k;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: return &a->reduction;
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING: return &a->swizzle;
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION: return &a->custom;
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: return &a->stages;
    default: break;
    }
    *bytes = sizeof(uint16_t);
    return attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID     ? &a->inner
           : attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID ? &a->cluster
                                                                : NULL;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *buf, size_t sizeInBytes)
{
    size_t bytes;
    void *field = algo ? setting((emulated_algorithm *)algo, attribute, &bytes) : NULL;
    if (!field || attribute == CUBLASLT_ALGO_CONFIG_ID) return CUBLAS_STATUS_INVALID_VALUE;
    return set(field, bytes, buf, sizeInBytes);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *buf, size_t sizeInBytes, size_t *written)
{
    size_t bytes;
    const void *field = algo ? setting((emulated_algorithm *)algo, attribute, &bytes) : NULL;
    if (!field || !buf || sizeInBytes != bytes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(buf, field, bytes);
    if (written) *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* The algorithm with these settings; NULL when there is none. */
const emulated_algorithm *emulated_find_algorithm(const cublasLtMatmulAlgo_t *algo)
{
    const emulated_algorithm *a = (const emulated_algorithm *)algo, *k = a ? known(a->id) : NULL;
    if (!k || a->tile != k->tile || a->split_k != k->split_k || a->reduction != k->reduction ||
        a->swizzle != k->swizzle || a->custom != k->custom || a->stages != k->stages ||
        a->inner != k->inner || a->cluster != k->cluster || a->revision != k->revision)
        return NULL;
    return k;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    const emulated_algorithm *found = emulated_find_algorithm(algo);
    const cublasStatus_t status = emulated_check_product(
        (const emulated_matmul *)desc, (const emulated_layout *)a, (const emulated_layout *)b,
        (const emulated_layout *)c, (const emulated_layout *)d);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!found) return CUBLAS_STATUS_NOT_SUPPORTED;
    result->workspaceSize = found->workspace;
    result->state = CUBLAS_STATUS_SUCCESS;
    result->wavesCount = 1;
    return CUBLAS_STATUS_SUCCESS;
}
