/* capture.c: graphs exclude the copies of the inputs, because their addresses change. All other
 * calls are constant while the program is bound to one arena:
 *
 *   instructions, kernels, buffers   owned by the program; a new binding drops its graphs
 *   parameters, gradients            blocks that live as long as the net
 *   the optimizer's                  a graph is for one optimizer, by its serial number
 *   frozen parameters                training programs are dropped when that changes
 *   seed, epoch, step, lr ...        the backend copies them to the device before a launch
 *
 * A range runs call by call the first time, because libraries initialise then. It is captured the
 * second time and replayed afterwards. A range that can't be captured runs call by call, with a
 * warning. */
#include "nn/exec/capture.h"

#include "base/error.h"

static ls_status capture_range(ls_context *ctx, ls__call *const *calls, ls__capture *capture,
                               const ls__step *step)
{
    const ls__backend *backend = ctx->device->backend;
    ls_status status = backend->capture_begin(ctx->device, step);
    if (status == LS_OK) {
        for (int i = capture->begin; i < capture->end && status == LS_OK; i++)
            status = ls__run_call(ctx, calls[i], step, &(ls__run_mode){ 0 });
        const ls_status ended = backend->capture_end(ctx->device, &capture->graph);
        if (status == LS_OK) status = ended;
    }
    if (status == LS_OK || ctx->unusable) return status;
    ls__capture_drop(ctx, capture);
    capture->refused = true;
    ls__warn(ctx, "net: a step that can't be captured is queued op by op: %s",
             ls_context_message(ctx));
    ls_context_clear_error(ctx);
    return LS_OK;
}

ls_status ls__capture_launch(ls_context *ctx, ls__call *const *calls, ls__capture *capture,
                             const ls__step *step, bool *launched)
{
    *launched = false;
    if (capture->was_run && !capture->graph && !capture->refused)
        LS_TRY(capture_range(ctx, calls, capture, step));
    if (!capture->graph) return LS_OK;
    *launched = true;
    const ls_status status =
        ctx->device->backend->captured_launch(ctx->device, capture->graph, step);
    if (status != LS_OK)
        ls__error_in(ctx, "step %lld of epoch %lld", (long long)step->step, (long long)step->epoch);
    return status;
}
