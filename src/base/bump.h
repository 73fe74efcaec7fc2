/* bump.h: many small allocations that are freed together. */
#ifndef LS_BASE_BUMP_H
#define LS_BASE_BUMP_H

#include <lockstep/context.h>
#include <stdarg.h>

typedef struct ls__bump {
    const ls_context *ctx;
    struct ls__bump_chunk *chunks; /* newest first */
} ls__bump;

void ls__bump_open(ls__bump *bump, const ls_context *ctx);
/* Zeroed memory, aligned to 16 bytes; NULL if memory is short. */
void *ls__bump_alloc(ls__bump *bump, size_t bytes);
char *ls__bump_strdup(ls__bump *bump, const char *text);
/* printf into new memory; NULL if memory is short. */
char *ls__bump_vformat(ls__bump *bump, const char *format, va_list args);
char *ls__bump_format(ls__bump *bump, const char *format, ...) LS_PRINTF(2, 3);
/* Returns an array with capacity for `more` elements of `size` bytes after its first n: the array
 * itself, or a copy with at least twice the capacity; *capacity is in elements. NULL if memory is
 * short; *capacity is then unchanged. The old array stays allocated until ls__bump_close. */
void *ls__bump_room(ls__bump *bump, void *array, size_t n, size_t more, size_t *capacity,
                    size_t size);
void ls__bump_close(ls__bump *bump);

#endif
