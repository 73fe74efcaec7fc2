/* page_command.c: see page_command.h. */
#include "experiments/page_command.h"
#include "cli.h"
#include "report/page.h"
#include <stdio.h>
#include <stdlib.h>

bool page_put_command(ls__html *html, const char *const *words)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    if (file) print_command_line(file, words);
    const bool good = file && fclose(file) == 0;
    if (good) ls__page_put_command(html, text);
    free(text);
    return good;
}
