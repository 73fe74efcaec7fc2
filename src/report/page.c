/* page.c: see page.h. */
#include "report/page.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include <stdlib.h>
#include <string.h>

void ls__page_begin(ls__html *html, const char *title)
{
    ls__html_put(html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, "
                       "initial-scale=1\">\n");
    ls__html_wrap(html, "<title>", title, " &ndash; Lockstep</title>\n<style>\n");
    ls__bytes_put(html, ls__report_style, strlen(ls__report_style));
    ls__html_wrap(html, "</style>\n</head>\n<body>\n<header>\n<h1>", title, "</h1>\n");
}

void ls__page_main(ls__html *html)
{
    ls__html_put(html, "</header>\n<main>\n");
}

static void put_chart(ls__html *html, const char *size, const char *class, const char *label,
                      ls__svg_draw *draw, const void *chart, double width)
{
    ls__html_put(html, "<div class=\"chart%s%s\" role=\"img\" aria-label=\"", size, class);
    ls__html_wrap(html, "", label, "\">\n");
    ls__svg_put(html, draw, chart, width);
    ls__html_put(html, "</div>\n");
}

void ls__page_put_chart(ls__html *html, const char *label, ls__svg_draw *draw, const void *chart,
                        double width)
{
    put_chart(html, "", "", label, draw, chart, width);
}

void ls__page_put_charts(ls__html *html, const char *class, const char *label, ls__svg_draw *draw,
                         const void *chart)
{
    put_chart(html, " wide", class, label, draw, chart, 1000);
    put_chart(html, " narrow", class, label, draw, chart, 360);
}

void ls__page_begin_tiles(ls__html *html, int n)
{
    enum { MAX_COLUMNS = 7 };
    const int rows = (n + MAX_COLUMNS - 1) / MAX_COLUMNS;
    ls__html_put(html, "<ul class=\"tiles\" style=\"--n:%d\">\n", (n + rows - 1) / rows);
}

void ls__page_put_tile(ls__html *html, const char *name, const char *value)
{
    ls__html_put(html, "<li><span>%s</span> <b>", name);
    ls__html_wrap(html, "", value, "</b></li>\n");
}

void ls__page_begin_table(ls__html *html, const char *caption, ls__table_look look)
{
    static const struct {
        const char *region, *table, *caption;
    } looks[] = { [LS__TABLE_CARD] = { "card ", "", "" },
                  [LS__TABLE_PLAIN] = { "", "", "" },
                  [LS__TABLE_HIDDEN] = { "", "", " class=\"hidden\"" },
                  [LS__TABLE_FACTS] = { "", " class=\"facts\"", "" },
                  [LS__TABLE_MATRIX] = { "", " class=\"matrix\"", " class=\"hidden\"" } };
    ls__html_put(html,
                 "<div class=\"%sscroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n"
                 "<table%s>\n<caption%s>%s</caption>\n<thead><tr>",
                 looks[look].region, caption, looks[look].table, looks[look].caption, caption);
}

void ls__page_put_heads(ls__html *html, const char *heads)
{
    for (size_t n; *heads; heads += n + (heads[n] != '\0')) {
        const bool is_number = *heads == '#';
        heads += is_number;
        n = strcspn(heads, "|");
        ls__html_put(html, "<th scope=\"col\"%s>%.*s</th>", is_number ? " class=\"number\"" : "",
                     (int)n, heads);
    }
}

void ls__page_begin_rows(ls__html *html)
{
    ls__html_put(html, "</tr></thead>\n<tbody>\n");
}

void ls__page_end_table(ls__html *html)
{
    ls__html_put(html, "</tbody>\n</table>\n</div>\n");
}

void ls__page_put_command(ls__html *html, char *text)
{
    ls__html_put(html, "<pre><code>");
    for (char *option; (option = strstr(text, " --")); text = option + 1) {
        *option = '\0';
        ls__html_wrap(html, "", text, "</code> <code>");
    }
    ls__html_wrap(html, "", text, "</code></pre>\n");
}

void ls__page_put_words(ls__html *html, ls__words *words)
{
    char *text = ls__words_text(words);
    if (text)
        ls__page_put_command(html, text);
    else
        html->failed = true;
    free(text);
    ls__words_free(words);
}

ls_status ls__page_save(ls__html *html, const char *dir, const char *path)
{
    ls_context *ctx = html->ctx;
    ls__atomic_file *file = NULL;
    ls__html_put(html, "</main>\n<footer><p>Lockstep %s</p></footer>\n</body>\n</html>\n",
                 ls_version());
    char *own_path = path ? NULL : ls__format(ctx, "%s/report.html", dir);
    if (html->failed || (!path && !own_path)) {
        ls__free(ctx, own_path);
        return ls__fail_memory(ctx, "report", html->capacity);
    }
    ls_status status = path ? ls__atomic_file_open(ctx, path, &file)
                            : ls__atomic_file_replace(ctx, own_path, &file);
    if (status == LS_OK) status = ls__atomic_file_write(file, html->data, html->size);
    if (status == LS_OK)
        status = ls__atomic_file_commit(&file);
    else if (file)
        ls__atomic_file_abandon(&file);
    ls__free(ctx, own_path);
    return status;
}
