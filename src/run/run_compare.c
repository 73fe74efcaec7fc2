/* run_compare.c: the comparison of two runs' folders; see lockstep/run.h. */
#include <lockstep/run.h>

#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "checkpoint/identity.h"
#include "io/json.h"
#include "run/replay_report.h"
#include <string.h>

typedef struct comparison {
    ls_context *ctx;
    const ls_run_compare_config *config;
    ls__replay_side sides[2];
    json_t *report;
} comparison;

static void put(comparison *c, const char *key, json_t *value)
{
    json_object_set_new(c->report, key, value);
}

static bool is_of_trainer(const comparison *c)
{
    return c->sides[0].is_of_trainer || c->sides[1].is_of_trainer;
}

/* ---- Settings and identity ---- */

/* Differences between the stored settings but those of execution, in the form of
 * ls__identity_differences: --label-smoothing is 0 in A, 0.1 in B. NULL without memory. */
static json_t *option_differences(const comparison *c)
{
    if (is_of_trainer(c)) return json_array();
    json_t *all = ls__identity_differences(json_object_get(c->sides[0].config, "options"),
                                           json_object_get(c->sides[1].config, "options"), true);
    json_t *out = all ? json_array() : NULL, *difference;
    size_t i;
    json_array_foreach(all, i, difference)
    {
        const char *name = ls__json_get_string(difference, "field");
        const int row = ls_setting_find(ls__run_settings_table, name, strlen(name));
        const json_t *there = json_object_get(difference, "there");
        const json_t *here = json_object_get(difference, "here");
        const bool unset = (!there || json_is_null(there)) && (!here || json_is_null(here));
        if (unset || (row >= 0 && ls__run_settings_table[row].execution)) continue;
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

/* Adds to each difference how it reads: "batch is 8 in A, 16 in B". */
static void add_texts(json_t *differences)
{
    enum { TEXT_SIZE = 512 };
    size_t i;
    json_t *difference;
    char text[TEXT_SIZE];
    json_array_foreach(differences, i, difference)
    {
        ls__identity_text(difference, "in A", "in B", text, sizeof(text));
        json_object_set_new(difference, "text", json_string(text));
    }
}

/* ---- Run logs ---- */

static ls_status compare_run_logs(comparison *c, ls_run_log_difference *out)
{
    const char *names[LS_RUN_LOG_FIELDS];
    put(c, "a", ls__json_text(c->ctx, c->sides[0].dir));
    put(c, "b", ls__json_text(c->ctx, c->sides[1].dir));
    LS_TRY(ls_run_log_compare(c->ctx, c->sides[0].run_log, c->sides[1].run_log, out));
    put(c, "steps", json_pack("{s:I, s:I}", "a", (json_int_t)out->n_a, "b", (json_int_t)out->n_b));
    if (out->step < 0) return LS_OK;
    const int n = ls_run_log_fields(out, names);
    json_t *differing = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(differing, json_string(names[i]));
    put(c, "first_different_step", json_integer(out->step));
    put(c, "different_in_it", differing);
    return LS_OK;
}

/* Lists the steps at which a run was resumed with --force and a different identity. Such a run
 * can't be replayed. */
static bool list_forced(comparison *c)
{
    static const char *const keys[] = { "forced_a", "forced_b" };
    bool forced = false;
    for (int i = 0; i < 2; i++) {
        json_t *steps = json_array(), *session;
        size_t s;
        json_array_foreach(json_object_get(c->sides[i].manifest, "sessions"), s,
                           session) if (json_array_size(json_object_get(session, "forced")) > 0)
            json_array_append(steps, json_object_get(session, "from_step"));
        forced = forced || json_array_size(steps) > 0;
        put(c, keys[i], steps);
    }
    return forced;
}

/* ---- The replay ---- */

static ls_status replay_to(comparison *c, int64_t step, ls__finding *out)
{
    ls__compare_side sides[2];
    for (int i = 0; i < 2; i++)
        LS_TRY(ls__replay_side_open(c->ctx, &c->sides[i], step, c->config->data_dir, &sides[i]));
    const ls_status status = ls__compare_runs(sides, step, out);
    for (int i = 0; i < 2; i++) ls__copy_error(c->ctx, c->sides[i].run.ctx);
    if (status == LS_OK) put(c, "replay", ls__replay_report(c->sides, sides, out));
    return status;
}

/* Run logs have no digests of optimizer states. If these differ before the step, the search
 * continues with the steps before it, until it finds the step that made them differ. */
static ls_status replay(comparison *c, int64_t step)
{
    ls__finding finding;
    json_t *before = NULL; /* the last report of different states */
    ls_status status = replay_to(c, step, &finding);
    while (status == LS_OK && finding.found == LS__FOUND_EARLIER && finding.step > 0) {
        json_decref(before);
        before = json_incref(json_object_get(c->report, "replay"));
        for (int i = 0; i < 2; i++) ls__replay_side_leave(&c->sides[i]);
        status = replay_to(c, finding.step - 1, &finding);
    }
    /* no step made them differ: the checkpoints differ */
    if (status == LS_OK && finding.found == LS__FOUND_NOTHING && before)
        put(c, "replay", json_incref(before));
    json_decref(before);
    return status;
}

/* ---- The comparison ---- */

/* Whether the program gave what builds the nets. */
static bool can_replay(const comparison *c)
{
    if (is_of_trainer(c)) return false;
    for (int i = 0; i < 2; i++) {
        const char *model =
            ls__json_get_string(json_object_get(c->sides[i].config, "options"), "model");
        if (!c->sides[i].model && !(model && ls_model_find(model))) return false;
    }
    return true;
}

static ls_status compare_runs(comparison *c, ls_run_verdict *verdict)
{
    ls_run_log_difference d;
    ls_status status = compare_run_logs(c, &d);
    LS_TRY(status);
    json_t *differences = identity_differences(c), *settings_differ = option_differences(c);
    const bool complete = differences && settings_differ;
    const bool same = json_array_size(differences) == 0;
    add_texts(settings_differ);
    add_texts(differences);
    put(c, "option_differences", settings_differ);
    put(c, "identity_differences", differences);
    if (!complete) return ls__fail_memory(c->ctx, "ls_run_compare", 0);
    const bool forced = list_forced(c);
    if (same && d.n_a > 0 && d.n_b > 0 && (d.step < 0 || !forced)) {
        *verdict = d.step < 0 ? LS_RUNS_IDENTICAL : LS_RUNS_DIFFERENT;
        if (d.step >= 0 && can_replay(c)) status = replay(c, d.step);
        if (status != LS_OK) *verdict = LS_RUNS_NOT_COMPARABLE;
    }
    put(c, "result", json_integer(*verdict));
    return status;
}

ls_status ls_run_compare(ls_context *ctx, const char *a, const char *b,
                         const ls_run_compare_config *config, ls_run_verdict *verdict,
                         char **report)
{
    static const ls_run_compare_config defaults = { 0 };
    const char *const dirs[2] = { a, b };
    comparison c = { .ctx = ctx, .config = config ? config : &defaults };
    ls_run_verdict found = LS_RUNS_NOT_COMPARABLE;
    if (verdict) *verdict = found;
    if (report) *report = NULL;
    LS__ENTER(ctx);
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    if (!a || !b) return ls__fail(ctx, LS_ERR_INVALID, "ls_run_compare: a folder is NULL");
    c.report = json_object();
    ls_status status = c.report ? LS_OK : ls__fail_memory(ctx, "ls_run_compare", 0);
    for (int i = 0; i < 2 && status == LS_OK; i++) {
        c.sides[i].model = c.config->models[i];
        status = ls__replay_side_read(ctx, &c.sides[i], dirs[i]);
    }
    if (status == LS_OK) status = compare_runs(&c, &found);
    if (verdict) *verdict = found;
    if (report && json_object_get(c.report, "result"))
        *report = json_dumps(c.report, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    for (int i = 0; i < 2; i++) ls__replay_side_close(&c.sides[i]);
    json_decref(c.report);
    return status;
}
