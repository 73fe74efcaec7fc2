/* The memory pool under random traffic, beside a model that knows for every 256 bytes of the device
 * who has them, and which stream used them last. */
#include "backend/pool.h"

#include "base/hash.h"
#include "fake_backend.h"

#include "../suite.h"
#include <stdlib.h>
#include <string.h>

enum { GRANULE = 256, N_GRANULES = 1 << 16, N_BLOCKS = 150, FRESH = -1, FREE = -2 };

/* The device: who has each granule, a block's number, FREE (the pool's) or FRESH (the device's). */
static char memory[(size_t)N_GRANULES * GRANULE] __attribute__((aligned(256)));
static int owner[N_GRANULES];
static struct {
    ls__stream stream;
    int64_t time;
} last_use[N_GRANULES];

static ls_context *ctx;
static fake_device *fake;
static ls__pool *pool;
static size_t taken_bytes;

static int64_t first_granule(const void *p)
{
    return ((const char *)p - memory) / GRANULE;
}

static void give_to(int64_t first, size_t bytes, int who)
{
    for (int64_t g = first; g < first + (int64_t)bytes / GRANULE; g++) owner[g] = who;
}

/* First fit. */
static void *model_allocate(ls__device *device, size_t bytes)
{
    (void)device;
    ck_assert_uint_eq(bytes % GRANULE, 0);
    const int64_t wanted = (int64_t)bytes / GRANULE;
    int64_t n = 0;
    for (int64_t g = 0; g < N_GRANULES; g++) {
        n = owner[g] == FRESH ? n + 1 : 0;
        if (n < wanted) continue;
        const int64_t first = g + 1 - wanted;
        give_to(first, bytes, FREE);
        for (int64_t k = first; k <= g; k++) last_use[k].time = 0;
        taken_bytes += bytes;
        return memory + first * GRANULE;
    }
    return NULL;
}

static void model_release(ls__device *device, void *p, size_t bytes)
{
    (void)device;
    taken_bytes -= bytes;
    give_to(first_granule(p), bytes, FRESH);
}

static size_t model_free_bytes(ls__device *device)
{
    (void)device;
    return sizeof(memory) - taken_bytes;
}

static struct {
    unsigned char *memory;
    size_t bytes, block_bytes; /* asked for, given */
} held[N_BLOCKS];

/* The pool's own, free, and no other stream at work on it. Counted: each assertion takes time. */
static void check_taken(int k, ls__stream stream)
{
    const int64_t first = first_granule(held[k].memory);
    int64_t n_taken = 0, n_too_early = 0;
    ck_assert_uint_ge(held[k].block_bytes, held[k].bytes);
    for (int64_t g = first; g < first + (int64_t)held[k].block_bytes / GRANULE; g++) {
        const ls__stream other = last_use[g].stream;
        n_taken += owner[g] != FREE;
        n_too_early += last_use[g].time > 0 && other != stream &&
                       fake->waited[stream][other] < last_use[g].time;
        owner[g] = k;
    }
    ck_assert_int_eq(n_taken, 0);
    ck_assert_int_eq(n_too_early, 0);
    memset(held[k].memory, k, held[k].bytes);
}

static void release(int k, ls__stream stream)
{
    int64_t n_foreign = 0;
    for (size_t i = 0; i < held[k].bytes; i++) n_foreign += held[k].memory[i] != k;
    ck_assert_int_eq(n_foreign, 0);
    const int64_t first = first_granule(held[k].memory);
    for (int64_t g = first; g < first + (int64_t)held[k].block_bytes / GRANULE; g++) {
        owner[g] = FREE;
        last_use[g].stream = stream;
        last_use[g].time = fake->now;
    }
    ls__pool_release_after(pool, stream, held[k].memory);
    held[k].memory = NULL;
}

static void check_stats(size_t limit_bytes)
{
    const ls_memory_stats stats = ls__pool_stats(pool);
    size_t min_bytes = 0;
    int64_t n = 0;
    for (int k = 0; k < N_BLOCKS; k++) {
        if (!held[k].memory) continue;
        n++;
        min_bytes += held[k].bytes;
    }
    ck_assert_int_eq(stats.n_blocks, n);
    ck_assert_uint_ge(stats.current_bytes, min_bytes);
    ck_assert_uint_ge(stats.peak_bytes, stats.current_bytes);
    ck_assert_uint_eq(stats.current_bytes + stats.cached_bytes, taken_bytes);
    ck_assert(limit_bytes == 0 || taken_bytes <= limit_bytes);
}

/* One request can have what is said to be free, and no more. */
static void check_free_bytes(void)
{
    const size_t free_bytes = ls__pool_free_bytes(pool);
    ck_assert_ptr_null(ls__pool_allocate(pool, free_bytes + 1));
    if (free_bytes == 0) return;
    void *all = ls__pool_allocate(pool, free_bytes);
    ck_assert_ptr_nonnull(all);
    ls__pool_release(pool, all);
}

static void soak(size_t segment_bytes, size_t limit_bytes, uint64_t seed)
{
    ctx = fake_context_open(NULL);
    fake = fake_device_of(ctx);
    fake->table.segment_bytes = segment_bytes;
    fake->table.allocate = model_allocate;
    fake->table.release = model_release;
    fake->table.free_bytes = model_free_bytes;
    give_to(0, sizeof(memory), FRESH);
    taken_bytes = 0;
    ck_assert_int_eq(ls__pool_open(ctx, ctx->device, LS__POOL_DEVICE, limit_bytes, &pool), LS_OK);
    int64_t n_refused = 0;
    for (uint64_t i = 1; i <= 6000; i++) {
        const uint64_t r = ls__mix64(seed + i);
        const int k = (int)(r % N_BLOCKS);
        const ls__stream stream = (r >> 10) % 4 == 0 ? LS__STREAM_COPY : LS__STREAM_COMPUTE;
        fake->now = (int64_t)i;
        if (held[k].memory) {
            release(k, stream);
        } else {
            held[k].bytes = (size_t)(r >> 20) % ((r >> 60) < 3 ? 1000000 : 20000);
            const size_t before = ls__pool_stats(pool).current_bytes;
            held[k].memory = ls__pool_allocate_for(pool, stream, held[k].bytes);
            held[k].block_bytes = ls__pool_stats(pool).current_bytes - before;
            if (held[k].memory) {
                check_taken(k, stream);
            } else {
                n_refused++;
            }
        }
        check_stats(limit_bytes);
        /* The model's device has its memory in pieces, so that the limit must be what counts. */
        if (i % 50 == 0 && limit_bytes) check_free_bytes();
        if (i % 1000 == 500) ck_assert_int_eq(ls__pool_trim(pool), LS_OK);
    }
    const ls_memory_stats stats = ls__pool_stats(pool);
    ck_assert_int_gt(stats.n_reused, stats.n_allocated);
    ck_assert_int_gt(fake->n_waits, 0);
    ck_assert_int_gt(n_refused, 0);
    for (int k = 0; k < N_BLOCKS; k++)
        if (held[k].memory) release(k, LS__STREAM_COMPUTE);
    ck_assert_int_eq(ls__pool_trim(pool), LS_OK);
    ck_assert_uint_eq(taken_bytes, 0); /* nothing was lost */
    ls__pool_close(&pool);
    ls_context_close(&ctx);
}

START_TEST(blocks_of_their_own)
{
    soak(0, 3 << 20, 1);
}
END_TEST

START_TEST(shared_segments)
{
    soak(1 << 19, 3 << 20, 2);
}
END_TEST

START_TEST(no_limit_but_the_device)
{
    soak(1 << 19, 0, 3);
}
END_TEST

TEST_PROGRAM(pool_soak)
{
    return RUN_SUITE("pool soak", blocks_of_their_own, shared_segments, no_limit_but_the_device);
}
