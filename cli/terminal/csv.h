/* csv.h: writes CSV (RFC 4180). */
#ifndef LS_CLI_TERMINAL_CSV_H
#define LS_CLI_TERMINAL_CSV_H

#include <stdio.h>

/* A field, in quotes if it needs them. Control characters are escaped as by print_text. */
void print_csv(FILE *file, const char *text);

#endif
