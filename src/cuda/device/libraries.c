/* libraries.c: see libraries.h. Defines the functions of the two libraries that the module calls,
 * under their own names. Each calls the loaded function through a pointer. */
#include "cuda/device/libraries.h"
#include <cublasLt.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* X(type, name, parameters, arguments) */
#define CUDNN_FUNCTIONS(X)                                                                         \
    X(size_t, cudnnGetVersion, (void), ())                                                         \
    X(const char *, cudnnGetErrorString, (cudnnStatus_t status), (status))                         \
    X(void, cudnnGetLastErrorString, (char *message, size_t size), (message, size))                \
    X(cudnnStatus_t, cudnnCreate, (cudnnHandle_t * handle), (handle))                              \
    X(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t handle), (handle))                               \
    X(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t handle, cudaStream_t stream),                  \
      (handle, stream))                                                                            \
    X(cudnnStatus_t, cudnnBackendCreateDescriptor,                                                 \
      (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t * out), (type, out))            \
    X(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t d), (d))             \
    X(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t d), (d))                      \
    X(cudnnStatus_t, cudnnBackendSetAttribute,                                                     \
      (cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,                               \
       cudnnBackendAttributeType_t type, int64_t count, const void *values),                       \
      (d, name, type, count, values))                                                              \
    X(cudnnStatus_t, cudnnBackendGetAttribute,                                                     \
      (cudnnBackendDescriptor_t const d, cudnnBackendAttributeName_t name,                         \
       cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count, void *values),          \
      (d, name, type, capacity, count, values))                                                    \
    X(cudnnStatus_t, cudnnBackendExecute,                                                          \
      (cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack),        \
      (handle, plan, pack))

#define CUBLASLT_FUNCTIONS(X)                                                                      \
    X(size_t, cublasLtGetVersion, (void), ())                                                      \
    X(const char *, cublasLtGetStatusString, (cublasStatus_t status), (status))                    \
    X(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))                       \
    X(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle))                        \
    X(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                  \
      (cublasLtMatrixLayout_t * out, cudaDataType type, uint64_t rows, uint64_t columns,           \
       int64_t stride),                                                                            \
      (out, type, rows, columns, stride))                                                          \
    X(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))      \
    X(cublasStatus_t, cublasLtMatmulDescCreate,                                                    \
      (cublasLtMatmulDesc_t * out, cublasComputeType_t compute, cudaDataType_t scale),             \
      (out, compute, scale))                                                                       \
    X(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t d), (d))                    \
    X(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                              \
      (cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name, const void *value,             \
       size_t bytes),                                                                              \
      (d, name, value, bytes))                                                                     \
    X(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * out), (out))   \
    X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t p), (p))        \
    X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                        \
      (cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t name, const void *value, \
       size_t bytes),                                                                              \
      (p, name, value, bytes))                                                                     \
    X(cublasStatus_t, cublasLtMatmulAlgoInit,                                                      \
      (cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale,                 \
       cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d, int id,             \
       cublasLtMatmulAlgo_t *out),                                                                 \
      (handle, compute, scale, a, b, c, d, id, out))                                               \
    X(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,                                        \
      (const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t name, void *value,   \
       size_t bytes, size_t *written),                                                             \
      (algo, name, value, bytes, written))                                                         \
    X(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute,                                        \
      (cublasLtMatmulAlgo_t * algo, cublasLtMatmulAlgoConfigAttributes_t name, const void *value,  \
       size_t bytes),                                                                              \
      (algo, name, value, bytes))                                                                  \
    X(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                     \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,            \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,               \
       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *out),                    \
      (handle, product, a, b, c, d, algo, out))                                                    \
    X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,            \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,               \
       cublasLtMatmulPreference_t preference, int capacity, cublasLtMatmulHeuristicResult_t *out,  \
       int *count),                                                                                \
      (handle, product, a, b, c, d, preference, capacity, out, count))                             \
    X(cublasStatus_t, cublasLtMatmul,                                                              \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void *alpha,                   \
       const void *a_data, cublasLtMatrixLayout_t a, const void *b_data, cublasLtMatrixLayout_t b, \
       const void *beta, const void *c_data, cublasLtMatrixLayout_t c, void *d_data,               \
       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo, void *workspace,                \
       size_t workspace_bytes, cudaStream_t stream),                                               \
      (handle, product, alpha, a_data, a, b_data, b, beta, c_data, c, d_data, d, algo, workspace,  \
       workspace_bytes, stream))

#define DEFINE(type, name, parameters, arguments)                                                  \
    static type(*name##_loaded) parameters;                                                        \
    type name parameters                                                                           \
    {                                                                                              \
        return name##_loaded arguments;                                                            \
    }
CUDNN_FUNCTIONS(DEFINE)
CUBLASLT_FUNCTIONS(DEFINE)
#undef DEFINE

typedef struct function {
    const char *name;
    void *loaded; /* the pointer that the function above calls through */
} function;

#define ROW(type, name, parameters, arguments) { #name, &name##_loaded },
static const function cudnn_functions[] = { CUDNN_FUNCTIONS(ROW) };
static const function cublaslt_functions[] = { CUBLASLT_FUNCTIONS(ROW) };
#undef ROW

#define TEXT_OF(number)      TEXT_OF_VALUE(number)
#define TEXT_OF_VALUE(value) #value
static const char cudnn_file[] = "libcudnn.so." TEXT_OF(CUDNN_MAJOR),
                  cublaslt_file[] = "libcublasLt.so." TEXT_OF(CUBLAS_VER_MAJOR);

enum { MIN_CUDNN = 90800 }; /* the first version with device descriptors, cmake/cudnn.cmake */

typedef struct library {
    pthread_once_t once;
    bool usable;
    char text[512];
} library;
static library cudnn = { .once = PTHREAD_ONCE_INIT }, cublaslt = { .once = PTHREAD_ONCE_INIT };

static void library_load(library *l, const char *file, const function *functions, size_t n)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *reason = dlerror();
        snprintf(l->text, sizeof(l->text), "%s", reason ? reason : file);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(handle, functions[i].name);
        if (!symbol) {
            snprintf(l->text, sizeof(l->text), "%s has no %s", file, functions[i].name);
            return;
        }
        memcpy(functions[i].loaded, &symbol, sizeof(symbol));
        Dl_info info;
        if (dladdr(symbol, &info)) snprintf(l->text, sizeof(l->text), "%s", info.dli_fname);
    }
    l->usable = true;
}

static void load_cudnn(void)
{
    library_load(&cudnn, cudnn_file, cudnn_functions,
                 sizeof(cudnn_functions) / sizeof(cudnn_functions[0]));
    const size_t version = cudnn.usable ? cudnnGetVersion() : MIN_CUDNN;
    if (version >= MIN_CUDNN) return;
    cudnn.usable = false;
    snprintf(cudnn.text, sizeof(cudnn.text),
             "%s is version %zu.%zu.%zu, %d.%d or later is required", cudnn_file, version / 10000,
             version / 100 % 100, version % 100, MIN_CUDNN / 10000, MIN_CUDNN / 100 % 100);
}

static void load_cublaslt(void)
{
    library_load(&cublaslt, cublaslt_file, cublaslt_functions,
                 sizeof(cublaslt_functions) / sizeof(cublaslt_functions[0]));
}

bool ls__cudnn_load(char *text, size_t size)
{
    (void)pthread_once(&cudnn.once, load_cudnn);
    snprintf(text, size, "%s", cudnn.text);
    return cudnn.usable;
}

bool ls__cublaslt_load(char *text, size_t size)
{
    (void)pthread_once(&cublaslt.once, load_cublaslt);
    snprintf(text, size, "%s", cublaslt.text);
    return cublaslt.usable;
}
