/* pool.c: see pool.h. */
#include "backend/pool.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct block block;
struct block {
    char *memory;
    size_t bytes;
    block *previous, *next; /* neighbours in the segment; `next` also links unused structs */
    ls__stream stream;      /* released after this one */
    bool used;              /* handed out */
    bool shared;            /* of a segment for small blocks */
};

typedef struct block_list {
    block **blocks; /* has capacity for one more */
    int64_t n;
    bool by_size; /* sorted by size, then by address; else by address alone */
} block_list;

struct ls__pool {
    ls_context *ctx;
    ls__device *device;
    ls__pool_source source;
    void *(*allocate)(ls__device *device, size_t bytes); /* the backend's, of segments */
    void (*release)(ls__device *device, void *memory, size_t bytes);
    block_list used, cached;
    int64_t capacity; /* of each list: all blocks fit into either, so a release cannot fail */
    block *spare;     /* unused block structs */
    ls_memory_stats stats;
};

enum {
    MIN_BLOCK = 256,
    MAX_STEP = 2 << 20,      /* between size classes */
    MAX_REMAINDER = 1 << 20, /* which is not cut off */
    MAX_CUT = 8 /* a block that is larger by this factor is cut only if no other memory is left,
                   because it may be requested as a whole again */
};

/* ---- Sorted lists: at most some thousands of blocks, so insertion by memmove is fast ---- */

/* The index of a block of `bytes` at `memory`, or the index at which to insert it. */
static int64_t find_block(const block_list *list, size_t bytes, const char *memory)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const block *b = list->blocks[middle];
        const bool below = list->by_size && b->bytes != bytes
                               ? b->bytes < bytes
                               : (uintptr_t)b->memory < (uintptr_t)memory;
        if (below)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void insert_block(block_list *list, block *b)
{
    const int64_t i = find_block(list, b->bytes, b->memory);
    memmove(list->blocks + i + 1, list->blocks + i, (size_t)(list->n - i) * sizeof(b));
    list->blocks[i] = b;
    list->n++;
}

static void remove_block(block_list *list, const block *b)
{
    const int64_t i = find_block(list, b->bytes, b->memory);
    list->n--;
    memmove(list->blocks + i, list->blocks + i + 1, (size_t)(list->n - i) * sizeof(b));
}

/* ---- Segments and blocks ---- */

ls_status ls__pool_open(ls_context *ctx, ls__device *device, ls__pool_source source,
                        size_t limit_bytes, ls__pool **out)
{
    const ls__backend *backend = device->backend;
    *out = ls__zalloc(ctx, sizeof(**out));
    if (!*out) return ls__fail_memory(ctx, "memory pool", sizeof(**out));
    (*out)->ctx = ctx;
    (*out)->device = device;
    (*out)->source = source;
    (*out)->allocate = source == LS__POOL_HOST ? backend->host_allocate : backend->allocate;
    (*out)->release = source == LS__POOL_HOST ? backend->host_release : backend->release;
    (*out)->stats.limit_bytes = limit_bytes;
    (*out)->cached.by_size = true;
    return LS_OK;
}

static size_t round_exactly(size_t bytes)
{
    return ls__round_up(bytes ? bytes : 1, MIN_BLOCK);
}

/* 0 if too large. */
static size_t size_class(size_t bytes)
{
    if (bytes > PTRDIFF_MAX / 2) return 0;
    size_t power = MIN_BLOCK;
    while (power < bytes) power *= 2;
    size_t step = power / 8; /* power / 2 < bytes <= power */
    if (step < MIN_BLOCK) step = MIN_BLOCK;
    if (step > MAX_STEP) step = MAX_STEP;
    return ls__round_up(bytes ? bytes : 1, step);
}

static bool is_small(const ls__pool *pool, size_t bytes)
{
    return bytes <= pool->device->backend->segment_bytes / 2;
}

static void cache(ls__pool *pool, block *b)
{
    insert_block(&pool->cached, b);
    pool->stats.cached_bytes += b->bytes;
}

static void uncache(ls__pool *pool, const block *b)
{
    remove_block(&pool->cached, b);
    pool->stats.cached_bytes -= b->bytes;
}

static void make_spare(ls__pool *pool, block *b)
{
    b->next = pool->spare;
    pool->spare = b;
}

static block *use_spare(ls__pool *pool, block fields)
{
    block *b = pool->spare;
    pool->spare = b->next;
    *b = fields;
    return b;
}

/* Reserves list space and structs for one request: a segment, cut in two. */
static bool blocks_reserve(ls__pool *pool)
{
    enum { N_NEW = 2 };
    while (!pool->spare || !pool->spare->next) {
        block *b = ls__zalloc(pool->ctx, sizeof(*b));
        if (!b) return false;
        make_spare(pool, b);
    }
    const int64_t n = pool->used.n + pool->cached.n;
    if (n + N_NEW <= pool->capacity) return true;
    const int64_t capacity = pool->capacity ? 2 * pool->capacity : 64;
    block_list *lists[2] = { &pool->used, &pool->cached };
    for (int i = 0; i < 2; i++) {
        block **larger =
            ls__realloc(pool->ctx, lists[i]->blocks, (size_t)pool->capacity * sizeof *larger,
                        (size_t)capacity * sizeof *larger);
        if (!larger) return false;
        lists[i]->blocks = larger;
    }
    pool->capacity = capacity;
    return true;
}

void ls__pool_close(ls__pool **pool)
{
    ls__pool *p = *pool;
    *pool = NULL;
    if (!p) return;
    const block_list *lists[2] = { &p->used, &p->cached };
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < lists[k]->n; i++) {
            block *first = lists[k]->blocks[i], *last = first;
            if (first->previous) continue;
            size_t bytes = first->bytes;
            for (; last->next; bytes += last->bytes) last = last->next;
            p->release(p->device, first->memory, bytes);
            last->next = p->spare; /* freed after both lists */
            p->spare = first;
        }
    for (block *next; p->spare; p->spare = next) {
        next = p->spare->next;
        ls__free(p->ctx, p->spare);
    }
    ls__free(p->ctx, p->used.blocks);
    ls__free(p->ctx, p->cached.blocks);
    ls__free(p->ctx, p);
}

static void release_whole_segments(ls__pool *pool)
{
    for (int64_t i = 0; i < pool->cached.n;) {
        block *b = pool->cached.blocks[i];
        if (b->previous || b->next) {
            i++;
            continue;
        }
        uncache(pool, b);
        pool->release(pool->device, b->memory, b->bytes);
        make_spare(pool, b);
    }
}

/* The bytes that the limit allows in addition to all segments. */
static size_t bytes_within_limit(const ls__pool *pool)
{
    const ls_memory_stats *stats = &pool->stats;
    if (!stats->limit_bytes) return SIZE_MAX;
    const size_t taken = stats->current_bytes + stats->cached_bytes;
    return taken < stats->limit_bytes ? stats->limit_bytes - taken : 0;
}

/* A new segment as one block that is in no list yet; NULL if the limit or the backend has no
 * memory. */
static block *open_segment(ls__pool *pool, ls__stream stream, size_t bytes)
{
    char *memory = bytes > bytes_within_limit(pool) ? NULL : pool->allocate(pool->device, bytes);
    if (!memory) return NULL;
    pool->stats.n_allocated++;
    return use_spare(pool, (block){ .memory = memory, .bytes = bytes, .stream = stream });
}

/* Merges a block with the next one; both are free and in no list. */
static void merge_with_next(ls__pool *pool, block *b)
{
    block *next = b->next;
    b->bytes += next->bytes;
    b->next = next->next;
    if (b->next) b->next->previous = b;
    make_spare(pool, next);
}

static bool can_merge(const block *a, const block *b)
{
    return a && b && !a->used && !b->used && a->stream == b->stream;
}

/* Merges a block that is free and in no list with its free neighbours; returns the result. */
static block *merge_neighbours(ls__pool *pool, block *b)
{
    if (can_merge(b, b->next)) {
        uncache(pool, b->next);
        merge_with_next(pool, b);
    }
    if (can_merge(b->previous, b)) {
        b = b->previous;
        uncache(pool, b);
        merge_with_next(pool, b);
    }
    return b;
}

/* Cuts off and caches the bytes beyond `bytes`, unless they are too few. */
static void split_block(ls__pool *pool, block *b, size_t bytes)
{
    size_t min_rest = ls__max_size(ls__min_size(bytes / 8, MAX_REMAINDER), MIN_BLOCK);
    if (b->shared) min_rest = MIN_BLOCK;
    if (b->bytes < bytes + min_rest) return;
    block rest = *b;
    rest.memory += bytes;
    rest.bytes -= bytes;
    rest.previous = b;
    rest.used = false;
    block *r = use_spare(pool, rest);
    if (r->next) r->next->previous = r;
    b->next = r;
    b->bytes = bytes;
    cache(pool, r);
}

/* Makes the stream wait for the others whose cached blocks it gets. */
static ls_status adopt(ls__pool *pool, ls__stream stream)
{
    bool waits[LS__N_STREAMS] = { false };
    for (int64_t i = 0; i < pool->cached.n; i++) waits[pool->cached.blocks[i]->stream] = true;
    for (int s = 0; s < LS__N_STREAMS; s++)
        if (waits[s] && s != (int)stream)
            LS_TRY(pool->device->backend->stream_wait(pool->device, stream, (ls__stream)s));
    for (int64_t i = 0; i < pool->cached.n; i++) pool->cached.blocks[i]->stream = stream;
    for (int64_t i = 0; i < pool->cached.n;) {
        block *b = pool->cached.blocks[i];
        const bool merges = can_merge(b, b->next);
        if (merges) {
            uncache(pool, b);
            cache(pool, merge_neighbours(pool, b));
        }
        i = merges ? 0 : i + 1;
    }
    return LS_OK;
}

/* The best-fitting cached block; with `any`, also blocks of other streams. */
static block *pool_take(ls__pool *pool, ls__stream stream, size_t exact, size_t rounded, bool any)
{
    const bool small = is_small(pool, rounded);
    for (int64_t i = find_block(&pool->cached, exact, NULL); i < pool->cached.n; i++) {
        block *b = pool->cached.blocks[i];
        if (b->stream != stream) continue;
        if (!any && (b->shared != small || (!small && b->bytes / MAX_CUT > rounded))) continue;
        uncache(pool, b);
        pool->stats.n_reused++;
        return b;
    }
    return NULL;
}

/* Fresh memory: segments for several small blocks, or for one that is not small. */
static block *take_fresh(ls__pool *pool, ls__stream stream, size_t exact, size_t rounded)
{
    const size_t step = pool->device->backend->segment_bytes;
    const size_t whole = step ? ls__round_up(rounded, step) : rounded;
    block *b = open_segment(pool, stream, whole);
    if (!b && rounded < whole) b = open_segment(pool, stream, rounded);
    if (!b && exact < rounded) b = open_segment(pool, stream, exact);
    if (b) b->shared = is_small(pool, rounded);
    return b;
}

void *ls__pool_allocate_for(ls__pool *pool, ls__stream stream, size_t bytes)
{
    const size_t rounded = size_class(bytes);
    if (rounded == 0 || !blocks_reserve(pool)) return NULL;
    const size_t exact = round_exactly(bytes);

    block *b = pool_take(pool, stream, exact, rounded, false);
    if (!b) b = take_fresh(pool, stream, exact, rounded);
    if (!b && adopt(pool, stream) != LS_OK) return NULL; /* the error is in the context */
    if (!b) b = pool_take(pool, stream, exact, rounded, true);
    if (!b && pool->cached.n > 0) {
        release_whole_segments(pool);
        b = take_fresh(pool, stream, exact, rounded);
    }
    if (!b) return NULL;
    split_block(pool, b, rounded);
    b->used = true;
    insert_block(&pool->used, b);
    ls_memory_stats *stats = &pool->stats;
    stats->n_blocks++;
    stats->current_bytes += b->bytes;
    if (stats->current_bytes > stats->peak_bytes) stats->peak_bytes = stats->current_bytes;
    return b->memory;
}

void ls__pool_release_after(ls__pool *pool, ls__stream stream, void *memory)
{
    if (!memory) return;
    const int64_t i = find_block(&pool->used, 0, memory);
    if (i == pool->used.n || pool->used.blocks[i]->memory != memory) return; /* not ours */
    block *b = pool->used.blocks[i];
    remove_block(&pool->used, b);
    pool->stats.n_blocks--;
    pool->stats.current_bytes -= b->bytes;
    b->used = false;
    b->stream = stream;
    cache(pool, merge_neighbours(pool, b));
}

void *ls__pool_allocate(ls__pool *pool, size_t bytes)
{
    return ls__pool_allocate_for(pool, LS__STREAM_COMPUTE, bytes);
}

void ls__pool_release(ls__pool *pool, void *memory)
{
    ls__pool_release_after(pool, LS__STREAM_COMPUTE, memory);
}

ls_status ls__pool_trim(ls__pool *pool)
{
    const ls_status status = adopt(pool, LS__STREAM_COMPUTE); /* free neighbours become one */
    release_whole_segments(pool);
    return status;
}

size_t ls__pool_free_bytes(const ls__pool *pool)
{
    const ls_memory_stats *stats = &pool->stats;
    size_t largest = 0, whole = 0; /* stretch of free blocks; those that are segments */
    for (int64_t i = 0; i < pool->cached.n; i++) {
        const block *first = pool->cached.blocks[i], *last = first;
        size_t bytes = first->bytes;
        for (; last->next && !last->next->used; bytes += last->bytes) last = last->next;
        largest = ls__max_size(largest, bytes);
        if (!first->previous && !last->next) whole += bytes;
    }
    size_t fresh = pool->device->backend->free_bytes(pool->device);
    if (!ls__add_size(fresh, whole, &fresh)) fresh = SIZE_MAX;
    if (stats->limit_bytes) {
        fresh = ls__min_size(fresh, bytes_within_limit(pool) + whole);
    }
    fresh -= fresh % MIN_BLOCK;
    return ls__max_size(fresh, largest);
}

ls_memory_stats ls__pool_stats(const ls__pool *pool)
{
    return pool->stats;
}

ls_status ls__pool_fail(const ls__pool *pool, size_t bytes, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    ls__vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    const size_t cached = pool->stats.cached_bytes;
    if (pool->source == LS__POOL_HOST)
        return ls__fail(pool->ctx, LS_ERR_MEMORY,
                        "%s: out of host memory for copies: %zu bytes requested, %zu cached", what,
                        bytes, cached);
    return ls__fail(pool->ctx, LS_ERR_MEMORY,
                    "%s: out of device memory: %zu bytes requested, %zu free, %zu cached", what,
                    bytes, ls__pool_free_bytes(pool), cached);
}
