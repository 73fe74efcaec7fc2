/* compare.c: 'lockstep compare': whether two runs are identical, and if not, where they diverge. */
#include "options/run_settings.h"
#include "commands/compare_side.h"
#include "checkpoint/identity.h"
#include "io/json.h"
#include <stdio.h>
#include <string.h>

enum {
    ANSWER_IDENTICAL = 0,
    ANSWER_DIFFERENT = 1,
    ANSWER_NOT_COMPARABLE = 2,
    ANSWER_LOST = 5,
    TEXT_SIZE = 512
};

typedef struct compare_values {
    const char *data_dir;
    bool json;
} compare_values;

#define AT(member) offsetof(compare_values, member)
static const ls__setting options[] = {
    { LS__SETTING_HEADING, .help = "Options:" },
    { LS__SETTING_TEXT, 0, "data-dir", AT(data_dir),
      "folder or pack of the dataset, if it was moved", "DIR", .note = "as stored in each run" },
    { LS__SETTING_SWITCH, 0, "json", AT(json), "print the report as JSON" },
    { .kind = LS__SETTING_END },
};

/* The results as JSON. The text is made from them. */
typedef struct comparison {
    const compare_values *values;
    compare_side sides[2];
    json_t *report;
} comparison;

static void put(comparison *c, const char *key, json_t *value)
{
    json_object_set_new(c->report, key, value);
}

static bool is_of_program(const comparison *c)
{
    return c->sides[0].is_of_program || c->sides[1].is_of_program;
}

/* ---- Options and identity ---- */

/* Differences between the stored options, without execution settings, in the form of
 * ls__identity_differences: --label-smoothing is 0 in A, 0.1 in B. NULL without memory. */
static json_t *option_differences(const comparison *c)
{
    if (is_of_program(c)) return json_array();
    json_t *all = ls__identity_differences(json_object_get(c->sides[0].config, "options"),
                                           json_object_get(c->sides[1].config, "options"), true);
    json_t *out = all ? json_array() : NULL, *difference;
    size_t i;
    json_array_foreach(all, i, difference)
    {
        const char *name = ls__json_get_string(difference, "field");
        const int option = ls__setting_find(ls__run_settings_table, name, strlen(name));
        const json_t *there = json_object_get(difference, "there");
        const json_t *here = json_object_get(difference, "here");
        const bool unset = (!there || json_is_null(there)) && (!here || json_is_null(here));
        if (unset || (option >= 0 && ls__run_settings_table[option].execution)) continue;
        if (json_object_set_new(difference, "field", json_sprintf("--%s", name)) == 0 &&
            json_array_append(out, difference) == 0)
            continue;
        json_decref(out);
        out = NULL;
        break;
    }
    json_decref(all);
    return out;
}

/* sections: "data" or "validation.data" of two identities. Removes the digests if they are of
 * different kinds, because these can't be compared; the batch digests of each step can. Returns
 * whether they are compared. */
static bool keep_digests(json_t *const sections[2])
{
    const json_t *a = json_object_get(sections[0], "digest_of");
    const json_t *b = json_object_get(sections[1], "digest_of");
    if (!a || !b || json_equal(a, b)) return true;
    for (int i = 0; i < 2; i++) {
        json_object_del(sections[i], "digest");
        json_object_del(sections[i], "digest_of");
    }
    return false;
}

/* Differences between the identities; NULL without memory. */
static json_t *identity_differences(comparison *c)
{
    json_t *identities[2], *data[2], *validation_data[2];
    for (int i = 0; i < 2; i++) {
        identities[i] = json_deep_copy(json_object_get(c->sides[i].manifest, "identity"));
        data[i] = json_object_get(identities[i], "data");
        validation_data[i] = json_object_get(json_object_get(identities[i], "validation"), "data");
    }
    const bool in_training = keep_digests(data), in_validation = keep_digests(validation_data);
    put(c, "data_digests_compared", json_boolean(in_training && in_validation));
    json_t *out = ls__identity_differences(identities[0], identities[1], true);
    for (int i = 0; i < 2; i++) json_decref(identities[i]);
    return out;
}

/* ---- Run logs ---- */

static bool compare_run_logs(comparison *c, ls_run_log_difference *out)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cpu", .threads = 1 });
    put(c, "a", ls__json_text(ctx, c->sides[0].dir));
    put(c, "b", ls__json_text(ctx, c->sides[1].dir));
    const bool good =
        ls_run_log_compare(ctx, c->sides[0].run_log, c->sides[1].run_log, out) == LS_OK;
    if (!good) print_error(ctx, EXIT_RUNTIME);
    ls_context_close(&ctx);
    if (!good) return false;
    put(c, "steps", json_pack("{s:I, s:I}", "a", (json_int_t)out->n_a, "b", (json_int_t)out->n_b));
    if (out->step < 0) return true;
    const char *names[N_DIGESTS];
    const int n = differing_digests(out, names);
    json_t *differing = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(differing, json_string(names[i]));
    put(c, "first_different_step", json_integer(out->step));
    put(c, "different_in_it", differing);
    return true;
}

/* ---- The replay ---- */

/* False after printing why the runs can't be replayed. */
static bool replay_to(comparison *c, int64_t step, ls__finding *out)
{
    ls__compare_side sides[2];
    for (int i = 0; i < 2; i++)
        if (!compare_side_open(&c->sides[i], step, c->values->data_dir, &sides[i])) return false;
    if (ls__compare_runs(sides, step, out) != LS_OK) {
        for (int i = 0; i < 2; i++)
            if (ls_context_status(c->sides[i].run.ctx) != LS_OK)
                print_error(c->sides[i].run.ctx, EXIT_RUNTIME);
        return false;
    }
    put(c, "replay", compare_report(c->sides, sides, out));
    return true;
}

/* Run logs have no digests of optimizer states. If these differ before the step, the search
 * continues with the steps before it, until it finds the step that made them differ. */
static bool replay(comparison *c, int64_t step)
{
    ls__finding finding;
    json_t *before = NULL; /* the last report of different states */
    bool good = replay_to(c, step, &finding);
    while (good && finding.found == LS__FOUND_EARLIER && finding.step > 0) {
        json_decref(before);
        before = json_incref(json_object_get(c->report, "replay"));
        for (int i = 0; i < 2; i++) compare_side_leave(&c->sides[i]);
        good = replay_to(c, finding.step - 1, &finding);
    }
    /* no step made them differ: the checkpoints differ */
    if (good && finding.found == LS__FOUND_NOTHING && before) put(c, "replay", json_incref(before));
    json_decref(before);
    return good;
}

/* ---- The command ---- */

static void print_differences(const json_t *differences)
{
    size_t i;
    json_t *difference;
    char text[TEXT_SIZE];
    json_array_foreach((json_t *)differences, i, difference)
    {
        ls__identity_text(difference, "in A", "in B", text, sizeof(text));
        print_text(stdout, "  %s\n", text);
    }
}

static void print_identities(const comparison *c, const json_t *given, const json_t *identity)
{
    for (int i = 0; i < 2; i++) print_text(stdout, "%c: %s\n", "AB"[i], c -> sides[i].dir);
    if (json_array_size(given) > 0) print_text(stdout, "options that differ:\n");
    print_differences(given);
    print_text(stdout, "identity: %s\n", json_array_size(identity) > 0 ? "different" : "the same");
    print_differences(identity);
    if (json_is_false(json_object_get(c->report, "data_digests_compared")))
        print_text(stdout,
                   "  digests of the data are not compared: only one run has --digest-contents\n");
}

static void print_run_logs(const ls_run_log_difference *d)
{
    print_text(stdout, "run log: A has %lld step%s, B has %lld; ", (long long)d->n_a,
               plural(d->n_a), (long long)d->n_b);
    if (d->step < 0) {
        print_text(stdout, "all common steps are identical\n");
        return;
    }
    print_text(stdout, "the first step that differs is %lld, in:", (long long)d->step);
    const char *names[N_DIGESTS];
    const int n = differing_digests(d, names);
    for (int i = 0; i < n; i++) print_text(stdout, " %s", names[i]);
    print_text(stdout, "\n");
}

/* Reports the steps at which a run was resumed with --force and a different identity. Such a run
 * can't be replayed. */
static bool report_forced(comparison *c)
{
    static const char *const keys[] = { "forced_a", "forced_b" };
    bool forced = false;
    for (int i = 0; i < 2; i++) {
        json_t *steps = json_array(), *session;
        size_t s;
        json_array_foreach(json_object_get(c->sides[i].manifest, "sessions"), s, session)
        {
            json_t *step = json_object_get(session, "from_step");
            if (json_array_size(json_object_get(session, "forced")) == 0) continue;
            json_array_append(steps, step);
            if (!c->values->json)
                print_text(stdout,
                           "%c was resumed with --force and a different identity at step %lld\n",
                           "AB"[i], (long long)json_integer_value(step));
        }
        forced = forced || json_array_size(steps) > 0;
        put(c, keys[i], steps);
    }
    return forced;
}

static int compare_runs(comparison *c)
{
    static const char *const answers[] = { "identical", "different", "not comparable" };
    ls_run_log_difference d;
    if (!compare_run_logs(c, &d)) return ANSWER_NOT_COMPARABLE;
    json_t *differences = identity_differences(c), *options_differ = option_differences(c);
    const bool complete = differences && options_differ;
    const bool same = json_array_size(differences) == 0;
    put(c, "option_differences", options_differ);
    put(c, "identity_differences", differences);
    if (!complete) {
        print_error(NULL, EXIT_RUNTIME);
        return ANSWER_NOT_COMPARABLE;
    }
    if (!c->values->json) print_identities(c, options_differ, differences);
    const bool forced = report_forced(c);
    int answer = ANSWER_NOT_COMPARABLE;
    if (same && d.n_a > 0 && d.n_b > 0) {
        answer = d.step < 0 ? ANSWER_IDENTICAL : ANSWER_DIFFERENT;
        if (d.step >= 0 && forced)
            answer = ANSWER_NOT_COMPARABLE;
        else if (d.step >= 0 && is_of_program(c))
            print_note("the step is not replayed, because a program's own net can't be built here");
        else if (d.step >= 0 && !replay(c, d.step))
            answer = ANSWER_NOT_COMPARABLE;
    }
    put(c, "result", json_integer(answer));
    if (c->values->json) {
        json_dump_callback(c->report, print_json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
        print_text(stdout, "\n");
        return answer;
    }
    print_run_logs(&d);
    if (json_object_get(c->report, "replay")) compare_print(json_object_get(c->report, "replay"));
    const bool partly = answer == ANSWER_IDENTICAL && d.n_a != d.n_b;
    print_text(stdout, "result: %s%s\n", answers[answer], partly ? " in all common steps" : "");
    return answer;
}

static int run(int argc, char **argv)
{
    compare_values values = { 0 };
    cli_parsed parsed;
    const int ended = options_parse(&command_compare, argc, argv, &values, &parsed);
    if (ended >= 0) return ended;
    if (parsed.n_arguments != 2)
        return fail_with(EXIT_USAGE, "expected two run folders, got %d", parsed.n_arguments);
    comparison c = { .values = &values, .report = json_object() };
    bool good = true;
    for (int i = 0; i < 2 && good; i++) good = compare_side_read(&c.sides[i], parsed.arguments[i]);
    int answer = good ? compare_runs(&c) : ANSWER_NOT_COMPARABLE;
    /* A lost report is no verdict. main prints the error. */
    if (print_finish() != 0) answer = ANSWER_LOST;
    for (int i = 0; i < 2; i++) compare_side_close(&c.sides[i]);
    json_decref(c.report);
    return answer;
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
    .options = options,
    .run = run,
};
