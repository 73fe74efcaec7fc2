/* report_sessions.c: the command lines and the warnings of a run, from log.txt of its folder; see
 * report.h. Others may have changed the file: what is no such line is left out. */
#include "report/report.h"

#include "report/page.h"
#include <string.h>

enum {
    MAX_WARNINGS = 40,
    MAX_COMMANDS = 20,
    STAMP = 20, /* "2026-11-28T11:40:02Z" */
    MAX_LINE_BYTES = 64 << 10
};

/* Lines of the log that begin with `kind` after their time, each text once: of equal ones the
 * first. */
typedef struct log_lines {
    const char *kind;
    int n, n_more;
    char *items[MAX_WARNINGS];
} log_lines;

static void find_lines(char *log, const char *kind, int max, log_lines *out)
{
    *out = (log_lines){ .kind = kind };
    /* A last line without its newline is left out. */
    for (char *line = log, *next; (next = strchr(line, '\n')); line = next) {
        next++;
        const size_t length = (size_t)(next - line) - 1, n_kind = strlen(kind);
        bool is_new = length > STAMP + n_kind && line[STAMP - 1] == 'Z' && line[STAMP] == ' ' &&
                      memcmp(line + STAMP + 1, kind, n_kind) == 0;
        for (int i = 0; i < out->n && is_new; i++) {
            const size_t other = strcspn(out->items[i], "\n");
            is_new =
                other != length || memcmp(out->items[i] + STAMP, line + STAMP, length - STAMP) != 0;
        }
        if (is_new && out->n < max)
            out->items[out->n++] = line;
        else
            out->n_more += is_new;
    }
}

/* Ends the time and the text of line i in place, and returns the text. The rest of a long one is
 * left out. */
static char *text_of(const log_lines *lines, int i)
{
    char *line = lines->items[i];
    const size_t length = strcspn(line, "\n");
    line[length] = '\0';
    if (length > MAX_LINE_BYTES) memcpy(line + MAX_LINE_BYTES - 3, "...", 4);
    line[STAMP] = '\0';
    return line + STAMP + 1 + strlen(lines->kind);
}

static void put_commands(ls__html *html, const log_lines *lines)
{
    if (lines->n == 0) return;
    ls__html_put(html, "<section>\n<h2>Command</h2>\n<div class=\"card\">\n");
    for (int i = 0; i < lines->n; i++) {
        char *text = text_of(lines, i);
        if (i > 0) ls__html_wrap(html, "<p class=\"note\">", lines->items[i], "</p>\n");
        ls__page_put_command(html, text);
    }
    if (lines->n_more > 0)
        ls__html_put(html, "<p class=\"note\">and %d more, in log.txt</p>\n", lines->n_more);
    ls__html_put(html, "</div>\n</section>\n");
}

static void put_warnings(ls__html *html, const log_lines *lines)
{
    if (lines->n == 0) return;
    ls__html_put(html, "<section>\n<h2>Warnings</h2>\n<ul class=\"card warnings\">\n");
    for (int i = 0; i < lines->n; i++) {
        ls__html_wrap(html, "<li>", text_of(lines, i), "");
        ls__html_wrap(html, " <span class=\"note\">", lines->items[i], "</span></li>\n");
    }
    if (lines->n_more > 0) ls__html_put(html, "<li>and %d more, in log.txt</li>\n", lines->n_more);
    ls__html_put(html, "</ul>\n</section>\n");
}

void ls__report_put_sessions(ls__html *html, const ls__report_run *run)
{
    log_lines commands, warnings;
    if (run->problems[LS__REPORT_LOG]) {
        ls__html_put(html, "<section>\n<h2>Command</h2>\n");
        ls__report_put_problems(html, 1, run, LS__REPORT_LOG);
        ls__html_put(html, "</section>\n");
    }
    if (!run->log) return;
    find_lines(run->log, "command: ", MAX_COMMANDS, &commands);
    find_lines(run->log, "warning: ", MAX_WARNINGS, &warnings);
    put_commands(html, &commands);
    put_warnings(html, &warnings);
}
