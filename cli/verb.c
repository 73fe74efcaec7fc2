/* verb.c: see verb.h. */
#include "verb.h"
#include "print.h"
#include <stdarg.h>
#include <stdlib.h>

static void print(const cli_verb *verb, const char *kind, const char *format, va_list args)
{
    char *text;
    if (vasprintf(&text, format, args) < 0) text = NULL;
    print_text(stderr, "lockstep %s: %s%s\n", verb->name, kind, text ? text : "out of memory");
    free(text);
}

int fail_with(const cli_verb *verb, int answer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(verb, "", format, args);
    va_end(args);
    return answer;
}

void print_message(const cli_verb *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(verb, "", format, args);
    va_end(args);
}

void print_warning(const cli_verb *verb, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print(verb, "warning: ", format, args);
    va_end(args);
}
