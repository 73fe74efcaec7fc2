/* tasks.c: see depthwise.h. */
#include "arith/half.h"
#include "cpu/conv/depthwise/depthwise.h"
#include "cpu/tree.h"
#include <string.h>

enum { VECTOR = LS__DEPTHWISE_VECTOR, MAX_NEXT = LS__DEPTHWISE_MAX_NEXT };
enum {
    RING_FLOATS = 65536,      /* of a ring, unless it has a single vector of channels */
    MAX_RING_FLOATS = 262144, /* scratch of each thread */
    MAX_BLOCK = 256,          /* channels */
    MIN_ROWS = 4,             /* of a task: the ring's first rows are read again */
    MAX_SUMS = 32             /* partial sums of weights */
};
static const double TASK_FLOPS = 2e6; /* about 40 microseconds */

/* The taps that reach place i of a result in one dimension, in the order of their places in the
 * source, which may lie outside of the image. */
typedef struct tap_range {
    int64_t n, tap, tap_step, source, source_step;
} tap_range;

static tap_range taps_at(const ls__depthwise_kernel *k, int d, int64_t i)
{
    const int64_t stride = k->stride[d], dilation = k->dilation[d], padding = k->padding[d];
    if (!k->data) return (tap_range){ k->kernel[d], 0, 1, i * stride - padding, dilation };
    tap_range found = { 0, 0, 1, 0, 0 };
    for (int64_t tap = k->kernel[d] - 1; tap >= 0; tap--) {
        const int64_t place = i + padding - tap * dilation;
        if (place % stride != 0) continue;
        if (found.n == 0) {
            found.tap = tap;
            found.source = place / stride;
        } else if (found.n == 1) {
            found.tap_step = tap - found.tap;
            found.source_step = place / stride - found.source;
        }
        found.n++;
    }
    return found;
}

/* Returns the range of taps inside of the image alone. */
static tap_range taps_inside(const ls__depthwise_kernel *k, int d, int64_t i)
{
    const tap_range all = taps_at(k, d, i);
    tap_range inside = all;
    inside.n = 0;
    for (int64_t t = 0; t < all.n; t++) {
        const int64_t source = all.source + t * all.source_step;
        if (source < 0 || source >= k->source[d]) continue;
        if (inside.n == 0) {
            inside.tap = all.tap + t * all.tap_step;
            inside.source = source;
        }
        inside.n++;
    }
    return inside;
}

/* A task's channels and rows of results, counted over all images, and its scratch. */
typedef struct task_range {
    int64_t first, n; /* channels */
    int64_t pitch;    /* floats from a source pixel to the next */
    int64_t begin, end;
    int64_t image, next; /* the next source row to copy */
    float *ring, *w, *row;
} task_range;

static int64_t n_taps(const ls__depthwise_kernel *k)
{
    return k->kernel[0] * k->kernel[1];
}

static int64_t ring_floats(const ls__depthwise_kernel *k)
{
    return k->in_place ? 0 : k->ring_rows * k->source[1] * k->block;
}

static task_range range_of_task(const ls__depthwise_kernel *k, int64_t task, float *scratch)
{
    const int64_t rows = k->images * k->result[0], chunk = task / k->n_blocks;
    task_range s = { .first = task % k->n_blocks * k->block,
                     .begin = rows * chunk / k->n_chunks,
                     .end = rows * (chunk + 1) / k->n_chunks,
                     .image = -1,
                     .ring = scratch };
    s.n = ls__min_i64(k->block, k->channels - s.first);
    s.pitch = k->in_place ? k->channels : ls__round_up_to(s.n, VECTOR);
    s.w = s.ring + ring_floats(k);
    s.row = s.w + (n_taps(k) + 1) * k->block;
    memset(scratch, 0, (size_t)(s.row + k->row_floats - scratch) * sizeof *scratch);
    return s;
}

/* n values of an operand at an offset, as f32. */
static void read_values(const ls__depthwise_kernel *k, const void *from, int64_t offset, int64_t n,
                        float *to)
{
    if (k->bf16)
        k->micro->read_bf16((const uint16_t *)from + offset, n, to);
    else
        memcpy(to, (const float *)from + offset, (size_t)n * sizeof *to);
}

/* A row's pixels, `pitch` apart; those of the next row are prefetched, if there is one. */
static void read_pixels(const ls__depthwise_kernel *k, const task_range *s, const void *from,
                        int64_t offset, int64_t n_pixels, int64_t next_row, float *to)
{
    enum { LINE = 64 };
    const int64_t bytes = (int64_t)(k->bf16 ? sizeof(uint16_t) : sizeof(float));
    for (int64_t q = 0; q < n_pixels; q++, offset += k->channels, to += s->pitch) {
        const char *next = (const char *)from + (offset + next_row) * bytes;
        for (int64_t i = 0; next_row > 0 && i < s->n * bytes; i += LINE)
            __builtin_prefetch(next + i, 0, 2);
        read_values(k, from, offset, s->n, to);
    }
}

static float *ring_row(const ls__depthwise_kernel *k, const task_range *s, int64_t row)
{
    return s->ring + row % k->ring_rows * k->source[1] * s->pitch;
}

/* The last source row that row i of the results reads, inside the image or not. */
static int64_t last_source(const ls__depthwise_kernel *k, int64_t i)
{
    return k->data ? (i + k->padding[0]) / k->stride[0]
                   : i * k->stride[0] - k->padding[0] + k->ring_rows - 1;
}

/* Brings the source rows that row i of the results reads into the ring. */
static void fill_ring(const ls__depthwise_kernel *k, task_range *s, const void *source,
                      int64_t image, int64_t i)
{
    const int64_t row_values = k->source[1] * k->channels, last = last_source(k, i);
    if (image != s->image) s->next = 0;
    s->image = image;
    s->next = ls__max_i64(s->next, last - k->ring_rows + 1);
    for (; s->next <= ls__min_i64(last, k->source[0] - 1); s->next++) {
        const int64_t offset = (image * k->source[0] + s->next) * row_values + s->first;
        read_pixels(k, s, source, offset, k->source[1], s->next + 1 < k->source[0] ? row_values : 0,
                    ring_row(k, s, s->next));
    }
}

/* Sets the source rows to prefetch while row i is computed. */
static void set_prefetch(const ls__depthwise_kernel *k, const float *image, int64_t i,
                         ls__depthwise_row *row)
{
    const int64_t row_values = k->source[1] * k->channels;
    row->next_pixels = k->x_step;
    row->pitch = k->channels;
    for (int64_t h = ls__max_i64(last_source(k, i) + 1, 0);
         h <= ls__min_i64(last_source(k, i + 1), k->source[0] - 1) && row->n_next < MAX_NEXT; h++)
        row->next[row->n_next++] = image + h * row_values;
}

/* Sets the kernel rows that reach row i of an image's results. */
static void set_rows(const ls__depthwise_kernel *k, task_range *s, const void *source,
                     int64_t image, int64_t i, float *w, int64_t w_tap, ls__depthwise_row *row)
{
    const int64_t row_values = k->source[1] * k->channels;
    const float *in_place = source;
    const tap_range rows = taps_inside(k, 0, i);
    row->n_next = 0;
    if (k->in_place)
        in_place += image * k->source[0] * row_values + s->first;
    else
        fill_ring(k, s, source, image, i);
    if (k->in_place && k->y_step == 1 && i + 1 < k->result[0]) set_prefetch(k, in_place, i, row);
    row->n_rows = rows.n;
    row->x_step = k->x_step * s->pitch;
    for (int64_t r = 0; r < rows.n; r++) {
        const int64_t h = rows.source + r * rows.source_step;
        row->x[r] = k->in_place ? in_place + h * row_values : ring_row(k, s, h);
        row->w[r] = w + (rows.tap + r * rows.tap_step) * k->kernel[1] * w_tap;
    }
}

/* Sets the pixels of a run and their taps. */
static void set_taps(const task_range *s, const ls__depthwise_run *run, int64_t w_tap,
                     ls__depthwise_row *row)
{
    row->n_pixels = run->n;
    row->n_taps = run->n_taps;
    row->x_first = run->source * s->pitch;
    row->x_tap = run->source_step * s->pitch;
    row->w_first = run->tap * w_tap;
    row->w_tap = run->tap_step * w_tap;
}

/* w [channel][tap] as [tap][block], then the bias. */
static void pack(const ls__depthwise_kernel *k, const task_range *s, const ls__conv_call *call)
{
    const int64_t taps = n_taps(k);
    for (int64_t c = 0; c < s->n; c++)
        for (int64_t t = 0; t < taps; t++) {
            const int64_t at = (s->first + c) * taps + t;
            s->w[t * k->block + c] = k->bf16 ? ls__bf16_to_f32(((const uint16_t *)call->w)[at])
                                             : ((const float *)call->w)[at];
        }
    if (call->bias) read_values(k, call->bias, s->first, s->n, s->w + taps * k->block);
}

/* Forward, and backward by data. */
static void correlate_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    const ls__depthwise_kernel *k = call->kernel;
    task_range s = range_of_task(k, task, scratch);
    pack(k, &s, call);
    const int64_t apart = k->bf16 ? s.pitch : k->channels; /* pixels of y */
    ls__depthwise_row row = { .channels = s.n,
                              .y_step = k->y_step * apart,
                              .bias = s.w + n_taps(k) * k->block };
    for (int64_t i = s.begin; i < s.end; i++) {
        const int64_t offset = i * k->result[1] * k->channels + s.first;
        float *y = k->bf16 ? s.row : (float *)call->y + offset;
        set_rows(k, &s, call->x, i / k->result[0], i % k->result[0], s.w, k->block, &row);
        for (int j = 0; j < k->n_runs; j++) {
            set_taps(&s, &k->runs[j], k->block, &row);
            row.y = y + k->runs[j].first * apart;
            k->micro->correlate(&row);
        }
        for (int64_t q = 0; k->bf16 && q < k->result[1]; q++)
            k->micro->write_bf16(s.row + q * s.pitch, s.n,
                                 (uint16_t *)call->y + offset + q * k->channels);
    }
}

static int64_t padded_channels(const ls__depthwise_kernel *k)
{
    return ls__round_up_to(k->channels, VECTOR);
}

/* A task's partial sums, [taps and bias][padded channels], of its channels. */
static void gradients_task(const ls__conv_call *call, int64_t task, float *scratch)
{
    const ls__depthwise_kernel *k = call->kernel;
    task_range s = range_of_task(k, task, scratch);
    const int64_t taps = n_taps(k), w_tap = padded_channels(k);
    float *sums = call->workspace + task / k->n_blocks * (taps + 1) * w_tap + s.first;
    float *ones = s.w;
    ls__depthwise_row row = { .channels = ls__round_up_to(s.n, VECTOR), .y_step = s.pitch };
    for (int64_t t = 0; t <= taps; t++)
        memset(sums + t * w_tap, 0, (size_t)row.channels * sizeof *sums);
    for (int64_t c = 0; c < row.channels; c++) ones[c] = 1;
    for (int64_t i = s.begin; i < s.end; i++) {
        const int64_t offset = i * k->result[1] * k->channels + s.first;
        const float *dy = k->in_place ? (const float *)call->w + offset : s.row;
        if (!k->in_place) read_pixels(k, &s, call->w, offset, k->result[1], 0, s.row);
        set_rows(k, &s, call->x, i / k->result[0], i % k->result[0], sums, w_tap, &row);
        for (int j = 0; j < k->n_runs; j++) {
            set_taps(&s, &k->runs[j], w_tap, &row);
            row.dy = dy + k->runs[j].first * s.pitch;
            k->micro->add_gradients(&row);
        }
        if (!call->bias) continue;
        ls__depthwise_row bias = { .n_rows = 1,
                                   .n_taps = 1,
                                   .x = { ones },
                                   .w = { sums + taps * w_tap },
                                   .y_step = s.pitch,
                                   .n_pixels = k->result[1],
                                   .channels = row.channels,
                                   .dy = dy };
        k->micro->add_gradients(&bias);
    }
}

/* Adds the tasks' sums of one tap, or of the bias, in a binary tree. */
static void reduce_task(const ls__conv_call *call, int64_t tap, float *scratch)
{
    (void)scratch;
    const ls__depthwise_kernel *k = call->kernel;
    const int64_t taps = n_taps(k), apart = padded_channels(k), floats = (taps + 1) * apart;
    float *first = call->workspace + tap * apart;
    ls__tree_sum(first, first + floats, floats, k->n_chunks, k->channels);
    if (tap == taps)
        memcpy(call->bias, first, (size_t)k->channels * sizeof *first);
    else
        for (int64_t c = 0; c < k->channels; c++) ((float *)call->y)[c * taps + tap] = first[c];
}

/* Sets the runs of the columns `first` and every y_step-th after it. False if they are too many. */
static bool add_runs(ls__depthwise_kernel *k, int64_t first)
{
    ls__depthwise_run *run = NULL;
    for (int64_t i = first; i < k->result[1]; i += k->y_step) {
        const tap_range r = taps_inside(k, 1, i);
        if (run && r.n == run->n_taps && (r.n == 0 || r.tap == run->tap)) {
            run->n++;
            continue;
        }
        if (k->n_runs == LS__DEPTHWISE_MAX_RUNS) return false;
        run = &k->runs[k->n_runs++];
        *run = (ls__depthwise_run){ .first = i,
                                    .n = 1,
                                    .n_taps = r.n,
                                    .tap = r.tap,
                                    .tap_step = r.tap_step,
                                    .source = r.source,
                                    .source_step = r.source_step };
    }
    return true;
}

bool ls__depthwise_plan_ring(ls__depthwise_kernel *k)
{
    k->ring_rows = (k->kernel[0] - 1) * k->dilation[0] / (k->data ? k->stride[0] : 1) + 1;
    k->in_place = !k->bf16 && k->channels % VECTOR == 0;
    k->x_step = k->data ? 1 : k->stride[1];
    k->y_step = k->data ? k->stride[1] : 1;
    k->n_runs = 0;
    for (int64_t phase = 0; phase < k->y_step; phase++)
        if (!add_runs(k, phase)) return false;
    const int64_t floats = k->ring_rows * k->source[1]; /* by channel */
    const int64_t max_block =
        ls__max_i64(ls__min_i64(RING_FLOATS / floats, MAX_BLOCK) / VECTOR, 1) * VECTOR;
    k->n_blocks = ls__divide_up(k->channels, max_block);
    k->block = ls__round_up_to(ls__divide_up(k->channels, k->n_blocks), VECTOR);
    k->n_blocks = ls__divide_up(k->channels, k->block);
    return k->in_place || floats * VECTOR <= MAX_RING_FLOATS;
}

void ls__depthwise_plan_tasks(ls__depthwise_kernel *k, bool bias)
{
    const int64_t rows = k->images * k->result[0], taps = n_taps(k);
    const double flops = 2.0 * (double)(rows * k->result[1] * k->channels * taps);
    int64_t max_chunks = ls__divide_up(rows, MIN_ROWS);
    if (k->weights) max_chunks = ls__min_i64(max_chunks, MAX_SUMS);
    k->n_chunks =
        ls__max_i64(ls__min_i64((int64_t)(flops / TASK_FLOPS) / k->n_blocks, max_chunks), 1);
    k->row_floats = k->in_place ? 0 : k->result[1] * k->block;
    const int64_t n_tasks = k->n_chunks * k->n_blocks;
    k->base.passes[0] = (ls__conv_pass){ k->weights ? gradients_task : correlate_task, n_tasks };
    if (k->weights) {
        k->base.passes[1] = (ls__conv_pass){ reduce_task, taps + bias };
        k->base.kernel.workspace_bytes =
            (size_t)(k->n_chunks * (taps + 1) * padded_channels(k)) * sizeof(float);
    }
    k->base.scratch_bytes =
        (size_t)(ring_floats(k) + (taps + 1) * k->block + k->row_floats) * sizeof(float);
}
