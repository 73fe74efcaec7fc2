/* memory.cu: the step's values, casts, digests, gathered scalars. */
#include "cuda/kernels/access.h"

/* The step is passed as the kernel's argument, which the launch copies. A copy from host memory
 * that is not pinned may wait for the stream. */
static __global__ void store_step_kernel(ls__step *on_device, ls__step step)
{
    *on_device = step;
}

int ls__cuda_store_step(ls__step *on_device, const ls__step *step, void *stream)
{
    return LS__LAUNCH(store_step_kernel, 1, 1, stream, on_device, *step);
}

bool ls__cuda_has_code(int major, int minor)
{
#ifdef __CUDA_ARCH_LIST__ /* nvcc's: 800, 860, .. */
    static const int built[] = { __CUDA_ARCH_LIST__ };
#else
    static const int built[] = { 900 };
#endif
    for (size_t i = 0; i < sizeof(built) / sizeof(built[0]); i++)
        if (built[i] / 100 == major && built[i] / 10 % 10 <= minor) return true;
    return false;
}

/* ---- Casts: as cpu/cast.c ---- */

static __device__ bool is_float(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16;
}

static __device__ float load_float(ls_dtype dtype, const void *src, int64_t i)
{
    switch (dtype) {
    case LS_BF16: return ls__bf16_to_f32(((const uint16_t *)src)[i]);
    case LS_F16: return ls__f16_to_f32(((const uint16_t *)src)[i]);
    default: return ((const float *)src)[i];
    }
}

static __device__ int64_t load_integer(ls_dtype dtype, const void *src, int64_t i)
{
    switch (dtype) {
    case LS_I32: return ((const int32_t *)src)[i];
    case LS_U8: return ((const uint8_t *)src)[i];
    default: return ((const int64_t *)src)[i];
    }
}

static __device__ void store_float(ls_dtype dtype, void *dst, int64_t i, float x)
{
    switch (dtype) {
    case LS_BF16: ((uint16_t *)dst)[i] = ls__f32_to_bf16(x); break;
    case LS_F16: ((uint16_t *)dst)[i] = ls__f32_to_f16(x); break;
    default: ((float *)dst)[i] = x;
    }
}

static __device__ void store_integer(ls_dtype dtype, void *dst, int64_t i, int64_t x)
{
    switch (dtype) {
    case LS_I32:
        ((int32_t *)dst)[i] = (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
        break;
    case LS_U8: ((uint8_t *)dst)[i] = (uint8_t)(x < 0 ? 0 : x > UINT8_MAX ? UINT8_MAX : x); break;
    default: ((int64_t *)dst)[i] = x;
    }
}

/* Towards zero, saturating; NaN gives 0. */
static __device__ int64_t to_integer(float x)
{
    if (x >= 0x1p63f) return INT64_MAX;
    if (x < -0x1p63f) return INT64_MIN;
    return x == x ? (int64_t)x : 0;
}

static __global__ void cast_kernel(ls_dtype to, void *dst, ls_dtype from, const void *src,
                                   int64_t count)
{
    LS__FOR_EACH(i, count)
    {
        if (is_float(from)) {
            const float x = load_float(from, src, i);
            if (is_float(to))
                store_float(to, dst, i, x);
            else
                store_integer(to, dst, i, to_integer(x));
        } else {
            const int64_t x = load_integer(from, src, i);
            if (is_float(to))
                store_float(to, dst, i, (float)x);
            else
                store_integer(to, dst, i, x);
        }
    }
}

/* Casts between f32 and 16 bits, 8 elements at a time: every step casts the parameters. Eight
 * elements with a NaN are cast one by one, because that keeps the NaN's bits as on the CPU. */
template <typename To, typename From>
static __global__ void cast_packs_kernel(ls_dtype to_dtype, To *dst, ls_dtype from_dtype,
                                         const From *src, int64_t packs)
{
    typedef ls__pack<To> to;
    typedef ls__pack<From> from;
    LS__FOR_EACH(i, packs)
    {
        float v[8];
        bool has_nan = false;
        LS__UNROLL
        for (int j = 0; j < 8; j += from::n) ls__load<from>(src + 8 * i + j, v + j);
        LS__UNROLL
        for (int j = 0; j < 8; j++) has_nan |= v[j] != v[j];
        LS__UNROLL
        for (int j = 0; j < 8 && !has_nan; j += to::n) to::store(dst + 8 * i + j, v + j);
        for (int64_t j = 8 * i; j < 8 * i + 8 && has_nan; j++)
            store_float(to_dtype, dst, j, load_float(from_dtype, src, j));
    }
}

template <typename To, typename From>
static int cast_packs(ls_dtype to, void *dst, ls_dtype from, const void *src, int64_t packs,
                      void *stream)
{
    return LS__LAUNCH((cast_packs_kernel<To, From>), ls__blocks_for(packs), LS__BLOCK, stream, to,
                      (To *)dst, from, (const From *)src, packs);
}

/* Casts the first *done of count elements by packs; 0 where the types or addresses do not allow it.
 */
static int cast_whole_packs(ls_dtype to, void *dst, ls_dtype from, const void *src, int64_t count,
                            void *stream, int64_t *done)
{
    const int64_t packs = count / 8;
    *done = 0;
    if (packs == 0 || ((uintptr_t)dst | (uintptr_t)src) % 16 != 0) return 0;
    *done = 8 * packs;
    if (from == LS_F32 && to == LS_BF16)
        return cast_packs<ls__bf16, float>(to, dst, from, src, packs, stream);
    if (from == LS_F32 && to == LS_F16)
        return cast_packs<ls__f16, float>(to, dst, from, src, packs, stream);
    if (from == LS_BF16 && to == LS_F32)
        return cast_packs<float, ls__bf16>(to, dst, from, src, packs, stream);
    if (from == LS_F16 && to == LS_F32)
        return cast_packs<float, ls__f16>(to, dst, from, src, packs, stream);
    *done = 0;
    return 0;
}

int ls__cuda_cast(ls_dtype to, void *dst, ls_dtype from, const void *src, int64_t count,
                  void *stream)
{
    int64_t done;
    const int status = cast_whole_packs(to, dst, from, src, count, stream, &done);
    if (status != 0 || (done > 0 && done == count)) return status;
    return LS__LAUNCH(cast_kernel, ls__blocks_for(count - done), LS__BLOCK, stream, to,
                      (unsigned char *)dst + (size_t)done * ls_dtype_bytes(to), from,
                      (const unsigned char *)src + (size_t)done * ls_dtype_bytes(from),
                      count - done);
}

/* ---- Digests: integer sums modulo 2^64, in any order ---- */

typedef unsigned long long digest_word; /* the type that atomicAdd requires */

static __global__ void digest_kernel(const unsigned char *bytes, int64_t size, uint64_t offset,
                                     ls__nan_words nans, ls__digest_sum *sum)
{
    __shared__ digest_word shared[LS__BLOCK];
    ls__digest_sum own = { { 0, 0 } };
    const int64_t words = size / 8;
    LS__FOR_EACH(i, words + (size % 8 != 0))
    {
        uint64_t word = 0;
        if (i < words)
            word = ((const uint64_t *)bytes)[i];
        else
            for (int64_t j = 0; j < size % 8; j++) word |= (uint64_t)bytes[8 * i + j] << (8 * j);
        ls__digest_word(&own, ls__replace_nans(word, nans), offset / 8 + (uint64_t)i);
    }
    for (int i = 0; i < 2; i++) {
        const digest_word all = ls__block_sum<digest_word>(own.words[i], shared);
        if (threadIdx.x == 0) atomicAdd((digest_word *)&sum->words[i], all);
    }
}

int ls__cuda_digest(ls_dtype dtype, const void *memory, size_t bytes, uint64_t offset,
                    ls__digest_sum *sum, void *stream)
{
    return LS__LAUNCH(digest_kernel, ls__blocks_for((int64_t)bytes / 8 / 4), LS__BLOCK, stream,
                      (const unsigned char *)memory, (int64_t)bytes, offset,
                      ls__nan_words_of(dtype), sum);
}

/* ---- Scalars ---- */

enum { GATHERED = 16 /* scalars per launch */ };

typedef struct scalar_list {
    const float *scalars[GATHERED];
} scalar_list;

static __global__ void gather_kernel(float *out, const __grid_constant__ scalar_list list, int n)
{
    if ((int)threadIdx.x < n) out[threadIdx.x] = *list.scalars[threadIdx.x];
}

int ls__cuda_gather(float *out, const float *const *scalars, int n, void *stream)
{
    int status = 0;
    for (int first = 0; first < n && status == 0; first += GATHERED) {
        scalar_list list = {};
        const int count = n - first < GATHERED ? n - first : GATHERED;
        for (int i = 0; i < count; i++) list.scalars[i] = scalars[first + i];
        status = LS__LAUNCH(gather_kernel, 1, 32, stream, out + first, list, count);
    }
    return status;
}
