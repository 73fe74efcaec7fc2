/* alloc.h: the library's host memory, all through the context's allocator, and sizes that cannot
 * overflow. */
#ifndef LS_BASE_ALLOC_H
#define LS_BASE_ALLOC_H

#include <lockstep/context.h>

extern const ls_allocator ls__default_allocator;

/* Aligned to LS__ALIGNMENT; ls__zalloc zeroes. NULL when there is no memory: the caller reports it.
 * Thread-safe. bytes 0 gives a pointer that may be released. */
enum { LS__ALIGNMENT = 64 };
void *ls__alloc(const ls_context *ctx, size_t bytes);
void *ls__zalloc(const ls_context *ctx, size_t bytes);
/* Copies old_bytes to a new block of new_bytes and releases the old one; on failure the old one
 * stays. */
void *ls__realloc(const ls_context *ctx, void *memory, size_t old_bytes, size_t new_bytes);
void ls__free(const ls_context *ctx, void *memory);
char *ls__strdup(const ls_context *ctx, const char *text);
/* printf into new memory; NULL when there is none. */
char *ls__format(const ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);

/* false on overflow; then *out is untouched. */
bool ls__mul_size(size_t a, size_t b, size_t *out);
bool ls__add_size(size_t a, size_t b, size_t *out);

static inline size_t ls__round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
