/* pool.c: a caching pool of device memory. It keeps its records on the host, for a device's memory
 * may be out of the host's reach. */
#include "tensor/pool.h"

#include "base/alloc.h"
#include "base/error.h"
#include <string.h>

typedef struct block {
    char *memory;
    size_t bytes;
} block;

/* Sorted by address or by size; some thousands at most, so inserting by moving is fast enough. */
typedef struct block_list {
    block *blocks;
    int64_t n;
} block_list;

struct ls__pool {
    ls_context *ctx;
    ls__device *device;
    ls__pool_source source;
    block_list used;   /* by address */
    block_list cached; /* by size */
    int64_t capacity;  /* of each list: all blocks fit into either, so a release cannot fail */
    ls_memory_stats stats;
};

enum { MIN_BLOCK = 64, LARGE_STEP = 2 << 20, LARGE_BLOCK = 8 << 20 };

/* 0 for more than there can be. */
static size_t size_class(size_t bytes)
{
    if (bytes > PTRDIFF_MAX - LARGE_STEP) return 0;
    if (bytes > LARGE_BLOCK) return ls__round_up(bytes, LARGE_STEP);
    size_t power = MIN_BLOCK;
    while (power < bytes) power *= 2;
    if (power <= 4 * MIN_BLOCK) return power; /* the steps between are no multiples of 64 */
    return ls__round_up(bytes, power / 8);    /* power / 2 < bytes <= power */
}

static void insert_at(block_list *list, int64_t i, block b)
{
    memmove(list->blocks + i + 1, list->blocks + i, (size_t)(list->n - i) * sizeof(b));
    list->blocks[i] = b;
    list->n++;
}

static block remove_at(block_list *list, int64_t i)
{
    const block b = list->blocks[i];
    list->n--;
    memmove(list->blocks + i, list->blocks + i + 1, (size_t)(list->n - i) * sizeof(b));
    return b;
}

/* The first block that is not below: where `memory`, or a block of `bytes`, stands or belongs. */
static int64_t find_address(const block_list *list, const char *memory)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if ((uintptr_t)list->blocks[middle].memory < (uintptr_t)memory) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t find_size(const block_list *list, size_t bytes)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (list->blocks[middle].bytes < bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Room in both lists for one block more. */
static bool reserve(ls__pool *pool)
{
    const int64_t n = pool->used.n + pool->cached.n;
    if (n < pool->capacity) return true;
    const int64_t capacity = pool->capacity ? 2 * pool->capacity : 64;
    const size_t bytes = (size_t)capacity * sizeof(block);
    block *used = ls__alloc(pool->ctx, bytes);
    block *cached = ls__alloc(pool->ctx, bytes);
    if (!used || !cached) {
        ls__free(pool->ctx, used);
        ls__free(pool->ctx, cached);
        return false;
    }
    if (pool->capacity) {
        memcpy(used, pool->used.blocks, (size_t)pool->used.n * sizeof(block));
        memcpy(cached, pool->cached.blocks, (size_t)pool->cached.n * sizeof(block));
    }
    ls__free(pool->ctx, pool->used.blocks);
    ls__free(pool->ctx, pool->cached.blocks);
    pool->used.blocks = used;
    pool->cached.blocks = cached;
    pool->capacity = capacity;
    return true;
}

ls_status ls__pool_open(ls_context *ctx, ls__device *device, ls__pool_source source,
                        size_t limit_bytes, ls__pool **out)
{
    *out = ls__zalloc(ctx, sizeof(**out));
    if (!*out) return ls__fail_memory(ctx, "memory pool", sizeof(**out));
    (*out)->ctx = ctx;
    (*out)->device = device;
    (*out)->source = source;
    (*out)->stats.limit_bytes = limit_bytes;
    return LS_OK;
}

static void release_to_device(ls__pool *pool, block b)
{
    const ls__backend *backend = pool->device->backend;
    (pool->source == LS__POOL_HOST ? backend->host_release : backend->release)(pool->device,
                                                                               b.memory, b.bytes);
}

void ls__pool_trim(ls__pool *pool)
{
    for (int64_t i = 0; i < pool->cached.n; i++) release_to_device(pool, pool->cached.blocks[i]);
    pool->cached.n = 0;
    pool->stats.cached_bytes = 0;
}

void ls__pool_close(ls__pool **pool)
{
    ls__pool *p = *pool;
    *pool = NULL;
    if (!p) return;
    ls__pool_trim(p);
    for (int64_t i = 0; i < p->used.n; i++) release_to_device(p, p->used.blocks[i]);
    ls__free(p->ctx, p->used.blocks);
    ls__free(p->ctx, p->cached.blocks);
    ls__free(p->ctx, p);
}

static void *hand_out(ls__pool *pool, block b)
{
    insert_at(&pool->used, find_address(&pool->used, b.memory), b);
    ls_memory_stats *stats = &pool->stats;
    stats->n_blocks++;
    stats->current_bytes += b.bytes;
    if (stats->current_bytes > stats->peak_bytes) stats->peak_bytes = stats->current_bytes;
    return b.memory;
}

/* What the limit leaves beside handed-out and cached blocks. */
static size_t room(const ls__pool *pool)
{
    const ls_memory_stats *stats = &pool->stats;
    if (!stats->limit_bytes) return SIZE_MAX;
    const size_t taken = stats->current_bytes + stats->cached_bytes;
    return taken < stats->limit_bytes ? stats->limit_bytes - taken : 0;
}

/* A block of `rounded` bytes, or of `exact` where the limit leaves no more. */
static block allocate_from_device(ls__pool *pool, size_t rounded, size_t exact)
{
    const size_t left = room(pool), bytes = rounded <= left ? rounded : exact;
    const ls__backend *backend = pool->device->backend;
    char *memory = NULL;
    if (bytes <= left)
        memory = (pool->source == LS__POOL_HOST ? backend->host_allocate
                                                : backend->allocate)(pool->device, bytes);
    return (block){ memory, bytes };
}

void *ls__pool_allocate(ls__pool *pool, size_t bytes)
{
    const size_t rounded = size_class(bytes);
    if (rounded == 0 || !reserve(pool)) return NULL;

    const int64_t i = find_size(&pool->cached, bytes);
    if (i < pool->cached.n && pool->cached.blocks[i].bytes <= rounded + rounded / 4) {
        const block b = remove_at(&pool->cached, i);
        pool->stats.cached_bytes -= b.bytes;
        pool->stats.n_reused++;
        return hand_out(pool, b);
    }
    const size_t exact = ls__round_up(bytes ? bytes : 1, LS__ALIGNMENT);
    block b = allocate_from_device(pool, rounded, exact);
    if (!b.memory && pool->cached.n > 0) {
        ls__pool_trim(pool);
        b = allocate_from_device(pool, rounded, exact);
    }
    if (!b.memory) return NULL;
    pool->stats.n_allocated++;
    return hand_out(pool, b);
}

void ls__pool_release(ls__pool *pool, void *memory)
{
    if (!memory) return;
    const int64_t i = find_address(&pool->used, memory);
    if (i == pool->used.n || pool->used.blocks[i].memory != memory) return; /* not ours */
    const block b = remove_at(&pool->used, i);
    insert_at(&pool->cached, find_size(&pool->cached, b.bytes), b);
    pool->stats.n_blocks--;
    pool->stats.current_bytes -= b.bytes;
    pool->stats.cached_bytes += b.bytes;
}

size_t ls__pool_free_bytes(const ls__pool *pool)
{
    const ls_memory_stats *stats = &pool->stats;
    size_t free_bytes = pool->device->backend->free_bytes(pool->device);
    if (!ls__add_size(free_bytes, stats->cached_bytes, &free_bytes)) free_bytes = SIZE_MAX;
    if (stats->limit_bytes) {
        const size_t left = stats->limit_bytes - stats->current_bytes;
        if (left < free_bytes) free_bytes = left;
    }
    return free_bytes - free_bytes % LS__ALIGNMENT;
}

ls_memory_stats ls__pool_stats(const ls__pool *pool)
{
    return pool->stats;
}
