/* report_settings.c: the settings and the environment of a report's runs; see report.h. */
#include "report/report.h"

#include "report/page.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A setting as a reader sees it: "0.1", "yes", "resnet20", a dash for none. Lists and objects as
 * JSON. */
static void put_value(ls__html *html, const json_t *value)
{
    char number[64];
    if (!value || json_is_null(value)) {
        ls__html_put(html, "&ndash;");
    } else if (json_is_string(value)) {
        ls__html_text(html, json_string_value(value));
    } else if (json_is_boolean(value)) {
        ls__html_put(html, "%s", json_is_true(value) ? "yes" : "no");
    } else if (json_is_integer(value)) {
        ls__html_put(html, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        snprintf(number, sizeof number, "%.15g", json_real_value(value));
        ls__html_text(html, number);
    } else {
        char *text = json_dumps(value, JSON_COMPACT);
        html->failed |= !text;
        ls__html_text(html, text);
        free(text);
    }
}

static void begin_table(ls__html *html, const char *caption, const char *first, int n,
                        const ls__report_run *runs)
{
    ls__page_begin_table(html, caption, LS__TABLE_FACTS);
    ls__page_put_heads(html, first);
    for (int i = 0; i < n; i++)
        if (n > 1)
            ls__html_wrap(html, "<th scope=\"col\">", runs[i].dir, "</th>");
        else
            ls__page_put_heads(html, "value");
    ls__page_begin_rows(html);
}

/* A value of a part of config.json, "options", or of the manifest: "identity", of the
 * training data in it, "data", or of the last session "execution", "provenance". NULL if it is
 * missing. */
static const json_t *value_of(const ls__report_run *run, const char *part, const char *key)
{
    const json_t *whole = run->manifest, *sessions = json_object_get(whole, "sessions");
    if (strcmp(part, "options") == 0)
        whole = run->config;
    else if (strcmp(part, "data") == 0)
        whole = json_object_get(whole, "identity");
    else if (strcmp(part, "identity") != 0)
        whole = json_array_get(sessions, json_array_size(sessions) - 1);
    return json_object_get(json_object_get(whole, part), key);
}

/* Unless the value is missing in all runs. */
static void put_row(ls__html *html, const char *part, const char *key, int n,
                    const ls__report_run *runs)
{
    bool is_there = false;
    for (int i = 0; i < n; i++) is_there = is_there || value_of(&runs[i], part, key);
    if (!is_there) return;
    ls__html_wrap(html, "<tr><th scope=\"row\">", key, "</th>");
    for (int i = 0; i < n; i++) {
        ls__html_put(html, "<td>");
        put_value(html, value_of(&runs[i], part, key));
        ls__html_put(html, "</td>");
    }
    ls__html_put(html, "</tr>\n");
}

static bool differs(int n, const ls__report_run *runs, const char *key)
{
    for (int i = 1; i < n; i++) {
        const json_t *a = ls__report_option(&runs[0], key), *b = ls__report_option(&runs[i], key);
        if (a != b && !(a && b && json_equal(a, b))) return true;
    }
    return false;
}

/* The options that differ, or those that do not, the end of the table, and how many did not fit. */
static void put_options(ls__html *html, int n, const ls__report_run *runs, bool different)
{
    int count = 0, n_shown = 0;
    const size_t begin = html->size;
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(runs[0].config, "options"), key, value)
    {
        if (n > 1 && differs(n, runs, key) != different) continue;
        count++;
        if (html->size - begin > LS__TABLE_BYTES) continue;
        n_shown++;
        put_row(html, "options", key, different ? n : 1, runs);
    }
    if (different && count == 0)
        ls__html_put(html, "<tr><td colspan=\"%d\">none</td></tr>\n", n + 1);
    ls__page_end_table(html);
    ls__html_left_out(html, "options", count, n_shown);
}

void ls__report_put_settings(ls__html *html, int n, const ls__report_run *runs)
{
    if (!runs[0].config && !runs[0].problems[LS__REPORT_CONFIG]) return;
    ls__html_put(html, "<section>\n<h2>Settings</h2>\n");
    ls__report_put_problems(html, n, runs, LS__REPORT_CONFIG);
    if (!runs[0].config) {
        ls__html_put(html, "</section>\n");
        return;
    }
    if (n > 1) {
        begin_table(html, "Settings that differ between the runs", "option", n, runs);
        put_options(html, n, runs, true);
    }
    ls__html_put(html, "<details>\n<summary>%s</summary>\n",
                 n > 1 ? "Settings that all runs share" : "All settings");
    begin_table(html, n > 1 ? "Settings that all runs share" : "All settings", "option", 1, runs);
    put_options(html, n, runs, false);
    ls__html_put(html, "</details>\n</section>\n");
}

/* ---- Environment ---- */

static void put_part(ls__html *html, const char *part, int n_keys, const char *const *keys, int n,
                     const ls__report_run *runs)
{
    for (int k = 0; k < n_keys; k++) put_row(html, part, keys[k], n, runs);
}

enum { MAX_RUNS_IN_TABLE = 8 };

void ls__report_put_environment(ls__html *html, int n, const ls__report_run *runs)
{
    static const char *const identity[] = { "device",    "processor", "precision",
                                            "libraries", "seed",      "shards" };
    static const char *const data[] = { "decoders" };
    static const char *const execution[] = { "workers", "threads", "ranks" };
    static const char *const provenance[] = { "lockstep",     "commit", "compiler", "flags",
                                              "jpeg",         "webp",   "host",     "system",
                                              "instructions", "driver", "begun" };
#define COUNT(array) (int)(sizeof(array) / sizeof((array)[0]))
    ls__html_put(html, "<section>\n<h2>Environment</h2>\n");
    ls__report_put_problems(html, n, runs, LS__REPORT_MANIFEST);
    for (int first = 0; first < n; first += MAX_RUNS_IN_TABLE) {
        const int m = n - first < MAX_RUNS_IN_TABLE ? n - first : MAX_RUNS_IN_TABLE;
        const ls__report_run *some = runs + first;
        begin_table(html, "Environment of the last session, from manifest.json", "fact", m, some);
        put_part(html, "identity", COUNT(identity), identity, m, some);
        put_part(html, "data", COUNT(data), data, m, some);
        put_part(html, "execution", COUNT(execution), execution, m, some);
        put_part(html, "provenance", COUNT(provenance), provenance, m, some);
        ls__page_end_table(html);
    }
    ls__html_put(html, "</section>\n");
}
