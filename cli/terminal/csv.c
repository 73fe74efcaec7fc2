/* csv.c: see csv.h. */
#include "terminal/csv.h"
#include "terminal/print.h"
#include <string.h>

void print_csv(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        print_text(file, "%s", text);
        return;
    }
    print_text(file, "\"");
    for (const char *at = text; *at;) {
        const int n = (int)strcspn(at, "\"");
        print_text(file, "%.*s", n, at);
        at += n;
        if (*at) print_text(file, "\"\"");
        if (*at) at++;
    }
    print_text(file, "\"");
}
