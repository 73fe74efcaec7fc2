/* product.c: the matrix product: so many rows times so many vectors of columns in registers. Every
 * sum runs over its index in order, so bits depend on nothing but the operands. */
#include "cpu/narrow/narrow.h"

#include <immintrin.h>

/* Vectors of columns at a time, and rows with each: up to 12 sums for two FMA units that take 4
 * cycles, beside b's vectors and a factor, in 16 registers. */
enum { MOST_ROWS = 12, MOST_VECTORS = LS__NARROW_MOST_VECTORS, VECTOR = LS__NARROW_VECTOR };
static const int most_rows[MOST_VECTORS + 1] = { 0, 12, 6, 4, 3 };

/* Sums stay in registers only where the loops over them are gone before the compiler looks for
 * arrays that could be variables. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* A part of a product: rows i, i + step, ..., and vectors of columns. */
typedef struct part {
    const float *a, *b, *start;
    float *out;
    int64_t a_row, out_row;
    int last_lanes; /* of the last vector */
} part;

/* The first n lanes, by halves: a masked store takes AMD's processors dozens of cycles. */
static inline __attribute__((always_inline)) void store_first(float *to, __m256 v, int n)
{
    __m128 rest = _mm256_castps256_ps128(v);
    if (n & 4) {
        _mm_storeu_ps(to, rest);
        rest = _mm256_extractf128_ps(v, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, rest);
        rest = _mm_movehl_ps(rest, rest);
        to += 2;
    }
    if (n & 1) _mm_store_ss(to, rest);
}

static inline __attribute__((always_inline)) __m256 load_first(const float *from, int n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}

static inline __attribute__((always_inline)) void store(const ls__narrow_product *p, float *out,
                                                        __m256 sum, int lanes)
{
    if (lanes == VECTOR) {
        if (p->add) sum = _mm256_add_ps(_mm256_loadu_ps(out), sum);
        _mm256_storeu_ps(out, sum);
        return;
    }
    if (p->add) sum = _mm256_add_ps(load_first(out, lanes), sum);
    store_first(out, sum, lanes);
}

static inline __attribute__((always_inline)) void multiply(int rows, int vectors,
                                                           const ls__narrow_product *p,
                                                           const part *at)
{
    __m256 sum[MOST_ROWS][MOST_VECTORS];
    UNROLL
    for (int j = 0; j < vectors; j++) {
        sum[0][j] = at->start ? _mm256_loadu_ps(at->start + j * VECTOR) : _mm256_setzero_ps();
        UNROLL
        for (int i = 1; i < rows; i++) sum[i][j] = sum[0][j];
    }
    const int64_t row = at->a_row, a_inner = p->a_inner, b_inner = p->b_inner;
    for (int64_t o = 0; o < p->n_outer; o++) {
        const float *a = at->a + o * p->a_outer, *b = at->b + o * p->b_outer;
        for (int64_t t = 0; t < p->n_inner; t++, a += a_inner, b += b_inner) {
            __m256 factor[MOST_VECTORS];
            UNROLL
            for (int j = 0; j < vectors; j++) factor[j] = _mm256_loadu_ps(b + j * VECTOR);
            UNROLL
            for (int i = 0; i < rows; i++) {
                const __m256 value = _mm256_broadcast_ss(a + i / 4 * 4 * row + i % 4 * row);
                UNROLL
                for (int j = 0; j < vectors; j++)
                    sum[i][j] = _mm256_fmadd_ps(value, factor[j], sum[i][j]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        UNROLL
        for (int j = 0; j < vectors; j++)
            store(p, at->out + i * at->out_row + j * VECTOR, sum[i][j],
                  j == vectors - 1 ? at->last_lanes : VECTOR);
    }
}

#define MULTIPLY(rows, vectors)                                                                    \
    static void multiply_##rows##_##vectors(const ls__narrow_product *p, const part *at)           \
    {                                                                                              \
        multiply(rows, vectors, p, at);                                                            \
    }
/* clang-format off */
#define FOR_SIZES(X)                                                                               \
    X(1, 1) X(2, 1) X(3, 1) X(4, 1) X(5, 1) X(6, 1)                                                \
    X(7, 1) X(8, 1) X(9, 1) X(10, 1) X(11, 1) X(12, 1)                                             \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2)                                                \
    X(1, 3) X(2, 3) X(3, 3) X(4, 3)                                                                \
    X(1, 4) X(2, 4) X(3, 4)
/* clang-format on */
FOR_SIZES(MULTIPLY)

typedef void (*multiply_fn)(const ls__narrow_product *p, const part *at);
#define ENTRY(rows, vectors) [vectors][rows] = multiply_##rows##_##vectors,
static const multiply_fn functions[MOST_VECTORS + 1][MOST_ROWS + 1] = { FOR_SIZES(ENTRY) };

static void multiply_columns(const ls__narrow_product *p, int64_t first, int64_t columns)
{
    const int vectors = (int)((columns + VECTOR - 1) / VECTOR);
    /* Groups of rows that lie as far from each other as they can: where rows of out overlap, a sum
     * does not wait for the one just stored. */
    const int64_t n_groups = (p->n_rows + most_rows[vectors] - 1) / most_rows[vectors];
    part at = { .b = p->b + first,
                .start = p->start ? p->start + first : NULL,
                .a_row = p->a_row * n_groups,
                .out_row = p->out_row * n_groups,
                .last_lanes = (int)(columns - (vectors - 1) * VECTOR) };
    for (int64_t g = 0; g < n_groups; g++) {
        at.a = p->a + g * p->a_row;
        at.out = p->out + g * p->out_row + first;
        const int64_t rows = (p->n_rows - g + n_groups - 1) / n_groups;
        functions[vectors][rows](p, &at);
    }
}

void ls__narrow_widen(const float *from, int64_t rows, int64_t columns, int64_t wide, float *to)
{
    for (int64_t i = 0; i < rows; i++, from += columns, to += wide)
        for (int64_t j = 0; j < wide; j += VECTOR) {
            const int64_t left = columns - j;
            _mm256_storeu_ps(to + j, left >= VECTOR ? _mm256_loadu_ps(from + j)
                                                    : load_first(from + j, (int)left));
        }
}

void ls__narrow_add_rows(const float *from, int64_t rows, int64_t columns, float *sum)
{
    enum { CHAINS = 4 };
    for (int64_t j = 0; j < columns; j += VECTOR) {
        __m256 chain[CHAINS];
        for (int c = 0; c < CHAINS; c++) chain[c] = _mm256_setzero_ps();
        for (int64_t i = 0; i + CHAINS <= rows; i += CHAINS) {
            UNROLL
            for (int c = 0; c < CHAINS; c++)
                chain[c] = _mm256_add_ps(chain[c], _mm256_loadu_ps(from + (i + c) * columns + j));
        }
        for (int64_t i = rows / CHAINS * CHAINS; i < rows; i++)
            chain[0] = _mm256_add_ps(chain[0], _mm256_loadu_ps(from + i * columns + j));
        const __m256 total =
            _mm256_add_ps(_mm256_add_ps(chain[0], chain[1]), _mm256_add_ps(chain[2], chain[3]));
        _mm256_storeu_ps(sum + j, _mm256_add_ps(_mm256_loadu_ps(sum + j), total));
    }
}

void ls__narrow_multiply(const ls__narrow_product *p)
{
    /* Up to four vectors at once, else by two, which need the fewest loads. */
    const int64_t all = MOST_VECTORS * VECTOR;
    const int64_t most = p->n_columns <= all ? all : 2 * VECTOR;
    for (int64_t first = 0; first < p->n_columns; first += most) {
        const int64_t left = p->n_columns - first;
        multiply_columns(p, first, left < most ? left : most);
    }
}
