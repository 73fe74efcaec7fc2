/* provider.c: linear layers through cuBLASLt. Its matrices are column-major, so our row-major ones
 * are their transposes:
 *
 *   forward            y' [O,N] = (w' [I,O])' x' [I,N]
 *   backward data      dx' [I,N] = w' [I,O] dy' [O,N]
 *   backward weights   dw' [I,O] = x' [I,N] (dy' [O,N])'
 *
 * A kernel's name holds all of cuBLASLt's algorithm (blas_name.h). Split-K is excluded, because
 * the order of its partial sums is not specified. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/cublaslt/blas_name.h"
#include "cuda/device/libraries.h"
#include "cuda/kernels/kernels.h"
#include "cuda/provider.h"
#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

enum { WORKSPACE_LIMIT = 64 << 20, MAX_RESULTS = 64 };

/* The settings have the order of blas_name.h. */
static const cublasLtMatmulAlgoConfigAttributes_t settings[LS__BLAS_SETTINGS] = {
    CUBLASLT_ALGO_CONFIG_TILE_ID,          CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
    CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING,
    CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION,    CUBLASLT_ALGO_CONFIG_STAGES_ID,
    CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID,   CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID,
};

static const cudaDataType_t types[LS_N_DTYPES] = {
    [LS_F32] = CUDA_R_32F, [LS_F16] = CUDA_R_16F, [LS_BF16] = CUDA_R_16BF
};

typedef struct blas {
    cublasLtHandle_t handle;
    char version[32];
} blas;

/* cuBLASLt's descriptors of a product D = op(A) op(B) (+ bias). */
typedef struct product {
    cublasComputeType_t compute;
    cudaDataType_t type, d_type; /* of A and B; of D and the bias */
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
} product;

typedef struct blas_kernel {
    ls__kernel kernel; /* first */
    ls__cuda *cuda;
    const blas *blas;
    ls__op op;
    product product;
    size_t product_bytes; /* of cublasLtMatmul in the workspace */
    cublasLtMatmulAlgo_t algorithm;
} blas_kernel;

static ls_status check_cublaslt(ls__cuda *cuda, cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS) return LS_OK;
    const bool unsupported =
        status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
    return ls__fail(cuda->device.ctx, unsupported ? LS_ERR_UNSUPPORTED : LS_ERR_DEVICE,
                    "%s: cuBLASLt: %s", what, cublasLtGetStatusString(status));
}

/* ---- Products ---- */

static void product_close(product *p)
{
    if (p->a) (void)cublasLtMatrixLayoutDestroy(p->a);
    if (p->b) (void)cublasLtMatrixLayoutDestroy(p->b);
    if (p->d) (void)cublasLtMatrixLayoutDestroy(p->d);
    if (p->operation) (void)cublasLtMatmulDescDestroy(p->operation);
    *p = (product){ 0 };
}

/* A row-major operand as a column-major matrix. */
static cublasStatus_t open_layout(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                  const ls__operand *operand)
{
    const int64_t *d = operand->shape.dims;
    return cublasLtMatrixLayoutCreate(out, type, (uint64_t)d[1], (uint64_t)d[0], d[1]);
}

static cublasStatus_t set_operation(product *p, cublasLtMatmulDescAttributes_t attribute,
                                    const void *value, size_t bytes)
{
    return cublasLtMatmulDescSetAttribute(p->operation, attribute, value, bytes);
}

/* The operands A, B and D. */
static void find_roles(ls__op_kind kind, int *a, int *b, int *d)
{
    *a = kind == LS__OP_LINEAR_BACKWARD_WEIGHTS ? 0 : 1;
    *b = kind == LS__OP_LINEAR_BACKWARD_WEIGHTS ? 1 : 0;
    *d = kind == LS__OP_LINEAR ? 3 : 2;
}

static cublasStatus_t product_open(const ls__op *op, product *p)
{
    const ls__operand *o = op->operands;
    const cublasOperation_t transpose = CUBLAS_OP_T;
    const bool f32 = o[0].dtype == LS_F32;
    int a, b, d;
    find_roles(op->kind, &a, &b, &d);
    *p = (product){ .compute = f32 && op->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                    .type = types[o[0].dtype],
                    .d_type = types[o[d].dtype] };
    cublasStatus_t status = cublasLtMatmulDescCreate(&p->operation, p->compute, CUDA_R_32F);
    if (status == 0) status = open_layout(&p->a, p->type, &o[a]);
    if (status == 0) status = open_layout(&p->b, p->type, &o[b]);
    if (status == 0) status = open_layout(&p->d, p->d_type, &o[d]);
    if (status == 0 && op->kind == LS__OP_LINEAR)
        status = set_operation(p, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, sizeof(transpose));
    if (status == 0 && op->kind == LS__OP_LINEAR_BACKWARD_WEIGHTS)
        status = set_operation(p, CUBLASLT_MATMUL_DESC_TRANSB, &transpose, sizeof(transpose));
    if (status == 0 && op->kind == LS__OP_LINEAR) {
        static const cublasLtEpilogue_t epilogues[2][2] = {
            /* [bias][relu] */
            { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU },
            { CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS }
        };
        const cublasLtEpilogue_t *epilogue = &epilogues[!ls__is_absent(&o[2])][op->u.linear.relu];
        status = set_operation(p, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue, sizeof(*epilogue));
    }
    if (status != 0) product_close(p);
    return status;
}

/* The types of cublasLtMatmul with f32 sums: A and B of one type, D and the bias of that type or
 * f32. Weight gradients are f32. Our kernel computes the gradient of the bias. */
static bool cublaslt_supports(const ls__op *op)
{
    if (op->kind != LS__OP_LINEAR && op->kind != LS__OP_LINEAR_BACKWARD_DATA &&
        op->kind != LS__OP_LINEAR_BACKWARD_WEIGHTS)
        return false;
    for (int i = 0; i < op->n_operands; i++) {
        const bool gradient = op->kind == LS__OP_LINEAR_BACKWARD_WEIGHTS && i >= 2;
        const ls_dtype expected = gradient ? LS_F32 : op->operands[0].dtype;
        if (!ls__is_absent(&op->operands[i]) && op->operands[i].dtype != expected) return false;
    }
    return op->operands[0].dtype == LS_F32 || ls__is_half(&op->operands[0]);
}

/* ---- Names ---- */

/* A setting of 16 bits is the first half of its uint32_t, because CUDA's hosts are little-endian.
 */
static size_t setting_bytes(int i)
{
    return i < LS__BLAS_SETTINGS_32 ? sizeof(uint32_t) : sizeof(uint16_t);
}

static void name_algorithm(const cublasLtMatmulAlgo_t *algorithm, char *out, size_t size)
{
    ls__blas_name name = { 0 };
    size_t written;
    (void)cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_ID, &name.id,
                                               sizeof(name.id), &written);
    for (int i = 0; i < LS__BLAS_SETTINGS; i++)
        (void)cublasLtMatmulAlgoConfigGetAttribute(algorithm, settings[i], &name.settings[i],
                                                   setting_bytes(i), &written);
    ls__blas_name_write(&name, out, size);
}

/* The algorithm of a name, from its settings. False if cuBLASLt rejects them: some algorithms have
 * settings that can't be set, and come from the heuristics only. */
static bool rebuild_algorithm(const blas *b, const product *p, const ls__blas_name *name,
                              cublasLtMatmulHeuristicResult_t *out)
{
    cublasLtMatmulAlgo_t algorithm;
    if (cublasLtMatmulAlgoInit(b->handle, p->compute, CUDA_R_32F, p->type, p->type, p->d_type,
                               p->d_type, name->id, &algorithm) != 0)
        return false;
    for (int i = 0; i < LS__BLAS_SETTINGS; i++)
        if (cublasLtMatmulAlgoConfigSetAttribute(&algorithm, settings[i], &name->settings[i],
                                                 setting_bytes(i)) != 0)
            return false;
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(b->handle, p->operation, p->a, p->b, p->d, p->d, &algorithm, out);
    out->algo = algorithm;
    return status == CUBLAS_STATUS_SUCCESS;
}

/* ---- The provider ---- */

static ls_status blas_open(ls__cuda *cuda, void **state)
{
    ls_context *ctx = cuda->device.ctx;
    blas *b = ls__zalloc(ctx, sizeof(*b));
    if (!b) return ls__fail_memory(ctx, "cuBLASLt", sizeof(*b));
    const ls_status status = check_cublaslt(cuda, cublasLtCreate(&b->handle), "opening cuBLASLt");
    if (status != LS_OK) {
        ls__free(ctx, b);
        return status;
    }
    const size_t version = cublasLtGetVersion();
    snprintf(b->version, sizeof(b->version), "cuBLASLt %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    *state = b;
    return LS_OK;
}

static void blas_close(ls__cuda *cuda, void *state)
{
    blas *b = state;
    (void)cublasLtDestroy(b->handle);
    ls__free(cuda->device.ctx, b);
}

static const char *blas_library(void *state)
{
    return ((const blas *)state)->version;
}

static cublasStatus_t query_heuristics(const blas *b, const product *p,
                                       cublasLtMatmulHeuristicResult_t *results, int *n)
{
    const uint64_t workspace = WORKSPACE_LIMIT;
    const uint32_t none = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint32_t alignment = 16; /* of every buffer (backend.h); the default is 256 */
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } attributes[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace) },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &none, sizeof(none) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof(alignment) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment, sizeof(alignment) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment, sizeof(alignment) },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof(alignment) },
    };
    cublasLtMatmulPreference_t preference = NULL;
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(&preference);
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]) && status == 0; i++)
        status = cublasLtMatmulPreferenceSetAttribute(preference, attributes[i].name,
                                                      attributes[i].value, attributes[i].bytes);
    if (status == 0)
        status = cublasLtMatmulAlgoGetHeuristic(b->handle, p->operation, p->a, p->b, p->d, p->d,
                                                preference, MAX_RESULTS, results, n);
    if (preference) (void)cublasLtMatmulPreferenceDestroy(preference);
    return status;
}

/* The algorithm of a name in the list of the heuristics for the product. */
static bool find_algorithm(const blas *b, const product *p, const char *name,
                           cublasLtMatmulHeuristicResult_t *out)
{
    cublasLtMatmulHeuristicResult_t results[MAX_RESULTS];
    int n = 0;
    if (query_heuristics(b, p, results, &n) != CUBLAS_STATUS_SUCCESS) return false;
    for (int i = 0; i < n; i++) {
        char listed[LS__KERNEL_NAME_SIZE];
        if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
        name_algorithm(&results[i].algo, listed, sizeof(listed));
        if (strcmp(listed, name) != 0) continue;
        *out = results[i];
        return true;
    }
    return false;
}

/* The costs only express the order of the heuristics. */
static int blas_candidates(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out,
                           int max)
{
    cublasLtMatmulHeuristicResult_t results[MAX_RESULTS];
    product p;
    int n_results = 0, n = 0;
    if (!cublaslt_supports(op) ||
        check_cublaslt(cuda, product_open(op, &p), ls__op_name(op->kind)) != LS_OK)
        return 0;
    const cublasStatus_t status = query_heuristics(state, &p, results, &n_results);
    if (status != CUBLAS_STATUS_SUCCESS) n_results = 0;
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) /* it has no kernel for the product */
        (void)check_cublaslt(cuda, status, ls__op_name(op->kind));
    for (int i = 0; i < n_results && n < max; i++) {
        if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
        ls__candidate *c = &out[n];
        *c = (ls__candidate){ .deterministic = true, .cost_ms = 1 + 0.01 * n };
        name_algorithm(&results[i].algo, c->name, sizeof(c->name));
        bool listed = false;
        for (int j = 0; j < n; j++) listed |= strcmp(out[j].name, c->name) == 0;
        n += !listed;
    }
    product_close(&p);
    return n;
}

static ls_status blas_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                          const ls__step *step)
{
    (void)step;
    blas_kernel *k = (blas_kernel *)kernel;
    const float one = 1, zero = 0;
    int a, b, d;
    find_roles(k->op.kind, &a, &b, &d);
    if (k->op.kind == LS__OP_LINEAR && buffers[2])
        LS_TRY(check_cublaslt(k->cuda,
                              set_operation(&k->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                            &buffers[2], sizeof(buffers[2])),
                              ls__op_name(k->op.kind)));
    LS_TRY(check_cublaslt(k->cuda,
                          cublasLtMatmul(k->blas->handle, k->product.operation, &one, buffers[a],
                                         k->product.a, buffers[b], k->product.b, &zero, buffers[d],
                                         k->product.d, buffers[d], k->product.d, &k->algorithm,
                                         workspace, k->product_bytes, k->cuda->stream),
                          ls__op_name(k->op.kind)));
    if (k->op.kind != LS__OP_LINEAR_BACKWARD_WEIGHTS || !buffers[3]) return LS_OK;
    const ls__operand *dy = &k->op.operands[1];
    return ls__cuda_check(k->cuda,
                          ls__cuda_column_sums(dy, buffers[1], dy->shape.dims[0], dy->shape.dims[1],
                                               buffers[3], workspace, k->cuda->stream),
                          ls__op_name(k->op.kind));
}

static void cublaslt_close(ls__kernel *kernel)
{
    blas_kernel *k = (blas_kernel *)kernel;
    product_close(&k->product);
    ls__free(k->cuda->device.ctx, k);
}

static ls_status blas_kernel_open(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                                  ls__kernel **out)
{
    ls_context *ctx = cuda->device.ctx;
    cublasLtMatmulHeuristicResult_t found;
    ls__blas_name fields;
    if (!ls__blas_name_read(name, &fields))
        return ls__fail(ctx, LS_ERR_NOT_FOUND, "%s: cuBLASLt has no kernel '%s'",
                        ls__op_name(op->kind), name);
    if (!cublaslt_supports(op))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "%s: kernel '%s' does not support operands of these types",
                        ls__op_name(op->kind), name);
    blas_kernel *k = ls__zalloc(ctx, sizeof(*k));
    if (!k) return ls__fail_memory(ctx, name, sizeof(*k));
    k->cuda = cuda;
    k->blas = state;
    k->op = *op;
    k->kernel.unproven = true;
    k->kernel.run = blas_run;
    k->kernel.close = cublaslt_close;
    snprintf(k->kernel.name, sizeof(k->kernel.name), "%s", name);
    ls_status status = check_cublaslt(cuda, product_open(op, &k->product), ls__op_name(op->kind));
    if (status == LS_OK && !rebuild_algorithm(k->blas, &k->product, &fields, &found) &&
        !find_algorithm(k->blas, &k->product, name, &found))
        status = ls__fail(ctx, LS_ERR_UNSUPPORTED,
                          "%s: cuBLASLt can't run kernel '%s': it rejects the settings, and its "
                          "heuristics don't list them for this product",
                          ls__op_name(op->kind), name);
    if (status != LS_OK) {
        cublaslt_close(&k->kernel);
        return status;
    }
    k->algorithm = found.algo;
    k->product_bytes = k->kernel.workspace_bytes = found.workspaceSize;
    if (op->kind == LS__OP_LINEAR_BACKWARD_WEIGHTS && !ls__is_absent(&op->operands[3])) {
        /* The bias's gradient is computed after the product, in the same workspace. */
        const ls__operand *dy = &op->operands[1];
        const size_t bytes =
            ls__cuda_column_sums_workspace(dy, dy->shape.dims[0], dy->shape.dims[1]);
        if (k->kernel.workspace_bytes < bytes) k->kernel.workspace_bytes = bytes;
    }
    *out = &k->kernel;
    return LS_OK;
}

const ls__cuda_provider ls__cuda_cublaslt = { .name = "cublaslt",
                                              .title = "cuBLASLt",
                                              .load = ls__cublaslt_load,
                                              .open = blas_open,
                                              .close = blas_close,
                                              .library = blas_library,
                                              .candidates = blas_candidates,
                                              .kernel_open = blas_kernel_open };
