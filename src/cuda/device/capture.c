/* capture.c: recordings: CUDA graphs, captured from the stream COMPUTE, and SIDE while it is
 * joined to it. What changes from step to
 * step is read from device memory by the kernels that need it, and brought there before a launch.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/device/device.h"

struct ls__captured {
    ls__cuda_replay replay;
    bool uses_numbers;
};

ls_status ls__cuda_refuse_recording(ls__cuda *cuda, const char *what)
{
    if (!cuda->records) return LS_OK;
    return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: new while a step is recorded", what);
}

ls_status ls__cuda_recording_begin(ls__device *device, const ls__step *step)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    LS_TRY(ls__cuda_set_numbers(cuda, step));
    LS_TRY(ls__cuda_check(cuda, driver->capture_begin(cuda->stream), "recording a step"));
    cuda->numbers_used = false;
    cuda->records = true;
    return LS_OK;
}

ls_status ls__cuda_recording_end(ls__device *device, ls__captured **out)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = cuda->driver;
    ls__cuda_graph graph = NULL;
    ls__captured *r = NULL;
    *out = NULL;
    cuda->records = false;
    ls_status status =
        ls__cuda_check(cuda, driver->capture_end(cuda->stream, &graph), "recording a step");
    if (status == LS_OK && ls__has_error(device->ctx)) status = LS_ERR_EARLIER;
    if (status == LS_OK) {
        r = ls__zalloc(device->ctx, sizeof(*r));
        if (!r) status = ls__fail_memory(device->ctx, "recording a step", sizeof(*r));
    }
    if (status == LS_OK)
        status = ls__cuda_check(cuda, driver->replay_open(graph, &r->replay), "recording a step");
    if (graph) (void)driver->graph_close(graph);
    if (status != LS_OK) {
        ls__free(device->ctx, r);
        return status;
    }
    r->uses_numbers = cuda->numbers_used;
    *out = r;
    return LS_OK;
}

ls_status ls__cuda_recording_launch(ls__device *device, ls__captured *recording,
                                    const ls__step *step)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (recording->uses_numbers) LS_TRY(ls__cuda_set_numbers(cuda, step));
    return ls__cuda_check(cuda, cuda->driver->replay_launch(recording->replay, cuda->stream),
                          "a recorded step");
}

void ls__cuda_recording_close(ls__device *device, ls__captured *recording)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (!recording) return;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    (void)driver->stream_wait(cuda->stream); /* it may be running */
    (void)driver->replay_close(recording->replay);
    ls__free(device->ctx, recording);
}
