/* Host memory: alignment, zeroes, growth, failure, sizes that overflow, bumps. */
#include "base/alloc.h"
#include "base/bump.h"
#include "base/context.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <string.h>

START_TEST(memory_is_aligned_and_zeroed)
{
    ls_context ctx = { .allocator = ls__default_allocator };
    for (size_t bytes = 0; bytes < 300; bytes += 7) {
        unsigned char *memory = ls__zalloc(&ctx, bytes);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % LS__ALIGNMENT, 0);
        for (size_t i = 0; i < bytes; i++) ck_assert_uint_eq(memory[i], 0);
        memset(memory, 0xff, bytes); /* the next one would show it */
        ls__free(&ctx, memory);
    }
    ls__free(&ctx, NULL);
    ck_assert_ptr_null(ls__alloc(&ctx, SIZE_MAX));
    ck_assert_ptr_null(ls__zalloc(&ctx, SIZE_MAX - 8));
}
END_TEST

START_TEST(realloc_keeps_the_old_contents)
{
    failing_allocator a;
    failing_allocator_init(&a, 3);
    ls_context ctx = { .allocator = a.allocator };
    char *text = ls__realloc(&ctx, NULL, 0, 4);
    memcpy(text, "abc", 4);
    text = ls__realloc(&ctx, text, 4, 1000);
    ck_assert_str_eq(text, "abc");
    ck_assert_ptr_null(ls__realloc(&ctx, text, 1000, 2000)); /* the third request fails */
    ck_assert_str_eq(text, "abc");
    text = ls__realloc(&ctx, text, 1000, 2); /* smaller */
    ck_assert_mem_eq(text, "ab", 2);
    ls__free(&ctx, text);
    ck_assert_int_eq(failing_allocator_live(&a), 0);
}
END_TEST

START_TEST(texts)
{
    for (int64_t fail_at = 0; fail_at <= 2; fail_at++) {
        failing_allocator a;
        failing_allocator_init(&a, fail_at);
        ls_context ctx = { .allocator = a.allocator };
        char *copy = ls__strdup(&ctx, "layer1");
        char *made = ls__format(&ctx, "%s.%d", "layer1", 7);
        if (fail_at != 1) ck_assert_str_eq(copy, "layer1");
        if (fail_at != 2) ck_assert_str_eq(made, "layer1.7");
        ck_assert(fail_at != 1 || !copy);
        ck_assert(fail_at != 2 || !made);
        ls__free(&ctx, copy);
        ls__free(&ctx, made);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
    }
}
END_TEST

START_TEST(sizes_do_not_overflow)
{
    size_t n = 5;
    ck_assert(ls__mul_size(3, 4, &n) && n == 12);
    ck_assert(ls__mul_size(0, SIZE_MAX, &n) && n == 0);
    ck_assert(ls__mul_size(SIZE_MAX, 0, &n) && n == 0);
    ck_assert(ls__mul_size(SIZE_MAX, 1, &n) && n == SIZE_MAX);
    ck_assert(!ls__mul_size(SIZE_MAX / 2 + 1, 2, &n) && n == SIZE_MAX);
    ck_assert(ls__add_size(SIZE_MAX - 1, 1, &n) && n == SIZE_MAX);
    n = 5;
    ck_assert(!ls__add_size(SIZE_MAX, 1, &n) && n == 5);
    ck_assert_uint_eq(ls__round_up(0, 64), 0);
    ck_assert_uint_eq(ls__round_up(1, 64), 64);
    ck_assert_uint_eq(ls__round_up(64, 64), 64);
    ck_assert_uint_eq(ls__round_up(65, 64), 128);
}
END_TEST

/* The elements stay, the capacity is at least the requested one, and a failure changes nothing. */
START_TEST(arrays_of_a_bump_grow)
{
    ls_context ctx = { .allocator = ls__default_allocator };
    ls__bump bump;
    size_t capacity = 0;
    int *array = NULL;
    ls__bump_open(&bump, &ctx);
    for (int n = 0; n < 1000; n++) {
        const size_t had = capacity;
        int *larger = ls__bump_room(&bump, array, (size_t)n, 1, &capacity, sizeof *array);
        ck_assert_ptr_nonnull(larger);
        ck_assert_uint_gt(capacity, (size_t)n);
        ck_assert((larger == array) == ((size_t)n < had));
        array = larger;
        array[n] = n;
    }
    for (int n = 0; n < 1000; n++) ck_assert_int_eq(array[n], n);
    const size_t before = capacity;
    ck_assert_ptr_null(ls__bump_room(&bump, array, 1000, SIZE_MAX / 8, &capacity, sizeof *array));
    ck_assert_ptr_null(ls__bump_room(&bump, array, 1000, SIZE_MAX - 4, &capacity, sizeof *array));
    ck_assert_uint_eq(capacity, before);
    array = ls__bump_room(&bump, array, 1000, 5000, &capacity, sizeof *array);
    ck_assert_uint_ge(capacity, 6000);
    ck_assert_int_eq(array[999], 999);
    ls__bump_close(&bump);
}
END_TEST

TEST_PROGRAM(alloc)
{
    return RUN_SUITE("alloc", memory_is_aligned_and_zeroed, realloc_keeps_the_old_contents, texts,
                     sizes_do_not_overflow, arrays_of_a_bump_grow);
}
