/* capture.c: CUDA graphs, captured from the stream COMPUTE, and from SIDE while it is joined to
 * COMPUTE. Kernels read the step's values from device memory, so a graph can be replayed for
 * another step: set_step writes them before the launch. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/device/slots.h"
#include "cuda/kernels/kernels.h"
#include <string.h>

struct ls__captured {
    ls__cuda_replay replay;
    bool uses_step;
};

ls_status ls__cuda_set_step(ls__cuda *cuda, const ls__step *step)
{
    static const char what[] = "the step's values";
    cuda->step_used = true;
    if (cuda->step_known && memcmp(step, &cuda->step, sizeof(*step)) == 0) return LS_OK;
    LS_TRY(ls__cuda_refuse_capture(cuda, what));
    cuda->step = *step;
    cuda->step_known = false;
    LS_TRY(ls__cuda_check(cuda, ls__cuda_store_step(cuda->device_step, step, cuda->stream), what));
    cuda->step_known = true;
    return LS_OK;
}

ls_status ls__cuda_capture_begin(ls__device *device, const ls__step *step)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    LS_TRY(ls__cuda_set_step(cuda, step));
    LS_TRY(ls__cuda_check(cuda, driver->capture_begin(cuda->stream), "graph capture"));
    cuda->step_used = false;
    cuda->capturing = true;
    return LS_OK;
}

ls_status ls__cuda_capture_end(ls__device *device, ls__captured **out)
{
    ls__cuda *cuda = (ls__cuda *)device;
    const ls__cuda_driver *driver = cuda->driver;
    ls__cuda_graph graph = NULL;
    ls__captured *c = NULL;
    static const char what[] = "graph capture";
    *out = NULL;
    cuda->capturing = false;
    ls_status status = ls__cuda_check(cuda, driver->capture_end(cuda->stream, &graph), what);
    if (status == LS_OK && ls__has_error(device->ctx)) status = LS_ERR_EARLIER;
    if (status == LS_OK) {
        c = ls__zalloc(device->ctx, sizeof(*c));
        if (!c) status = ls__fail_memory(device->ctx, what, sizeof(*c));
    }
    if (status == LS_OK)
        status = ls__cuda_check(cuda, driver->replay_open(graph, &c->replay), what);
    if (graph) (void)driver->graph_close(graph);
    if (status != LS_OK) {
        ls__free(device->ctx, c);
        return status;
    }
    c->uses_step = cuda->step_used;
    *out = c;
    return LS_OK;
}

ls_status ls__cuda_captured_launch(ls__device *device, ls__captured *captured, const ls__step *step)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (captured->uses_step) LS_TRY(ls__cuda_set_step(cuda, step));
    return ls__cuda_check(cuda, cuda->driver->replay_launch(captured->replay, cuda->stream),
                          "graph replay");
}

void ls__cuda_captured_close(ls__device *device, ls__captured *captured)
{
    ls__cuda *cuda = (ls__cuda *)device;
    if (!captured) return;
    const ls__cuda_driver *driver = ls__cuda_enter(device);
    (void)ls__cuda_finish_stream(cuda, cuda->stream, "graph replay"); /* it may be running */
    (void)driver->replay_close(captured->replay);
    ls__free(device->ctx, captured);
}
