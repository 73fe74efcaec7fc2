/* json.c: JSON files; see json.h. */
#include "io/json.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "base/minmax.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* text -> double -> text is exact with DECIMAL_DIGITS, double -> text -> double with EXACT_DIGITS.
 */
enum { DECIMAL_DIGITS = 15, EXACT_DIGITS = 17 };

/* Writes and reads in one locale, so its decimal point does not matter. */
static size_t digits_of(double value)
{
    char text[64];
    size_t digits = DECIMAL_DIGITS;
    for (; digits < EXACT_DIGITS; digits++) {
        snprintf(text, sizeof(text), "%.*g", (int)digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return digits;
}

static size_t max_digits(const json_t *json)
{
    size_t max = json_is_real(json) ? digits_of(json_real_value(json)) : DECIMAL_DIGITS, i;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)json, key, value)
    {
        max = ls__max_size(max, max_digits(value));
    }
    json_array_foreach(json, i, value)
    {
        max = ls__max_size(max, max_digits(value));
    }
    return max;
}

json_t *ls__json_finish(ls__json_builder *builder)
{
    if (!builder->failed) return builder->json;
    json_decref(builder->json);
    return NULL;
}

size_t ls__json_exact(const json_t *json)
{
    return JSON_ENCODE_ANY | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(max_digits(json));
}

/* Not json_dumps, which without memory may return half a text (jansson 2.14). */
bool ls__json_dump(const ls_context *ctx, const json_t *json, size_t flags, char **out,
                   size_t *size)
{
    LS__IN_C_LOCALE;
    *size = json ? json_dumpb(json, NULL, 0, flags) : 0;
    *out = *size > 0 ? ls__alloc(ctx, *size) : NULL;
    if (!*out) return false;
    if (json_dumpb(json, *out, *size, flags) == *size) return true;
    ls__free(ctx, *out);
    *out = NULL;
    return false;
}

ls_status ls__json_write(ls_context *ctx, const char *path, ls__atomic_file *file,
                         const json_t *json)
{
    char *text;
    size_t size;
    if (!ls__json_dump(ctx, json, JSON_INDENT(2) | ls__json_exact(json), &text, &size))
        return ls__fail_memory(ctx, path, size);
    ls_status status = ls__atomic_file_write(file, text, size);
    ls__free(ctx, text);
    return status == LS_OK ? ls__atomic_file_write(file, "\n", 1) : status;
}

ls_status ls__json_save(ls_context *ctx, const char *path, const json_t *json)
{
    ls__atomic_file *file;
    LS_TRY(ls__atomic_file_replace(ctx, path, &file));
    return ls__atomic_file_finish(&file, ls__json_write(ctx, path, file, json));
}

static ls_status read_open_file(int fd, json_t **out, char reason[LS__JSON_REASON_SIZE])
{
    json_error_t error;
    LS__IN_C_LOCALE;
    FILE *file = fdopen(fd, "r"); /* json_loadfd would call read for each byte */
    if (!file) {
        const int code = errno;
        char text[LS__ERRNO_TEXT_SIZE];
        snprintf(reason, LS__JSON_REASON_SIZE, "%s", ls__errno_text(code, text, sizeof text));
        close(fd);
        return ls__file_status(code);
    }
    *out = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (*out) return LS_OK;
    snprintf(reason, LS__JSON_REASON_SIZE, "line %d: %s", error.line, error.text);
    return LS_ERR_FORMAT;
}

static ls_status read_json(const char *path, int flags, int64_t max_bytes, json_t **out,
                           char reason[LS__JSON_REASON_SIZE])
{
    int fd;
    int64_t size;
    *out = NULL;
    LS_TRY(ls__open_regular(path, O_RDONLY | flags, &fd, &size, reason));
    if (size <= max_bytes) return read_open_file(fd, out, reason);
    close(fd);
    snprintf(reason, LS__JSON_REASON_SIZE, "%" PRId64 " bytes, at most %" PRId64 " are allowed",
             size, max_bytes);
    return LS_ERR_DATA;
}

ls_status ls__json_read(const char *path, json_t **out, char reason[LS__JSON_REASON_SIZE])
{
    return read_json(path, 0, INT64_MAX, out, reason);
}

ls_status ls__json_read_own(const char *path, json_t **out, char reason[LS__JSON_REASON_SIZE])
{
    return read_json(path, O_NOFOLLOW, 32 << 20, out, reason);
}

json_t *ls__json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *ls__json_floats(const float *values, int64_t n, float fallback)
{
    ls__json_builder out = { json_array(), false };
    for (int64_t i = 0; i < n; i++)
        ls__json_append(&out, json_real(ls__shortest(values[i] != 0 ? values[i] : fallback)));
    return ls__json_finish(&out);
}

json_t *ls__json_text(const ls_context *ctx, const char *text)
{
    json_t *out = strstr(text, "\\x") ? NULL : json_string(text);
    if (out) return out;
    char *escaped = ls__alloc(ctx, 4 * strlen(text) + 1), *at = escaped;
    if (!escaped) return NULL;
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        at += sprintf(at, byte < 0x80 && byte != '\\' ? "%c" : "\\x%02X", byte);
    }
    *at = '\0';
    out = json_string(escaped);
    ls__free(ctx, escaped);
    return out;
}

/* The byte of a leading \xE9; 0 if the text begins otherwise. */
static int escaped_byte(const char *text)
{
    unsigned byte;
    int n = 0;
    const bool is_read = *text == '\\' && sscanf(text, "\\x%2X%n", &byte, &n) == 1;
    return is_read && n == 4 ? (int)byte : 0;
}

bool ls__json_restore(ls_context *ctx, json_t *text)
{
    char *bytes = ls__strdup(ctx, json_string_value(text)), *to = bytes;
    if (!bytes) return false;
    for (const char *from = bytes; *from;) {
        const int byte = escaped_byte(from);
        *to++ = byte > 0 ? (char)byte : *from;
        from += byte > 0 ? 4 : 1;
    }
    *to = '\0';
    const bool ok = json_string_set_nocheck(text, bytes) == 0;
    ls__free(ctx, bytes);
    return ok;
}
