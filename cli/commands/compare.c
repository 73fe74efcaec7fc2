/* compare.c: 'lockstep compare': whether two runs are identical, and if not, where they diverge. */
#include "cli.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct compare_values {
    const char *data_dir;
    bool json;
} compare_values;

#define AT(member) offsetof(compare_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "data-dir", AT(data_dir),
      "folder or pack of the dataset, if it was moved", "DIR", .note = "as stored in each run" },
    { LS_SETTING_SWITCH, 0, "json", AT(json), "print the report as JSON" },
    { .kind = LS_SETTING_END },
};

static long long json_integer_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static const char *json_text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---- The replay ---- */

static void print_op(const char *which, const json_t *op)
{
    if (json_is_null(op)) {
        print_text(stdout, "  %s: no further op\n", which);
        return;
    }
    const char *kernel = json_text_of(op, "kernel");
    print_text(stdout, "  %s: op %lld, %s%s of '%s'%s%s\n", which, json_integer_of(op, "number"),
               json_text_of(op, "kind"),
               json_is_true(json_object_get(op, "backward")) ? ", backward" : "",
               json_text_of(op, "name"), *kernel ? ", kernel " : "", kernel);
}

static void print_element(const json_t *element)
{
    const char *parameter = json_text_of(element, "parameter");
    const json_t *values = json_object_get(element, "values");
    const char *type = json_text_of(element, "type");
    const long long ulps = json_integer_of(element, "ulps");
    const bool is_integer = type[0] == 'U' || type[0] == 'I'; /* without units in the last place */
    char *index = json_dumps(json_object_get(element, "index"), 0);
    print_text(stdout, "  %s%s%s%s %s %s, element %s: %s in A, %s in B",
               json_text_of(element, "role"), parameter ? " ('" : "", parameter ? parameter : "",
               parameter ? "')" : "", type, json_text_of(element, "shape"), index ? index : "",
               json_string_value(json_array_get(values, 0)),
               json_string_value(json_array_get(values, 1)));
    print_text(stdout, ", %lld%s%s apart; %lld of %lld elements differ\n", ulps,
               is_integer ? "" : " ulp", is_integer ? "" : plural(ulps),
               json_integer_of(element, "different_elements"),
               json_integer_of(element, "elements"));
    free(index);
}

static void print_batch(const json_t *batch)
{
    const json_t *images = json_object_get(batch, "images");
    if (json_integer_of(batch, "place") < 0) {
        print_text(stdout, "  their batches have different sizes\n");
        return;
    }
    print_text(stdout, "  the first image that differs is number %lld of the batch\n",
               json_integer_of(batch, "place"));
    for (size_t i = 0; i < 2; i++) {
        const json_t *image = json_array_get(images, i);
        const char *file = json_text_of(image, "file");
        const long long label = json_integer_of(image, "label");
        print_text(stdout, "  %c: sample %lld, ", "AB"[i], json_integer_of(image, "sample"));
        if (label >= 0) print_text(stdout, "label %lld, ", label);
        print_text(stdout, "%s\n", file ? file : "");
    }
}

/* Where two replays agree, they match at most one of two run logs that differ. */
static void print_agreement(const json_t *replay)
{
    const json_t *reproduced = json_object_get(replay, "reproduced");
    const bool a = json_is_true(json_object_get(reproduced, "a"));
    const bool b = json_is_true(json_object_get(reproduced, "b"));
    static const char *const causes[] = { "neither run log: both runs were", "A's run log: B was",
                                          "B's run log: A was" };
    print_text(stdout,
               "replay: both runs now give the same result, which matches %s changed by a hardware "
               "fault, or by something outside the identity\n",
               causes[a   ? 1
                      : b ? 2
                          : 0]);
}

/* The member "replay" of the report. */
static void print_replay(const json_t *replay)
{
    static const struct {
        const char *found, *line;
    } lines[] = { { "optimizer_state", "the optimizers' states differ before this step" },
                  { "learning_rate", "the learning rates differ" },
                  { "batch", "the batches differ" },
                  { "earlier_value", "an input of the step (a weight or buffer) already differs" },
                  { "op", "the first op whose output differs although its inputs are equal" },
                  { "program", "the runs execute different ops" } };
    const char *found = json_text_of(replay, "found"), *line = NULL;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (strcmp(lines[i].found, found) == 0) line = lines[i].line;
    if (!line) {
        print_agreement(replay);
        return;
    }
    print_text(stdout, "replay: step %lld (epoch %lld, step %lld): %s\n",
               json_integer_of(replay, "step"), json_integer_of(replay, "epoch"),
               json_integer_of(replay, "step_in_epoch"), line);
    const json_t *ops = json_object_get(replay, "ops"),
                 *rates = json_object_get(replay, "learning_rates");
    if (ops) print_op("A", json_array_get(ops, 0));
    if (ops) print_op("B", json_array_get(ops, 1));
    if (rates)
        print_text(stdout, "  %.17g in A, %.17g in B\n",
                   json_number_value(json_array_get(rates, 0)),
                   json_number_value(json_array_get(rates, 1)));
    if (json_object_get(replay, "batch")) print_batch(json_object_get(replay, "batch"));
    if (json_object_get(replay, "element")) print_element(json_object_get(replay, "element"));
}

/* ---- The report ---- */

static void print_differences(const json_t *differences)
{
    size_t i;
    json_t *difference;
    json_array_foreach((json_t *)differences, i, difference)
    {
        print_text(stdout, "  %s\n", json_text_of(difference, "text"));
    }
}

static void print_identities(const json_t *report, char *const dirs[2])
{
    const json_t *given = json_object_get(report, "option_differences");
    const json_t *identity = json_object_get(report, "identity_differences");
    for (int i = 0; i < 2; i++) print_text(stdout, "%c: %s\n", "AB"[i], dirs[i]);
    if (json_array_size(given) > 0) print_text(stdout, "options that differ:\n");
    print_differences(given);
    print_text(stdout, "identity: %s\n", json_array_size(identity) > 0 ? "different" : "the same");
    print_differences(identity);
    if (json_is_false(json_object_get(report, "data_digests_compared")))
        print_text(stdout,
                   "  digests of the data are not compared: only one run has --digest-contents\n");
}

static void print_forced(const json_t *report)
{
    static const char *const keys[] = { "forced_a", "forced_b" };
    for (int i = 0; i < 2; i++) {
        const json_t *steps = json_object_get(report, keys[i]);
        for (size_t k = 0; k < json_array_size(steps); k++)
            print_text(stdout,
                       "%c was resumed with --force and a different identity at step %lld\n",
                       "AB"[i], (long long)json_integer_value(json_array_get(steps, k)));
    }
}

static void print_run_logs(const json_t *report)
{
    const json_t *steps = json_object_get(report, "steps"), *name;
    const json_t *first = json_object_get(report, "first_different_step");
    size_t i;
    print_text(stdout, "run log: A has %lld step%s, B has %lld; ", json_integer_of(steps, "a"),
               plural(json_integer_of(steps, "a")), json_integer_of(steps, "b"));
    if (!first) {
        print_text(stdout, "all common steps are identical\n");
        return;
    }
    print_text(stdout,
               "the first step that differs is %lld, in:", (long long)json_integer_value(first));
    json_array_foreach(json_object_get(report, "different_in_it"), i, name)
        print_text(stdout, " %s", json_string_value(name));
    print_text(stdout, "\n");
}

static void print_as_text(const json_t *report, char *const dirs[2], ls_run_verdict verdict)
{
    static const char *const verdicts[] = { "identical", "different", "not comparable" };
    const json_t *replay = json_object_get(report, "replay");
    const json_t *steps = json_object_get(report, "steps");
    print_identities(report, dirs);
    print_forced(report);
    print_run_logs(report);
    if (replay) print_replay(replay);
    const bool partly =
        verdict == LS_RUNS_IDENTICAL && json_integer_of(steps, "a") != json_integer_of(steps, "b");
    const bool other = verdict == LS_RUNS_NOT_COMPARABLE &&
                       json_array_size(json_object_get(report, "identity_differences")) > 0;
    print_text(stdout, "result: %s%s%s\n", verdicts[verdict], partly ? " in all common steps" : "",
               other ? ": the identities differ, so no step is replayed" : "");
}

static int compare(const compare_values *v, char *const dirs[2])
{
    ls_context *ctx = command_context();
    const ls_run_compare_config config = { .data_dir = v->data_dir };
    ls_run_verdict verdict;
    char *text;
    if (ls_run_compare(ctx, dirs[0], dirs[1], &config, &verdict, &text) != LS_OK)
        print_error(ctx, LS_EXIT_RUNTIME);
    json_t *report = text ? json_loads(text, 0, NULL) : NULL;
    if (report && verdict == LS_RUNS_DIFFERENT && !json_object_get(report, "replay"))
        print_note("the step is not replayed, because a program's own net can't be built here");
    if (text && v->json) {
        print_json(text, strlen(text), stdout);
        print_text(stdout, "\n");
    } else if (report) {
        print_as_text(report, dirs, verdict);
    }
    json_decref(report);
    free(text);
    return (int)verdict;
}

static int run(const cli_parsed *parsed, void *values)
{
    compare_values *v = values;
    enum { EXIT_LOST = 5 };
    if (parsed->n_arguments != 2)
        return fail_with(LS_EXIT_USAGE, "expected two run folders, got %d", parsed->n_arguments);
    const int exit_status = compare(v, parsed->arguments);
    /* A lost report is no verdict. main prints the error. */
    return print_finish() == 0 ? exit_status : EXIT_LOST;
}

const cli_command command_compare = {
    .name = "compare",
    .summary = "compare two runs bit by bit, and find the first divergence",
    .arguments = "RUN RUN",
    .details =
        "Compares the identities (manifest.json), then the digests of each step "
        "(run_log.txt). Replays, in both runs and op by op, the first step that differs, from the "
        "latest checkpoint at or before it (--keep-checkpoints). Reports the first op whose output "
        "differs although its inputs are equal, with the tensor, the element and both values.\n"
        "Exit status: 0 all common steps are identical, 1 the runs differ, 2 not comparable, 5 the "
        "result could not be written.",
    .values_bytes = sizeof(compare_values),
    .options = options,
    .run = run,
};
