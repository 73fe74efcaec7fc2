/* command_line.h: texts that users may paste or print: command lines, and files of CSV. */
#ifndef LS_REPORT_COMMAND_LINE_H
#define LS_REPORT_COMMAND_LINE_H

#include <lockstep/context.h>
#include <stdio.h>

/* The words of a command line. Begins with all zero. */
typedef struct ls__words {
    char **items; /* (n), then NULL */
    int n;
    bool failed; /* memory was short, so that words are missing */
} ls__words;

/* Appends a word, printf style. */
void ls__words_put(ls__words *words, const char *format, ...) LS_PRINTF(2, 3);
void ls__words_free(ls__words *words);
/* The words, quoted for a shell. The caller frees the text by free(). NULL without memory. */
char *ls__words_text(const ls__words *words);

/* A field of CSV (RFC 4180), escaped, and in quotes if it needs them. */
void ls__put_csv_field(FILE *out, const char *text);
/* Writes the lines of a file. */
typedef void ls__put_csv(FILE *out, const void *subject);
ls_status ls__csv_save(ls_context *ctx, const char *path, ls__put_csv *put, const void *subject);

#endif
