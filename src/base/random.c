/* random.c: draws, and keyed permutations. */
#include "base/hash.h"
#include "base/random.h"

void ls_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    ls__philox4x32(counter, key, out);
}

void ls_random_words(uint64_t seed, const ls_draw *draw, uint32_t out[4])
{
    const ls__philox_input input = ls__random_input(seed, draw);
    ls__philox_sample(&input, 0, out);
}

void ls__random_run(const ls__philox_input *input, uint64_t first, int64_t n, uint32_t *words)
{
    for (int64_t i = 0; i < n; i++) ls__philox_sample(input, first + (uint64_t)i, words + 4 * i);
}

float ls_random_uniform(uint32_t word)
{
    return ls__word_uniform(word);
}

uint64_t ls_random_below(uint32_t high, uint32_t low, uint64_t n)
{
    /* the upper 64 bits of (high:low) * n, from four 32-bit products */
    const uint64_t n_high = n >> 32, n_low = n & 0xffffffffu;
    const uint64_t middle = high * n_low + (low * n_low >> 32);
    const uint64_t carry = low * n_high + (middle & 0xffffffffu);
    return high * n_high + (middle >> 32) + (carry >> 32);
}

/* The round function: a word for this half in this round. */
static uint32_t feistel_word(uint64_t seed, uint32_t epoch, uint32_t round, uint32_t half)
{
    const ls_draw draw = {
        .stream = LS_RANDOM_SHUFFLE, .layer = round, .epoch = epoch, .sample = half
    };
    uint32_t words[4];
    ls_random_words(seed, &draw, words);
    return words[0];
}

/* With halves of few bits, a Feistel network is not uniform: at n = 8 the frequency of a pair of
 * places is off by up to 18 %, at 32 slightly; tests/base/test_random.c finds no difference at 64.
 */
enum { FEISTEL_MIN = 64, FEISTEL_ROUNDS = 8 };

/* The shuffle of Durstenfeld (CACM algorithm 235, 1964): all n! orders are equally likely. */
static uint64_t permute_few(uint64_t seed, uint32_t epoch, uint64_t n, uint64_t i)
{
    uint8_t order[FEISTEL_MIN];
    for (uint64_t k = 0; k < n; k++) order[k] = (uint8_t)k;
    for (uint64_t k = n - 1; k > 0; k--) {
        const ls_draw draw = {
            .stream = LS_RANDOM_SHUFFLE, .layer = FEISTEL_ROUNDS, .epoch = epoch, .sample = k
        };
        uint32_t words[4];
        ls_random_words(seed, &draw, words);
        const uint64_t j = ls_random_below(words[0], words[1], k + 1);
        const uint8_t moved = order[k];
        order[k] = order[j];
        order[j] = moved;
    }
    return order[i];
}

uint64_t ls_random_permute(uint64_t seed, uint32_t epoch, uint64_t n, uint64_t i)
{
    if (i >= n) return i;
    if (n < FEISTEL_MIN) return permute_few(seed, epoch, n, i);
    int n_bits = 0;
    while (n_bits < 64 && (n - 1) >> n_bits) n_bits++;
    const int left_bits = n_bits / 2, right_bits = n_bits - left_bits;
    const uint32_t left_mask = (uint32_t)ls__low_bits(UINT64_MAX, left_bits);
    const uint32_t right_mask = (uint32_t)ls__low_bits(UINT64_MAX, right_bits);

    /* The network permutes 0..2^n_bits-1, fewer than 2n values. Repeating it until the value is
     * below n gives a permutation of 0..n-1 with fewer than two repetitions on average. Four rounds
     * suffice for large halves (Luby and Rackoff 1988); small ones need more. */
    do {
        uint32_t left = (uint32_t)(i >> right_bits), right = (uint32_t)i & right_mask;
        for (uint32_t round = 0; round < FEISTEL_ROUNDS; round += 2) {
            left ^= feistel_word(seed, epoch, round, right) & left_mask;
            right ^= feistel_word(seed, epoch, round + 1, left) & right_mask;
        }
        i = (uint64_t)left << right_bits | right;
    } while (i >= n);
    return i;
}
