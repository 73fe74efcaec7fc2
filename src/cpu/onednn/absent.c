/* absent.c: in place of the other sources of this folder in a build without oneDNN, which has no
 * native arithmetic. */
#include "base/error.h"
#include "cpu/onednn/onednn.h"

ls_status ls__onednn_open(ls_context *ctx, int n_threads, ls__onednn **out)
{
    (void)n_threads;
    *out = NULL;
    return ls__fail(
        ctx, LS_ERR_UNSUPPORTED,
        "arithmetic native: this build is without oneDNN; expected portable, or a build "
        "with -DLOCKSTEP_ONEDNN=ON");
}

void ls__onednn_close(ls_context *ctx, ls__onednn **onednn)
{
    (void)ctx;
    (void)onednn;
}

const char *ls__onednn_libraries(const ls__onednn *onednn)
{
    (void)onednn;
    return "";
}

const char *ls__onednn_processor(const ls__onednn *onednn)
{
    (void)onednn;
    return "";
}

bool ls__onednn_thread_start(void)
{
    return true;
}

void ls__onednn_begin(ls__onednn *onednn)
{
    (void)onednn;
}

void ls__onednn_end(ls__onednn *onednn)
{
    (void)onednn;
}

/* It is never asked, because no device has native arithmetic. */
const ls__cpu_provider ls__onednn_provider = { "onednn", NULL, NULL, NULL };
