/* html_check.c: see html_check.h. */
#include "html_check.h"
#include "../suite.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int count_parts(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++) n++;
    return n;
}

/* Each element is closed by its own end tag. */
static void expect_balanced(const char *html)
{
    enum { MOST = 64, NAME = 16 };
    char open[MOST][NAME];
    int n = 0;
    for (const char *at = strstr(html, "<html"); at && (at = strchr(at, '<')); at++) {
        char name[NAME];
        const char *end = strchr(at, '>');
        ck_assert_ptr_nonnull(end);
        if (at[1] == '/') {
            ck_assert_int_eq(sscanf(at, "</%15[a-z0-9]>", name), 1);
            ck_assert_msg(n > 0 && strcmp(open[n - 1], name) == 0, "</%s> in <%s>: %.80s", name,
                          n > 0 ? open[n - 1] : "", at);
            n--;
            continue;
        }
        ck_assert_int_eq(sscanf(at, "<%15[a-z0-9]", name), 1);
        const bool is_void = strcmp(name, "meta") == 0 || strcmp(name, "img") == 0 ||
                             strcmp(name, "br") == 0 || end[-1] == '/';
        ck_assert_int_lt(n, MOST);
        if (!is_void) strcpy(open[n++], name);
    }
    ck_assert_int_eq(n, 0);
}

void expect_page(const char *html)
{
    expect_balanced(html);
    ck_assert_ptr_null(strstr(html, "<script"));
    ck_assert_int_eq(count_parts(html, "http"), count_parts(html, "http://www.w3.org/2000/svg"));
    ck_assert_int_eq(count_parts(html, "<table"), count_parts(html, "<caption"));
}

char *read_page(const char *path)
{
    size_t size;
    char *html = read_file(path, &size);
    expect_page(html);
    return html;
}

/* ---- The text of a page ---- */

/* The character of an entity, from its '&' on; NULL if there is none of this name. */
static const char *character_of(const char *entity, const char **end)
{
    static const char *const entities[][2] = { { "&lt;", "<" },
                                               { "&gt;", ">" },
                                               { "&amp;", "&" },
                                               { "&quot;", "\"" },
                                               { "&ndash;", "\xe2\x80\x93" },
                                               { "&le;", "\xe2\x89\xa4" },
                                               { "&#xFFFD;", "\xef\xbf\xbd" } };
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++)
        if (strncmp(entity, entities[i][0], strlen(entities[i][0])) == 0) {
            *end = entity + strlen(entities[i][0]);
            return entities[i][1];
        }
    return NULL;
}

/* Spaces and line ends are one space, none at the beginning of a line. */
static void put_text(FILE *out, const char *text, const char *end, bool *in_line)
{
    while (text < end) {
        const char *next = text + 1, *character = *text == '&' ? character_of(text, &next) : NULL;
        ck_assert_msg(*text != '&' || character, "an unknown entity: %.20s", text);
        const bool is_space = isspace((unsigned char)*text);
        const bool repeats = is_space && (!*in_line || isspace((unsigned char)text[1]));
        if (character)
            fputs(character, out);
        else if (!repeats)
            fputc(is_space ? ' ' : *text, out);
        *in_line = *in_line || !is_space;
        text = next;
    }
}

/* `before`, the attribute's value, `after`, if the tag from `at` to `end` has the attribute. */
static void put_attribute(FILE *out, const char *at, const char *end, const char *name,
                          const char *before, const char *after)
{
    char key[32];
    bool in_line = true;
    snprintf(key, sizeof(key), " %s=\"", name);
    const char *value = strstr(at, key);
    if (!value || value > end) return;
    value += strlen(key);
    fputs(before, out);
    put_text(out, value, strchr(value, '"'), &in_line);
    fputs(after, out);
}

static bool is_one_of(const char *name, int n, const char *const *names)
{
    for (int i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* A tag from its '<' to its '>'. Returns where the text goes on. */
static const char *put_tag(FILE *out, const char *at, const char *end, bool *in_line)
{
    static const char *const unseen[] = { "style", "svg" };
    static const char *const inside[] = { "span", "b", "code", "img", "meta" };
    static const char *const cells[] = { "td", "th" };
    char name[16], close[24];
    const bool ends = at[1] == '/';
    ck_assert_int_eq(sscanf(at + 1 + ends, "%15[a-z0-9]", name), 1);
    snprintf(close, sizeof(close), "</%s>", name);
    if (!ends && is_one_of(name, 2, unseen)) return strstr(at, close) + strlen(close);
    if (is_one_of(name, 2, cells)) {
        if (ends) put_attribute(out, at, end, "title", " {", "}");
        if (!ends) fputs(*in_line ? " | " : "| ", out);
        *in_line = true;
    } else if (strcmp(name, "img") == 0) {
        put_attribute(out, at, end, "alt", "[image: ", "]");
        *in_line = true;
    } else if (strcmp(name, "br") == 0) {
        fputc(' ', out);
    } else if (!is_one_of(name, 5, inside)) {
        if (*in_line) fputc('\n', out);
        *in_line = false;
        if (strstr(at, "role=\"img\"") && strstr(at, "role=\"img\"") < end)
            put_attribute(out, at, end, "aria-label", "[chart: ", "]\n");
    }
    if (!ends) put_attribute(out, at, end, "title", "{", "} ");
    return end + 1;
}

char *page_text(const char *html)
{
    char *text = NULL;
    size_t size;
    bool in_line = false;
    FILE *out = open_memstream(&text, &size);
    const char *body = strstr(html, "<body>"), *footer = strstr(html, "<footer>");
    ck_assert(out && body && footer);
    for (const char *at = body; at < footer;) {
        const char *end = *at == '<' ? strchr(at, '>') : strchr(at, '<');
        if (*at == '<') {
            at = put_tag(out, at, end, &in_line);
        } else {
            put_text(out, at, end, &in_line);
            at = end;
        }
    }
    ck_assert_int_eq(fclose(out), 0);
    char *to = text;
    for (const char *from = text; *from; from++) { /* no spaces at the ends of lines */
        if (*from == '\n')
            while (to > text && to[-1] == ' ') to--;
        *to++ = *from;
    }
    *to = '\0';
    return text;
}

void expect_part(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in:\n%s", part, text);
}

void expect_seen(const char *path, const char *part)
{
    char *html = read_page(path), *text = page_text(html);
    expect_part(text, part);
    free(html);
    free(text);
}

static void name_program(char *text, const char *program)
{
    char *at = strstr(text, program);
    if (!at) return;
    const char *end = at + strlen(program);
    memmove(at + strlen("lockstep"), end, strlen(end) + 1);
    memcpy(at, "lockstep", strlen("lockstep"));
}

void expect_page_text(const char *html, const char *program, const char *file)
{
    const char *path = path_in(LOCKSTEP_SOURCE_DIR "/tests/fixtures", "%s", file);
    char *got = page_text(html);
    size_t size;
    expect_page(html);
    if (program) name_program(got, program);
    if (getenv("LOCKSTEP_WRITE_FIXTURES")) write_text(path, got);
    char *wanted = read_file(path, &size);
    size_t n = 0; /* the first character that differs, and the line that it is in */
    while (got[n] && got[n] == wanted[n]) n++;
    size_t line = n;
    while (line > 0 && got[line - 1] != '\n') line--;
    ck_assert_msg(strcmp(got, wanted) == 0, "%s: got \"%.*s\", expected \"%.*s\"", file,
                  (int)strcspn(got + line, "\n"), got + line, (int)strcspn(wanted + line, "\n"),
                  wanted + line);
    free(got);
    free(wanted);
}
