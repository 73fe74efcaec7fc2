/* page_words.c: command lines in a page, from their words; see page.h. */
#include "report/page.h"
#include "report/utf8.h"

#include <string.h>

/* Whether a shell's user could not read or type the character. */
static bool is_hidden(const char *at, int32_t code)
{
    const unsigned char byte = (unsigned char)*at;
    if (code < 0) return byte >= 0x80 && byte <= 0x9F; /* outside of UTF-8 */
    return ls__utf8_is_hidden(code);
}

static bool has_hidden(const char *text)
{
    int32_t code;
    for (int n; *text; text += n) {
        n = ls__utf8_next(text, &code);
        if (is_hidden(text, code)) return true;
    }
    return false;
}

/* The contents of $'...', the form that bash and POSIX 2024 read back. */
static void put_escaped(ls__html *line, const char *text)
{
    int32_t code;
    for (int n; *text; text += n) {
        n = ls__utf8_next(text, &code);
        const bool hidden = is_hidden(text, code);
        const char *letter = hidden ? memchr("\nn\rr\tt", *text, 6) : NULL;
        if (letter)
            ls__html_put(line, "\\%c", letter[1]);
        else if (hidden)
            for (int i = 0; i < n; i++) ls__html_put(line, "\\x%02x", (unsigned char)text[i]);
        else
            ls__html_put(line, strchr("\\'", *text) ? "\\%.*s" : "%.*s", n, text);
    }
}

static void put_word(ls__html *line, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
    if (*word && word[strspn(word, plain)] == '\0') {
        ls__html_bytes(line, word, strlen(word));
    } else if (has_hidden(word)) {
        ls__html_put(line, "$'");
        put_escaped(line, word);
        ls__html_put(line, "'");
    } else {
        ls__html_put(line, "'");
        for (; *word; word++)
            ls__html_put(line, "%s", *word == '\'' ? "'\\''" : (char[]){ *word, '\0' });
        ls__html_put(line, "'");
    }
}

void ls__page_put_words(ls__html *html, const char *const *words)
{
    ls__html line = { .ctx = html->ctx };
    for (int i = 0; words[i]; i++) {
        if (i > 0) ls__html_put(&line, " ");
        put_word(&line, words[i]);
    }
    ls__html_bytes(&line, "", 1);
    if (line.failed)
        html->failed = true;
    else
        ls__page_put_command(html, line.text);
    ls__html_free(&line);
}
