/* command_line.c: see command_line.h. */
#include "report/command_line.h"

#include "base/error.h"
#include "base/file.h"
#include "base/shell.h"
#include <lockstep/text.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void ls__words_put(ls__words *words, const char *format, ...)
{
    char **larger = realloc(words->items, ((size_t)words->n + 2) * sizeof(*larger));
    int length = -1;
    va_list args;
    va_start(args, format);
    if (larger) {
        words->items = larger;
        length = vasprintf(&larger[words->n], format, args);
        words->n += length >= 0;
        larger[words->n] = NULL;
    }
    words->failed |= length < 0;
    va_end(args);
}

void ls__words_free(ls__words *words)
{
    for (int i = 0; i < words->n; i++) free(words->items[i]);
    free(words->items);
    *words = (ls__words){ 0 };
}

char *ls__words_text(const ls__words *words)
{
    char *text = NULL;
    size_t size;
    FILE *out = words->failed ? NULL : open_memstream(&text, &size);
    bool ok = out != NULL;
    for (int i = 0; i < words->n && ok; i++) {
        char *word = ls_shell_word(words->items[i]);
        ok = word && fprintf(out, i > 0 ? " %s" : "%s", word) >= 0;
        free(word);
    }
    if (out && fclose(out) == 0 && ok) return text;
    free(text);
    return NULL;
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

ls_status ls__csv_save(ls_context *ctx, const char *path, ls__put_csv *put, const void *subject)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    if (!out) return ls__fail_memory(ctx, path, 0);
    put(out, subject);
    const ls_status status = fclose(out) == 0 ? ls__file_replace(ctx, path, bytes, size)
                                              : ls__fail_memory(ctx, path, size);
    free(bytes);
    return status;
}
