/* Digests: parts in any order, every bit and position counts. */
#include "base/hash.h"

#include <stdbool.h>

#include "../suite.h"
#include <stdlib.h>
#include <string.h>

enum { N = 1003 }; /* no multiple of 8: the rest is padded */
static unsigned char bytes[N];

static void fill(void)
{
    for (int i = 0; i < N; i++) bytes[i] = (unsigned char)(ls__mix64((uint64_t)i) >> 13);
}

static ls__digest_sum digest(const void *data, size_t size)
{
    ls__digest_sum sum = { { 0, 0 } };
    ls__digest_bytes(&sum, data, size, 0);
    return sum;
}

static bool equal(ls__digest_sum a, ls__digest_sum b)
{
    return a.lanes[0] == b.lanes[0] && a.lanes[1] == b.lanes[1];
}

START_TEST(parts_add_up_in_any_order)
{
    fill();
    const ls__digest_sum whole = digest(bytes, N);
    ls__digest_sum sum = { { 0, 0 } };
    ls__digest_bytes(&sum, bytes + 800, N - 800, 800);
    ls__digest_bytes(&sum, bytes, 16, 0);
    ls__digest_bytes(&sum, bytes + 16, 784, 16);
    ck_assert(equal(sum, whole));
}
END_TEST

START_TEST(every_bit_counts)
{
    fill();
    const ls__digest_sum whole = digest(bytes, N);
    for (int bit = 0; bit < 8 * N; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        const ls__digest_sum changed = digest(bytes, N);
        ck_assert(changed.lanes[0] != whole.lanes[0] && changed.lanes[1] != whole.lanes[1]);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}
END_TEST

START_TEST(order_and_pairs_of_changes_count)
{
    fill();
    const ls__digest_sum whole = digest(bytes, N);
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

START_TEST(zeros_of_different_lengths_differ)
{
    memset(bytes, 0, N);
    ck_assert(!equal(digest(bytes, 8), digest(bytes, 16)));
    ck_assert(!equal(digest(bytes, 8), digest(bytes, 0)));
}
END_TEST

START_TEST(digests_never_change)
{
    /* they are kept in runs' records */
    fill();
    const ls__digest_sum whole = digest(bytes, N);
    ck_assert_uint_eq(whole.lanes[0], UINT64_C(0x8031650df039f7be));
    ck_assert_uint_eq(whole.lanes[1], UINT64_C(0xd746cf5134c4e699));
}
END_TEST

START_TEST(hash_is_xxh3)
{
    ck_assert_uint_eq(ls__hash("", 0, 0), UINT64_C(0x2d06800538d394c2)); /* xxHash's own value */
    ck_assert_uint_ne(ls__hash("conv1", 5, 0), ls__hash("conv2", 5, 0));
    ck_assert_uint_ne(ls__hash("conv1", 5, 0), ls__hash("conv1", 5, 1));
}
END_TEST

int main(void)
{
    return RUN_SUITE("hash", parts_add_up_in_any_order, every_bit_counts,
                     order_and_pairs_of_changes_count, zeros_of_different_lengths_differ,
                     digests_never_change, hash_is_xxh3);
}
