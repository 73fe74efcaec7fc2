/* sweep_file.c: the file of a sweep; see sweep.h.
 *
 *     method = random            # options of the sweep
 *     [train]                    # options of every trial
 *     data-dir = photos
 *     [search]                   # options with several values
 *     lr = log(0.001, 1)
 *     opt = sgd, adamw
 */
#include "sweep.h"
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum section { SWEEP, TRAIN, SEARCH, N_SECTIONS } section;
static const char *const section_names[] = { "sweep", "train", "search" };

typedef struct reader {
    sweep_file *file;
    section section;
    int line;                     /* from 1 */
    int sweep_lines[MAX_OPTIONS]; /* of the options of the sweep; 0 = none */
    cli_parsed *parsed;           /* of the sweep */
    sweep_values *values;
    recipe train_values; /* the last one of each option; only their checks matter */
} reader;

/* Prints "FILE:LINE: MESSAGE"; its value is false. */
static bool __attribute__((format(printf, 2, 3))) fail_at(const reader *r, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    return fail_with(false, "%s:%d: %s", r->file->path, r->line, message);
}

/* ---- Words ---- */

static char *skip_space(char *at)
{
    while (isspace((unsigned char)*at)) at++;
    return at;
}

static void trim_end(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1])) text[--n] = '\0';
}

/* Ends the line before a # outside of quotes, at its begin or after white space. */
static void cut_comment(char *line)
{
    char quote = '\0';
    for (char *at = line; *at; at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'') quote = quote ? '\0' : *at;
        if (!quote && *at == '#' && (at == line || isspace((unsigned char)at[-1]))) *at = '\0';
        if (!*at) break;
    }
    trim_end(line);
}

/* Cuts the next value out of "a, 'b, c', d", in place. *rest is NULL after the last one. Returns
 * NULL if a quote is not closed, or if text follows it. */
static char *next_value(char **rest)
{
    char *value = skip_space(*rest), *end;
    if (*value == '"' || *value == '\'') {
        char *close = strchr(value + 1, *value);
        if (!close) return NULL;
        *close = '\0';
        value++;
        end = skip_space(close + 1);
        if (*end && *end != ',') return NULL;
        *rest = *end ? end + 1 : NULL;
        return value;
    }
    end = value + strcspn(value, ",");
    *rest = *end ? end + 1 : NULL;
    *end = '\0';
    trim_end(value);
    return value;
}

/* ---- Values ---- */

static bool is_among(const char *name, int n, const char *const *names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* Whether `text` is a value of the option; else prints what is expected. */
static bool check_value(reader *r, const cli_option *option, const char *text)
{
    char expected[EXPECTED_SIZE];
    return option_set(option, text, &r->train_values, expected) ||
           fail_at(r, "%s: expected %s, got '%s'", option->name, expected, text);
}

/* "log(0.001, 1)", "integer(1, 5, 3)". */
static bool read_range(reader *r, sweep_parameter *p, ls_search_kind kind, const char *arguments)
{
    const cli_option *o = p->option;
    const bool is_integer = kind == LS_SEARCH_INTEGER;
    double low, high;
    long long count = 0;
    int n = 0;
    const int n_read = sscanf(arguments, "%lf , %lf %n, %lld %n", &low, &high, &n, &count, &n);
    if (n_read < 2 || strcmp(arguments + n, ")") != 0)
        return fail_at(
            r, "%s: expected KIND(LOW, HIGH) or, in a grid, KIND(LOW, HIGH, POINTS); got '%s'",
            o->name, p->text);
    if (o->kind != OPTION_NUMBER && o->kind != OPTION_INTEGER)
        return fail_at(r, "%s: expected a list of values, because it is no number", o->name);
    if (is_integer != (o->kind == OPTION_INTEGER))
        return fail_at(r, "%s: expected %s", o->name,
                       is_integer ? "linear(LOW, HIGH) or log(LOW, HIGH)" : "integer(LOW, HIGH)");
    if (low < o->min || high > o->max || low > high) {
        char expected[256];
        option_describe_expected(o, expected, sizeof(expected));
        return fail_at(r, "%s: expected two ends, the lower one first, each %s; got '%s'", o->name,
                       expected, p->text);
    }
    if (kind == LS_SEARCH_LOG && low <= 0)
        return fail_at(r, "%s: a logarithmic range begins above 0", o->name);
    p->search = (ls_search_parameter){
        .name = o->name, .kind = kind, .low = low, .high = high, .count = count
    };
    return true;
}

static bool read_list(reader *r, sweep_parameter *p, char *text)
{
    p->values = calloc(SWEEP_MAX_VALUES, sizeof(*p->values));
    if (!p->values) return fail_with(false, "out of memory");
    int n = 0;
    for (char *rest = text; rest; n++) {
        char *value = next_value(&rest);
        if (!value)
            return fail_at(r, "%s: expected 'VALUE' or \"VALUE\" between commas", p->option->name);
        if (n == SWEEP_MAX_VALUES)
            return fail_at(r, "%s: more than %d values", p->option->name, SWEEP_MAX_VALUES);
        if (!check_value(r, p->option, value)) return false;
        if (is_among(value, n, p->values))
            return fail_at(r, "%s: the value '%s' occurs twice", p->option->name, value);
        p->values[n] = value;
    }
    p->search =
        (ls_search_parameter){ .name = p->option->name, .kind = LS_SEARCH_LIST, .count = n };
    return true;
}

static bool read_searched(reader *r, sweep_parameter *p, char *text)
{
    static const struct {
        const char *name;
        ls_search_kind kind;
    } kinds[] = { { "linear(", LS_SEARCH_LINEAR },
                  { "log(", LS_SEARCH_LOG },
                  { "integer(", LS_SEARCH_INTEGER } };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const size_t n = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, n) == 0) return read_range(r, p, kinds[i].kind, text + n);
    }
    return read_list(r, p, text);
}

/* ---- Lines ---- */

/* Why an option of `lockstep train` can't be in the section; NULL if it can. */
static const char *why_not(const cli_option *option, section in)
{
    static const char *const set[] = {
        "out", "resume", "steps", "stop-at", "force", "inject-fault"
    };
    static const char *const data[] = { "no-val", "val-split", "val-split-seed", "epochs" };
    if (is_among(option->name, sizeof(set) / sizeof(set[0]), set))
        return "the sweep sets it, or it has no use in a sweep";
    if (strcmp(option->name, "no-val") == 0) return "the metric requires validation";
    if (strcmp(option->name, "benchmark") == 0)
        return "each trial would select other kernels; use algorithm-cache";
    if (in == SEARCH && option->execution) return "it cannot change a result";
    if (in == SEARCH && is_among(option->name, sizeof(data) / sizeof(data[0]), data))
        return "all trials have the same; it belongs to [train]";
    return NULL;
}

static const sweep_parameter *find_parameter(const sweep_file *f, const cli_option *option)
{
    for (int i = 0; i < f->n_fixed; i++)
        if (f->fixed[i].option == option) return &f->fixed[i];
    for (int i = 0; i < f->n_searched; i++)
        if (f->searched[i].option == option) return &f->searched[i];
    return NULL;
}

static bool read_train_option(reader *r, const char *key, char *text)
{
    sweep_file *f = r->file;
    char hint[HINT_SIZE];
    const int i = option_find(recipe_options, key, strlen(key));
    if (i < 0)
        return fail_at(r, "unknown option '%s' of 'lockstep train'%s", key,
                       option_hint(recipe_options, key, "", "", hint));
    const cli_option *option = &recipe_options[i];
    const sweep_parameter *earlier = find_parameter(f, option);
    if (earlier) return fail_at(r, "'%s' is already in line %d", key, earlier->line);
    const char *reason = why_not(option, r->section);
    if (reason)
        return fail_at(r, "'%s' is not accepted in [%s]: %s", key, section_names[r->section],
                       reason);
    sweep_parameter p = { .option = option, .line = r->line };
    if (r->section == SEARCH) {
        if (f->n_searched == SWEEP_MAX_PARAMETERS)
            return fail_at(r, "more than %d options in [search]", SWEEP_MAX_PARAMETERS);
        p.text = text;
        const bool good = read_searched(r, &p, text);
        f->searched[f->n_searched++] = p; /* sweep_file_close frees its list */
        return good;
    }
    if (*text == '"' || *text == '\'') {
        char *rest = text;
        text = next_value(&rest);
        if (!text || rest) return fail_at(r, "%s: expected one value", key);
    }
    p.text = text;
    f->fixed[f->n_fixed++] = p;
    return check_value(r, option, text);
}

static bool read_sweep_option(reader *r, const char *key, const char *text)
{
    char hint[HINT_SIZE], expected[256];
    const int i = option_find(sweep_options, key, strlen(key));
    if (i < 0) {
        const bool of_train = option_find(recipe_options, key, strlen(key)) >= 0;
        return fail_at(r, "unknown option '%s' of the sweep%s", key,
                       of_train ? "; options of 'lockstep train' follow a line [train] or [search]"
                                : option_hint(sweep_options, key, "", "", hint));
    }
    if (r->sweep_lines[i]) return fail_at(r, "'%s' is already in line %d", key, r->sweep_lines[i]);
    r->sweep_lines[i] = r->line;
    if (options_given(r->parsed, key)) return true; /* the command line takes precedence */
    options_preset(r->parsed, key, text, r->values);
    option_describe_expected(&sweep_options[i], expected, sizeof(expected));
    return r->parsed->preset[i] || fail_at(r, "%s: expected %s, got '%s'", key, expected, text);
}

static bool read_section(reader *r, char *line)
{
    char *end = strchr(line, ']'), hint[HINT_SIZE];
    if (!end || end[1]) return fail_at(r, "expected [train] or [search]");
    *end = '\0';
    for (int i = 0; i < N_SECTIONS; i++)
        if (strcmp(line + 1, section_names[i]) == 0) return r->section = (section)i, true;
    return fail_at(r, "unknown section [%s]%s", line + 1,
                   closest_hint(line + 1, N_SECTIONS, section_names, "",
                                "; expected [sweep], [train] or [search]", hint));
}

static bool read_line(reader *r, char *line)
{
    cut_comment(line);
    char *key = skip_space(line);
    if (!*key) return true;
    if (*key == '[') return read_section(r, key);
    char *value = strchr(key, '=');
    if (!value) return fail_at(r, "expected 'key = value' or '[section]'");
    *value = '\0';
    value = skip_space(value + 1);
    trim_end(key);
    if (!*key || !*value) return fail_at(r, "expected 'key = value'");
    return r->section == SWEEP ? read_sweep_option(r, key, value)
                               : read_train_option(r, key, value);
}

/* The whole file as text; prints why it can't be read. */
static char *read_text(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    errno = 0;
    FILE *file = fopen(path, "re");
    const ssize_t n = file ? getdelim(&text, &size, '\0', file) : -1;
    const bool is_empty = file && n < 0 && feof(file);
    if (file && n >= 0 && strlen(text) == (size_t)n && is_utf8(text)) {
        fclose(file);
        return text;
    }
    print_message("%s: %s", path,
                  is_empty ? "the file is empty"
                  : n < 0  ? strerror(errno)
                           : "expected text in UTF-8");
    if (file) fclose(file);
    free(text);
    return NULL;
}

bool sweep_file_read(const char *path, cli_parsed *parsed, sweep_values *values, sweep_file *file)
{
    *file = (sweep_file){ .path = path, .text = read_text(path) };
    reader r = { .file = file, .parsed = parsed, .values = values };
    bool good = file->text != NULL;
    char *rest = file->text;
    for (char *line; good && (line = strsep(&rest, "\n"));) {
        r.line++;
        good = read_line(&r, line);
    }
    if (good && file->n_searched == 0)
        return fail_with(false, "%s: expected a section [search] with one option or more", path);
    return good;
}

void sweep_file_close(sweep_file *file)
{
    for (int i = 0; i < file->n_searched; i++) free(file->searched[i].values);
    free(file->text);
    *file = (sweep_file){ 0 };
}

const char *sweep_first_text(const sweep_parameter *p, char out[SWEEP_VALUE_SIZE])
{
    if (p->values) return p->values[0];
    snprintf(out, SWEEP_VALUE_SIZE, "%.15g", p->search.low);
    return out;
}

const char *sweep_value_text(const sweep *s, int64_t trial, int i, char out[SWEEP_VALUE_SIZE])
{
    const sweep_parameter *p = &s->file->searched[i];
    const double value = ls_search_value(s->search, trial, i);
    if (p->values) return p->values[(int)value];
    snprintf(out, SWEEP_VALUE_SIZE, "%.15g", value);
    return out;
}
