/* json_text.h: JSON values as text. */
#ifndef LS_IO_JSON_TEXT_H
#define LS_IO_JSON_TEXT_H

#include <jansson.h>
#include <lockstep/context.h>

/* A value as text laid out by jansson's `flags`, with a point in numbers whatever the locale, and
 * without an end of line or a 0 byte: *size bytes from the context's allocator, for ls__free. False
 * without memory, and for json NULL; *out is NULL then. */
bool ls__json_dump(const ls_context *ctx, const json_t *json, size_t flags, char **out,
                   size_t *size);

#endif
