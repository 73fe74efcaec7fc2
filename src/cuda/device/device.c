/* device.c: see device.h. */
#include "cuda/device/device.h"
#include "base/context.h"
#include "base/error.h"

const ls__cuda_driver *ls__cuda_enter(ls__device *device)
{
    const ls__cuda *cuda = (const ls__cuda *)device;
    (void)cuda->driver->set_device(cuda->index); /* it succeeded when the context was opened */
    return cuda->driver;
}

ls_status ls__cuda_check(ls__cuda *cuda, int status, const char *what)
{
    if (status == 0) return LS_OK;
    ls_context *ctx = cuda->device.ctx;
    const ls__cuda_driver *driver = cuda->driver;
    if (!driver->is_sticky(status))
        return ls__fail(ctx, LS_ERR_DEVICE, "%s: CUDA: %s", what, driver->error_text(status));
    /* The sticky error replaces a kept one, and stays. */
    if (!ctx->unusable) ctx->error = LS_OK;
    ctx->unusable = true;
    return ls__fail(ctx, LS_ERR_DEVICE,
                    "%s: CUDA: %s. It was seen here and may have been caused by what was queued "
                    "before. This process can't use the device any more",
                    what, driver->error_text(status));
}

ls_status ls__cuda_refuse_capture(ls__cuda *cuda, const char *what)
{
    if (!cuda->capturing) return LS_OK;
    return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: changed during graph capture", what);
}
