/* microkernel.c: the matrix product: blocks of some rows and some vectors of columns in registers.
 * Each sum runs over its index in order, so bits depend on the operands alone. */
#include "cpu/conv/small_channels/small_channels.h"
#include "cpu/simd/vector.h"

/* Vectors of columns at a time, and the rows for each number of them: up to 12 sums for two FMA
 * units of 4 cycles latency, b's vectors and a value of a in 16 registers; an address for each row
 * in 15 others, of which AVX-512 has no more either. */
enum {
    MAX_ROWS = 10,
    MAX_VECTORS = LS__SMALL_CHANNELS_MAX_VECTORS,
    UNIT = LS__SMALL_CHANNELS_UNIT,
    VECTOR = LS__WIDTH
};
static const int max_rows[MAX_VECTORS + 1] = { 0, 10, 6, 4, 3 };

/* Some rows and some vectors of columns of a product. */
typedef struct block {
    const float *row[MAX_ROWS], *b, *start;
    float *out;
    int64_t out_row;
    int last_columns; /* of the last vector */
} block;

LS__ALWAYS_INLINE void store(const ls__small_channels_product *p, float *out, ls__vf sum,
                             int columns)
{
    if (columns == VECTOR) {
        if (p->add) sum = ls__add(ls__load(out), sum);
        ls__store(out, sum);
        return;
    }
    if (p->add) sum = ls__add(ls__load_first(out, columns), sum);
    ls__store_first(out, sum, columns);
}

/* Without this statement GCC loads a column again for each row. */
LS__ALWAYS_INLINE void keep_in_register(ls__vf *v)
{
#if defined(__AVX2__) && LS__VECTOR_WIDTH == LS__REGISTER_WIDTH
    __asm__("" : "+v"(*v));
#else
    (void)v;
#endif
}

LS__ALWAYS_INLINE void multiply(int rows, int vectors, const ls__small_channels_product *p,
                                const block *at)
{
    ls__vf sum[MAX_ROWS][MAX_VECTORS];
    LS__UNROLL
    for (int j = 0; j < vectors; j++) {
        sum[0][j] = at->start ? ls__load(at->start + j * VECTOR) : ls__broadcast(0);
        LS__UNROLL
        for (int i = 1; i < rows; i++) sum[i][j] = sum[0][j];
    }
    const float *a[MAX_ROWS];
    LS__UNROLL
    for (int i = 0; i < rows; i++) a[i] = at->row[i];
    const int64_t a_inner = p->a_inner, b_inner = p->b_inner;
    for (int64_t o = 0; o < p->n_outer; o++) {
        const float *b = at->b + o * p->b_outer;
        int64_t place = o * p->a_outer;
        for (int64_t t = 0; t < p->n_inner; t++, place += a_inner, b += b_inner) {
            /* The shorter side stays in registers, the other is loaded one by one. */
            ls__vf column[MAX_VECTORS], value[MAX_VECTORS];
            if (vectors <= rows) {
                LS__UNROLL
                for (int j = 0; j < vectors; j++) column[j] = ls__load(b + j * VECTOR);
                LS__UNROLL
                for (int i = 0; i < rows; i++) {
                    value[0] = ls__broadcast_from(a[i] + place);
                    LS__UNROLL
                    for (int j = 0; j < vectors; j++)
                        sum[i][j] = ls__fma(value[0], column[j], sum[i][j]);
                }
            } else {
                LS__UNROLL
                for (int i = 0; i < rows; i++) value[i] = ls__broadcast_from(a[i] + place);
                LS__UNROLL
                for (int j = 0; j < vectors; j++) {
                    column[0] = ls__load(b + j * VECTOR);
                    keep_in_register(&column[0]);
                    LS__UNROLL
                    for (int i = 0; i < rows; i++)
                        sum[i][j] = ls__fma(value[i], column[0], sum[i][j]);
                }
            }
        }
    }
    LS__UNROLL
    for (int i = 0; i < rows; i++) {
        float *out = at->out + i * at->out_row;
        LS__UNROLL
        for (int j = 0; j < vectors; j++)
            store(p, out + j * VECTOR, sum[i][j], j == vectors - 1 ? at->last_columns : VECTOR);
    }
}

#define MULTIPLY(rows, vectors)                                                                    \
    static void multiply_##rows##_##vectors(const ls__small_channels_product *p, const block *at)  \
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

typedef void (*multiply_fn)(const ls__small_channels_product *p, const block *at);
#define ELEMENT(rows, vectors) [vectors][rows] = multiply_##rows##_##vectors,
static const multiply_fn functions[MAX_VECTORS + 1][MAX_ROWS + 1] = { FOR_SIZES(ELEMENT) };

static bool overlaps(const ls__small_channels_product *p)
{
    return p->out_row < p->n_columns;
}

/* A block has neighbouring rows or, if rows of out overlap, rows as far apart as possible, so that
 * a sum does not wait for the last store. These are added in the order of blocks, whose sizes
 * are those for vectors of UNIT columns, so that the order does not depend on the width. */
static void multiply_columns(const ls__small_channels_product *p, int64_t first, int64_t columns)
{
    const int vectors = (int)((columns + VECTOR - 1) / VECTOR);
    const int units = overlaps(p) ? (int)((columns + UNIT - 1) / UNIT) : vectors;
    const int64_t n_groups = (p->n_rows + max_rows[units] - 1) / max_rows[units];
    const int64_t min_rows = p->n_rows / n_groups, longer = p->n_rows % n_groups;
    const int64_t step = overlaps(p) ? n_groups : 1;
    block at = { .b = p->b + first,
                 .start = p->start ? p->start + first : NULL,
                 .out_row = p->out_row * step };
    /* If rows of out are contiguous, the rest of a vector is overwritten by later rows. */
    const bool dense = !p->add && p->out_row == p->n_columns && columns == p->n_columns;
    const int last_columns = (int)(columns - (vectors - 1) * VECTOR);
    const float *line = p->a;
    int64_t row = 0, in_line = 0;
    for (int64_t g = 0; g < n_groups; g++) {
        const int64_t rows = min_rows + (g < longer);
        if (step > 1) {
            row = in_line = g;
            line = p->a;
        }
        at.out = p->out + row * p->out_row + first;
        const int64_t end = (row + rows - 1) * p->out_row + vectors * VECTOR;
        at.last_columns = dense && end <= p->n_rows * p->out_row ? VECTOR : last_columns;
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

static void pad_columns(const float *from, int64_t rows, int64_t columns, int64_t padded, float *to)
{
    for (int64_t i = 0; i < rows; i++, from += columns, to += padded)
        for (int64_t j = 0; j < padded; j += VECTOR) {
            const int64_t left = columns - j;
            ls__store(to + j,
                      left >= VECTOR ? ls__load(from + j) : ls__load_first(from + j, (int)left));
        }
}

static void add_rows(const float *from, int64_t rows, int64_t columns, int64_t pitch, float *sum)
{
    enum { CHAINS = 4 };
    for (int64_t j = 0; j < columns; j += VECTOR) {
        ls__vf chain[CHAINS];
        for (int c = 0; c < CHAINS; c++) chain[c] = ls__broadcast(0);
        for (int64_t i = 0; i + CHAINS <= rows; i += CHAINS) {
            LS__UNROLL
            for (int c = 0; c < CHAINS; c++)
                chain[c] = ls__add(chain[c], ls__load(from + (i + c) * pitch + j));
        }
        for (int64_t i = rows / CHAINS * CHAINS; i < rows; i++)
            chain[0] = ls__add(chain[0], ls__load(from + i * pitch + j));
        const ls__vf total = ls__add(ls__add(chain[0], chain[1]), ls__add(chain[2], chain[3]));
        ls__store(sum + j, ls__add(ls__load(sum + j), total));
    }
}

static void multiply_all(const ls__small_channels_product *p)
{
    /* Up to four vectors at once, else two at a time, which need the fewest loads. */
    const int64_t vector = overlaps(p) ? UNIT : VECTOR, all = MAX_VECTORS * vector;
    const int64_t max_columns = p->n_columns <= all ? all : 2 * vector;
    for (int64_t first = 0; first < p->n_columns; first += max_columns) {
        const int64_t left = p->n_columns - first;
        multiply_columns(p, first, left < max_columns ? left : max_columns);
    }
}

void LS__ISA_NAME(ls__small_channels_slide)(const ls__small_channels_windows *s, const float *x,
                                            float *y); /* sliding.c */

const ls__small_channels_microkernels LS__ISA_NAME(ls__small_channels) = {
    .vector = VECTOR,
    .multiply = multiply_all,
    .slide = LS__ISA_NAME(ls__small_channels_slide),
    .pad_columns = pad_columns,
    .add_rows = add_rows,
};
