/* shell.h: texts without characters that a terminal or a shell would act on. */
#ifndef LS_BASE_SHELL_H
#define LS_BASE_SHELL_H

#include <stdio.h>

/* Writes hidden characters (ls_utf8_is_hidden) as \n, \r, \t, or \xHH for each byte, as also bytes
 * 0x80 to 0x9F outside of UTF-8, and a backslash before each character of `marked`. */
void ls__put_escaped(FILE *out, const char *text, const char *marked);

#endif
