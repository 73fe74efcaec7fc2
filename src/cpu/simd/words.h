/* words.h: vectors of 64-bit unsigned integers. HALVES are the 32-bit halves of each,
 * QUARTERS the 16-bit quarters. */
#ifndef LS_CPU_SIMD_WORDS_H
#define LS_CPU_SIMD_WORDS_H

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
typedef __m512i ls__words;
#define LS__WORDS_BROADCAST(x)       _mm512_set1_epi64((int64_t)(x))
#define LS__WORDS_LOAD(from)         _mm512_loadu_si512(from)
#define LS__WORDS_STORE(to, v)       _mm512_storeu_si512(to, v)
#define LS__WORDS_ADD(a, b)          _mm512_add_epi64(a, b)
#define LS__WORDS_ADD_HALVES(a, b)   _mm512_add_epi32(a, b)
#define LS__WORDS_MULTIPLY_LOW(a, b) _mm512_mul_epu32(a, b)
#define LS__WORDS_MAX_HALVES(a, b)   _mm512_max_epu32(a, b)
#define LS__WORDS_ADD_QUARTERS(a, b) _mm512_add_epi16(a, b)
#define LS__WORDS_MAX_QUARTERS(a, b) _mm512_max_epu16(a, b)
#define LS__WORDS_XOR(a, b)          _mm512_xor_si512(a, b)
#define LS__WORDS_OR(a, b)           _mm512_or_si512(a, b)
#define LS__WORDS_HIGH(a)            _mm512_srli_epi64(a, 32)
#define LS__WORDS_SWAP_HALVES(a)     _mm512_shuffle_epi32(a, _MM_PERM_CDAB)
#elif defined(__AVX2__)
typedef __m256i ls__words;
#define LS__WORDS_BROADCAST(x)       _mm256_set1_epi64x((int64_t)(x))
#define LS__WORDS_LOAD(from)         _mm256_loadu_si256((const __m256i *)(from))
#define LS__WORDS_STORE(to, v)       _mm256_storeu_si256((__m256i *)(to), v)
#define LS__WORDS_ADD(a, b)          _mm256_add_epi64(a, b)
#define LS__WORDS_ADD_HALVES(a, b)   _mm256_add_epi32(a, b)
#define LS__WORDS_MULTIPLY_LOW(a, b) _mm256_mul_epu32(a, b)
#define LS__WORDS_MAX_HALVES(a, b)   _mm256_max_epu32(a, b)
#define LS__WORDS_ADD_QUARTERS(a, b) _mm256_add_epi16(a, b)
#define LS__WORDS_MAX_QUARTERS(a, b) _mm256_max_epu16(a, b)
#define LS__WORDS_XOR(a, b)          _mm256_xor_si256(a, b)
#define LS__WORDS_OR(a, b)           _mm256_or_si256(a, b)
#define LS__WORDS_HIGH(a)            _mm256_srli_epi64(a, 32)
#define LS__WORDS_SWAP_HALVES(a)     _mm256_shuffle_epi32(a, 0xb1)
#endif

#endif
