/* command_line.h: texts that users may paste or print: command lines, and fields of CSV. */
#ifndef LS_REPORT_COMMAND_LINE_H
#define LS_REPORT_COMMAND_LINE_H

#include <stdio.h>

/* A field of CSV (RFC 4180), escaped, and in quotes if it needs them. */
void ls__put_csv_field(FILE *out, const char *text);

/* "PROGRAM COMMAND WORD...", quoted for a shell. The words end with NULL. The caller frees the text
 * by free(). NULL without memory. */
char *ls__command_line(const char *program, const char *command, const char *const *words);

#endif
