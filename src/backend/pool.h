/* pool.h: a caching pool of device memory, or of host memory that the device copies from and to.
 *
 * Segments come from the backend. Blocks are cut from them and merged with free neighbours on
 * release. Sizes are rounded up so that requests can reuse each other's blocks: to powers of two
 * and three sizes between, above 8 MiB to multiples of 2 MiB, and only to 256 bytes if the limit or
 * the device has no room for that. Blocks up to half of the backend's segment_bytes share segments
 * of that size; larger blocks have their own segments, so that small blocks do not fragment large
 * ones.
 *
 * Memory is reused before the device has finished with it. That is safe within a stream, which runs
 * in order. So a block is released for the last stream that used it. Only requests for that stream
 * get it, unless no other memory is left; then the requesting stream waits for the other streams.
 *
 * The block structs are in host memory, because the host may not be able to read device memory. */
#ifndef LS_BACKEND_POOL_H
#define LS_BACKEND_POOL_H

#include "backend/backend.h"

typedef struct ls__pool ls__pool;

/* Host memory may be released only after the device's copies from and to it have ended. */
typedef enum ls__pool_source { LS__POOL_DEVICE, LS__POOL_HOST } ls__pool_source;

ls_status ls__pool_open(ls_context *ctx, ls__device *device, ls__pool_source source,
                        size_t limit_bytes, ls__pool **out);
/* Returns all memory to the backend, also blocks in use. */
void ls__pool_close(ls__pool **pool);

/* Memory for later work in `stream`, aligned to 256 bytes if the backend's segments are, otherwise
 * to
 * 64. NULL if the limit or the device has no more, even after trimming; the caller reports that
 * with ls__pool_fail. bytes 0 is allowed. */
void *ls__pool_allocate_for(ls__pool *pool, ls__stream stream, size_t bytes);
/* Releases memory after the present work of `stream`. The work of other streams on it must have
 * ended, or `stream` must wait for it. NULL and memory of other pools are ignored. */
void ls__pool_release_after(ls__pool *pool, ls__stream stream, void *memory);
/* These two allocate and release memory of LS__STREAM_COMPUTE. */
void *ls__pool_allocate(ls__pool *pool, size_t bytes);
void ls__pool_release(ls__pool *pool, void *memory);

/* Returns segments without a used block to the backend. Fails if a stream can't wait for another;
 * the other segments are then returned. */
ls_status ls__pool_trim(ls__pool *pool);
/* The largest request for device memory that could succeed now, by reuse or after trimming: an
 * estimate. */
size_t ls__pool_free_bytes(const ls__pool *pool);
ls_memory_stats ls__pool_stats(const ls__pool *pool);
/* LS_ERR_MEMORY for a failed request of `bytes`: "WHAT: out of device memory: 4096 bytes requested,
 * 1024 free, 512 cached", where free is ls__pool_free_bytes. */
ls_status ls__pool_fail(const ls__pool *pool, size_t bytes, const char *format, ...)
    LS_PRINTF(3, 4);

#endif
