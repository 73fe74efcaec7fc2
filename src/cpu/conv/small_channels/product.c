/* product.c: the matrix product: so many rows times so many vectors of columns in registers. Every
 * sum runs over its index in order, so bits depend on nothing but the operands. */
#include "cpu/conv/small_channels/narrow.h"
#include "cpu/conv/small_channels/unroll.h"
#include "cpu/ops/vector.h"

/* Vectors of columns at a time, and rows with each: up to 12 sums for two FMA units that take 4
 * cycles, beside b's vectors and a factor, in 16 registers; and an address for each row in 15
 * others. */
enum { MOST_ROWS = 10, MOST_VECTORS = LS__NARROW_MOST_VECTORS, VECTOR = LS__NARROW_VECTOR };
static const int most_rows[MOST_VECTORS + 1] = { 0, 10, 6, 4, 3 };

/* A part of a product: some rows, and vectors of columns. */
typedef struct part {
    const float *row[MOST_ROWS], *b, *start;
    float *out;
    int64_t out_row;
    int last_lanes; /* of the last vector */
} part;

LS__ALWAYS_INLINE void store(const ls__narrow_product *p, float *out, __m256 sum, int lanes)
{
    if (lanes == VECTOR) {
        if (p->add) sum = _mm256_add_ps(_mm256_loadu_ps(out), sum);
        _mm256_storeu_ps(out, sum);
        return;
    }
    if (p->add) sum = _mm256_add_ps((__m256)ls__load_first(out, lanes), sum);
    ls__store_first(out, (ls__vf)sum, lanes);
}

LS__ALWAYS_INLINE void multiply(int rows, int vectors, const ls__narrow_product *p, const part *at)
{
    __m256 sum[MOST_ROWS][MOST_VECTORS];
    UNROLL
    for (int j = 0; j < vectors; j++) {
        sum[0][j] = at->start ? _mm256_loadu_ps(at->start + j * VECTOR) : _mm256_setzero_ps();
        UNROLL
        for (int i = 1; i < rows; i++) sum[i][j] = sum[0][j];
    }
    const float *a[MOST_ROWS];
    UNROLL
    for (int i = 0; i < rows; i++) a[i] = at->row[i];
    const int64_t a_inner = p->a_inner, b_inner = p->b_inner;
    for (int64_t o = 0; o < p->n_outer; o++) {
        const float *b = at->b + o * p->b_outer;
        int64_t place = o * p->a_outer;
        for (int64_t t = 0; t < p->n_inner; t++, place += a_inner, b += b_inner) {
            /* The shorter side waits in registers, the other passes through one. */
            __m256 factor[MOST_VECTORS], value[MOST_VECTORS];
            if (vectors <= rows) {
                UNROLL
                for (int j = 0; j < vectors; j++) factor[j] = _mm256_loadu_ps(b + j * VECTOR);
                UNROLL
                for (int i = 0; i < rows; i++) {
                    value[0] = _mm256_broadcast_ss(a[i] + place);
                    UNROLL
                    for (int j = 0; j < vectors; j++)
                        sum[i][j] = _mm256_fmadd_ps(value[0], factor[j], sum[i][j]);
                }
            } else {
                UNROLL
                for (int i = 0; i < rows; i++) value[i] = _mm256_broadcast_ss(a[i] + place);
                UNROLL
                for (int j = 0; j < vectors; j++) {
                    factor[0] = _mm256_loadu_ps(b + j * VECTOR);
                    /* GCC would load it anew for each row. */
                    __asm__("" : "+x"(factor[0]));
                    UNROLL
                    for (int i = 0; i < rows; i++)
                        sum[i][j] = _mm256_fmadd_ps(value[i], factor[0], sum[i][j]);
                }
            }
        }
    }
    UNROLL
    for (int i = 0; i < rows; i++) {
        float *out = at->out + i * at->out_row;
        UNROLL
        for (int j = 0; j < vectors; j++)
            store(p, out + j * VECTOR, sum[i][j], j == vectors - 1 ? at->last_lanes : VECTOR);
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
    X(7, 1) X(8, 1) X(9, 1) X(10, 1)                                                               \
    X(1, 2) X(2, 2) X(3, 2) X(4, 2) X(5, 2) X(6, 2)                                                \
    X(1, 3) X(2, 3) X(3, 3) X(4, 3)                                                                \
    X(1, 4) X(2, 4) X(3, 4)
/* clang-format on */
FOR_SIZES(MULTIPLY)

typedef void (*multiply_fn)(const ls__narrow_product *p, const part *at);
#define ENTRY(rows, vectors) [vectors][rows] = multiply_##rows##_##vectors,
static const multiply_fn functions[MOST_VECTORS + 1][MOST_ROWS + 1] = { FOR_SIZES(ENTRY) };

/* Rows next to each other at a time, or, where rows of out overlap, rows as far from each other as
 * they can be: a sum does not wait for the one just stored. */
static void multiply_columns(const ls__narrow_product *p, int64_t first, int64_t columns)
{
    const int vectors = (int)((columns + VECTOR - 1) / VECTOR);
    const int64_t n_groups = (p->n_rows + most_rows[vectors] - 1) / most_rows[vectors];
    const int64_t least = p->n_rows / n_groups, longer = p->n_rows % n_groups;
    const int64_t step = p->out_row < p->n_columns ? n_groups : 1;
    part at = { .b = p->b + first,
                .start = p->start ? p->start + first : NULL,
                .out_row = p->out_row * step };
    /* Where rows of out follow each other, what a vector has more is where later rows will be. */
    const bool dense = !p->add && p->out_row == p->n_columns && columns == p->n_columns;
    const int last_lanes = (int)(columns - (vectors - 1) * VECTOR);
    const float *line = p->a;
    int64_t row = 0, in_line = 0;
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t rows = least + (g < longer);
        if (step > 1) {
            row = in_line = g;
            line = p->a;
        }
        at.out = p->out + row * p->out_row + first;
        const int64_t end = (row + rows - 1) * p->out_row + vectors * VECTOR;
        at.last_lanes = dense && end <= p->n_rows * p->out_row ? VECTOR : last_lanes;
        for (int64_t i = 0; i < rows; i++) {
            at.row[i] = line + in_line * p->a_row;
            row += step;
            in_line += step;
            if (in_line < p->line) continue;
            in_line -= p->line;
            line += p->a_line;
        }
        functions[vectors][rows](p, &at);
    }
}

void ls__narrow_widen(const float *from, int64_t rows, int64_t columns, int64_t wide, float *to)
{
    for (int64_t i = 0; i < rows; i++, from += columns, to += wide)
        for (int64_t j = 0; j < wide; j += VECTOR) {
            const int64_t left = columns - j;
            _mm256_storeu_ps(to + j, left >= VECTOR ? _mm256_loadu_ps(from + j)
                                                    : (__m256)ls__load_first(from + j, (int)left));
        }
}

void ls__narrow_add_rows(const float *from, int64_t rows, int64_t columns, int64_t pitch,
                         float *sum)
{
    enum { CHAINS = 4 };
    for (int64_t j = 0; j < columns; j += VECTOR) {
        __m256 chain[CHAINS];
        for (int c = 0; c < CHAINS; c++) chain[c] = _mm256_setzero_ps();
        for (int64_t i = 0; i + CHAINS <= rows; i += CHAINS) {
            UNROLL
            for (int c = 0; c < CHAINS; c++)
                chain[c] = _mm256_add_ps(chain[c], _mm256_loadu_ps(from + (i + c) * pitch + j));
        }
        for (int64_t i = rows / CHAINS * CHAINS; i < rows; i++)
            chain[0] = _mm256_add_ps(chain[0], _mm256_loadu_ps(from + i * pitch + j));
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
