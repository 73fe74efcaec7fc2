/* plot.c: 'lockstep plot': plots the training curves of a run. */
#include "cli.h"
#include <lockstep/report.h>

typedef struct plot_values {
    const char *title;
    bool log;
} plot_values;

#define AT(member) offsetof(plot_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "title", AT(title), "title of the chart", "TEXT",
      .note = "the folder's name" },
    { LS_SETTING_SWITCH, 0, "log", AT(log), "logarithmic axis for the loss" },
    { .kind = LS_SETTING_END },
};

static int run(const cli_parsed *parsed, void *values)
{
    plot_values *v = values;
    if (parsed->n_arguments != 1)
        return fail_with(LS_EXIT_USAGE, "expected one run folder, got %d", parsed->n_arguments);
    const char *dir = parsed->arguments[0];
    if (ls_curves_write(command_context(), dir, v->title ? v->title : dir, v->log) != LS_OK)
        return print_error(command_context(), LS_EXIT_RUNTIME);
    print_text(stdout, "%s/curves.svg\n", dir);
    return LS_EXIT_DONE;
}

const cli_command command_plot = {
    .name = "plot",
    .summary = "plot the loss and accuracy of a run",
    .arguments = "RUN",
    .details = "Writes RUN/curves.svg from RUN/metrics.jsonl.",
    .values_bytes = sizeof(plot_values),
    .options = options,
    .run = run,
};
