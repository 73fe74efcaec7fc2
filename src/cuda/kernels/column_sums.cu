/* column_sums.cu: the gradient of a bias: the sum of the rows of dy. */
#include "cuda/kernels/columns.h"

template <typename A>
static __global__ void chunk_sums_kernel(ls__columns s, const typename A::stored *x, float *sums)
{
    const ls__columns_span p = ls__columns_span_of<A>(s, blockIdx.x);
    float own[1][A::n] = {};
    for (int64_t row = p.first; row <= p.last; row += ls__tile<A>::tile_rows) {
        float v[A::n];
        ls__load<A>(x + row * s.channels + p.c, v);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) own[0][j] += v[j];
    }
    ls__columns_store<A, 1>(s, p, own, sums);
}

static __global__ void column_sums_kernel(ls__columns s, const float *sums, float *out)
{
    __shared__ double shared[LS__COLUMN_THREADS];
    const double total = ls__columns_total(s, 0, blockIdx.x, sums, shared);
    if (threadIdx.x == 0) out[blockIdx.x] = (float)total;
}

size_t ls__cuda_column_sums_workspace(const ls__operand *x, int64_t rows, int64_t columns)
{
    const ls__columns s = ls__columns_of(x, rows, columns);
    return ls__columns_bytes(&s, 1);
}

int ls__cuda_column_sums(const ls__operand *operand, const void *x, int64_t rows, int64_t columns,
                         void *sums, void *workspace, void *stream)
{
    const ls__columns s = ls__columns_of(operand, rows, columns);
    const int status = ls__with_access(operand, columns, [=](auto access) {
        typedef decltype(access) A;
        return LS__LAUNCH(chunk_sums_kernel<A>, ls__columns_blocks(&s), LS__BLOCK, stream, s,
                          (const typename A::stored *)x, (float *)workspace);
    });
    if (status != 0) return status;
    return LS__LAUNCH(column_sums_kernel, (unsigned)columns, LS__COLUMN_THREADS, stream, s,
                      (const float *)workspace, (float *)sums);
}
