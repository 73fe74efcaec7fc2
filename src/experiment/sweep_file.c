/* sweep_file.c: the settings of a sweep, and its file; see sweep.h.
 *
 *     method = random            # options of the sweep
 *     [train]                    # options of every trial
 *     data-dir = photos
 *     [search]                   # options with several values
 *     lr = log(0.001, 1)
 *     opt = sgd, adamw
 */
#include "experiment/sweep.h"

#include "base/error.h"
#include "base/text.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Settings ---- */

#define AT(member) offsetof(ls__sweep_values, member)

static const ls_setting settings[] = {
    { LS_SETTING_HEADING, .help = "Search:" },
    { LS_SETTING_CHOICE, 0, "method", AT(method),
      "random = independent draws; grid = all combinations; halving = successive halving of "
      "--trials; hyperband = several brackets of halving; tpe = draws near good trials",
      "random|grid|halving|hyperband|tpe", .fallback = "random" },
    { LS_SETTING_INTEGER, 0, "trials", AT(trials),
      "number of trials; computed by grid and hyperband", "N", 1, 10000,
      .note = "required by random, halving and tpe" },
    { LS_SETTING_CHOICE, 0, "metric", AT(metric),
      "metric of a trial, and --metric of its run: the best value of its epochs; val-loss (or "
      "loss) "
      "and cross_entropy = the lowest, val-top1 (or top1) and others = the highest",
      "val-top1|val-loss" LS__OTHER_METRIC_NAMES "|top1|loss", .fallback = "val-top1" },
    { LS_SETTING_INTEGER, 0, "seed", AT(seed), "random seed of the search, not of the trials", "S",
      0, 9e18, .fallback = "0" },
    { LS_SETTING_INTEGER, 0, "min-epochs", AT(min_epochs),
      "epochs of the first rung of halving and hyperband; the last one has the epochs of the "
      "trials",
      "N", 1, 1e5, .note = "1" },
    { LS_SETTING_INTEGER, 0, "eta", AT(eta),
      "halving and hyperband: one of N trials is promoted to the next rung, with N times the "
      "epochs",
      "N", 2, 1000, .note = "3" },
    { LS_SETTING_INTEGER, 0, "startup", AT(startup),
      "tpe: random trials before the first suggestion", "N", 1, 10000, .note = "10" },
    { LS_SETTING_INTEGER, 0, "batch", AT(batch),
      "tpe: trials that are suggested together, from the results before them; at most so many "
      "train at a time",
      "N", 1, 10000, .note = "1" },
    { LS_SETTING_HEADING, .help = "Run:" },
    { LS_SETTING_INTEGER, 0, "parallel", AT(parallel), "trials that train at a time", "N", 1,
      LS__MAX_CHILDREN, .fallback = "1", .execution = true },
    { LS_SETTING_CHOICE, 0, "on-failed-trial", AT(on_failed_trial),
      "a trial that fails: stop = stop the sweep; skip = rank the trial last and continue",
      "stop|skip", .fallback = "stop", .execution = true },
    { LS_SETTING_SWITCH, 0, "force", AT(force),
      "continue although images were repaired: completed trials keep their results, others begin "
      "again",
      .execution = true, .session = true },
    { LS_SETTING_TEXT, 0, "out", AT(out), "folder of the sweep, new or to be continued", "DIR",
      .fallback = "sweep", .execution = true },
    { .kind = LS_SETTING_END },
};

const ls_setting *ls_sweep_settings(void)
{
    return settings;
}

/* ---- The file ---- */

typedef enum section { SWEEP, TRAIN, SEARCH, N_SECTIONS } section;
static const char *const section_names[] = { "sweep", "train", "search" };

typedef struct reader {
    ls_sweep *sweep;
    section section;
    ls__run_settings train_values; /* the last one of each setting; only their checks matter */
} reader;

static bool is_among(const char *name, int n, const char *const *names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

bool ls__sweep_parse_range(const char *text, ls_search_parameter *out)
{
    static const struct {
        const char *name;
        ls_search_kind kind;
    } kinds[] = { { "linear(", LS_SEARCH_LINEAR },
                  { "log(", LS_SEARCH_LOG },
                  { "integer(", LS_SEARCH_INTEGER } };
    enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };
    int i = 0, n = 0;
    while (i < N_KINDS && strncmp(text, kinds[i].name, strlen(kinds[i].name)) != 0) i++;
    out->kind = i < N_KINDS ? kinds[i].kind : LS_SEARCH_LIST;
    if (i == N_KINDS) return false;
    long long count = 0;
    text += strlen(kinds[i].name);
    const int n_read = sscanf(text, "%lf , %lf %n, %lld %n", &out->low, &out->high, &n, &count, &n);
    out->count = count;
    return n_read >= 2 && strcmp(text + n, ")") == 0;
}

/* is_parsed: the result of ls__sweep_parse_range. */
static bool check_range(reader *r, const ls__sweep_parameter *p, bool is_parsed)
{
    const ls__config_lines *lines = &r->sweep->file.lines;
    const ls_setting *o = p->setting;
    const bool is_integer = p->search.kind == LS_SEARCH_INTEGER;
    const double low = p->search.low, high = p->search.high;
    if (!is_parsed)
        return ls__config_fail(
            lines, "%s: expected KIND(LOW, HIGH) or, in a grid, KIND(LOW, HIGH, POINTS); got '%s'",
            o->name, p->text);
    if (o->kind != LS_SETTING_NUMBER && o->kind != LS_SETTING_INTEGER && o->kind != LS_SETTING_SIZE)
        return ls__config_fail(lines, "%s: expected a list of values, because it is no number",
                               o->name);
    if (is_integer != (o->kind != LS_SETTING_NUMBER))
        return ls__config_fail(lines, "%s: expected %s", o->name,
                               is_integer ? "linear(LOW, HIGH) or log(LOW, HIGH)"
                                          : "integer(LOW, HIGH)");
    if (!(low >= o->min && high <= o->max && low <= high)) { /* also if one is NaN */
        char expected[256];
        ls_setting_expected(o, expected, sizeof(expected));
        return ls__config_fail(lines,
                               "%s: expected two ends, the lower one first, each %s; got '%s'",
                               o->name, expected, p->text);
    }
    return p->search.kind != LS_SEARCH_LOG || low > 0 ||
           ls__config_fail(lines, "%s: a logarithmic range begins above 0", o->name);
}

static bool read_list(reader *r, ls__sweep_parameter *p, char *text)
{
    const ls__config_lines *lines = &r->sweep->file.lines;
    p->values = calloc(LS__SWEEP_MAX_VALUES, sizeof(*p->values));
    if (!p->values) return ls__fail_memory(lines->ctx, p->setting->name, 0), false;
    int n = 0;
    for (char *rest = text; rest; n++) {
        char *value = ls__config_next_value(lines, &rest);
        if (!value) return false;
        if (n == LS__SWEEP_MAX_VALUES)
            return ls__config_fail(lines, "%s: more than %d values", p->setting->name,
                                   LS__SWEEP_MAX_VALUES);
        if (!ls__config_set_value(lines, p->setting, value, &r->train_values)) return false;
        if (is_among(value, n, p->values))
            return ls__config_fail(lines, "%s: the value '%s' occurs twice", p->setting->name,
                                   value);
        p->values[n] = value;
    }
    p->search.count = n;
    return true;
}

static bool read_searched(reader *r, ls__sweep_parameter *p, char *text)
{
    p->search.name = p->setting->name;
    const bool is_parsed = ls__sweep_parse_range(text, &p->search);
    return p->search.kind == LS_SEARCH_LIST ? read_list(r, p, text) : check_range(r, p, is_parsed);
}

/* ---- Lines ---- */

/* Why an option of `lockstep train` can't be in the section; NULL if it can. */
static const char *why_not(const ls_setting *option, section in)
{
    static const char *const set[] = {
        "out", "resume", "steps", "stop-at", "force", "inject-fault"
    };
    static const char *const data[] = { "val-split",       "val-split-seed", "epochs",
                                        "digest-contents", "csv-columns",    "label-pattern",
                                        "group-column",    "group-pattern" };
    if (is_among(option->name, sizeof(set) / sizeof(set[0]), set))
        return "the sweep sets it, or it has no use in a sweep";
    if (strcmp(option->name, "no-val") == 0) return "the metric requires validation";
    if (in == SEARCH && strcmp(option->name, "metric") == 0)
        return "all trials are compared by the same metric; it belongs before [train]";
    if (strcmp(option->name, "benchmark") == 0)
        return "each trial would select other kernels; use algorithm-cache";
    if (in == SEARCH && option->execution) return "it cannot change a result";
    if (in == SEARCH && is_among(option->name, sizeof(data) / sizeof(data[0]), data))
        return "all trials have the same; it belongs to [train]";
    return NULL;
}

static const ls__sweep_parameter *find_parameter(const ls__sweep_file *f, const ls_setting *option)
{
    for (int i = 0; i < f->n_fixed; i++)
        if (f->fixed[i].setting == option) return &f->fixed[i];
    for (int i = 0; i < f->n_searched; i++)
        if (f->searched[i].setting == option) return &f->searched[i];
    return NULL;
}

static bool read_train_option(reader *r)
{
    ls__sweep_file *f = &r->sweep->file;
    const ls__config_lines *lines = &f->lines;
    const char *key = lines->key;
    char *text = lines->value, hint[LS_HINT_SIZE];
    const int i = ls_setting_find(ls__run_settings_table, key, strlen(key));
    if (i < 0)
        return ls__config_fail(lines, "unknown option '%s' of 'lockstep train'%s", key,
                               ls_setting_hint(ls__run_settings_table, key, "", "", hint));
    const ls_setting *option = &ls__run_settings_table[i];
    const ls__sweep_parameter *earlier = find_parameter(f, option);
    if (earlier) return ls__config_fail(lines, "'%s' is already in line %d", key, earlier->line);
    const char *reason = why_not(option, r->section);
    if (reason)
        return ls__config_fail(lines, "'%s' is not accepted in [%s]: %s", key,
                               section_names[r->section], reason);
    ls__sweep_parameter p = { .setting = option, .line = lines->line };
    if (r->section == SEARCH) {
        if (f->n_searched == LS__SWEEP_MAX_PARAMETERS)
            return ls__config_fail(lines, "more than %d options in [search]",
                                   LS__SWEEP_MAX_PARAMETERS);
        p.text = text;
        const bool ok = read_searched(r, &p, text);
        f->searched[f->n_searched++] = p; /* sweep_file_close frees its list */
        return ok;
    }
    p.text = ls__config_one_value(lines, text);
    f->fixed[f->n_fixed++] = p;
    return p.text && ls__config_set_value(lines, option, p.text, &r->train_values);
}

static bool read_sweep_option(reader *r)
{
    ls__config_lines *lines = &r->sweep->file.lines;
    const char *key = lines->key;
    const int i = ls_setting_find(ls_sweep_settings(), key, strlen(key));
    if (i < 0 && ls_setting_find(ls__run_settings_table, key, strlen(key)) >= 0)
        return ls__config_fail(
            lines,
            "unknown option '%s' of the sweep; options of 'lockstep train' follow a "
            "line [train] or [search]",
            key);
    if (i >= 0 && ls_sweep_settings()[i].session)
        return ls__config_fail(lines, "'%s' is for the command line alone", key);
    const char *text = ls__config_one_value(lines, lines->value);
    return text && ls__config_set_option(lines, text, &r->sweep->values, &r->sweep->given);
}

static bool read_section(reader *r)
{
    const ls__config_lines *lines = &r->sweep->file.lines;
    char hint[LS_HINT_SIZE];
    for (int i = 0; i < N_SECTIONS; i++)
        if (strcmp(lines->section, section_names[i]) == 0) return r->section = (section)i, true;
    return ls__config_fail(lines, "unknown section [%s]%s", lines->section,
                           ls_closest_hint(lines->section, N_SECTIONS, section_names, "",
                                           "; expected [sweep], [train] or [search]", hint));
}

ls_status ls__sweep_file_read(ls_sweep *s)
{
    ls__sweep_file *file = &s->file;
    ls__config_lines *lines = &file->lines;
    reader r = { .sweep = s };
    LS_TRY(ls__config_lines_open(s->ctx, s->path, lines));
    for (bool ok = true; ok && ls__config_lines_next(lines);)
        ok = lines->section       ? read_section(&r)
             : r.section == SWEEP ? read_sweep_option(&r)
                                  : read_train_option(&r);
    LS_TRY(ls_context_status(s->ctx));
    if (file->n_searched > 0) return LS_OK;
    return ls__fail(s->ctx, LS_ERR_SETTING,
                    "%s: expected a section [search] with one option or more", s->path);
}

void ls__sweep_file_close(ls__sweep_file *file)
{
    for (int i = 0; i < file->n_searched; i++) free(file->searched[i].values);
    ls__config_lines_close(&file->lines);
    *file = (ls__sweep_file){ 0 };
}

/* The parameter of a name of the table of a run's settings; NULL if the file does not have it. */
static const ls__sweep_parameter *find_named(const ls__sweep_file *file, const char *name)
{
    const int i = ls_setting_find(ls__run_settings_table, name, strlen(name));
    return i < 0 ? NULL : find_parameter(file, &ls__run_settings_table[i]);
}

const char *ls__sweep_fixed_text(const ls__sweep_file *file, const char *name)
{
    const ls__sweep_parameter *p = find_named(file, name);
    return p ? p->text : NULL;
}

const char *ls__sweep_value_text(const ls__sweep_parameter *p, double value,
                                 char out[LS_SWEEP_VALUE_SIZE])
{
    if (isnan(value)) return ""; /* of a trial that has not begun */
    if (p->values) return p->values[(int)value];
    snprintf(out, LS_SWEEP_VALUE_SIZE, "%.15g", value);
    return out;
}

bool ls__sweep_refuse(ls_sweep *s, const char *name, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    ls__vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    const int i = ls_setting_find(ls_sweep_settings(), name, strlen(name));
    const ls__sweep_parameter *p = find_named(&s->file, name);
    s->file.lines.line = p ? p->line : i >= 0 ? s->file.lines.lines[i] : 0;
    return ls__config_fail(&s->file.lines, "%s", message);
}
