/* The memory pool: classes, reuse, cutting and merging, streams, limit, exhaustion, exact numbers.
 */
#include "backend/pool.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "fake_backend.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <stdio.h>
#include <string.h>

enum { SEGMENT = 2 << 20 };

static ls_context *ctx;
static fake_device *fake;
static ls__pool *pool;

static void open_pool(size_t capacity_bytes, size_t limit_bytes)
{
    ctx = fake_context_open(NULL);
    fake = fake_device_of(ctx);
    fake->capacity_bytes = capacity_bytes;
    ck_assert_int_eq(ls__pool_open(ctx, ctx->device, LS__POOL_DEVICE, limit_bytes, &pool), LS_OK);
}

static void close_pool(void)
{
    ls__pool_close(&pool);
    ck_assert_ptr_null(pool);
    ck_assert_int_eq(fake->n_blocks, 0);
    ck_assert_uint_eq(fake->taken_bytes, 0);
    ls_context_close(&ctx);
}

START_TEST(sizes_waste_little)
{
    open_pool((size_t)1 << 34, 0);
    for (size_t bytes = 0; bytes < (size_t)1 << 27; bytes += 1 + bytes / 7) {
        void *memory = ls__pool_allocate(pool, bytes);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % 64, 0);
        const size_t taken = ls__pool_stats(pool).current_bytes;
        ck_assert_uint_ge(taken, bytes);
        ck_assert_uint_le(taken, bytes + (bytes < 1024 ? 256 : bytes / 4));
        ck_assert_uint_le(taken, bytes + (2 << 20));
        ls__pool_release(pool, memory);
        ck_assert_uint_eq(ls__pool_stats(pool).current_bytes, 0);
        ck_assert_int_eq(ls__pool_trim(pool), LS_OK);
        ck_assert_uint_eq(fake->taken_bytes, 0);
    }
    ck_assert_ptr_null(ls__pool_allocate(pool, SIZE_MAX));
    ck_assert_ptr_null(ls__pool_allocate(pool, SIZE_MAX - (4 << 20)));
    ck_assert_ptr_null(ls__pool_allocate(pool, PTRDIFF_MAX));
    close_pool();
}
END_TEST

START_TEST(released_blocks_are_reused_best_fit_first)
{
    open_pool((size_t)1 << 30, 0);
    void *a = ls__pool_allocate(pool, 1000), *b = ls__pool_allocate(pool, 20000);
    void *c = ls__pool_allocate(pool, 1200);
    ck_assert_int_eq(ls__pool_stats(pool).n_allocated, 3);
    ls__pool_release(pool, a);
    ls__pool_release(pool, b);
    ls__pool_release(pool, c);
    ck_assert_ptr_eq(ls__pool_allocate(pool, 990), a);  /* 1024, not 1280 or 20480 */
    ck_assert_ptr_eq(ls__pool_allocate(pool, 1020), c); /* one class up */
    ck_assert_int_eq(ls__pool_stats(pool).n_reused, 2);
    void *d = ls__pool_allocate(pool, 1020); /* 20480 is too much to cut it off */
    ck_assert_ptr_ne(d, b);
    ls_memory_stats stats = ls__pool_stats(pool);
    ck_assert_int_eq(stats.n_allocated, 4);
    ck_assert_int_eq(stats.n_blocks, 3);
    ck_assert_uint_eq(stats.current_bytes, 3 * 1024);
    ck_assert_uint_eq(stats.cached_bytes, 256 + 20480);
    ck_assert_uint_eq(stats.current_bytes + stats.cached_bytes, fake->taken_bytes);
    ck_assert_ptr_eq(ls__pool_allocate(pool, 5000), b); /* 5120 of it */
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 256 + 15360);
    ls__pool_release(pool, NULL);
    close_pool(); /* with blocks still handed out */
}
END_TEST

/* However three neighbours are released, they are one block afterwards, and the segment goes. */
START_TEST(neighbours_become_one)
{
    static const int orders[6][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                      { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
    open_pool((size_t)1 << 30, 0);
    fake->table.segment_bytes = SEGMENT;
    for (int i = 0; i < 6; i++) {
        char *blocks[3];
        for (int k = 0; k < 3; k++) blocks[k] = ls__pool_allocate(pool, 1 << 18);
        ck_assert_int_eq(fake->n_blocks, 1);
        ck_assert_uint_eq(fake->taken_bytes, SEGMENT);
        for (int k = 1; k < 3; k++) ck_assert_ptr_eq(blocks[k], blocks[0] + k * (1 << 18));
        for (int k = 0; k < 3; k++) {
            ls__pool_release(pool, blocks[orders[i][k]]);
            const size_t used = (size_t)(2 - k) << 18;
            ck_assert_uint_eq(ls__pool_stats(pool).current_bytes, used);
            ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, SEGMENT - used);
        }
        char *large = ls__pool_allocate(pool, 1 << 20);
        ck_assert_ptr_eq(large, blocks[0]);
        ls__pool_release(pool, large);
        if (i % 2 == 0) { /* all of it, or as it lies there for the next round */
            ck_assert_int_eq(ls__pool_trim(pool), LS_OK);
            ck_assert_int_eq(fake->n_blocks, 0);
        }
    }
    close_pool();
}
END_TEST

START_TEST(small_blocks_share_segments_of_their_own)
{
    open_pool((size_t)1 << 30, 0);
    fake->table.segment_bytes = SEGMENT;
    char *large = ls__pool_allocate(pool, 5 << 20); /* three segments' worth */
    ck_assert_uint_eq(fake->taken_bytes, 3 * SEGMENT);
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 1 << 20);
    ls__pool_release(pool, large);
    char *small[100];
    for (int i = 0; i < 100; i++) small[i] = ls__pool_allocate(pool, 1000);
    ck_assert_int_eq(fake->n_blocks, 2);
    ck_assert_ptr_eq(ls__pool_allocate(pool, 5 << 20), large); /* whole */
    /* segments in which something is used stay */
    for (int i = 1; i < 100; i++) ls__pool_release(pool, small[i]);
    ck_assert_int_eq(ls__pool_trim(pool), LS_OK);
    ck_assert_int_eq(fake->n_blocks, 2);
    ls__pool_release(pool, small[0]);
    ck_assert_int_eq(ls__pool_trim(pool), LS_OK);
    ck_assert_int_eq(fake->n_blocks, 1);
    close_pool();
}
END_TEST

START_TEST(limit_is_exact)
{
    open_pool((size_t)1 << 30, 10000);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 9984); /* a multiple of 256 */
    ck_assert_ptr_null(ls__pool_allocate(pool, 10001));
    ck_assert_ptr_null(ls__pool_allocate(pool, 9985));
    void *all = ls__pool_allocate(pool, 9984); /* its class, 10240, is beyond the limit */
    ck_assert_ptr_nonnull(all);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 0);
    ck_assert_ptr_null(ls__pool_allocate(pool, 1));
    ls__pool_release(pool, all);
    void *part = ls__pool_allocate(pool, 5000);
    ck_assert_ptr_eq(part, all);
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 4864);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 4864);
    ck_assert_ptr_null(ls__pool_allocate(pool, 4865));
    ck_assert_ptr_nonnull(ls__pool_allocate(pool, 4864));
    ck_assert_uint_eq(ls__pool_stats(pool).peak_bytes, 9984);
    close_pool();
}
END_TEST

/* An arena that leaves no room for its class, or for a segment's end, is served all the same. */
START_TEST(rounding_keeps_nothing_out)
{
    const size_t limit = ((size_t)100 << 20) + 512;
    open_pool((size_t)1 << 30, limit);
    fake->table.segment_bytes = SEGMENT;
    void *arena = ls__pool_allocate(pool, limit);
    ck_assert_ptr_nonnull(arena);
    ck_assert_uint_eq(fake->taken_bytes, limit);
    ls__pool_release(pool, arena);
    ck_assert_ptr_eq(ls__pool_allocate(pool, limit - 1000), arena);
    close_pool();
    open_pool(limit, 0); /* the device's own end */
    ck_assert_ptr_nonnull(ls__pool_allocate(pool, limit));
    close_pool();
}
END_TEST

START_TEST(an_exhausted_device_is_trimmed_first)
{
    open_pool(100000, 0);
    void *blocks[9];
    for (int i = 0; i < 9; i++) blocks[i] = ls__pool_allocate(pool, 10000); /* 10240 each */
    ck_assert_ptr_null(ls__pool_allocate(pool, 10000));
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 7680); /* of 7840 */
    for (int i = 0; i < 9; i++) ls__pool_release(pool, blocks[i]);
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 92160);
    ck_assert_ptr_nonnull(ls__pool_allocate(pool, 95000)); /* only after giving the nine back */
    ck_assert_int_eq(ls__pool_stats(pool).n_blocks, 1);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 1536); /* of 100000 - 98304 */
    close_pool();

    open_pool((size_t)1 << 30, 50000); /* the same for a limit */
    for (int i = 0; i < 4; i++) blocks[i] = ls__pool_allocate(pool, 10000);
    for (int i = 1; i < 4; i++) ls__pool_release(pool, blocks[i]);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 39680); /* of 50000 - 10240 */
    ck_assert_ptr_nonnull(ls__pool_allocate(pool, 39680));
    close_pool();
}
END_TEST

/* A block that is far too large is cut only when there is nothing else. */
START_TEST(large_blocks_are_cut_last)
{
    open_pool(((size_t)64 << 20) + 8192, 0);
    char *arena = ls__pool_allocate(pool, 64 << 20);
    ls__pool_release(pool, arena);
    char *a = ls__pool_allocate(pool, 8192); /* all that was left */
    ck_assert_ptr_ne(a, arena);
    ck_assert_ptr_eq(ls__pool_allocate(pool, 8192), arena);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), (64 << 20) - 8192);
    ck_assert_int_eq(ls__pool_stats(pool).n_allocated, 2);
    close_pool();
}
END_TEST

static size_t no_idea(ls__device *device)
{
    (void)device;
    return 0;
}

/* Asked, free, cached: one request of what is free succeeds, and one of more does not. */
START_TEST(reports)
{
    char wanted[200];
    open_pool(1 << 20, 0);
    char *blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = ls__pool_allocate(pool, 1 << 16);
    for (int i = 0; i < 8; i += 2) ls__pool_release(pool, blocks[i]);
    const size_t free = (1 << 20) - (4 << 16);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), free);
    ck_assert_int_eq(ls__pool_fail(pool, 5000, "%s", "someone"), LS_ERR_MEMORY);
    snprintf(wanted, sizeof(wanted),
             "someone: out of device memory: 5000 bytes requested, %zu free, %d cached", free,
             4 << 16);
    ck_assert_str_eq(ls_context_message(ctx), wanted);
    ls_context_clear_error(ctx);
    ck_assert_ptr_null(ls__pool_allocate(pool, free + 1));
    void *all = ls__pool_allocate(pool, free);
    ck_assert_ptr_nonnull(all);
    ls__pool_release(pool, all);

    /* a device that can't tell */
    fake->table.free_bytes = no_idea;
    ck_assert_uint_eq(ls__pool_free_bytes(pool), free);
    ck_assert_int_eq(ls__pool_trim(pool), LS_OK);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 0);
    ck_assert_ptr_nonnull(ls__pool_allocate(pool, free));
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 0);
    close_pool();
}
END_TEST

START_TEST(streams_get_each_others_blocks_after_a_wait)
{
    open_pool(1 << 16, 0);
    void *a = ls__pool_allocate_for(pool, LS__STREAM_COPY, 16384);
    ls__pool_release_after(pool, LS__STREAM_COPY, a);
    ck_assert_ptr_eq(ls__pool_allocate_for(pool, LS__STREAM_COPY, 16384), a);
    ls__pool_release_after(pool, LS__STREAM_COPY, a);
    void *b = ls__pool_allocate(pool, 16384); /* rather what nobody has used */
    ck_assert_ptr_ne(b, a);
    void *c = ls__pool_allocate(pool, 32768);
    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(fake->n_waits, 0);
    fake->now = 5;
    ck_assert_ptr_eq(ls__pool_allocate(pool, 16384), a); /* there is no other */
    ck_assert_int_eq(fake->n_waits, 1);
    ck_assert_int_eq(fake->waited[LS__STREAM_COMPUTE][LS__STREAM_COPY], 5);

    /* neighbours become one when they are one stream's */
    ls__pool_release(pool, c);
    char *halves[2];
    for (int i = 0; i < 2; i++) halves[i] = ls__pool_allocate(pool, 16384);
    ck_assert_ptr_eq(halves[0], c);
    ck_assert_ptr_eq(halves[1], halves[0] + 16384);
    ls__pool_release(pool, halves[1]);
    ls__pool_release_after(pool, LS__STREAM_COPY, halves[0]);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 32768);
    ck_assert_ptr_eq(ls__pool_allocate_for(pool, LS__STREAM_COPY, 32768), c);
    ck_assert_int_eq(fake->n_waits, 2);
    ck_assert_int_eq(fake->waited[LS__STREAM_COPY][LS__STREAM_COMPUTE], 5);
    close_pool();
}
END_TEST

START_TEST(streams_that_cannot_wait)
{
    open_pool(1 << 16, 0);
    void *a = ls__pool_allocate(pool, 1 << 15), *b = ls__pool_allocate(pool, 1 << 15);
    ls__pool_release(pool, b);
    ls__pool_release_after(pool, LS__STREAM_COPY, a);
    const ls_memory_stats before = ls__pool_stats(pool);
    fake->fail_at = fake->n_calls + 1;
    void *c = ls__pool_allocate(pool, 1 << 15), *d = ls__pool_allocate(pool, 1 << 15);
    ck_assert_ptr_eq(c, b);
    ck_assert_ptr_null(d); /* a's memory may be in use */
    expect_error(ctx, LS_ERR_DEVICE, "");
    ck_assert_ptr_eq(ls__pool_allocate(pool, 1 << 15), a); /* the call after succeeds */
    ck_assert_int_eq(ls__pool_stats(pool).n_blocks, before.n_blocks + 2);

    ls__pool_release_after(pool, LS__STREAM_COPY, a);
    fake->fail_at = fake->n_calls + 1;
    ck_assert_int_eq(ls__pool_trim(pool), LS_ERR_DEVICE);
    expect_error(ctx, LS_ERR_DEVICE, "");
    ck_assert_uint_eq(fake->taken_bytes, 1 << 15); /* whole segments go, whoever used them */
    close_pool();
}
END_TEST

START_TEST(host_memory)
{
    open_pool((size_t)1 << 30, 0);
    ls__pool *host = NULL;
    ck_assert_int_eq(ls__pool_open(ctx, ctx->device, LS__POOL_HOST, 0, &host), LS_OK);
    void *a = ls__pool_allocate(host, 10000);
    memset(a, 1, 10000);
    ck_assert_int_eq(fake->n_host_blocks, 1);
    ck_assert_int_eq(fake->n_blocks, 0);
    for (int i = 0; i < 10; i++) {
        ls__pool_release(host, a);
        ck_assert_ptr_eq(ls__pool_allocate(host, 10000), a);
    }
    ck_assert_int_eq(ls__pool_stats(host).n_allocated, 1);
    ls__pool_close(&host);
    ck_assert_int_eq(fake->n_host_blocks, 0);
    close_pool();
}
END_TEST

START_TEST(strangers_are_not_taken_back)
{
    open_pool((size_t)1 << 30, 0);
    char *a = ls__pool_allocate(pool, 100);
    char stranger[64];
    ls__pool_release(pool, stranger);
    ls__pool_release(pool, a + 64);
    ls__pool_release(pool, a - 64);
    ck_assert_int_eq(ls__pool_stats(pool).n_blocks, 1);
    ls__pool_release(pool, a);
    ls__pool_release(pool, a); /* twice */
    ck_assert_int_eq(ls__pool_stats(pool).n_blocks, 0);
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 256);
    close_pool();
}
END_TEST

START_TEST(no_memory_for_the_records)
{
    for (int64_t fail_at = 1;; fail_at++) {
        open_pool((size_t)1 << 30, 0);
        const ls_allocator before = ctx->allocator;
        failing_allocator a;
        failing_allocator_init(&a, fail_at);
        ls__pool *second = NULL;
        ctx->allocator = a.allocator;
        const ls_status status = ls__pool_open(ctx, ctx->device, LS__POOL_DEVICE, 0, &second);
        bool complete = status == LS_OK;
        for (int i = 0; i < 100 && second; i++) complete &= ls__pool_allocate(second, 64) != NULL;
        ls__pool_close(&second);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        ctx->allocator = before;
        close_pool();
        ck_assert(complete == !failing_allocator_failed(&a));
        if (complete) break;
    }
}
END_TEST

TEST_PROGRAM(pool)
{
    return RUN_SUITE("pool", sizes_waste_little, released_blocks_are_reused_best_fit_first,
                     neighbours_become_one, small_blocks_share_segments_of_their_own,
                     limit_is_exact, rounding_keeps_nothing_out,
                     an_exhausted_device_is_trimmed_first, large_blocks_are_cut_last, reports,
                     streams_get_each_others_blocks_after_a_wait, streams_that_cannot_wait,
                     host_memory, strangers_are_not_taken_back, no_memory_for_the_records);
}
