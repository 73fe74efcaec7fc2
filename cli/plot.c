/* plot.c: 'lockstep plot': draws the training curves of a run. */
#include "cli.h"
#include "run/curves.h"

typedef struct plot_values {
    const char *title;
    bool log;
} plot_values;

#define AT(member) offsetof(plot_values, member)
static const cli_option options[] = {
    { OPTION_HEADING, .help = "Options:" },
    { OPTION_TEXT, 0, "title", AT(title), "title of the chart", "TEXT", .note = "the folder" },
    { OPTION_SWITCH, 0, "log", AT(log), "logarithmic axis for the loss", .value = NULL },
    { .kind = OPTION_END },
};

static int run(const cli_verb *verb, int argc, char **argv)
{
    plot_values v = { 0 };
    cli_parsed parsed;
    const parse_result result = options_parse(verb, argc, argv, &v, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? EXIT_DONE : EXIT_USAGE;
    if (parsed.n_arguments != 1)
        return fail_with(verb, EXIT_USAGE, "expected one run folder, got %d", parsed.n_arguments);
    const char *dir = parsed.arguments[0];
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log });
    int answer = EXIT_DONE;
    if (ls__curves_save(ctx, dir, v.title ? v.title : dir, v.log) == LS_OK)
        print_text(stdout, "%s/curves.svg\n", dir);
    else
        answer = print_error(verb, ctx, EXIT_RUNTIME);
    ls_context_close(&ctx);
    return answer;
}

const cli_verb verb_plot = {
    .name = "plot",
    .summary = "draw the loss and accuracy of a run",
    .arguments = "RUN",
    .details = "Writes RUN/curves.svg from RUN/metrics.jsonl.\n",
    .options = options,
    .run = run,
};
