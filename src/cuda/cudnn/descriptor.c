/* descriptor.c: see descriptor.h. */
#include "cuda/cudnn/descriptor.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

void ls__cudnn_check(ls__cudnn_calls *calls, cudnnStatus_t status, const char *what)
{
    if (calls->status != CUDNN_STATUS_SUCCESS || status == CUDNN_STATUS_SUCCESS) return;
    calls->status = status;
    const int length = snprintf(calls->message, sizeof calls->message, "%s: %s: ", what,
                                cudnnGetErrorString(status));
    if (length < 0 || (size_t)length + 1 >= sizeof calls->message) return;
    cudnnGetLastErrorString(calls->message + length, sizeof calls->message - (size_t)length);
    calls->message[strcspn(calls->message, "\n")] = '\0'; /* one line; the rest is a call stack */
}

cudnnBackendDescriptor_t ls__cudnn_make(ls__cudnn_calls *calls, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (calls->status != CUDNN_STATUS_SUCCESS) return NULL;
    ls__cudnn_check(calls, cudnnBackendCreateDescriptor(type, &made), "making a descriptor");
    return calls->status == CUDNN_STATUS_SUCCESS ? made : NULL;
}

void ls__cudnn_set(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                   cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t count, const void *values)
{
    if (calls->status != CUDNN_STATUS_SUCCESS) return;
    char what[40];
    snprintf(what, sizeof what, "setting attribute %d", (int)name);
    ls__cudnn_check(calls, cudnnBackendSetAttribute(descriptor, name, type, count, values), what);
}

void ls__cudnn_set_descriptor(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                              cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value)
{
    ls__cudnn_set(calls, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void ls__cudnn_set_int64(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name, int64_t value)
{
    ls__cudnn_set(calls, descriptor, name, CUDNN_TYPE_INT64, 1, &value);
}

void ls__cudnn_set_type(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, cudnnDataType_t value)
{
    ls__cudnn_set(calls, descriptor, name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

int64_t ls__cudnn_get(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, void *values)
{
    if (calls->status != CUDNN_STATUS_SUCCESS) return 0;
    int64_t n = 0;
    char what[40];
    snprintf(what, sizeof what, "reading attribute %d", (int)name);
    ls__cudnn_check(calls, cudnnBackendGetAttribute(descriptor, name, type, count, &n, values),
                    what);
    if (calls->status != CUDNN_STATUS_SUCCESS) return 0;
    return values != NULL && n > count ? count : n;
}

void ls__cudnn_finalize(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                        const char *what)
{
    if (calls->status != CUDNN_STATUS_SUCCESS) return;
    ls__cudnn_check(calls, cudnnBackendFinalize(descriptor), what);
}

void ls__cudnn_release(cudnnBackendDescriptor_t *descriptor)
{
    if (*descriptor != NULL) cudnnBackendDestroyDescriptor(*descriptor);
    *descriptor = NULL;
}

bool ls__cudnn_is_unsupported(const ls__cudnn_calls *calls)
{
    return CUDNN_STATUS_CATEGORY(calls->status) == CUDNN_STATUS_NOT_SUPPORTED;
}

void ls__cudnn_input_unsupported(ls__cudnn_calls *calls)
{
    if (CUDNN_STATUS_CATEGORY(calls->status) == CUDNN_STATUS_BAD_PARAM)
        calls->status = CUDNN_STATUS_NOT_SUPPORTED;
}

ls_status ls__cudnn_report(ls_context *ctx, const ls__cudnn_calls *calls, const char *what)
{
    if (calls->status == CUDNN_STATUS_SUCCESS) return LS_OK;
    const ls_status status = ls__cudnn_is_unsupported(calls) ? LS_ERR_UNSUPPORTED
                             : calls->status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
                                 ? LS_ERR_MEMORY
                                 : LS_ERR_DEVICE;
    return ls__fail(ctx, status, "%s: cuDNN: %s", what, calls->message);
}
