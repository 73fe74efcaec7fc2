/* shell.c: words that a shell reads back; see lockstep/text.h. */
#include "base/shell.h"

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

char *ls_shell_word(const char *word)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    put_word(out, word);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}
