/* Random numbers: the published vectors of Philox, draws by name, permutations, normal numbers. */
#include "base/random.h"

#include "../suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(philox_published_vectors)
{
    /* Random123's kat_vectors, philox4x32 with 10 rounds */
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t out[4];
        ls_philox4x32(cases[i].counter, cases[i].key, out);
        ck_assert_mem_eq(out, cases[i].out, sizeof(out));
    }
}
END_TEST

START_TEST(every_field_of_a_draw_has_bits_of_its_own)
{
    /* every single bit of every field, and no bit: all draws differ */
    static const int bits[6] = { 8, 16, 20, 36, 40, 8 };
    uint32_t words[129][4];
    int n = 0;
    ls_random_words(7, &(ls_draw){ 0 }, words[n++]);
    for (int field = 0; field < 6; field++) {
        for (int bit = 0; bit < bits[field]; bit++) {
            const uint64_t v = UINT64_C(1) << bit;
            const ls_draw draw = { .stream = field == 0 ? (ls_random_stream)v : 0,
                                   .layer = field == 1 ? (uint32_t)v : 0,
                                   .epoch = field == 2 ? (uint32_t)v : 0,
                                   .step = field == 3 ? v : 0,
                                   .sample = field == 4 ? v : 0,
                                   .block = field == 5 ? (uint32_t)v : 0 };
            ls_random_words(7, &draw, words[n++]);
        }
    }
    ck_assert_int_eq(n, 129);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < i; j++) ck_assert(memcmp(words[i], words[j], 16) != 0);
    }
    /* beyond the limit a value is cut and touches no other field */
    uint32_t cut[4];
    ls_random_words(7, &(ls_draw){ .layer = 1 << 16, .epoch = 1 << 20, .step = UINT64_C(1) << 36 },
                    cut);
    ck_assert_mem_eq(cut, words[0], 16);
}
END_TEST

/* The set of words that were drawn, a quarter of all values at a time. */
enum { SET_SLOTS = 1 << 23 };

typedef struct word_set {
    uint64_t *slots; /* 0 = empty */
    uint64_t quarter;
    int64_t n, n_repeats;
} word_set;

static void draw_into(word_set *set, uint64_t seed, const ls_draw *draw)
{
    uint32_t words[4];
    ls_random_words(seed, draw, words);
    const uint64_t value = (uint64_t)words[1] << 32 | words[0];
    if (value >> 62 != set->quarter) return;
    uint64_t at = value % SET_SLOTS;
    while (set->slots[at] && set->slots[at] != value) at = (at + 1) % SET_SLOTS;
    set->n_repeats += set->slots[at] == value;
    set->slots[at] = value;
    set->n++;
}

static void draw_tuples(word_set *set, uint64_t seed, uint32_t n_epochs, uint64_t n_samples)
{
    for (uint32_t stream = 0; stream <= LS_RANDOM_SAMPLER; stream++)
        for (uint32_t epoch = 0; epoch < n_epochs; epoch++)
            for (uint64_t sample = 0; sample < n_samples; sample++)
                for (uint32_t block = 0; block < 4; block++)
                    draw_into(set, seed,
                              &(ls_draw){ .stream = (ls_random_stream)stream,
                                          .epoch = epoch,
                                          .sample = sample,
                                          .block = block });
}

START_TEST(no_two_of_ten_million_draws_agree)
{
    /* No two draws agree in 64 of their 128 bits, which for unrelated words happens in 5 of a
     * million such tests. Draws that shared counter and key would agree. */
    enum { EPOCHS = 25, SAMPLES = 11200, SEEDS = 1000000, NEAR_EPOCHS = 5, NEAR_SAMPLES = 2500 };
    static const uint64_t seed = 7, near[] = { 6, 8, 7 + (UINT64_C(1) << 32), UINT64_C(7) << 32,
                                               7 + (UINT64_C(1) << 63) };
    word_set set = { .slots = calloc(SET_SLOTS, sizeof(*set.slots)) };
    ck_assert_ptr_nonnull(set.slots);
    for (; set.quarter < 4; set.quarter++) {
        memset(set.slots, 0, SET_SLOTS * sizeof(*set.slots));
        draw_tuples(&set, seed, EPOCHS, SAMPLES);
        for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
            draw_tuples(&set, near[i], NEAR_EPOCHS, NEAR_SAMPLES);
        for (uint64_t other = 9; other < 9 + SEEDS; other++)
            draw_into(&set, other, &(ls_draw){ 0 });
    }
    free(set.slots);
    ck_assert_int_eq(set.n,
                     11 * 4 * ((int64_t)EPOCHS * SAMPLES + 5 * NEAR_EPOCHS * NEAR_SAMPLES) + SEEDS);
    ck_assert_int_eq(set.n_repeats, 0);
}
END_TEST

START_TEST(uniform_and_below_stay_in_range)
{
    ck_assert_float_eq(ls_random_uniform(0), 0.0f);
    ck_assert_float_eq(ls_random_uniform(0xffffffff), 1.0f - 0x1p-24f);
    ck_assert_uint_eq(ls_random_below(0, 0, 10), 0);
    ck_assert_uint_eq(ls_random_below(0xffffffff, 0xffffffff, 10), 9);
    ck_assert_uint_eq(ls_random_below(0xffffffff, 0xffffffff, UINT64_MAX), UINT64_MAX - 1);
    ck_assert_uint_eq(ls_random_below(0x80000000, 0, 10), 5);
    ck_assert_uint_eq(ls_random_below(0x7fffffff, 0xffffffff, 10), 4);
    ck_assert_uint_eq(ls_random_below(0x12345678, 0x9abcdef0, 1), 0);
    ck_assert_uint_eq(ls_random_below(0xdeadbeef, 0xcafebabe, UINT64_C(0x123456789abcdef1)),
                      UINT64_C(0xfd5bdeeeb2a01d8)); /* 0xdeadbeefcafebabe * n >> 64 */
}
END_TEST

START_TEST(permutation_is_a_bijection)
{
    static const uint64_t sizes[] = {
        1, 2, 3, 4, 5, 7, 8, 9, 31, 100, 128, 129, 1000, 50000, 65537
    };
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        const uint64_t n = sizes[k];
        unsigned char *seen = calloc(n, 1);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t to = ls_random_permute(11, 3, n, i);
            ck_assert_uint_lt(to, n);
            ck_assert_uint_eq(seen[to], 0);
            seen[to] = 1;
        }
        free(seen);
        ck_assert_uint_eq(ls_random_permute(11, 3, n, n), n); /* beyond the end: left alone */
    }
    /* the largest domain there is */
    const uint64_t a = ls_random_permute(11, 3, UINT64_MAX, 0);
    ck_assert_uint_lt(a, UINT64_MAX);
    ck_assert_uint_ne(a, ls_random_permute(11, 3, UINT64_MAX, 1));
}
END_TEST

START_TEST(permutations_of_neighbours_are_unrelated)
{
    /* Two unrelated permutations agree in about one place (Poisson with mean 1), and neighbouring
     * places are not carried along. */
    enum { N = 10000 };
    static const struct {
        uint64_t seed;
        uint32_t epoch;
    } others[] = { { 1, 0 }, { 2, 0 }, { 0, 1 }, { 0, 2 }, { UINT64_C(1) << 63, 0 } };
    for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) {
        int n_same = 0, n_carried = 0;
        uint64_t before_a = 0, before_b = 0;
        for (uint64_t i = 0; i < N; i++) {
            const uint64_t a = ls_random_permute(0, 0, N, i);
            const uint64_t b = ls_random_permute(others[k].seed, others[k].epoch, N, i);
            n_same += a == b;
            n_carried += i > 0 && a - before_a == b - before_b;
            before_a = a;
            before_b = b;
        }
        ck_assert_int_lt(n_same, 10);
        ck_assert_int_lt(n_carried, 10);
    }
}
END_TEST

/* Chi-square of n_cells counts that are all expected to be `expected`, in standard stds from
 * its mean. */
static double chi_square_score(const int *count, int n_cells, double expected)
{
    double chi = 0;
    const double df = n_cells - 1;
    for (int i = 0; i < n_cells; i++)
        chi += (count[i] - expected) * (count[i] - expected) / expected;
    return (chi - df) / sqrt(2 * df);
}

/* Fixed seeds, so the outcome is fixed too. For so few degrees of freedom as 1 chi-square is far
 * from normal: 8 stds there have a probability of 5e-4, from 23 on below 1e-6. */
enum { MAX_SCORE = 8 };

START_TEST(all_orders_of_a_few_are_equally_frequent)
{
    enum { PER_ORDER = 400, MAX_ORDERS = 120 };
    for (uint64_t n = 2, n_orders = 2; n <= 5; n++, n_orders *= n) {
        int count[MAX_ORDERS] = { 0 };
        for (uint64_t seed = 0; seed < PER_ORDER * n_orders; seed++) {
            uint64_t to[5], code = 0;
            for (uint64_t i = 0; i < n; i++) to[i] = ls_random_permute(seed, 0, n, i);
            for (uint64_t i = 0; i < n; i++) { /* the number of the order, by its Lehmer code */
                uint64_t n_smaller = 0;
                for (uint64_t k = i + 1; k < n; k++) n_smaller += to[k] < to[i];
                code = code * (n - i) + n_smaller;
            }
            count[code]++;
        }
        const double score = chi_square_score(count, (int)n_orders, PER_ORDER);
        ck_assert_msg(fabs(score) < MAX_SCORE, "n = %d: %g stds", (int)n, score);
    }
}
END_TEST

static void expect_even_pairs(int n, int a, int b, int per_pair)
{
    enum { MAX_N = 64 };
    static int count[MAX_N * (MAX_N - 1)];
    const int n_pairs = n * (n - 1);
    memset(count, 0, sizeof(count));
    for (int key = 0; key < per_pair * n_pairs; key++) {
        const int x = (int)ls_random_permute((uint64_t)key, 5, (uint64_t)n, (uint64_t)a);
        const int y = (int)ls_random_permute((uint64_t)key, 5, (uint64_t)n, (uint64_t)b);
        count[x * (n - 1) + y - (y > x)]++;
    }
    const double score = chi_square_score(count, n_pairs, per_pair);
    ck_assert_msg(fabs(score) < MAX_SCORE, "%d and %d of %d: %g stds", a, b, n, score);
}

/* Counts the positions of two elements: all n (n-1) pairs of positions, over many keys. */
START_TEST(pairs_of_places_are_equally_frequent)
{
    static const int larger[] = { 12, 16, 17, 24, 31, 32, 33, 48, 63, 64 };
    for (int n = 2; n < 10; n++)
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++) expect_even_pairs(n, a, b, 200);
    for (size_t k = 0; k < sizeof(larger) / sizeof(larger[0]); k++)
        expect_even_pairs(larger[k], 0, 1, 20);
}
END_TEST

/* Counts the position of each of n elements: all n^2 cells, for every n up to 64. */
START_TEST(places_are_equally_frequent)
{
    enum { MAX_N = 64, PER_CELL = 50 };
    static int count[MAX_N * MAX_N];
    for (uint64_t n = 2; n <= MAX_N; n++) {
        memset(count, 0, sizeof(count));
        for (uint64_t key = 0; key < PER_CELL * n; key++)
            for (uint64_t i = 0; i < n; i += n / 4 + 1)
                count[i * n + ls_random_permute(7, (uint32_t)key, n, i)]++;
        for (uint64_t i = 0; i < n; i += n / 4 + 1) {
            const double score = chi_square_score(count + i * n, (int)n, PER_CELL);
            ck_assert_msg(fabs(score) < MAX_SCORE, "place %d of %d: %g stds", (int)i, (int)n,
                          score);
        }
    }
}
END_TEST

/* Permutations are part of the identity of a run: one that changes takes another number in
 * base/own_kernels.h. */
START_TEST(permutations_keep_their_order)
{
    static const struct {
        uint64_t n;
        uint64_t to[6]; /* where 0 to 5 go with seed 11 and epoch 3 */
    } known[] = {
        { 6, { 0, 1, 3, 4, 5, 2 } },
        { 63, { 45, 60, 47, 13, 49, 26 } },
        { 64, { 47, 7, 37, 32, 27, 50 } },
        { 50000, { 10218, 16495, 19715, 42923, 44938, 20378 } },
    };
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
        for (uint64_t i = 0; i < 6; i++)
            ck_assert_uint_eq(ls_random_permute(11, 3, known[k].n, i), known[k].to[i]);
}
END_TEST

START_TEST(normal_quantile_is_accurate)
{
    /* AS 241's own test values, and the distribution function by libm's erfc the other way round */
    ck_assert_double_eq_tol(ls__normal_quantile(0.25), -0.6744897501960817, 1e-15);
    ck_assert_double_eq_tol(ls__normal_quantile(0.001), -3.090232306167814, 4e-15);
    ck_assert_double_eq_tol(ls__normal_quantile(1e-20), -9.262340089798408, 1e-14);
    for (double p = 0x1p-53; p < 0.5; p *= 1.37) {
        const double back = 0.5 * erfc(-ls__normal_quantile(p) / sqrt(2.0));
        ck_assert_double_eq_tol(back / p, 1.0, 1e-13);
        if (p > 1e-3)
            ck_assert_double_eq_tol(ls__normal_quantile(1.0 - p), -ls__normal_quantile(p), 1e-13);
    }
}
END_TEST

START_TEST(normal_draws_have_the_right_moments_and_bits)
{
    enum { N = 200000 };
    double sum = 0, squares = 0, fourth = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint32_t words[4];
        ls_random_words(42, &(ls_draw){ .stream = LS_RANDOM_USER, .sample = i }, words);
        const double z = ls__random_normal(words[0], words[1]);
        sum += z;
        squares += z * z;
        fourth += z * z * z * z;
    }
    ck_assert_double_eq_tol(sum / N, 0.0, 5 / sqrt(N));
    ck_assert_double_eq_tol(squares / N, 1.0, 5 * sqrt(2.0 / N));
    ck_assert_double_eq_tol(fourth / N, 3.0, 5 * sqrt(96.0 / N));

    /* ends, symmetry, and bits that must be the same on every machine */
    ck_assert_float_eq(ls__random_normal(0, 0), -ls__random_normal(0xffffffff, 0xffffffff));
    ck_assert_float_eq_tol(ls__random_normal(0, 0), -8.2095f, 1e-3f);
    static const struct {
        uint32_t high, low;
        float z;
    } known[] = {
        { 0x80000000, 0x00000000, 0x1.40d932p-52f },
        { 0x12345678, 0x9abcdef0, -0x1.77b264p+0f },
        { 0xfffff000, 0x00000000, 0x1.30d502p+2f },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        ck_assert_float_eq(ls__random_normal(known[i].high, known[i].low), known[i].z);
    }
}
END_TEST

/* The draws are of all three formulas' ranges, at every position of a batch. */
START_TEST(normal_draws_by_the_batch_have_the_same_bits)
{
    enum { N = 1000 };
    uint32_t words[2 * N + 2]; /* a draw has four */
    float batch[N];
    for (uint32_t i = 0; i < N; i++) {
        ls_random_words(7, &(ls_draw){ .stream = LS_RANDOM_USER, .sample = i }, words + 2 * i);
        const int shift = i % 7 == 0 ? 31 : i % 5 == 0 ? 27 : 0; /* towards the tail */
        words[2 * i] = i % 2 ? words[2 * i] >> shift : ~(words[2 * i] >> shift);
    }
    ls__random_normals(words, N, batch);
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(batch[i], ls__random_normal(words[2 * i], words[2 * i + 1]));
}
END_TEST

TEST_PROGRAM(random)
{
    return RUN_SUITE("random", philox_published_vectors, every_field_of_a_draw_has_bits_of_its_own,
                     no_two_of_ten_million_draws_agree, uniform_and_below_stay_in_range,
                     permutation_is_a_bijection, permutations_of_neighbours_are_unrelated,
                     all_orders_of_a_few_are_equally_frequent, pairs_of_places_are_equally_frequent,
                     places_are_equally_frequent, permutations_keep_their_order,
                     normal_quantile_is_accurate, normal_draws_have_the_right_moments_and_bits,
                     normal_draws_by_the_batch_have_the_same_bits);
}
