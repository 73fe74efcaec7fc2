/* test_library_calls.c: the emulator's stand-ins for cuDNN and cuBLASLt, called themselves with
 * what they must refuse when they run: wrong pointers, working memory, handles, layouts. What they
 * refuse earlier is in test_cudnn_contract.c; what they compute, in test_cuda_ops.c. */
#include "../suite.h"
#include "base/alloc.h"
#include "conv_ops.h"
#include "cuda/cudnn/cudnn.h"
#include "cuda/cudnn/graph.h"
#include "cuda/device/driver.h"
#include "emulator/driver.h"
#include <cublasLt.h>
#include <cudnn.h>
#include <lockstep/lockstep.h>
#include <string.h>

static const ls__cuda_driver *const driver = &ls__cuda_driver_table;

static void *device_memory(size_t bytes)
{
    void *memory;
    ck_assert_int_eq(driver->allocate(&memory, bytes), 0);
    return memory;
}

static ls__cuda_stream open_stream(void)
{
    ls__cuda_stream stream;
    ck_assert_int_eq(driver->stream_open(&stream), 0);
    return stream;
}

/* ---- cuDNN: y = relu(x), of one value a channel, cannot be had alone; a 1x1 convolution can ----
 */

enum { CHANNELS = 8, BYTES = CHANNELS * CHANNELS * 4, ID_X = 1, ID_W, ID_Y };

typedef struct convolution {
    cudnnHandle_t handle;
    ls__cuda_stream stream;
    cudnnBackendDescriptor_t plan;
    int64_t workspace_bytes;
    void *x, *w, *y, *workspace;
} convolution;

static cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made;
    ck_assert_int_eq(cudnnBackendCreateDescriptor(type, &made), CUDNN_STATUS_SUCCESS);
    return made;
}

static void set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    ck_assert_int_eq(cudnnBackendSetAttribute(d, name, type, count, values), CUDNN_STATUS_SUCCESS);
}

static cudnnBackendDescriptor_t finish(cudnnBackendDescriptor_t d)
{
    ck_assert_int_eq(cudnnBackendFinalize(d), CUDNN_STATUS_SUCCESS);
    return d;
}

/* The objects that are made for a handle. */
enum { GRAPH = 1, PLAN = 2, BOTH = 3 };

static void build(ls__cudnn_graph *graph)
{
    const ls_shape image = LS_SHAPE(1, 1, 1, CHANNELS),
                   weights = LS_SHAPE(CHANNELS, 1, 1, CHANNELS);
    const ls__op op = { .u.conv = { { 1, 1 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 1 } };
    ls__cudnn_convolve(graph, LS__OP_CONV2D, &op, ls__cudnn_buffer(graph, 0, LS_F32, &image),
                       ls__cudnn_buffer(graph, 1, LS_F32, &weights),
                       ls__cudnn_buffer(graph, 2, LS_F32, &image));
}

/* Engine 41's plan, made with the handle where `handles` says so. */
static convolution open_convolution(int handles)
{
    convolution c = { 0 };
    ls__cudnn_graph parts = { 0 };
    const int64_t index = 41;
    ck_assert_int_eq(cudnnCreate(&c.handle), CUDNN_STATUS_SUCCESS);
    c.stream = open_stream();
    ck_assert_int_eq(cudnnSetStream(c.handle, c.stream), CUDNN_STATUS_SUCCESS);
    cudnnBackendDescriptor_t device = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    set(device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &c.handle);
    finish(device);
    build(&parts);
    cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, parts.n_operations,
        parts.operations);
    if (handles & GRAPH)
        set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &c.handle);
    finish(graph);
    cudnnBackendDescriptor_t engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    set(engine, CUDNN_ATTR_ENGINE_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    finish(engine);
    cudnnBackendDescriptor_t configuration = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine);
    finish(configuration);
    c.plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(c.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
        &configuration);
    set(c.plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device);
    if (handles & PLAN)
        set(c.plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &c.handle);
    finish(c.plan);
    ck_assert_int_eq(cudnnBackendGetAttribute(c.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                              CUDNN_TYPE_INT64, 1, NULL, &c.workspace_bytes),
                     CUDNN_STATUS_SUCCESS);
    const cudnnBackendDescriptor_t own[] = { device, graph, engine, configuration };
    for (int i = 0; i < 4; i++) cudnnBackendDestroyDescriptor(own[i]);
    while (parts.n_descriptors > 0)
        cudnnBackendDestroyDescriptor(parts.descriptors[--parts.n_descriptors]);
    c.x = device_memory(BYTES);
    c.w = device_memory(BYTES);
    c.y = device_memory(BYTES);
    c.workspace = device_memory((size_t)c.workspace_bytes);
    return c;
}

static void close_convolution(convolution *c)
{
    cudnnBackendDestroyDescriptor(c->plan);
    cudnnDestroy(c->handle);
    void *const memory[] = { c->x, c->w, c->y, c->workspace };
    for (int i = 0; i < 4; i++) ck_assert_int_eq(driver->release(memory[i]), 0);
    ck_assert_int_eq(driver->stream_close(c->stream), 0);
}

static cudnnStatus_t execute(const convolution *c, const int64_t *ids, void *const *pointers, int n,
                             void *workspace)
{
    cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, pointers);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    finish(pack);
    const cudnnStatus_t status = cudnnBackendExecute(c->handle, c->plan, pack);
    cudnnBackendDestroyDescriptor(pack);
    return status;
}

START_TEST(pointers_of_a_plan)
{
    static float on_host[CHANNELS * CHANNELS];
    convolution c = open_convolution(BOTH);
    const int64_t ids[] = { ID_X, ID_W, ID_Y };
    void *right[] = { c.x, c.w, c.y }, *null[] = { c.x, NULL, c.y },
         *host[] = { c.x, on_host, c.y }, *odd[] = { c.x, c.w, (char *)c.y + 8 };
    ck_assert_int_gt(c.workspace_bytes, 0);
    ck_assert_int_eq(execute(&c, ids, right, 3, c.workspace), CUDNN_STATUS_SUCCESS);
    ck_assert_int_eq(execute(&c, ids, right, 2, c.workspace), CUDNN_STATUS_BAD_PARAM);
    ck_assert_int_eq(execute(&c, ids, null, 3, c.workspace), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    ck_assert_int_eq(execute(&c, ids, host, 3, c.workspace), CUDNN_STATUS_BAD_PARAM);
    ck_assert_int_eq(execute(&c, ids, odd, 3, c.workspace),
                     CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    ck_assert_int_eq(execute(&c, ids, right, 3, NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    ck_assert_int_eq(execute(&c, ids, right, 3, on_host), CUDNN_STATUS_BAD_PARAM);
    close_convolution(&c);
}
END_TEST

/* Plans for a device that is only described, and graphs, run with no handle. */
START_TEST(handles_of_a_plan)
{
    for (int handles = 0; handles <= BOTH; handles++) {
        convolution c = open_convolution(handles);
        const int64_t ids[] = { ID_X, ID_W, ID_Y };
        void *pointers[] = { c.x, c.w, c.y };
        ck_assert_int_eq(execute(&c, ids, pointers, 3, c.workspace),
                         handles == BOTH ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM);
        close_convolution(&c);
    }
}
END_TEST

/* What was queued runs after all that made it has gone, in a capture's graph too; the first sum of
 * products tells. */
START_TEST(plans_end_before_their_work)
{
    const float ones[CHANNELS * CHANNELS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    for (int captured = 0; captured < 2; captured++) {
        convolution c = open_convolution(BOTH);
        const int64_t ids[] = { ID_X, ID_W, ID_Y };
        void *pointers[] = { c.x, c.w, c.y };
        float y[CHANNELS] = { 0 };
        ls__cuda_graph graph;
        ls__cuda_replay replay;
        ck_assert_int_eq(driver->copy(c.x, ones, BYTES, c.stream), 0);
        ck_assert_int_eq(driver->copy(c.w, ones, BYTES, c.stream), 0);
        if (captured) ck_assert_int_eq(driver->capture_begin(c.stream), 0);
        ck_assert_int_eq(execute(&c, ids, pointers, 3, c.workspace), CUDNN_STATUS_SUCCESS);
        cudnnBackendDestroyDescriptor(c.plan);
        c.plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (captured) {
            ck_assert_int_eq(driver->capture_end(c.stream, &graph), 0);
            ck_assert_int_eq(driver->replay_open(graph, &replay), 0);
            ck_assert_int_eq(driver->graph_close(graph), 0);
            ck_assert_int_eq(driver->replay_launch(replay, c.stream), 0);
        }
        ck_assert_int_eq(driver->copy(y, c.y, sizeof y, c.stream), 0);
        ck_assert_int_eq(driver->stream_wait(c.stream), 0);
        ck_assert_float_eq(y[0], 8);
        ck_assert_float_eq(y[1], 2);
        if (captured) ck_assert_int_eq(driver->replay_close(replay), 0);
        close_convolution(&c);
    }
}
END_TEST

START_TEST(libraries_open_outside_of_captures)
{
    cudnnHandle_t cudnn;
    cublasLtHandle_t blas;
    ls__cuda_graph graph;
    ls__cuda_stream stream = open_stream();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(driver->capture_begin(stream), 0);
        if (i)
            ck_assert_int_eq(cudnnCreate(&cudnn), CUDNN_STATUS_NOT_INITIALIZED);
        else
            ck_assert_int_eq(cublasLtCreate(&blas), CUBLAS_STATUS_NOT_INITIALIZED);
        ck_assert_int_ne(driver->capture_end(stream, &graph), 0); /* spoilt */
    }
    ck_assert_int_eq(driver->stream_close(stream), 0);
}
END_TEST

/* A kernel computes into the buffers of each run, and from its text again. */
START_TEST(kernels_of_a_plan)
{
    enum { N_RESULTS = 3 };
    static const conv_shape shape = { 1, 4, 4, CHANNELS, CHANNELS, 1, 1, 0, 1 };
    const ls__op op = conv_op(LS__OP_CONV2D, &shape, false);
    const size_t y_bytes = 16 * CHANNELS * sizeof(float);
    float x[16 * CHANNELS], w[CHANNELS * CHANNELS], y[N_RESULTS][16 * CHANNELS];
    for (int i = 0; i < 16 * CHANNELS; i++) x[i] = (float)(i % 13) - 6;
    for (int i = 0; i < CHANNELS * CHANNELS; i++) w[i] = (float)(i % 7) - 3;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls__cuda_stream stream = open_stream();
    ls__cudnn *cudnn;
    ls__kernel *kernels[2];
    char *text;
    ck_assert_int_eq(ls__cudnn_open(ctx, NULL, &cudnn), LS_OK);
    ck_assert_int_eq(ls__cudnn_set_stream(cudnn, &stream), LS_OK);
    ck_assert_int_eq(ls__cudnn_kernel_open(cudnn, &op, "cudnn 6 2=4", &kernels[0]), LS_OK);
    ck_assert_int_eq(ls__cudnn_plan_text(kernels[0], &text), LS_OK);
    ck_assert_msg(ls__cudnn_kernel_restore(cudnn, &op, text, &kernels[1]) == LS_OK, "%s",
                  ls_context_message(ctx));
    void *buffers[4] = { device_memory(sizeof x), device_memory(sizeof w), NULL, NULL };
    void *workspace = device_memory(kernels[0]->workspace_bytes);
    ck_assert_int_eq(driver->copy(buffers[0], x, sizeof x, stream), 0);
    ck_assert_int_eq(driver->copy(buffers[1], w, sizeof w, stream), 0);
    for (int i = 0; i < N_RESULTS; i++) {
        ls__kernel *kernel = kernels[i / 2];
        buffers[3] = device_memory(y_bytes);
        ck_assert_msg(kernel->run(kernel, buffers, workspace, &(ls__step){ 0 }) == LS_OK, "%s",
                      ls_context_message(ctx));
        ck_assert_int_eq(driver->copy(y[i], buffers[3], y_bytes, stream), 0);
        ck_assert_mem_eq(y[i], y[0], y_bytes);
        if (i == 0) continue; /* so that the next one lies elsewhere */
        ck_assert_int_eq(driver->release(buffers[3]), 0);
    }
    float wanted = 0;
    for (int i = 0; i < CHANNELS; i++) wanted += x[i] * w[i];
    ck_assert_float_eq_tol(y[0][0], wanted, 1e-4);
    for (int i = 0; i < 2; i++) kernels[i]->close(kernels[i]);
    ls__free(ctx, text);
    ls__cudnn_close(&cudnn);
    ck_assert_int_eq(driver->stream_close(stream), 0);
    ls_context_close(&ctx);
}
END_TEST

/* ---- cuBLASLt: D [4,2] = A' B + bias, A [8,4], B [8,2] column by column ---- */

enum { ROWS = 4, COLUMNS = 2, DEPTH = 8 };

typedef struct product {
    cublasLtHandle_t handle;
    ls__cuda_stream stream;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulHeuristicResult_t results[8];
    int n_results;
    char *memory; /* A, B, D, bias, workspace: each from a multiple of PART on */
} product;
enum { PART = 4096, N_PARTS = 6 };

#define OK(call) ck_assert_int_eq((call), CUBLAS_STATUS_SUCCESS)

static cublasStatus_t query(product *p, uint32_t alignment, uint64_t workspace, uint32_t reductions)
{
    cublasLtMatmulPreference_t preference;
    OK(cublasLtMatmulPreferenceCreate(&preference));
    OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &workspace, sizeof workspace));
    OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                            &reductions, sizeof reductions));
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
         i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
        OK(cublasLtMatmulPreferenceSetAttribute(preference, (cublasLtMatmulPreferenceAttributes_t)i,
                                                &alignment, sizeof alignment));
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        p->handle, p->operation, p->a, p->b, p->d, p->d, preference, 8, p->results, &p->n_results);
    OK(cublasLtMatmulPreferenceDestroy(preference));
    return status;
}

static product open_product(void)
{
    product p = { 0 };
    const cublasOperation_t turned = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    OK(cublasLtCreate(&p.handle));
    p.stream = open_stream();
    p.memory = device_memory(N_PARTS * PART);
    const void *bias = p.memory + 3 * PART;
    OK(cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    OK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                      sizeof turned));
    OK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                      sizeof epilogue));
    OK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                      sizeof bias));
    OK(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_32F, DEPTH, ROWS, DEPTH));
    OK(cublasLtMatrixLayoutCreate(&p.b, CUDA_R_32F, DEPTH, COLUMNS, DEPTH));
    OK(cublasLtMatrixLayoutCreate(&p.d, CUDA_R_32F, ROWS, COLUMNS, ROWS));
    OK(query(&p, 16, 1 << 20, CUBLASLT_REDUCTION_SCHEME_NONE));
    return p;
}

static void close_product(product *p)
{
    OK(cublasLtMatmulDescDestroy(p->operation));
    OK(cublasLtMatrixLayoutDestroy(p->a));
    OK(cublasLtMatrixLayoutDestroy(p->b));
    OK(cublasLtMatrixLayoutDestroy(p->d));
    OK(cublasLtDestroy(p->handle));
    ck_assert_int_eq(driver->release(p->memory), 0);
    ck_assert_int_eq(driver->stream_close(p->stream), 0);
}

/* Runs with A, D and the workspace moved by this number of bytes. */
static cublasStatus_t multiply(const product *p, const cublasLtMatmulAlgo_t *algorithm,
                               int64_t shift_a, int64_t shift_d, void *workspace, size_t bytes)
{
    const float one = 1, zero = 0;
    void *d = p->memory + 2 * PART + shift_d;
    return cublasLtMatmul(p->handle, p->operation, &one, p->memory + shift_a, p->a,
                          p->memory + PART, p->b, &zero, d, p->d, d, p->d, algorithm, workspace,
                          bytes, p->stream);
}

static int id_of(const cublasLtMatmulHeuristicResult_t *r)
{
    int32_t id = 0;
    size_t written;
    OK(cublasLtMatmulAlgoConfigGetAttribute(&r->algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id,
                                            &written));
    return id;
}

START_TEST(pointers_of_a_product)
{
    product p = open_product();
    ck_assert_int_eq(id_of(&p.results[1]), 66);
    const cublasLtMatmulAlgo_t *algorithm = &p.results[1].algo;
    const size_t bytes = p.results[1].workspaceSize;
    char *workspace = p.memory + 4 * PART;
    const void *none = NULL;
    ck_assert_uint_gt(bytes, 0);
    ck_assert_int_eq(multiply(&p, algorithm, 0, 0, workspace, bytes), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(multiply(&p, algorithm, 8, 0, workspace, bytes), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(multiply(&p, algorithm, 0, 4, workspace, bytes), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(multiply(&p, algorithm, 0, 0, workspace, bytes - 1),
                     CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(multiply(&p, algorithm, 0, 0, NULL, bytes), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(multiply(&p, algorithm, 0, 0, workspace + 16, bytes),
                     CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &none,
                                      sizeof none));
    ck_assert_int_eq(multiply(&p, algorithm, 0, 0, workspace, bytes), CUBLAS_STATUS_INVALID_VALUE);
    close_product(&p);
}
END_TEST

START_TEST(layouts_of_a_product)
{
    product p = open_product();
    const cublasOperation_t plain = CUBLAS_OP_N, turned = CUBLAS_OP_T;
    OK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &plain,
                                      sizeof plain));
    ck_assert_int_eq(query(&p, 16, 0, 0), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(
        cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &turned, 1),
        CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &turned,
                                      sizeof turned));
    OK(query(&p, 16, 0, 0));
    OK(cublasLtMatrixLayoutDestroy(p.a));
    OK(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_32F, DEPTH, ROWS, DEPTH - 1));
    ck_assert_int_eq(query(&p, 16, 0, 0), CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatrixLayoutDestroy(p.a));
    OK(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_16F, DEPTH, ROWS, DEPTH));
    ck_assert_int_eq(query(&p, 16, 0, 0), CUBLAS_STATUS_NOT_SUPPORTED); /* B is f32 */
    OK(cublasLtMatmulDescDestroy(p.operation));
    OK(cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_16F, CUDA_R_16F));
    close_product(&p);
}
END_TEST

/* What a preference leaves out, and what no settings bring back. */
START_TEST(algorithms_of_a_product)
{
    product p = open_product();
    cublasLtMatmulHeuristicResult_t result;
    cublasLtMatmulAlgo_t made;
    const uint32_t any = CUBLASLT_REDUCTION_SCHEME_MASK;
    ck_assert_int_eq(p.n_results, 3);
    OK(query(&p, 256, (uint64_t)1 << 30, any));
    ck_assert_int_eq(p.n_results, 6);
    ck_assert_int_eq(id_of(&p.results[0]), 90);
    ck_assert_int_eq(multiply(&p, &p.results[0].algo, 256, 0, NULL, 0), CUBLAS_STATUS_SUCCESS);
    ck_assert_int_eq(multiply(&p, &p.results[0].algo, 16, 0, NULL, 0), CUBLAS_STATUS_INVALID_VALUE);
    ck_assert_int_eq(cublasLtMatmulAlgoInit(p.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F,
                                            CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, 12, &made),
                     CUBLAS_STATUS_INVALID_VALUE);
    OK(cublasLtMatmulAlgoInit(p.handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                              CUDA_R_32F, CUDA_R_32F, 67, &made));
    ck_assert_int_eq(
        cublasLtMatmulAlgoCheck(p.handle, p.operation, p.a, p.b, p.d, p.d, &made, &result),
        CUBLAS_STATUS_NOT_SUPPORTED); /* its settings are missing */
    close_product(&p);
}
END_TEST

TEST_PROGRAM(library_calls)
{
    return RUN_SUITE("library calls", pointers_of_a_plan, handles_of_a_plan,
                     plans_end_before_their_work, kernels_of_a_plan,
                     libraries_open_outside_of_captures, pointers_of_a_product,
                     layouts_of_a_product, algorithms_of_a_product);
}
