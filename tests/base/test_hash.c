/* Digests: parts in any order, every bit and position counts. */
#include "base/hash.h"

#include <stdbool.h>

#include "../suite.h"
#include <lockstep/tensor.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1003 }; /* no multiple of 8: the rest is padded */
static unsigned char bytes[N];

static void fill(void)
{
    for (int i = 0; i < N; i++) bytes[i] = (unsigned char)(ls__mix64((uint64_t)i) >> 13);
}

static ls_digest digest(const void *data, size_t size)
{
    ls__digest_sum sum = { { 0, 0 } };
    ls__digest_bytes(&sum, data, size, 0);
    return ls__digest_finish(&sum, size);
}

static bool equal(ls_digest a, ls_digest b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

START_TEST(parts_add_up_in_any_order)
{
    fill();
    const ls_digest whole = digest(bytes, N);
    ls__digest_sum sum = { { 0, 0 } };
    ls__digest_bytes(&sum, bytes + 800, N - 800, 800);
    ls__digest_bytes(&sum, bytes, 16, 0);
    ls__digest_bytes(&sum, bytes + 16, 784, 16);
    ck_assert(equal(ls__digest_finish(&sum, N), whole));
}
END_TEST

START_TEST(any_split_has_the_same_digest)
{
    fill();
    const ls_digest whole = digest(bytes, N);
    for (size_t at = 0; at <= N; at += 8) {
        ls__digest_sum sum = { { 0, 0 } };
        ls__digest_bytes(&sum, bytes, at, 0);
        ls__digest_bytes(&sum, bytes + at, N - at, at);
        ck_assert(equal(ls__digest_finish(&sum, N), whole));
    }
}
END_TEST

START_TEST(every_bit_counts)
{
    fill();
    const ls_digest whole = digest(bytes, N);
    for (int bit = 0; bit < 8 * N; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        const ls_digest changed = digest(bytes, N);
        ck_assert(changed.words[0] != whole.words[0] && changed.words[1] != whole.words[1]);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}
END_TEST

START_TEST(order_and_pairs_of_changes_count)
{
    fill();
    const ls_digest whole = digest(bytes, N);
    unsigned char word[8];
    memcpy(word, bytes, 8); /* two words change places */
    memcpy(bytes, bytes + 8, 8);
    memcpy(bytes + 8, word, 8);
    ck_assert(!equal(digest(bytes, N), whole));
    fill();
    bytes[0] ^= 1; /* the same change twice, which an XOR would not see */
    bytes[8] ^= 1;
    ck_assert(!equal(digest(bytes, N), whole));
}
END_TEST

/* Both halves of every pair of words change places, among them halves with small numbers in them,
 * as labels and mostly black images have. */
START_TEST(all_swaps_count)
{
    fill();
    for (int sparse = 0; sparse < 2; sparse++) {
        enum { WORDS = N / 8 };
        uint64_t words[WORDS];
        for (uint64_t i = 0; i < WORDS; i++) {
            memcpy(&words[i], bytes + 8 * i, 8);
            if (sparse) words[i] = i | i << 32;
        }
        const ls_digest whole = digest(words, sizeof words);
        for (int i = 0; i < WORDS; i++)
            for (int j = 0; j < i; j++) {
                const uint64_t a = words[i], b = words[j];
                words[i] = b;
                words[j] = a;
                const ls_digest swapped = digest(words, sizeof words);
                words[i] = a;
                words[j] = b;
                ck_assert(swapped.words[0] != whole.words[0] && swapped.words[1] != whole.words[1]);
            }
    }
}
END_TEST

/* Two ones among zeros move by the same distance towards each other: keys in arithmetic
 * progression would not see that. */
START_TEST(balanced_moves_count)
{
    enum { WORDS = 64 };
    uint64_t words[WORDS] = { 0 };
    for (int half = 0; half < 2; half++) {
        const uint64_t one = UINT64_C(1) << 32 * half;
        for (int p = 0; p < WORDS; p++)
            for (int q = p + 2; q < WORDS; q++) {
                words[p] = words[q] = one;
                const ls_digest whole = digest(words, sizeof words);
                words[p] = words[q] = 0;
                for (int d = 1; p + d < q - d; d++) {
                    words[p + d] = words[q - d] = one;
                    const ls_digest moved = digest(words, sizeof words);
                    words[p + d] = words[q - d] = 0;
                    ck_assert(moved.words[0] != whole.words[0] && moved.words[1] != whole.words[1]);
                }
            }
    }
}
END_TEST

START_TEST(zeros_of_different_lengths_differ)
{
    memset(bytes, 0, N);
    for (size_t size = 0; size < 64; size++)
        for (size_t other = 0; other < size; other++)
            ck_assert(!equal(digest(bytes, size), digest(bytes, other)));
}
END_TEST

START_TEST(digests_never_change)
{
    /* they are kept in runs' records */
    fill();
    const ls_digest whole = digest(bytes, N);
    ck_assert_uint_eq(whole.words[0], UINT64_C(0x68d860f93b1838ac));
    ck_assert_uint_eq(whole.words[1], UINT64_C(0x1c7c79e60473dde2));
}
END_TEST

START_TEST(hash_is_xxh3)
{
    ck_assert_uint_eq(ls__hash("", 0, 0), UINT64_C(0x2d06800538d394c2)); /* xxHash's own value */
    ck_assert_uint_ne(ls__hash("conv1", 5, 0), ls__hash("conv2", 5, 0));
    ck_assert_uint_ne(ls__hash("conv1", 5, 0), ls__hash("conv1", 5, 1));
}
END_TEST

TEST_PROGRAM(hash)
{
    return RUN_SUITE("hash", parts_add_up_in_any_order, any_split_has_the_same_digest,
                     every_bit_counts, order_and_pairs_of_changes_count, all_swaps_count,
                     balanced_moves_count, zeros_of_different_lengths_differ, digests_never_change,
                     hash_is_xxh3);
}
