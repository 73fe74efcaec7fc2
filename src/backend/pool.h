/* pool.h: a caching pool of device memory, or of host memory that the device copies from and to.
 *
 * Segments come from the backend; blocks are cut from them, and become one again with their free
 * neighbours when they are released. Sizes are rounded up so that requests meet each other's
 * blocks: to powers of two and the three steps between, above 8 MiB to multiples of 2 MiB, and
 * only to 256 bytes where the limit or the device leaves no room for that. Blocks up to half of the
 * backend's segment_bytes share segments of that size; larger ones have segments of their own, so
 * that no small block keeps a large segment from being whole again.
 *
 * The host hands memory out long before the device is done with it. That is safe within a stream,
 * where work is done in order. So a block is released after a stream, the one that used it last,
 * and goes back to requests for that stream at once; requests for another one get it when nothing
 * else is left, having made their stream wait for the first.
 *
 * Records are kept on the host, for device memory may be out of its reach. */
#ifndef LS_BACKEND_POOL_H
#define LS_BACKEND_POOL_H

#include "backend/backend.h"

typedef struct ls__pool ls__pool;

/* Whoever releases host memory has seen the device's copies from and to it end. */
typedef enum ls__pool_source { LS__POOL_DEVICE, LS__POOL_HOST } ls__pool_source;

ls_status ls__pool_open(ls_context *ctx, ls__device *device, ls__pool_source source,
                        size_t limit_bytes, ls__pool **out);
/* Gives everything back to the backend, what is still handed out as well. */
void ls__pool_close(ls__pool **pool);

/* Memory for work that is queued in `stream` from now on. Aligned to 256 bytes where the backend's
 * segments are, to 64 elsewhere. NULL when the limit or the device has no more, also after
 * trimming: the caller reports it with ls__pool_fail. bytes 0 is served. */
void *ls__pool_allocate_for(ls__pool *pool, ls__stream stream, size_t bytes);
/* The memory may be used for something else after all that is queued in `stream` now; what other
 * streams did with it has ended, or `stream` waits for it. NULL and what is no block of the pool's
 * are ignored. */
void ls__pool_release_after(ls__pool *pool, ls__stream stream, void *memory);
/* The same for LS__STREAM_COMPUTE. */
void *ls__pool_allocate(ls__pool *pool, size_t bytes);
void ls__pool_release(ls__pool *pool, void *memory);

/* Gives segments that have no block in use back to the backend. Fails where a stream can't be made
 * to wait for another, and has given back what it could. */
ls_status ls__pool_trim(ls__pool *pool);
/* Of device memory: the most that one request could get now, by reuse or after trimming, as far as
 * the backend can tell. */
size_t ls__pool_free_bytes(const ls__pool *pool);
ls_memory_stats ls__pool_stats(const ls__pool *pool);
/* LS_ERR_MEMORY for a request of `bytes` that got nothing. The rest names what it was for:
 * "WHAT: out of device memory: 4096 bytes asked, 1024 free, 512 cached", where free is
 * ls__pool_free_bytes. */
ls_status ls__pool_fail(const ls__pool *pool, size_t bytes, const char *format, ...)
    LS_PRINTF(3, 4);

#endif
