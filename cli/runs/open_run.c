/* open_run.c: see runs.h. */
#include "runs/runs.h"

/* What --recipe has set. */
static void print_preset(const cli_parsed *parsed, const ls_run *run)
{
    const char *name, *value;
    if (print_is_quiet() || !given_text(parsed, "recipe")) return;
    field_line line = begin_fields(stdout);
    print_field(&line, "recipe  %s", given_text(parsed, "recipe"));
    for (int i = 0; ls_run_preset_at(run, i, &name, &value); i++)
        print_field(&line, "--%s%s%s", name, *value ? " " : "", value);
    end_fields(&line);
}

static void on_stage(void *user, ls_run *run, ls_run_stage stage)
{
    cli_run *r = user;
    r->run = run;
    r->report.ctx = ls_run_context(run);
    r->report.dir = ls_run_dir(run);
    switch (stage) {
    case LS_RUN_SETTLED:
        if (!r->resumes) print_preset(r->parsed, run);
        if (!r->one_process) ranks_connect(ls_run_number(run, "rank-timeout"));
        break;
    case LS_RUN_CONNECTED: ranks_connected(); break;
    case LS_RUN_STARTED:
        if (r->on_start) r->on_start(r);
        break;
    }
}

int open_run(cli_run *out, const char *dir, const char *resume, ls_run_extent extent,
             bool one_process)
{
    const ls_run_config config = { .given = &out->parsed->set,
                                   .extent = extent,
                                   .one_process = one_process,
                                   .log = print_log,
                                   .stop = &caught_signal,
                                   .on_event = report_event,
                                   .on_stage = on_stage,
                                   .user = out };
    out->one_process = one_process;
    out->resumes = resume != NULL;
    out->run = resume ? ls_run_resume(resume, &config) : ls_run_open(dir, &config);
    ranks_connected();
    ls_context *ctx = ls_run_context(out->run);
    out->report.ctx = ctx;
    out->report.train_data = ls_run_train_dataset(out->run);
    out->report.val_data = ls_run_validation_dataset(out->run);
    if (ls_context_status(ctx) == LS_OK) return LS_EXIT_DONE;
    return print_error(ctx, ls_run_failed_in_data(out->run) ? LS_EXIT_DATA : LS_EXIT_RUNTIME);
}
