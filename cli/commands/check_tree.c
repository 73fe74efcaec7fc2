/* check_tree.c: see check_tree.h. */
#include "commands/check_tree.h"
#include "cli.h"
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* MAX_DEPTH: DIR, split, class, a folder in it. */
enum { MAX_LINES = 32, LINE_SIZE = 80, MAX_FOLDERS = 3, MAX_DEPTH = 4, GAP = 4 };

typedef struct tree {
    int n;
    char lines[MAX_LINES][LINE_SIZE];
} tree;

__attribute__((format(printf, 3, 4))) static void add_line(tree *t, int depth, const char *format,
                                                           ...)
{
    if (t->n == MAX_LINES) return;
    char *line = t->lines[t->n++];
    const int indent = snprintf(line, LINE_SIZE, "%*s", 2 * depth, "");
    va_list args;
    va_start(args, format);
    const size_t left = (size_t)(LINE_SIZE - indent);
    cut_text(line + indent, left, vsnprintf(line + indent, left, format, args));
    va_end(args);
}

static void add_images(tree *t, int depth, int64_t n)
{
    if (n > 0) add_line(t, depth, "%lld image%s", (long long)n, plural(n));
}

/* The folders begin to end - 1, which share the first `length` bytes of their paths. */
static void add_folders(tree *t, const ls_dataset_report *report, int64_t begin, int64_t end,
                        size_t length, int depth)
{
    int64_t n = 0;
    for (int64_t i = begin, next; i < end && depth < MAX_DEPTH; i = next) {
        const ls_folder_summary folder = ls_dataset_report_folder_at(report, i);
        const char *name = folder.path + length;
        const size_t n_name = strcspn(name, "/");
        for (next = i + 1; next < end; next++) {
            const char *other = ls_dataset_report_folder_at(report, next).path + length;
            if (strncmp(name, other, n_name) != 0 || other[n_name] != '/') break;
        }
        if (n++ >= MAX_FOLDERS) continue;
        const bool is_own = name[n_name] == '\0'; /* not only of a folder below it */
        add_line(t, depth, "%.*s/", (int)n_name, name);
        if (is_own) add_images(t, depth + 1, folder.n_images);
        add_folders(t, report, i + is_own, next, length + n_name + 1, depth + 1);
    }
    if (n > MAX_FOLDERS)
        add_line(t, depth, "... %lld more folder%s", (long long)(n - MAX_FOLDERS),
                 plural(n - MAX_FOLDERS));
}

static void add_found(tree *t, const char *dir, const ls_dataset_report *report)
{
    const ls_folder_summary first = ls_dataset_report_folder_at(report, 0);
    const bool is_top = first.path && *first.path == '\0'; /* images in DIR itself */
    add_line(t, 0, "%s/", dir);
    add_images(t, 1, is_top ? first.n_images : 0);
    add_folders(t, report, is_top, ls_dataset_report_folder_count(report), 0, 1);
}

static void add_expected(tree *t, const char *dir)
{
    static const char *const splits[] = { "train", "val" };
    add_line(t, 0, "%s/", dir);
    for (int s = 0; s < 2; s++) {
        add_line(t, 1, "%s/", splits[s]);
        for (int c = 1; c <= 2; c++) {
            add_line(t, 2, "<class %d>/", c);
            if (s == 0) add_line(t, 3, "<image>...");
        }
    }
}

static int width_of(const tree *t)
{
    int width = 0;
    for (int i = 0; i < t->n; i++) {
        const int columns = text_columns(t->lines[i]);
        if (columns > width) width = columns;
    }
    return width;
}

void check_print_trees(const char *dir, const ls_dataset_report *report)
{
    tree found = { 0 }, expected = { 0 };
    add_line(&found, 0, "found");
    add_line(&expected, 0, "expected");
    add_found(&found, dir, report);
    add_expected(&expected, dir);
    const int terminal = terminal_columns(STDOUT_FILENO), columns = terminal > 0 ? terminal : 80;
    const int left = width_of(&found) + GAP;
    if (left + width_of(&expected) > columns) {
        for (int i = 0; i < found.n; i++) print_text(stdout, "%s\n", found.lines[i]);
        print_text(stdout, "\n");
        for (int i = 0; i < expected.n; i++) print_text(stdout, "%s\n", expected.lines[i]);
        return;
    }
    for (int i = 0; i < found.n || i < expected.n; i++) {
        const char *a = i < found.n ? found.lines[i] : "";
        const char *b = i < expected.n ? expected.lines[i] : "";
        print_text(stdout, "%s", a);
        print_text(stdout, *b ? "%*s%s\n" : "\n", left - text_columns(a), "", b);
    }
}
