/* json.h: JSON files through jansson, written whole or not at all. */
#ifndef LS_IO_JSON_H
#define LS_IO_JSON_H

#include "base/file.h"
#include <jansson.h>
#include <lockstep/context.h>

/* jansson's flags for any value: keys in their order, and numbers that are read back exactly, with
 * 15 digits, which print 0.1 as 0.1, or up to 17 if a number needs more. */
size_t ls__json_exact(const json_t *json);

/* An object or array under construction; `failed` = memory was short. Each call takes over the
 * reference to a value; NULL is a failure. */
typedef struct ls__json_builder {
    json_t *json;
    bool failed;
} ls__json_builder;
static inline void ls__json_put(ls__json_builder *b, const char *key, json_t *value)
{
    b->failed |= json_object_set_new(b->json, key, value) != 0;
}
static inline void ls__json_put_text(ls__json_builder *b, const char *key, const char *value)
{
    ls__json_put(b, key, json_string(value));
}
static inline void ls__json_append(ls__json_builder *b, json_t *value)
{
    b->failed |= json_array_append_new(b->json, value) != 0;
}
/* The object or array; NULL if memory was short. */
json_t *ls__json_finish(ls__json_builder *builder);

/* Members of an object; 0 or NULL where they are missing or of another type. */
static inline long long ls__json_get_integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}
static inline const char *ls__json_get_string(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* A value as text laid out by jansson's `flags`, with a point in numbers whatever the locale, and
 * without an end of line or a 0 byte: *size bytes from the context's allocator, for ls__free. False
 * without memory, and for json NULL; *out is NULL then. */
bool ls__json_dump(const ls_context *ctx, const json_t *json, size_t flags, char **out,
                   size_t *size);

/* A file of a run's folder (ls__atomic_file_replace). Indented, keys in the order in which they
 * were put in. json NULL = LS_ERR_MEMORY. Numbers are read back exactly. */
ls_status ls__json_save(ls_context *ctx, const char *path, const json_t *json);
/* The same into an open file; path is for errors. */
ls_status ls__json_write(ls_context *ctx, const char *path, ls__atomic_file *file,
                         const json_t *json);

enum { LS__JSON_REASON_SIZE = 256 };
/* Reads a regular file; duplicate keys are an error. On failure *out is NULL and `reason` is the
 * message without the path: LS_ERR_NOT_FOUND, LS_ERR_IO, or LS_ERR_FORMAT with the line. */
ls_status ls__json_read(const char *path, json_t **out, char reason[LS__JSON_REASON_SIZE]);
/* Reads a file that a page shows, in a folder that others may have prepared: a link at
 * `path` is LS_ERR_IO, more than 32 MiB are LS_ERR_DATA. */
ls_status ls__json_read_own(const char *path, json_t **out, char reason[LS__JSON_REASON_SIZE]);

/* null for infinity and NaN, which JSON does not have. NULL if memory is short. */
json_t *ls__json_number(double value);
/* Lists; NULL if memory is short. Each float is its shortest exact decimal, 0 is written as
 * `fallback`. */
json_t *ls__json_floats(const float *values, int64_t n, float fallback);
/* Escapes file names, because JSON is UTF-8 and they may hold any bytes. In a text that is not
 * UTF-8, bytes above 0x7F become \xE9 and so on. In such texts, and in texts that contain \x, each
 * backslash becomes \x5C. NULL if memory is short. */
json_t *ls__json_text(const ls_context *ctx, const char *text);
/* The inverse: afterwards json_string_value gives the original bytes. False if memory is short. */
bool ls__json_restore(ls_context *ctx, json_t *text);

#endif
