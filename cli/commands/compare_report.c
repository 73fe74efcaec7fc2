/* compare_report.c: see compare_report.h. */
#include "commands/compare_report.h"
#include <stdlib.h>
#include <string.h>

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

void compare_print(const json_t *replay)
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
