/* command_line.c: see command_line.h. */
#include "report/command_line.h"

#include <lockstep/text.h>
#include <stdlib.h>
#include <string.h>

static bool is_hidden(const char *at, int32_t code)
{
    const unsigned char byte = (unsigned char)*at;
    return code < 0 ? byte >= 0x80 && byte <= 0x9F : ls_utf8_is_hidden(code);
}

void ls__put_escaped(FILE *out, const char *text, const char *marked)
{
    int32_t code;
    for (int n; *text; text += n) {
        n = ls_utf8_next(text, &code);
        const bool hidden = is_hidden(text, code);
        const char *letter = hidden ? memchr("\nn\rr\tt", *text, 6) : NULL;
        if (letter)
            fprintf(out, "\\%c", letter[1]);
        else if (hidden)
            for (int i = 0; i < n; i++) fprintf(out, "\\x%02x", (unsigned char)text[i]);
        else
            fprintf(out, "%s%.*s", strchr(marked, *text) ? "\\" : "", n, text);
    }
}

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

static bool has_hidden(const char *text)
{
    int32_t code;
    for (int n; *text; text += n) {
        n = ls_utf8_next(text, &code);
        if (is_hidden(text, code)) return true;
    }
    return false;
}

static void put_word(FILE *out, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
    } else if (has_hidden(word)) { /* in the form that bash and POSIX 2024 read back */
        fputs("$'", out);
        ls__put_escaped(out, word, "\\'");
        fputc('\'', out);
    } else {
        fputc('\'', out);
        for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (char[]){ *word, '\0' }, out);
        fputc('\'', out);
    }
}

char *ls__command_line(const char *program, const char *command, const char *const *words)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    put_word(out, program);
    fprintf(out, " %s", command);
    for (; *words; words++) {
        fputc(' ', out);
        put_word(out, *words);
    }
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
