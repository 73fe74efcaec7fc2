/* columns.h: sums over the rows of a matrix, in an order that its shape and type alone decide. An
 * activation is a matrix of pixels by channels. A block takes a stretch of rows, and of them as
 * many channels as 128 bytes hold: its threads read 16 bytes each, or one element where channels
 * don't fill 16 bytes. Stretches' sums lie in the workspace, and a second kernel adds them. */
#ifndef LS_CUDA_COLUMNS_H
#define LS_CUDA_COLUMNS_H

#include "cuda/kernels/access.h"

/* How a block's threads stand: `across` of them in a row, and so many rows, the lanes. */
template <typename A> struct ls__tile {
    enum {
        across = A::n == 1 ? 32 : 8,
        lanes = LS__BLOCK / across,
        channels = across * A::n,
        pitch = LS__BLOCK + across /* of a value of all threads in shared memory: across, so that
                                      those who add them read different banks */
    };
};

typedef struct ls__columns {
    int64_t rows, channels, groups /* of channels */, stretches, stretch_rows;
} ls__columns;

/* A block's place: the thread's first channel, and its rows: first, first + lanes, ... last; none
 * where last < first. */
typedef struct ls__columns_place {
    int64_t c, first, last, stretch;
} ls__columns_place;

/* So few stretches that adding them takes no time, and enough blocks for a large GPU, of which each
 * multiprocessor holds 4 to 8: an H200 has 132. */
enum { LS__MOST_STRETCHES = 1024 /* over all groups */, LS__LEAST_LANE_ROWS = 4 };

/* For an operand's type. */
static inline ls__columns ls__columns_of(const ls__operand *operand, int64_t rows, int64_t channels)
{
    ls__columns s = { rows, channels, 0, 0, 0 };
    int64_t least = 0;
    (void)ls__with_access(operand, channels, [&](auto access) {
        typedef ls__tile<decltype(access)> tile;
        s.groups = (channels + tile::channels - 1) / tile::channels;
        least = (int64_t)LS__LEAST_LANE_ROWS * tile::lanes;
        return 0;
    });
    const int64_t most = (LS__MOST_STRETCHES + s.groups - 1) / s.groups;
    s.stretch_rows = (rows + most - 1) / most;
    if (s.stretch_rows < least) s.stretch_rows = least;
    s.stretches = (rows + s.stretch_rows - 1) / s.stretch_rows;
    return s;
}

static inline unsigned ls__columns_blocks(const ls__columns *s)
{
    return (unsigned)(s->groups * s->stretches);
}

/* Of n sums for each channel: sums[n][channels][stretches]. */
static inline size_t ls__columns_bytes(const ls__columns *s, int n)
{
    return (size_t)(n * s->stretches * s->channels) * sizeof(float);
}

template <typename A>
static __device__ inline ls__columns_place ls__columns_place_of(ls__columns s, unsigned block)
{
    typedef ls__tile<A> tile;
    ls__columns_place p;
    const unsigned groups = (unsigned)s.groups;
    p.stretch = (int64_t)(block / groups);
    p.c = (int64_t)(block % groups) * tile::channels + threadIdx.x % tile::across * A::n;
    const int64_t begin = p.stretch * s.stretch_rows;
    const int64_t end = begin + s.stretch_rows < s.rows ? begin + s.stretch_rows : s.rows;
    p.first = begin + threadIdx.x / tile::across;
    p.last = p.first - tile::lanes;
    if (p.c < s.channels && p.first < end)
        p.last = p.first + (end - 1 - p.first) / tile::lanes * tile::lanes;
    return p;
}

/* A pass over what the pass before it has read, or a convolution has written, takes blocks and rows
 * from the last to the first: the second level cache still holds the last. */
template <typename A>
static __device__ inline ls__columns_place ls__columns_place_from_end(ls__columns s)
{
    return ls__columns_place_of<A>(s, gridDim.x - 1 - blockIdx.x);
}

/* from[0] + from[step] + ..., N of them, a power of two. */
template <int N> static __device__ inline float ls__tree_sum(const float *from, int step)
{
    return ls__tree_sum<N / 2>(from, step) + ls__tree_sum<N / 2>(from + N / 2 * step, step);
}

template <> __device__ inline float ls__tree_sum<1>(const float *from, int)
{
    return *from;
}

/* Adds the threads' sums, N for each channel, over the block's lanes. */
template <typename A, int N>
static __device__ inline void ls__columns_store(ls__columns s, ls__columns_place p,
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
        sums[(which * s.channels + c) * s.stretches + p.stretch] =
            ls__tree_sum<tile::lanes>(from, tile::across);
}

/* A channel's sum over all stretches, by a block of so many threads, each of which gets it. */
enum { LS__COLUMN_THREADS = 128 };
static __device__ inline double ls__columns_total(ls__columns s, int which, int64_t c,
                                                  const float *sums, double *shared)
{
    const float *from = sums + (which * s.channels + c) * s.stretches;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < s.stretches; i += LS__COLUMN_THREADS) sum += (double)from[i];
    return ls__block_sum<double>(sum, shared);
}

#endif
