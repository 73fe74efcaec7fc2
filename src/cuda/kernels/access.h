/* access.h: loads and stores of activations: f32, bf16 or f16 in memory, f32 in registers. A load
 * takes one element, or a pack of 16 bytes. Every operand is aligned to 16 bytes. */
#ifndef LS_CUDA_ACCESS_H
#define LS_CUDA_ACCESS_H

#include "arith/half.h"
#include "cuda/kernels/portable.h"
#include <type_traits>

/* Distinct types, for templates. */
struct ls__bf16 {
    uint16_t bits;
};
struct ls__f16 {
    uint16_t bits;
};

/* The conversions of arith/half.h. The GPU's instructions give the same bits, except that a NaN may
 * become another NaN. */
#ifdef __CUDA_ARCH__
static __device__ inline float ls__to_f32(ls__f16 value)
{
    float f32;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f32) : "h"(value.bits));
    return f32;
}

static __device__ inline uint16_t ls__f32_to_half(float value, ls__bf16)
{
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

static __device__ inline uint16_t ls__f32_to_half(float value, ls__f16)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else
static __device__ inline float ls__to_f32(ls__f16 value)
{
    return ls__f16_to_f32(value.bits);
}

static __device__ inline uint16_t ls__f32_to_half(float value, ls__bf16)
{
    return ls__f32_to_bf16(value);
}

static __device__ inline uint16_t ls__f32_to_half(float value, ls__f16)
{
    return ls__f32_to_f16(value);
}
#endif

static __device__ inline float ls__to_f32(float value)
{
    return value;
}

static __device__ inline float ls__to_f32(ls__bf16 value)
{
    return ls__bf16_to_f32(value.bits);
}

static __device__ inline void ls__put(float *to, float value)
{
    *to = value;
}

template <typename T> static __device__ inline void ls__put(T *to, float value)
{
    to->bits = ls__f32_to_half(value, T());
}

/* ---- Access to one element, or to a pack of n. `raw` is the type in memory ---- */

template <typename T> struct ls__single {
    typedef T stored;
    typedef T raw;
    enum { n = 1 };

    static __device__ raw fetch(const T *from)
    {
        return *from;
    }

    static __device__ void to_f32(const raw &from, float *to)
    {
        to[0] = ls__to_f32(from);
    }

    static __device__ void store(T *to, const float *from)
    {
        ls__put(to, from[0]);
    }

    static __device__ void store_raw(T *to, const raw &from)
    {
        *to = from;
    }
};

/* The value that a load returns after a store of this value. */
template <typename T> static __device__ inline float ls__rounded(float value)
{
    T stored;
    ls__put(&stored, value);
    return ls__to_f32(stored);
}

struct __attribute__((aligned(16), may_alias)) ls__16_bytes {
    uint32_t words[4];
};

/* One instruction. In some kernels CUDA 13.0 splits an assignment into four. */
static __device__ inline void ls__store_16(void *to, const ls__16_bytes &all)
{
#ifdef __CUDA_ARCH__
    __stwb((uint4 *)to, make_uint4(all.words[0], all.words[1], all.words[2], all.words[3]));
#else
    *(ls__16_bytes *)to = all;
#endif
}

static __device__ inline void ls__word_to_f32(uint32_t word, float *to, float)
{
    to[0] = ls__bits_float(word);
}

static __device__ inline uint32_t ls__f32_to_word(const float *from, float)
{
    return ls__float_bits(from[0]);
}

/* Two 16-bit elements. */
template <typename T> static __device__ inline void ls__word_to_f32(uint32_t word, float *to, T)
{
    const T first = { (uint16_t)word }, second = { (uint16_t)(word >> 16) };
    to[0] = ls__to_f32(first);
    to[1] = ls__to_f32(second);
}

#ifdef __CUDA_ARCH__ /* one instruction converts both */
static __device__ inline uint32_t ls__f32_to_word(const float *from, ls__bf16)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(from[1]), "f"(from[0]));
    return word;
}

static __device__ inline uint32_t ls__f32_to_word(const float *from, ls__f16)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(from[1]), "f"(from[0]));
    return word;
}
#else
template <typename T> static __device__ inline uint32_t ls__f32_to_word(const float *from, T type)
{
    return ls__f32_to_half(from[0], type) | (uint32_t)ls__f32_to_half(from[1], type) << 16;
}
#endif

template <typename T> struct ls__pack {
    typedef T stored;
    typedef ls__16_bytes raw;
    enum { n = 16 / sizeof(T), of_word = n / 4 };

    static __device__ raw fetch(const T *from)
    {
        return *(const raw *)from;
    }

    static __device__ void to_f32(const raw &from, float *to)
    {
        LS__UNROLL
        for (int i = 0; i < 4; i++) ls__word_to_f32(from.words[i], to + i * of_word, T());
    }

    static __device__ void store(T *to, const float *from)
    {
        raw all;
        LS__UNROLL
        for (int i = 0; i < 4; i++) all.words[i] = ls__f32_to_word(from + i * of_word, T());
        ls__store_16(to, all);
    }

    static __device__ void store_raw(T *to, const raw &from)
    {
        ls__store_16(to, from);
    }
};

template <typename A>
static __device__ inline void ls__load(const typename A::stored *from, float *to)
{
    A::to_f32(A::fetch(from), to);
}

/* Values of N channels for a thread. N is 1 or a multiple of 4. */
template <int N> static __device__ inline void ls__load_channels(const float *from, float *to)
{
    typedef typename std::conditional<N == 1, ls__single<float>, ls__pack<float>>::type access;
    LS__UNROLL
    for (int j = 0; j < N; j += access::n) ls__load<access>(from + j, to + j);
}

/* f(access, first element) for each pack, then for each remaining element. */
template <typename T, typename F>
static __device__ inline void ls__for_each_pack(int64_t count, F f)
{
    const int64_t n = ls__pack<T>::n, packs = count / n;
    LS__FOR_EACH(i, packs) f(ls__pack<T>(), i * n);
    LS__FOR_EACH(i, count - packs * n) f(ls__single<T>(), packs * n + i);
}

/* ---- Kernel selection, on the host ---- */

/* f(T()) for an operand's type in memory. */
template <typename F> static inline int ls__with_type(const ls__operand *operand, F f)
{
    switch (operand->dtype) {
    case LS_BF16: return f(ls__bf16());
    case LS_F16: return f(ls__f16());
    default: return f(float());
    }
}

/* f(access): packs where `channels` is a multiple of a pack, else single elements. */
template <typename F>
static inline int ls__with_access(const ls__operand *operand, int64_t channels, F f)
{
    return ls__with_type(operand, [=](auto type) {
        typedef decltype(type) T;
        return channels % ls__pack<T>::n == 0 ? f(ls__pack<T>()) : f(ls__single<T>());
    });
}

/* f(access, I()) for kernels that number packs. I is int32_t, or int64_t where `count` elements
 * have too many packs. A thread then processes one element, because that case is rare. */
template <typename F>
static inline int ls__with_index(const ls__operand *operand, int64_t channels, int64_t count, F f)
{
    return ls__with_access(operand, channels, [=](auto access) {
        typedef decltype(access) A;
        if (count / A::n <= LS__MAX_INT32_COUNT) return f(access, (int32_t)0);
        return f(ls__single<typename A::stored>(), (int64_t)0);
    });
}

#endif
