/* The memory pool: classes, reuse, limit, exhaustion, exact numbers. */
#include "tensor/pool.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "fake_backend.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <string.h>

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
        ck_assert_uint_le(taken, bytes < 256 ? 256 : bytes + bytes / 4);
        ls__pool_release(pool, memory);
        ck_assert_uint_eq(ls__pool_stats(pool).current_bytes, 0);
        ls__pool_trim(pool);
    }
    ck_assert_ptr_null(ls__pool_allocate(pool, SIZE_MAX));
    ck_assert_ptr_null(ls__pool_allocate(pool, SIZE_MAX - (4 << 20)));
    close_pool();
}
END_TEST

START_TEST(released_blocks_are_reused_best_fit_first)
{
    open_pool((size_t)1 << 30, 0);
    void *a = ls__pool_allocate(pool, 1000), *b = ls__pool_allocate(pool, 5000);
    void *c = ls__pool_allocate(pool, 1200);
    ck_assert_int_eq(ls__pool_stats(pool).n_allocated, 3);
    ls__pool_release(pool, a);
    ls__pool_release(pool, b);
    ls__pool_release(pool, c);
    ck_assert_ptr_eq(ls__pool_allocate(pool, 990), a);  /* 1024, not 1280 or 5120 */
    ck_assert_ptr_eq(ls__pool_allocate(pool, 1020), c); /* one class up */
    ck_assert_int_eq(ls__pool_stats(pool).n_reused, 2);
    void *d = ls__pool_allocate(pool, 1020); /* 5120 would waste too much */
    ck_assert_ptr_ne(d, b);
    ls_memory_stats stats = ls__pool_stats(pool);
    ck_assert_int_eq(stats.n_allocated, 4);
    ck_assert_int_eq(stats.n_blocks, 3);
    ck_assert_uint_eq(stats.current_bytes, 1024 + 1280 + 1024);
    ck_assert_uint_eq(stats.cached_bytes, 5120);
    ck_assert_uint_eq(stats.current_bytes + stats.cached_bytes, fake->taken_bytes);
    ls__pool_release(pool, NULL);
    close_pool(); /* with blocks still handed out */
}
END_TEST

START_TEST(limit_is_exact)
{
    open_pool((size_t)1 << 30, 10000);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 9984); /* a multiple of 64 */
    ck_assert_ptr_null(ls__pool_allocate(pool, 10001));
    ck_assert_ptr_null(ls__pool_allocate(pool, 9985));
    void *all = ls__pool_allocate(pool, 9984); /* its class, 10240, is beyond the limit */
    ck_assert_ptr_nonnull(all);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 0);
    ck_assert_ptr_null(ls__pool_allocate(pool, 1));
    ls__pool_release(pool, all);
    /* the cached block must go to make room */
    void *part = ls__pool_allocate(pool, 5000);
    ck_assert_ptr_nonnull(part);
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 0);
    ck_assert_uint_eq(fake->taken_bytes, 5120);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 4864);
    ck_assert_ptr_nonnull(ls__pool_allocate(pool, 4864));
    ck_assert_uint_eq(ls__pool_stats(pool).peak_bytes, 9984);
    close_pool();
}
END_TEST

START_TEST(an_exhausted_device_is_trimmed_first)
{
    open_pool(100000, 0);
    void *blocks[9];
    for (int i = 0; i < 9; i++) blocks[i] = ls__pool_allocate(pool, 10000); /* 10240 each */
    ck_assert_ptr_null(ls__pool_allocate(pool, 10000));
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 7808);
    for (int i = 0; i < 9; i++) ls__pool_release(pool, blocks[i]);
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 92160);
    ck_assert_ptr_nonnull(ls__pool_allocate(pool, 95000)); /* only after giving the nine back */
    ck_assert_int_eq(ls__pool_stats(pool).n_blocks, 1);
    ck_assert_uint_eq(ls__pool_free_bytes(pool), 100000 - 98304 - 100000 % 64);
    close_pool();
}
END_TEST

START_TEST(random_traffic_keeps_the_books)
{
    enum { N = 200 };
    struct {
        unsigned char *memory;
        size_t bytes;
    } held[N] = { 0 };
    open_pool(8 << 20, 6 << 20);
    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t r = ls__mix64(i);
        const int k = (int)(r % N);
        if (held[k].memory) { /* nobody else wrote here */
            int n_foreign = 0;
            for (size_t j = 0; j < held[k].bytes; j += 61) n_foreign += held[k].memory[j] != k;
            ck_assert_int_eq(n_foreign, 0);
            ls__pool_release(pool, held[k].memory);
            held[k].memory = NULL;
        } else {
            held[k].bytes = (size_t)(r >> 20) % ((r >> 60) < 2 ? 2000000 : 60000);
            held[k].memory = ls__pool_allocate(pool, held[k].bytes);
            if (held[k].memory) memset(held[k].memory, k, held[k].bytes);
        }
        const ls_memory_stats stats = ls__pool_stats(pool);
        ck_assert_uint_eq(stats.current_bytes + stats.cached_bytes, fake->taken_bytes);
        ck_assert_uint_le(fake->taken_bytes, 6 << 20);
        if (i % 1000 == 0) ls__pool_trim(pool);
    }
    const ls_memory_stats stats = ls__pool_stats(pool);
    int64_t n_held = 0;
    for (int k = 0; k < N; k++) n_held += held[k].memory != NULL;
    ck_assert_int_eq(stats.n_blocks, n_held);
    ck_assert_int_gt(stats.n_reused, 1000);
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
    ck_assert_uint_eq(ls__pool_stats(pool).cached_bytes, 128);
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

int main(void)
{
    return RUN_SUITE("pool", sizes_waste_little, released_blocks_are_reused_best_fit_first,
                     limit_is_exact, an_exhausted_device_is_trimmed_first,
                     random_traffic_keeps_the_books, host_memory, strangers_are_not_taken_back,
                     no_memory_for_the_records);
}
