/* json.c: see json.h. */
#include "terminal/json.h"
#include "terminal/print.h"
#include <stdlib.h>
#include <string.h>

json_t *json_of_text(const char *text)
{
    json_t *out = strstr(text, "\\x") ? NULL : json_string(text);
    if (out) return out;
    char *escaped = malloc(4 * strlen(text) + 1), *at = escaped;
    if (!escaped) return NULL;
    for (; *text; text++) {
        const unsigned char byte = (unsigned char)*text;
        at += sprintf(at, byte < 0x80 && byte != '\\' ? "%c" : "\\x%02X", byte);
    }
    *at = '\0';
    out = json_string(escaped);
    free(escaped);
    return out;
}

void append_json(json_t **list, json_t *item)
{
    if (json_array_append_new(*list, item) == 0) return;
    json_decref(*list);
    *list = NULL;
}

bool print_json_exactly(const json_t *json)
{
    enum { MIN_DIGITS = 15, MAX_DIGITS = 17 };
    char *text = NULL;
    bool is_exact = false;
    for (size_t digits = MIN_DIGITS; !is_exact && digits <= MAX_DIGITS; digits++) {
        free(text);
        text = json_dumps(json, JSON_REAL_PRECISION(digits));
        json_t *read = text ? json_loads(text, 0, NULL) : NULL;
        is_exact = read && json_equal(json, read);
        json_decref(read);
    }
    if (is_exact) print_json(text, strlen(text), stdout);
    if (is_exact) print_text(stdout, "\n");
    free(text);
    return is_exact;
}
