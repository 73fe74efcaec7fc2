/* page_command.c: see page_command.h. */
#include "page_command.h"
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines break before options only. */
static void put_text(ls__html *html, char *text)
{
    ls__html_put(html, "<pre><code>");
    for (char *option; (option = strstr(text, " --")); text = option + 1) {
        *option = '\0';
        ls__html_wrap(html, "", text, "</code> <code>");
    }
    ls__html_wrap(html, "", text, "</code></pre>\n");
}

bool page_put_command(ls__html *html, const char *const *words)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file) print_command_line(file, words);
    const bool good = file && fclose(file) == 0;
    if (good) put_text(html, text);
    free(text);
    return good;
}
