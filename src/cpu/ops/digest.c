/* digest.c: base/hash.h's sums, a vector of words at a time; the same value on every instruction
 * set. Compiled once per set. */
#include "cpu/ops/digest.h"
#include "cpu/ops/native.h"

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512i vector;
#define BROADCAST(x)       _mm512_set1_epi64((int64_t)(x))
#define LOAD(from)         _mm512_loadu_si512(from)
#define STORE(to, v)       _mm512_storeu_si512(to, v)
#define ADD(a, b)          _mm512_add_epi64(a, b)
#define ADD_HALVES(a, b)   _mm512_add_epi32(a, b)
#define MULTIPLY_LOW(a, b) _mm512_mul_epu32(a, b)
#define XOR(a, b)          _mm512_xor_si512(a, b)
#define OR(a, b)           _mm512_or_si512(a, b)
#define AND(a, b)          _mm512_and_si512(a, b)
#define HIGH(a)            _mm512_srli_epi64(a, 32)
#define LOW_UP(a)          _mm512_slli_epi64(a, 32)
#define SWAP_HALVES(a)     _mm512_shuffle_epi32(a, _MM_PERM_CDAB)
#elif defined(__AVX2__)
#include <immintrin.h>
typedef __m256i vector;
#define BROADCAST(x)       _mm256_set1_epi64x((int64_t)(x))
#define LOAD(from)         _mm256_loadu_si256((const __m256i *)(from))
#define STORE(to, v)       _mm256_storeu_si256((__m256i *)(to), v)
#define ADD(a, b)          _mm256_add_epi64(a, b)
#define ADD_HALVES(a, b)   _mm256_add_epi32(a, b)
#define MULTIPLY_LOW(a, b) _mm256_mul_epu32(a, b)
#define XOR(a, b)          _mm256_xor_si256(a, b)
#define OR(a, b)           _mm256_or_si256(a, b)
#define AND(a, b)          _mm256_and_si256(a, b)
#define HIGH(a)            _mm256_srli_epi64(a, 32)
#define LOW_UP(a)          _mm256_slli_epi64(a, 32)
#define SWAP_HALVES(a)     _mm256_shuffle_epi32(a, 0xb1)
#endif

#if defined(__AVX2__)
enum { WORDS = sizeof(vector) / 8 };

/* The sums over whole vectors; returns how many bytes those are. */
static size_t add_vectors(ls__digest_sum *sum, const unsigned char *bytes, size_t size,
                          uint64_t position)
{
    uint64_t lanes[2][WORDS], first[WORDS];
    for (uint64_t i = 0; i < WORDS; i++)
        first[i] = LS__DIGEST_KEY_START + (position + i) * LS__DIGEST_KEY_STEP;
    const vector step = BROADCAST(WORDS * LS__DIGEST_KEY_STEP);
    const vector odd = BROADCAST(UINT64_C(0x0000000100000001));
    const vector high_half = BROADCAST(UINT64_C(0xffffffff00000000));
    vector s = LOAD(first), sum0 = BROADCAST(0), sum1 = sum0;
    size_t at = 0;
    for (; at + sizeof(vector) <= size; at += sizeof(vector)) {
        const vector key = XOR(s, SWAP_HALVES(MULTIPLY_LOW(s, HIGH(s))));
        const vector factors = OR(key, odd);
        const vector x = ADD_HALVES(LOAD(bytes + at), key);
        const vector y = ADD(MULTIPLY_LOW(x, factors), AND(x, high_half));
        sum0 = ADD(sum0, MULTIPLY_LOW(x, HIGH(x)));
        sum1 = ADD(sum1, ADD(MULTIPLY_LOW(HIGH(y), HIGH(factors)), LOW_UP(y)));
        s = ADD(s, step);
    }
    STORE(lanes[0], sum0);
    STORE(lanes[1], sum1);
    for (int lane = 0; lane < 2; lane++)
        for (int i = 0; i < WORDS; i++) sum->lanes[lane] += lanes[lane][i];
    return at;
}
#endif

void LS__ISA_NAME(ls__native_digest)(ls__digest_sum *sum, const void *bytes, size_t size,
                                     uint64_t offset)
{
    size_t done = 0;
#if defined(__AVX2__)
    done = add_vectors(sum, bytes, size, offset / 8);
#endif
    ls__digest_bytes(sum, (const unsigned char *)bytes + done, size - done, offset + done);
}
