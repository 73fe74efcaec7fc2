/* handle.c: opening cuDNN for a present or a described device. */
#include "cuda/cudnn/handle.h"
#include "base/alloc.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

ls_status ls__cudnn_open(ls_context *ctx, const char *device_json, ls__cudnn **out)
{
    ls__cudnn_calls calls = { 0 };
    ls__cudnn *cudnn = ls__zalloc(ctx, sizeof *cudnn);
    *out = NULL;
    if (cudnn == NULL) return ls__fail_memory(ctx, "cuDNN", sizeof *cudnn);
    cudnn->ctx = ctx;
    const size_t version = cudnnGetVersion();
    snprintf(cudnn->version, sizeof cudnn->version, "cuDNN %zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);

    if (device_json == NULL) ls__cudnn_check(&calls, cudnnCreate(&cudnn->handle), "opening");
    cudnn->device = ls__cudnn_make(&calls, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    if (device_json == NULL)
        ls__cudnn_set(&calls, cudnn->device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1,
                      &cudnn->handle);
    else
        ls__cudnn_set(&calls, cudnn->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                      CUDNN_TYPE_CHAR, (int64_t)strlen(device_json) + 1, device_json);
    ls__cudnn_finalize(&calls, cudnn->device, "the device's description");
    const ls_status status = ls__cudnn_report(ctx, &calls, "opening cuDNN");
    if (status != LS_OK) {
        ls__cudnn_close(&cudnn);
        return status;
    }
    *out = cudnn;
    return LS_OK;
}

void ls__cudnn_close(ls__cudnn **cudnn)
{
    ls__cudnn *c = *cudnn;
    if (c == NULL) return;
    ls__cudnn_cache_clear(c);
    ls__cudnn_release(&c->device);
    if (c->handle != NULL) cudnnDestroy(c->handle);
    ls__free(c->ctx, c);
    *cudnn = NULL;
}

/* One handle serves all streams, because a plan belongs to the handle that it was made with. This
 * is safe because each kernel has its own workspace. */
void ls__cudnn_update_stream(ls__cudnn *cudnn, ls__cudnn_calls *calls)
{
    void *stream = cudnn->launch_stream != NULL ? *cudnn->launch_stream : NULL;
    if (cudnn->stream == stream || calls->status != CUDNN_STATUS_SUCCESS) return;
    ls__cudnn_check(calls, cudnnSetStream(cudnn->handle, stream), "setting the stream");
    if (calls->status == CUDNN_STATUS_SUCCESS) cudnn->stream = stream;
}

ls_status ls__cudnn_set_stream(ls__cudnn *cudnn, void *const *stream)
{
    ls__cudnn_calls calls = { 0 };
    if (cudnn->handle == NULL)
        return ls__fail(cudnn->ctx, LS_ERR_UNSUPPORTED,
                        "cuDNN's stream: opened for a described device, which runs nothing");
    cudnn->launch_stream = stream;
    ls__cudnn_update_stream(cudnn, &calls);
    return ls__cudnn_report(cudnn->ctx, &calls, "cuDNN's stream");
}

int64_t ls__cudnn_dropped(const ls__cudnn *cudnn)
{
    return cudnn->n_dropped;
}

const char *ls__cudnn_version(const ls__cudnn *cudnn)
{
    return cudnn->version;
}
