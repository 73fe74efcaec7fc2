/* pool.h: a caching pool of device memory. Blocks are aligned to 64 bytes; released blocks are kept
 * and reused, best fit first. Sizes are rounded up so that requests meet each other's blocks: to
 * powers of two and the three steps between, above 8 MiB to multiples of 2 MiB, and less where the
 * limit leaves no room for that. */
#ifndef LS_TENSOR_POOL_H
#define LS_TENSOR_POOL_H

#include "tensor/backend.h"

typedef struct ls__pool ls__pool;

/* Of what: device memory, or host memory that the device copies from and to by itself. Who releases
 * a block of the latter has seen the device's copies end. */
typedef enum ls__pool_source { LS__POOL_DEVICE, LS__POOL_HOST } ls__pool_source;

ls_status ls__pool_open(ls_context *ctx, ls__device *device, ls__pool_source source,
                        size_t limit_bytes, ls__pool **out);
/* Releases cached blocks and whatever is still handed out. */
void ls__pool_close(ls__pool **pool);

/* NULL when the limit or the device has no more, after trimming; the caller makes the report. bytes
 * 0 is served. */
void *ls__pool_allocate(ls__pool *pool, size_t bytes);
void ls__pool_release(ls__pool *pool, void *memory); /* accepts NULL */
/* What a request could still get: limit minus current, or what the device has free plus the cache.
 */
size_t ls__pool_free_bytes(const ls__pool *pool);
void ls__pool_trim(ls__pool *pool);
ls_memory_stats ls__pool_stats(const ls__pool *pool);

#endif
