/* sweep_save.c: sweep.json after each result, and the report from time to time; see sweep.h. */
#include "base/clock.h"
#include "base/error.h"
#include "experiment/sweep.h"
#include <math.h>

/* The time of the next report depends on how long this one took. */
static void write_report(ls_sweep *s)
{
    enum { MIN_SECONDS = 5, SHARE = 20 };
    const double begin = ls__now_seconds();
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .threads = 1, .log = s->config.log, .log_user = s->config.log_user });
    if (ls_sweep_report_write(ctx, s->values.out, NULL, s->command) != LS_OK)
        ls__warn(s->ctx, LS_LOG_RUN, "%s", ls_context_message(ctx));
    ls_context_close(&ctx);
    s->is_report_old = false;
    const double end = ls__now_seconds();
    s->report_due = end + fmax(MIN_SECONDS, SHARE * (end - begin));
}

void ls__sweep_update_report(ls_sweep *s)
{
    if (s->is_report_old) write_report(s);
}

ls_status ls__sweep_save(ls_sweep *s)
{
    LS_TRY(ls__sweep_results_write(s));
    if (ls__now_seconds() >= s->report_due) write_report(s);
    return LS_OK;
}
