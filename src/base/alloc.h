/* alloc.h: host memory from the context's allocator, and sizes that are checked for overflow. */
#ifndef LS_BASE_ALLOC_H
#define LS_BASE_ALLOC_H

#include <lockstep/context.h>

extern const ls_allocator ls__default_allocator;

/* Aligned to LS__ALIGNMENT; ls__zalloc zeroes. NULL if memory is short; the caller reports it.
 * Thread-safe. bytes 0 returns a pointer for ls__free. */
enum { LS__ALIGNMENT = 64 };
void *ls__alloc(const ls_context *ctx, size_t bytes);
void *ls__zalloc(const ls_context *ctx, size_t bytes);
/* Copies old_bytes to a new block of new_bytes and releases the old one, unless memory is short. */
void *ls__realloc(const ls_context *ctx, void *memory, size_t old_bytes, size_t new_bytes);
void ls__free(const ls_context *ctx, void *memory);
/* Returns `items`, an array of *capacity items of `size` bytes of which n are used, or a larger
 * copy of it, which has capacity for `more` items: at least twice the capacity, so that adding many
 * takes linear time. NULL if memory is short; `items`, which may be NULL, is then unchanged. */
void *ls__grow(const ls_context *ctx, void *items, size_t n, size_t more, size_t *capacity,
               size_t size);
char *ls__strdup(const ls_context *ctx, const char *text);
/* printf into new memory; NULL if memory is short. */
char *ls__format(const ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);

/* False on overflow; *out is then unchanged. */
bool ls__mul_size(size_t a, size_t b, size_t *out);
bool ls__add_size(size_t a, size_t b, size_t *out);

static inline size_t ls__round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

#endif
