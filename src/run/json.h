/* json.h: JSON files through jansson, written whole or not at all. */
#ifndef LS_RUN_JSON_H
#define LS_RUN_JSON_H

#include "base/file.h"
#include <jansson.h>
#include <lockstep/data.h>

/* How many digits to write the numbers with (JSON_REAL_PRECISION) so that all of them come back
 * exactly: no more than 15, which leave 0.1 as it is, unless one of them has more. */
size_t ls__json_digits(const json_t *json);

/* jansson's flags for a value of any kind, with such numbers and the keys in their order. */
size_t ls__json_exact(const json_t *json);

/* Members of an object; 0 or NULL where they are missing or of another type. */
static inline long long ls__json_get_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}
static inline const char *ls__json_get_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* A file of a run's folder (ls__atomic_file_replace). Indented, keys in the order in which they
 * were put in. json NULL reports that there was no memory for it. Numbers come back exactly. */
ls_status ls__json_save(ls_context *ctx, const char *path, const json_t *json);
/* The same into a file that is open; path is for errors. */
ls_status ls__json_write(ls_context *ctx, const char *path, ls__atomic_file *file,
                         const json_t *json);
/* Any value as text, laid out by jansson's flags, without an end of line and without a 0 byte:
 * *size bytes from the context's allocator. path is for errors. */
ls_status ls__json_format(ls_context *ctx, const char *path, const json_t *json, size_t flags,
                          char **out, size_t *size);

enum { LS__JSON_REASON_SIZE = 256 };
/* Reads a regular file; an object with a key twice is refused. On failure *out is NULL and `reason`
 * says why, without the path: LS_ERR_NOT_FOUND, LS_ERR_IO, or LS_ERR_FORMAT with the line. */
ls_status ls__json_read(const char *path, json_t **out, char reason[LS__JSON_REASON_SIZE]);

/* Lists; NULL without memory. Floats come as the shortest decimals that give them, 0 as
 * `fallback`. */
json_t *ls__json_floats(const float *values, int64_t n, float fallback);
/* JSON is UTF-8, names of files can be anything: in texts that are not UTF-8 bytes beyond ASCII
 * become \xE9 and the like, and in these and in those with a \x of their own the backslash becomes
 * \x5C. NULL without memory. */
json_t *ls__json_text(ls_context *ctx, const char *text);
/* Back again: makes a text, of which json_string_value then gives the bytes that they were. False
 * without memory. */
bool ls__json_restore(ls_context *ctx, json_t *text);
/* Of class names, such texts. */
json_t *ls__json_classes(ls_context *ctx, const ls_dataset *dataset);

#endif
