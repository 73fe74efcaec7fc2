/* cudnn_execute.c: the emulated cuDNN's handles, and what runs a plan: pointers are checked, then
 * the program is queued in the handle's stream. */
#include "cudnn_program.h"
#include "driver.h"
#include "graphs.h"
#include "library_count.h"
#include "streams.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct cudnnContext {
    cudaStream_t stream;
    int device; /* that was current when it was made, and must be when it is used */
};

static int64_t n_open; /* descriptors and handles */
__attribute__((visibility("default"))) emulate_held_fn emulate_libraries_held;

void emulated_library_count(int change)
{
    n_open += change;
}

int64_t emulate_libraries_held(void)
{
    return n_open;
}

/* ---- Handles ---- */

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (CUDNN_STATUS_CATEGORY(status)) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return status == CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH
                   ? "CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH"
                   : "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR: return "CUDNN_STATUS_INTERNAL_ERROR";
    default: return "CUDNN_STATUS_NOT_INITIALIZED";
    }
}

/* This call allocates, which a capture forbids. */
cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    if (!handle) return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for it");
    if (emulated_failure_status() != 0 || emulated_forbids() != 0)
        return cudnn_fail(CUDNN_STATUS_NOT_INITIALIZED, "emulated: it does not open");
    *handle = calloc(1, sizeof **handle);
    if (!*handle) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    (*handle)->device = emulated_current_device();
    emulated_library_count(1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    if (!handle) return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle");
    free(handle);
    emulated_library_count(-1);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    if (!handle) return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no handle");
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Pointers ---- */

cudnnStatus_t cudnn_finalize_pack(cudnn_body *body)
{
    const int64_t *ids = cudnn_data(body, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const int64_t n = cudnn_count(body, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    if (n != cudnn_count(body, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "not as many pointers as unique ids");
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            if (ids[i] == ids[j])
                return cudnn_fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "unique id %lld",
                                  (long long)ids[i]);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t bind_tensor(cudnn_tensor *t, void *pointer)
{
    if (t->is_virtual)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "virtual tensor %lld has a pointer",
                          (long long)t->id);
    if (!pointer)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "tensor %lld", (long long)t->id);
    if (t->by_value) { /* in host memory, read now */
        memcpy(&t->value, pointer, cudnn_type_bytes(t->type));
        return CUDNN_STATUS_SUCCESS;
    }
    if ((uintptr_t)pointer % (uintptr_t)t->alignment != 0)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "tensor %lld",
                          (long long)t->id);
    if (!emulated_is_on_device(pointer))
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld is not in the device's memory",
                          (long long)t->id);
    t->memory = pointer;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t bind(cudnn_program *p, const cudnn_body *pack)
{
    const int64_t *ids = cudnn_data(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    void *const *pointers = cudnn_data(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    void *const *workspace = cudnn_data(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const int64_t n = cudnn_count(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (int i = 0; i < p->n_tensors; i++) {
        int64_t at = 0;
        while (at < n && ids[at] != p->tensors[i].id) at++;
        if (at == n && p->tensors[i].is_virtual) continue;
        if (at == n)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld has no pointer",
                              (long long)p->tensors[i].id);
        const cudnnStatus_t status = bind_tensor(&p->tensors[i], pointers[at]);
        if (status != CUDNN_STATUS_SUCCESS) return status;
    }
    p->workspace = workspace ? *workspace : NULL;
    if (p->workspace_bytes > 0 && !p->workspace)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no working memory");
    if (p->workspace_bytes > 0 && !emulated_is_on_device(p->workspace))
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "working memory is not the device's");
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Running ---- */

/* Both the graph and the plan must have been made for this handle; a plan for a device that is only
 * described runs nowhere. */
static cudnnStatus_t check_handle(cudnnHandle_t handle, const cudnn_body *plan)
{
    const cudnn_body *engine =
        cudnn_part(cudnn_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0),
                   CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    const cudnn_body *graph = cudnn_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0);
    const cudnnHandle_t *of_plan = cudnn_data(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    const cudnnHandle_t *of_graph =
        graph ? cudnn_data(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) : NULL;
    if (handle->device != emulated_current_device())
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "another device is current than the handle's");
    if (!of_plan || *of_plan != handle)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "the plan was not made for this handle");
    if (graph && (!of_graph || *of_graph != handle))
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "the graph was not made for this handle");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan,
                                  cudnnBackendDescriptor_t variantPack)
{
    const cudnn_body *plan = cudnn_body_of(executionPlan), *pack = cudnn_body_of(variantPack);
    if (!handle || !plan || !pack)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle, plan or pointers");
    if (plan->type->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        pack->type->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "plan or pointers");
    if (!plan->finalized || !pack->finalized)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or pointers");
    cudnn_program program;
    memcpy(&program, plan->made, sizeof program);
    cudnnStatus_t status = check_handle(handle, plan);
    if (status == CUDNN_STATUS_SUCCESS) status = bind(&program, pack);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (program.arithmetic.fails) {
        emulated_leave_error();
        return cudnn_fail(CUDNN_STATUS_EXECUTION_FAILED, "emulated: this engine fails");
    }
    if (emulated_enter(handle->stream) != 0)
        return cudnn_fail(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "emulated: a launch fails");
    void *job = emulated_queue(handle->stream, cudnn_compute, sizeof program);
    if (!job) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    memcpy(job, &program, sizeof program);
    emulated_streams_advance();
    return CUDNN_STATUS_SUCCESS;
}
