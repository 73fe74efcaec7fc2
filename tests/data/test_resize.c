/* Resize: equal to Pillow in every byte, in part as in whole. */
#include "data/decode/decoder.h"
#include "data/transform/resize.h"
#include "data/transform/resize_kernels.h"

#include "../suite.h"
#include "resize_support.h"
#include "support.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Digests (FNV-1a, 64 bits) of Pillow 9.4's results, by pillow_resize.py. */
static const struct {
    struct {
        int h, w;
    } from, to;
    uint64_t digest;
} pillow[] = {
    { .from = { 1, 1 }, .to = { 5, 7 }, .digest = 0xa4a4b7d3b9d00741 },
    { .from = { 5, 7 }, .to = { 1, 1 }, .digest = 0xd4f62d17d8772a70 },
    { .from = { 8, 8 }, .to = { 8, 8 }, .digest = 0x5caee19879e279fc },
    { .from = { 16, 16 }, .to = { 8, 8 }, .digest = 0x08a168f10237ad5d },
    { .from = { 7, 13 }, .to = { 14, 26 }, .digest = 0x4727d21adddcd5d8 },
    { .from = { 32, 32 }, .to = { 224, 224 }, .digest = 0xecfc856e64dde107 },
    { .from = { 45, 70 }, .to = { 31, 47 }, .digest = 0x6ccc8fe4f0ed67b3 },
    { .from = { 45, 70 }, .to = { 45, 20 }, .digest = 0x87bc9b2fae5c087f },
    { .from = { 45, 70 }, .to = { 90, 70 }, .digest = 0x2785614106d95cb7 },
    { .from = { 100, 3 }, .to = { 10, 3 }, .digest = 0x70b2c9c44099746b },
    { .from = { 3, 100 }, .to = { 3, 10 }, .digest = 0x9c577c6e03acbbf4 },
    { .from = { 333, 500 }, .to = { 224, 336 }, .digest = 0xff5ba00b84405da3 },
    { .from = { 480, 640 }, .to = { 224, 224 }, .digest = 0xc92b095c6a824449 },
    { .from = { 640, 427 }, .to = { 256, 171 }, .digest = 0x36b54ef23edfbe4d },
    { .from = { 1000, 10 }, .to = { 3, 40 }, .digest = 0xf5e80eb686ffb22a },
};

static uint64_t fnv1a(const uint8_t *bytes, size_t n)
{
    uint64_t digest = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}

START_TEST(resize_equals_pillow)
{
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(pillow) / sizeof(pillow[0]); i++) {
        const int h = pillow[i].from.h, w = pillow[i].from.w;
        uint8_t *pixels = draw_image(h, w, 3, (unsigned)(h + w));
        ls_tensor *image = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(h, w, 3), pixels);
        ls_tensor *out = ls_image_resize(image, pillow[i].to.h, pillow[i].to.w);
        expect_ok(ctx);
        ck_assert(
            ls_shape_equal(ls_tensor_shape(out), &LS_SHAPE(pillow[i].to.h, pillow[i].to.w, 3)));
        ck_assert_msg(fnv1a(ls_tensor_data(out), ls_tensor_bytes(out)) == pillow[i].digest,
                      "%d x %d to %d x %d", w, h, pillow[i].to.w, pillow[i].to.h);
        ls_tensor_close(&image);
        ls_tensor_close(&out);
        free(pixels);
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(a_window_is_a_part_of_the_whole)
{
    enum { H = 37, W = 53, TO_H = 24, TO_W = 90 };
    ls_context *ctx = ls_context_open(NULL);
    ls__resizer resizer = { .ctx = ctx };
    for (int channels = 1; channels <= 3; channels += 2) {
        /* Rows with a gap between them, as a box of a larger image has. */
        uint8_t *pixels = draw_image(H, W + 9, channels, 4);
        const ls__image_view view = { pixels + 5 * channels, (W + 9) * channels, H, W, channels };
        const ls__window all = { 0, 0, TO_H, TO_W };
        uint8_t *whole = malloc(TO_H * TO_W * 3), *part = malloc(TO_H * TO_W * 3);
        ck_assert(resize_window(&resizer, &view, TO_H, TO_W, &all, whole));
        const ls__window windows[] = {
            { 0, 0, 1, 1 }, { 23, 89, 1, 1 }, { 3, 7, 10, 40 }, { 0, 80, 24, 10 }, { 20, 0, 4, 90 }
        };
        for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
            const ls__window *w = &windows[i];
            ck_assert(resize_window(&resizer, &view, TO_H, TO_W, w, part));
            for (int64_t y = 0; y < w->height; y++)
                ck_assert_mem_eq(part + y * w->width * channels,
                                 whole + ((w->top + y) * TO_W + w->left) * channels,
                                 (size_t)(w->width * channels));
        }
        free(pixels), free(whole), free(part);
    }
    ls__buffer_free(resizer.ctx, &resizer.memory);
    ls_context_close(&ctx);
}
END_TEST

/* The definition, pixel by pixel: along rows first, rounded to bytes, then along columns. */
static uint8_t weigh(const uint8_t *pixels, int64_t step, const ls__resize_axis *s, int64_t i)
{
    const double scale = s->length / (double)s->out, support = scale < 1 ? 1 : scale;
    const double centre = s->begin + ((double)(s->from + i) + 0.5) * scale;
    int64_t begin = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
    begin = begin < 0 ? 0 : begin;
    end = end > s->limit ? s->limit : end;
    double weights[256], total = 0;
    for (int64_t k = begin; k < end; k++) {
        const double x = fabs(((double)k - centre + 0.5) * (1 / support));
        total += weights[k - begin] = x < 1 ? 1 - x : 0;
    }
    int64_t sum = 1 << 21;
    for (int64_t k = begin; k < end; k++)
        sum += pixels[(k - s->at) * step] * (int64_t)(0.5 + weights[k - begin] / total * (1 << 22));
    return (uint8_t)(sum >> 22 > 255 ? 255 : sum >> 22);
}

static void plain_resize(const ls__image_view *from, const ls__resize_axis *rows,
                         const ls__resize_axis *columns, uint8_t *dst)
{
    const int c = from->channels;
    uint8_t *between = malloc((size_t)(from->height * columns->n * c));
    for (int64_t y = 0; y < from->height; y++)
        for (int64_t i = 0; i < columns->n * c; i++) {
            const int64_t x = columns->mirror ? columns->n - 1 - i / c : i / c;
            between[y * columns->n * c + i] =
                weigh(from->pixels + y * from->row_bytes + i % c, c, columns, x);
        }
    for (int64_t y = 0; y < rows->n; y++)
        for (int64_t i = 0; i < columns->n * c; i++)
            dst[y * columns->n * c + i] = weigh(between + i, columns->n * c, rows, y);
    free(between);
}

/* A direction of `size` pixels, or of that part of it which an output needs. */
static ls__resize_axis random_stretch(uint32_t *state, int64_t size, int64_t *first, int64_t *n)
{
    uint32_t r[4];
    for (int i = 0; i < 4; i++) r[i] = (*state = *state * 1664525u + 1013904223u) >> 8;
    ls__resize_axis out = { .length = (double)size, .limit = size, .out = 1 + r[0] % 90 };
    if (r[3] % 2) {
        out.begin = (double)(r[1] % 8) / 8;
        out.length -= out.begin + (double)(r[2] % 8) / 8;
        out.n = out.out;
    } else {
        out.from = r[1] % out.out;
        out.n = 1 + r[2] % (out.out - out.from);
    }
    ls__axis_inputs(&out, first, n);
    out.at = *first;
    return out;
}

/* Pixels that lie alone in memory: the sanitizers see a look beyond them. */
START_TEST(all_kernels_follow_the_definition)
{
    ls_context *ctx = ls_context_open(NULL);
    ls__resizer resizer = { .ctx = ctx };
    uint32_t state = 7;
    for (int round = 0; round < 600; round++) {
        int64_t top, left, height, width;
        const int64_t whole = 2 + state % (round % 3 == 0 ? 12 : 200);
        const ls__resize_axis rows = random_stretch(&state, whole, &top, &height);
        ls__resize_axis columns = random_stretch(&state, 2 + state % 150, &left, &width);
        columns.mirror = round % 4 == 1;
        const int channels = round % 5 == 4 ? 1 : 3;
        uint8_t *pixels = draw_image((int)height, (int)width, channels, (unsigned)round);
        const size_t bytes = (size_t)(rows.n * columns.n * channels);
        uint8_t *dst = malloc(bytes), *expected = malloc(bytes);
        const ls__image_view view = { pixels, width * channels, height, width, channels };
        plain_resize(&view, &rows, &columns, expected);
        for (int i = 0; (resizer.kernels = ls__resize_kernels_at(i)); i++) {
            memset(dst, 0x5a, bytes);
            ck_assert(ls__resize_region(&resizer, &view, &rows, &columns, dst));
            ck_assert_msg(memcmp(dst, expected, bytes) == 0,
                          "%s, round %d: %lld x %lld to %lld x %lld", resizer.kernels->name, round,
                          (long long)width, (long long)height, (long long)columns.n,
                          (long long)rows.n);
        }
        free(pixels), free(dst), free(expected);
    }
    ls__buffer_free(resizer.ctx, &resizer.memory);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(one_channel_is_resized_as_each_of_three)
{
    enum { H = 30, W = 41, TO_H = 13, TO_W = 50 };
    ls_context *ctx = ls_context_open(NULL);
    ls__resizer resizer = { .ctx = ctx };
    uint8_t *grey = draw_image(H, W, 1, 5), *rgb = malloc(H * W * 3);
    for (int i = 0; i < H * W * 3; i++) rgb[i] = grey[i / 3];
    uint8_t out1[TO_H * TO_W], out3[TO_H * TO_W * 3];
    const ls__window all = { 0, 0, TO_H, TO_W };
    ck_assert(
        resize_window(&resizer, &(ls__image_view){ grey, W, H, W, 1 }, TO_H, TO_W, &all, out1));
    ck_assert(
        resize_window(&resizer, &(ls__image_view){ rgb, W * 3, H, W, 3 }, TO_H, TO_W, &all, out3));
    for (int i = 0; i < TO_H * TO_W * 3; i++) ck_assert_int_eq(out3[i], out1[i / 3]);
    free(grey), free(rgb);
    ls__buffer_free(resizer.ctx, &resizer.memory);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(white_stays_white_and_sizes_have_limits)
{
    ls_context *ctx = ls_context_open(NULL);
    uint8_t *white = malloc(40000 * 3);
    memset(white, 255, 40000 * 3);
    static const int sizes[][4] = { { 1, 40000, 1, 1 }, { 40000, 1, 3, 2 }, { 200, 200, 7, 333 } };
    for (int i = 0; i < 3; i++) {
        ls_tensor *image =
            ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(sizes[i][0], sizes[i][1], 3), white);
        ls_tensor *out = ls_image_resize(image, sizes[i][2], sizes[i][3]);
        expect_ok(ctx);
        const uint8_t *p = ls_tensor_data_const(out);
        for (int64_t k = 0; k < ls_tensor_element_count(out); k++) ck_assert_int_eq(p[k], 255);
        ls_tensor_close(&out);
        ls_tensor_close(&image);
    }
    ls_tensor *image = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(2, 2, 3), white);
    ck_assert_ptr_null(ls_image_resize(image, 0, 5));
    expect_error(ctx, LS_ERR_INVALID, "ls_image_resize", "5 x 0");
    ck_assert_ptr_null(ls_image_resize(image, INT64_MAX, 2));
    expect_error(ctx, LS_ERR_INVALID, "ls_image_resize", "limit");
    /* Few pixels, but weights for each row: 7.5 GB. */
    ck_assert_ptr_null(ls_image_resize(image, LS_LARGEST_MAX_PIXELS, 1));
    expect_error(ctx, LS_ERR_INVALID, "2 x 2 pixels resized to 1 x 268435455 take 75",
                 "bytes of weights and rows, the limit is 1073741824");
    ck_assert_ptr_null(ls_image_resize(image, 1, 20000000));
    expect_error(ctx, LS_ERR_INVALID, "2 x 2 pixels resized to 20000000 x 1 take 2380000512",
                 "weights");
    ls_tensor *floats = ls_tensor_open(ctx, LS_F32, LS_SHAPE(2, 2, 3));
    ck_assert_ptr_null(ls_image_resize(floats, 2, 2));
    expect_error(ctx, LS_ERR_SHAPE, "F32 [2,2,3]", "U8 [H,W,3]");
    ck_assert_ptr_null(ls_image_resize(NULL, 2, 2));
    free(white);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(resize)
{
    return RUN_SUITE("resize", resize_equals_pillow, all_kernels_follow_the_definition,
                     a_window_is_a_part_of_the_whole, one_channel_is_resized_as_each_of_three,
                     white_stays_white_and_sizes_have_limits);
}
