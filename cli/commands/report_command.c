/* report_command.c: 'lockstep report': the results of runs as an HTML file. */
#include "cli.h"
#include <errno.h>
#include <lockstep/report.h>
#include <lockstep/sweep.h>
#include <stdlib.h>

typedef struct report_values {
    const char *out;
} report_values;

static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "out", offsetof(report_values, out), "HTML file to write", "FILE",
      .note = "report.html in the run's folder; required with several runs" },
    { .kind = LS_SETTING_END },
};

static int run(const cli_parsed *parsed, void *values)
{
    report_values *v = values;
    if (parsed->n_arguments == 0) return fail_with(LS_EXIT_USAGE, "no run folder given");
    for (int i = 0; i < parsed->n_arguments; i++)
        if (!is_folder(parsed->arguments[i]))
            return fail_with(LS_EXIT_RUNTIME,
                             "%s: not a folder; expected the folder of a run or a sweep",
                             parsed->arguments[i]);
    const bool is_sweep = ls_sweep_exists(parsed->arguments[0]);
    for (int i = 0; i < parsed->n_arguments && parsed->n_arguments > 1; i++)
        if (ls_sweep_exists(parsed->arguments[i]))
            return fail_with(LS_EXIT_USAGE, "%s: the folder of a sweep; expected no other folder",
                             parsed->arguments[i]);
    if (parsed->n_arguments > 1 && !v->out)
        return fail_with(LS_EXIT_USAGE, "--out FILE is required with several runs");
    if (v->out && !check_output_name("out", v->out, ".html")) return LS_EXIT_USAGE;
    ls_context *ctx = command_context();
    const ls_status status =
        is_sweep ? ls_sweep_report_write(ctx, parsed->arguments[0], v->out, program_invocation_name)
                 : ls_report_write(ctx, parsed->n_arguments, (const char *const *)parsed->arguments,
                                   v->out);
    if (status != LS_OK) return print_error(ctx, LS_EXIT_RUNTIME);
    if (!v->out)
        print_text(stdout, "%s/report.html\n", parsed->arguments[0]);
    else if (is_file(v->out))
        print_text(stdout, "%s\n", v->out);
    return LS_EXIT_DONE;
}

const cli_command command_report = {
    .name = "report",
    .summary = "write the results of runs or of a sweep as an HTML page",
    .arguments = "RUN...",
    .details = "The page has the curves, settings and environment of the runs, and of their last "
               "validation the confusion matrix, the scores of the classes, the calibration and "
               "the most confident mistakes with their images. It is one file without scripts. "
               "'lockstep train' writes RUN/report.html after each epoch. With the folder of a "
               "sweep the page has its trials as parallel coordinates, curves and a table, and the "
               "importance of the parameters; 'lockstep sweep' writes it after each trial.",
    .values_bytes = sizeof(report_values),
    .options = options,
    .run = run,
};
