/* command_line.c: see command_line.h. */
#include "report/command_line.h"

#include "base/shell.h"
#include <lockstep/text.h>
#include <stdlib.h>
#include <string.h>

void ls__put_csv_field(FILE *out, const char *text)
{
    const bool is_quoted = strpbrk(text, ",\"\r\n") != NULL;
    int32_t code;
    if (is_quoted) fputc('"', out);
    for (int n; *text; text += n) {
        char character[8] = "";
        n = ls_utf8_next(text, &code);
        memcpy(character, text, (size_t)n);
        ls__put_escaped(out, strcmp(character, "\"") == 0 ? "\"\"" : character, "");
    }
    if (is_quoted) fputc('"', out);
}

/* False without memory. */
static bool put_shell_word(FILE *out, const char *word)
{
    char *text = ls_shell_word(word);
    if (text) fputs(text, out);
    free(text);
    return text != NULL;
}

char *ls__command_line(const char *program, const char *command, const char *const *words)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    bool is_whole = put_shell_word(out, program);
    fprintf(out, " %s", command);
    for (; *words && is_whole; words++) {
        fputc(' ', out);
        is_whole = put_shell_word(out, *words);
    }
    if (fclose(out) == 0 && is_whole) return text;
    free(text);
    return NULL;
}
