/* report_sessions.c: the command lines and the warnings of a run, from log.txt of its folder; see
 * report.h. Others may have changed the file: what is no such line is left out. */
#include "report/report.h"

#include "base/alloc.h"
#include "report/page.h"
#include <string.h>

enum {
    MOST_WARNINGS = 40,
    MOST_COMMANDS = 20,
    STAMP = 20, /* "2026-11-28T11:40:02Z" */
    MAX_LINE_BYTES = 64 << 10
};

/* Lines of the log that begin with `kind` after their time, each text once: of equal ones the
 * first. Ends them in place. Returns how many, at most `most`; *more: those beyond. */
static int find_lines(char *log, const char *kind, int most, char **out, int *more)
{
    int n = 0;
    *more = 0;
    for (char *line = log, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (!next) break; /* incomplete */
        next++;
        const size_t length = (size_t)(next - line) - 1, n_kind = strlen(kind);
        const bool is_kind = length > STAMP + n_kind && line[STAMP - 1] == 'Z' &&
                             line[STAMP] == ' ' && memcmp(line + STAMP + 1, kind, n_kind) == 0;
        bool is_new = is_kind;
        for (int i = 0; i < n && is_new; i++) {
            const size_t other = strcspn(out[i], "\n");
            is_new = other != length || memcmp(out[i] + STAMP, line + STAMP, length - STAMP) != 0;
        }
        if (!is_new) continue;
        if (n < most)
            out[n++] = line;
        else
            ++*more;
    }
    return n;
}

/* The texts of the lines: those of `find_lines`, ended. The rest of a long one is left out. */
static char *text_of(char *line, const char *kind)
{
    const size_t length = strcspn(line, "\n");
    line[length] = '\0';
    if (length > MAX_LINE_BYTES) memcpy(line + MAX_LINE_BYTES - 3, "...", 4);
    line[STAMP] = '\0';
    return line + STAMP + 1 + strlen(kind);
}

static void put_commands(ls__html *html, char *log)
{
    static const char kind[] = "command: ";
    char *lines[MOST_COMMANDS];
    int more;
    const int n = find_lines(log, kind, MOST_COMMANDS, lines, &more);
    if (n == 0) return;
    ls__html_put(html, "<section>\n<h2>Command</h2>\n<div class=\"card\">\n");
    for (int i = 0; i < n; i++) {
        char *text = text_of(lines[i], kind);
        if (i > 0) ls__html_wrap(html, "<p class=\"note\">", lines[i], "</p>\n");
        ls__page_put_command(html, text);
    }
    if (more > 0) ls__html_put(html, "<p class=\"note\">and %d more, in log.txt</p>\n", more);
    ls__html_put(html, "</div>\n</section>\n");
}

static void put_warnings(ls__html *html, char *log)
{
    static const char kind[] = "warning: ";
    char *lines[MOST_WARNINGS];
    int more;
    const int n = find_lines(log, kind, MOST_WARNINGS, lines, &more);
    if (n == 0) return;
    ls__html_put(html, "<section>\n<h2>Warnings</h2>\n<ul class=\"card warnings\">\n");
    for (int i = 0; i < n; i++) {
        const char *text = text_of(lines[i], kind);
        ls__html_wrap(html, "<li>", text, "");
        ls__html_wrap(html, " <span class=\"note\">", lines[i], "</span></li>\n");
    }
    if (more > 0) ls__html_put(html, "<li>and %d more, in log.txt</li>\n", more);
    ls__html_put(html, "</ul>\n</section>\n");
}

void ls__report_put_sessions(ls__html *html, const ls__report_run *run)
{
    if (run->problems[LS__REPORT_LOG]) {
        ls__html_put(html, "<section>\n<h2>Command</h2>\n");
        ls__report_put_problems(html, 1, run, LS__REPORT_LOG);
        ls__html_put(html, "</section>\n");
    }
    if (!run->log) return;
    /* Both end lines in place. */
    char *commands = ls__strdup(html->ctx, run->log), *warnings = ls__strdup(html->ctx, run->log);
    html->failed |= !commands || !warnings;
    put_commands(html, commands);
    put_warnings(html, warnings);
    ls__free(html->ctx, commands);
    ls__free(html->ctx, warnings);
}
