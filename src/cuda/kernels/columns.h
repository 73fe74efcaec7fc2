/* columns.h: sums over the rows of a matrix, in an order that depends on its shape and type alone.
 * An activation is a matrix of pixels by channels. A block adds a chunk of rows, and as many
 * channels as 128 bytes hold. Each thread reads 16 bytes, or one element where the number of
 * channels is no multiple of a pack. The sums of chunks are written to the workspace, and a second
 * kernel adds them. */
#ifndef LS_CUDA_COLUMNS_H
#define LS_CUDA_COLUMNS_H

#include "cuda/kernels/access.h"

/* A block's threads: tile_rows rows of `across` threads. */
template <typename A> struct ls__tile {
    enum {
        across = A::n == 1 ? 32 : 8,
        tile_rows = LS__BLOCK / across,
        channels = across * A::n,
        pitch = LS__BLOCK + across /* in shared memory, between values of all threads. The added
                                      `across` avoids bank conflicts when they are summed */
    };
};

typedef struct ls__columns {
    int64_t rows, channels, groups /* of channels */, chunks, chunk_rows;
} ls__columns;

/* The region of a thread: its first channel c, and its rows first, first + tile_rows, ... last. It
 * has no rows if last < first. */
typedef struct ls__columns_span {
    int64_t c, first, last, chunk;
} ls__columns_span;

/* The number of chunks is small, so that adding them takes no time, but gives enough blocks for a
 * large GPU: an H200 has 132 multiprocessors, which hold 4 to 8 blocks each. */
enum { LS__MAX_CHUNKS = 1024 /* over all groups */, LS__MIN_ROWS_PER_THREAD = 4 };

static inline ls__columns ls__columns_of(const ls__operand *operand, int64_t rows, int64_t channels)
{
    ls__columns s = { rows, channels, 0, 0, 0 };
    int64_t min_rows = 0;
    (void)ls__with_access(operand, channels, [&](auto access) {
        typedef ls__tile<decltype(access)> tile;
        s.groups = (channels + tile::channels - 1) / tile::channels;
        min_rows = (int64_t)LS__MIN_ROWS_PER_THREAD * tile::tile_rows;
        return 0;
    });
    const int64_t max_chunks = (LS__MAX_CHUNKS + s.groups - 1) / s.groups;
    s.chunk_rows = (rows + max_chunks - 1) / max_chunks;
    if (s.chunk_rows < min_rows) s.chunk_rows = min_rows;
    s.chunks = (rows + s.chunk_rows - 1) / s.chunk_rows;
    return s;
}

static inline unsigned ls__columns_blocks(const ls__columns *s)
{
    return (unsigned)(s->groups * s->chunks);
}

/* The bytes of n sums for each channel: sums[n][channels][chunks]. */
static inline size_t ls__columns_bytes(const ls__columns *s, int n)
{
    return (size_t)(n * s->chunks * s->channels) * sizeof(float);
}

template <typename A>
static __device__ inline ls__columns_span ls__columns_span_of(ls__columns s, unsigned block)
{
    typedef ls__tile<A> tile;
    ls__columns_span p;
    const unsigned groups = (unsigned)s.groups;
    p.chunk = (int64_t)(block / groups);
    p.c = (int64_t)(block % groups) * tile::channels + threadIdx.x % tile::across * A::n;
    const int64_t begin = p.chunk * s.chunk_rows;
    const int64_t end = begin + s.chunk_rows < s.rows ? begin + s.chunk_rows : s.rows;
    p.first = begin + threadIdx.x / tile::across;
    p.last = p.first - tile::tile_rows;
    if (p.c < s.channels && p.first < end)
        p.last = p.first + (end - 1 - p.first) / tile::tile_rows * tile::tile_rows;
    return p;
}

/* The position in reverse order of blocks and rows. A pass over data that was just read or written
 * uses it, because the L2 cache holds the last rows. */
template <typename A>
static __device__ inline ls__columns_span ls__columns_span_from_end(ls__columns s)
{
    return ls__columns_span_of<A>(s, gridDim.x - 1 - blockIdx.x);
}

/* from[0] + from[step] + ...: N values; N is a power of two. */
template <int N> static __device__ inline float ls__tree_sum(const float *from, int step)
{
    return ls__tree_sum<N / 2>(from, step) + ls__tree_sum<N / 2>(from + N / 2 * step, step);
}

template <> __device__ inline float ls__tree_sum<1>(const float *from, int)
{
    return *from;
}

/* Adds the N sums for each channel over the block's rows of threads. */
template <typename A, int N>
static __device__ inline void ls__columns_store(ls__columns s, ls__columns_span p,
                                                const float (&own)[N][A::n], float *sums)
{
    typedef ls__tile<A> tile;
    __shared__ float shared[N * A::n * tile::pitch];
    LS__UNROLL
    for (int which = 0; which < N; which++) LS__UNROLL
    for (int j = 0; j < A::n; j++)
        shared[(which * A::n + j) * tile::pitch + threadIdx.x] = own[which][j];
    __syncthreads();
    const int t = (int)threadIdx.x, which = t / tile::channels,
              j = t % tile::channels / tile::across;
    if (which >= N) return;
    const int column = t % tile::across;
    const float *from = shared + (which * A::n + j) * tile::pitch + column;
    const int64_t c =
        (int64_t)(blockIdx.x % (unsigned)s.groups) * tile::channels + column * A::n + j;
    if (c < s.channels)
        sums[(which * s.channels + c) * s.chunks + p.chunk] =
            ls__tree_sum<tile::tile_rows>(from, tile::across);
}

/* A channel's sum over all chunks, added by a block of LS__COLUMN_THREADS threads. */
enum { LS__COLUMN_THREADS = 128 };
static __device__ inline double ls__columns_total(ls__columns s, int which, int64_t c,
                                                  const float *sums, double *shared)
{
    return ls__block_total(sums + (which * s.channels + c) * s.chunks, s.chunks, LS__COLUMN_THREADS,
                           shared);
}

#endif
