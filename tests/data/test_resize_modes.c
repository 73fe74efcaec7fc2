/* test_resize_modes.c: images that are cropped, padded or stretched to the size of a batch. */
#include "data/transform/resize_kernels.h"
#include "data/transform/transform.h"
#include "support.h"

#include "../suite.h"
#include <stdlib.h>
#include <string.h>

/* Size after `resize`, and the part of it that is the image. */
START_TEST(sizes_follow_the_mode)
{
    static const struct {
        ls_resize_mode mode;
        int64_t resize, crop, crop_width, from[2], to[2], content[4]; /* height, width; top, left */
    } cases[] = {
        { LS_RESIZE_CROP, 16, 16, 16, { 20, 120 }, { 16, 96 }, { 0, 0, 16, 96 } },
        { LS_RESIZE_CROP, 20, 10, 40, { 30, 30 }, { 80, 80 }, { 0, 0, 80, 80 } },
        { LS_RESIZE_CROP, 20, 10, 40, { 10, 90 }, { 20, 180 }, { 0, 0, 20, 180 } },
        { LS_RESIZE_CROP, 20, 10, 40, { 10, 40 }, { 20, 80 }, { 0, 0, 20, 80 } },
        { LS_RESIZE_PAD, 16, 16, 16, { 20, 120 }, { 16, 16 }, { 6, 0, 3, 16 } },
        { LS_RESIZE_PAD, 16, 16, 16, { 120, 20 }, { 16, 16 }, { 0, 6, 16, 3 } },
        { LS_RESIZE_PAD, 16, 16, 16, { 7, 7 }, { 16, 16 }, { 0, 0, 16, 16 } },
        { LS_RESIZE_PAD, 8, 8, 8, { 1, 5000 }, { 8, 8 }, { 4, 0, 1, 8 } },
        { LS_RESIZE_PAD, 10, 10, 40, { 30, 30 }, { 10, 40 }, { 0, 15, 10, 10 } },
        { LS_RESIZE_PAD, 9, 0, 0, { 30, 20 }, { 9, 9 }, { 0, 2, 9, 6 } },
        { LS_RESIZE_STRETCH, 16, 16, 16, { 20, 120 }, { 16, 16 }, { 0, 0, 16, 16 } },
        { LS_RESIZE_STRETCH, 12, 8, 24, { 7, 5 }, { 12, 36 }, { 0, 0, 12, 36 } },
        { LS_RESIZE_STRETCH, 0, 0, 0, { 7, 5 }, { 7, 5 }, { 0, 0, 7, 5 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const ls__transform transform = { .resize = cases[i].resize,
                                          .resize_mode = cases[i].mode,
                                          .crop = cases[i].crop,
                                          .crop_width = cases[i].crop_width };
        int64_t height = cases[i].from[0], width = cases[i].from[1];
        ls__window content;
        ls__transformed_size(&transform, &height, &width, &content);
        const int64_t got[] = { height,       width,          content.top,
                                content.left, content.height, content.width };
        const int64_t wanted[] = { cases[i].to[0],      cases[i].to[1],      cases[i].content[0],
                                   cases[i].content[1], cases[i].content[2], cases[i].content[3] };
        for (int k = 0; k < 6; k++)
            ck_assert_msg(got[k] == wanted[k], "case %zu: number %d is %lld, expected %lld", i, k,
                          (long long)got[k], (long long)wanted[k]);
    }
}
END_TEST

enum { H = 20, W = 121 };

typedef struct fixture {
    ls_context *ctx;
    ls_dataset *data;   /* one image */
    ls_tensor *resized; /* it, to the size of the content */
} fixture;

static fixture open_fixture(int channels, int64_t height, int64_t width)
{
    fixture f = { .ctx = ls_context_open(&(ls_context_config){ .threads = 1 }) };
    uint8_t *pixels = draw_image(H, W, 3, 5);
    if (channels == 1) /* grey, so that the resize of three channels is the reference */
        for (int i = 0; i < H * W; i++) pixels[3 * i + 1] = pixels[3 * i + 2] = pixels[3 * i];
    ls_tensor *image = ls_tensor_from_data(f.ctx, LS_U8, LS_SHAPE(H, W, 3), pixels);
    f.resized = ls_image_resize(image, height, width);
    if (channels == 1)
        for (int i = 0; i < H * W; i++) pixels[i] = pixels[3 * i];
    f.data =
        ls_dataset_from_memory(f.ctx, pixels, LS_SHAPE(1, H, W, channels), (int32_t[]){ 0 }, 1);
    expect_ok(f.ctx);
    free(pixels);
    return f;
}

static const uint8_t *load(const fixture *f, ls_loader *loader)
{
    ls_batch batch;
    expect_ok(f->ctx);
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(ls_loader_next(loader, &batch));
    return ls_tensor_data_const(batch.images);
}

/* Checks an image [size,size,channels] with the resized one at `top`, else the padding. */
static void check_padded(const fixture *f, const uint8_t *got, int size, int channels, int top,
                         const uint8_t *fill)
{
    const ls_shape *inner = ls_tensor_shape(f->resized);
    const uint8_t *pixels = ls_tensor_data_const(f->resized);
    for (int i = 0; i < size * size * channels; i++) {
        const int y = i / channels / size - top, x = i / channels % size, c = i % channels;
        const bool inside = y >= 0 && y < inner->dims[0];
        const int wanted = inside ? pixels[(y * size + x) * 3 + c] : fill[c];
        ck_assert_msg(got[i] == wanted, "value %d is %d, expected %d", i, got[i], wanted);
    }
}

START_TEST(padding_has_the_mean_and_the_whole_image)
{
    enum { SIZE = 16 };
    ls_loader_config config = { .batch_size = 1,
                                .resize = SIZE,
                                .resize_mode = LS_RESIZE_PAD,
                                .crop = SIZE,
                                .mean = { 0.1f, 0.5f, 1.5f },
                                .std = { 1, 1, 1 } };
    fixture f = open_fixture(3, 3, SIZE);
    ls_loader *loader = ls_loader_open(f.data, &config);
    check_padded(&f, load(&f, loader), SIZE, 3, 6, (const uint8_t[]){ 26, 128, 255 });
    ls_context_close(&f.ctx);

    f = open_fixture(1, 3, SIZE); /* the average of ImageNet's means: 0.449 */
    memset(config.mean, 0, sizeof(config.mean));
    memset(config.std, 0, sizeof(config.std));
    loader = ls_loader_open(f.data, &config);
    check_padded(&f, load(&f, loader), SIZE, 1, 6, (const uint8_t[]){ 114 });
    ls_context_close(&f.ctx);
}
END_TEST

START_TEST(stretching_is_a_resize_of_both_sides)
{
    enum { TO_H = 12, TO_W = 30 };
    const ls_loader_config config = { .batch_size = 1,
                                      .resize = TO_H,
                                      .resize_mode = LS_RESIZE_STRETCH,
                                      .crop = TO_H,
                                      .crop_width = TO_W };
    fixture f = open_fixture(3, TO_H, TO_W);
    ls_loader *loader = ls_loader_open(f.data, &config);
    ck_assert_int_eq(ls_loader_input_spec(loader).image.shape.dims[2], TO_W);
    ck_assert_mem_eq(load(&f, loader), ls_tensor_data_const(f.resized), 3 * TO_H * TO_W);
    ls_context_close(&f.ctx);
}
END_TEST

/* Random crops and flips of padded and stretched images, by the fastest kernels and in plain C. */
START_TEST(kernels_agree)
{
    static const ls_resize_mode modes[] = { LS_RESIZE_CROP, LS_RESIZE_PAD, LS_RESIZE_STRETCH };
    enum { OUT_H = 9, OUT_W = 14 };
    ls_context *ctx = ls_context_open(NULL);
    uint8_t *pixels = draw_image(H, W, 3, 8);
    const ls__image_view view = { pixels, W * 3, H, W, 3 };
    const ls__source source = ls__source_of_all(&view);
    int n_kernels = 0;
    while (ls__resize_kernels_at(n_kernels)) n_kernels++;
    for (int i = 0; i < 3 * 40; i++) {
        const bool box = i % 2;
        const ls__transform transform = { .seed = 4,
                                          .resize = 20,
                                          .resize_mode = modes[i % 3],
                                          .crop = OUT_H,
                                          .crop_width = OUT_W,
                                          .padding = box ? 0 : 3,
                                          .random_resized_crop = box,
                                          .scale_min = 0.2,
                                          .scale_max = 1,
                                          .ratio_min = 0.75,
                                          .ratio_max = 4.0 / 3,
                                          .flip = 0.5f,
                                          .fill = { 1, 2, 3 },
                                          .height = OUT_H,
                                          .width = OUT_W };
        const ls_draw draw = { .stream = LS_RANDOM_TRANSFORM, .sample = (uint64_t)i };
        uint8_t out[2][OUT_H * OUT_W * 3];
        for (int k = 0; k < 2; k++) {
            ls__transformer self = { .resizer = {
                                         ctx, ls__resize_kernels_at(k * (n_kernels - 1)), { 0 } } };
            ls__sample_plan plan;
            char reason[LS__REASON_SIZE];
            ck_assert_int_eq(ls__transform_plan(&transform, &draw, H, W, &plan, reason), LS_OK);
            ck_assert(ls__transform_apply(&plan, &self, &source, out[k]));
            ls__transformer_free(&self);
        }
        ck_assert_mem_eq(out[0], out[1], sizeof(out[0]));
    }
    free(pixels);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(settings_without_effect_are_refused)
{
    static const struct {
        ls_loader_config config;
        const char *word;
    } cases[] = {
        { { .batch_size = 1, .resize_mode = (ls_resize_mode)3 }, "resize_mode is 3" },
        { { .batch_size = 1, .resize_mode = LS_RESIZE_PAD }, "resize_mode without resize" },
        { { .batch_size = 1, .resize_mode = LS_RESIZE_STRETCH, .crop = 8 },
          "resize_mode without resize" },
        { { .batch_size = 1, .crop_width = 8 }, "crop_width without crop" },
        { { .batch_size = 1, .crop_width = 1 << 17, .crop = 1 }, "crop_width is 131072" },
        { { .batch_size = 1, .resize = 60000, .crop = 8, .crop_width = 60000 },
          "gives a width of 450000000, expected 1 to 65536" },
        { { .batch_size = 1, .resize = 1, .crop = 8, .crop_width = 2 }, "gives a width of 0" },
    };
    fixture f = open_fixture(3, 3, 16);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_ptr_null(ls_loader_open(f.data, &cases[i].config));
        expect_error(f.ctx, LS_ERR_INVALID, cases[i].word, "ls_loader_open: ");
    }
    ls_context_close(&f.ctx);
}
END_TEST

/* A crop that is not square, of an image that is too small for it. */
START_TEST(a_crop_that_does_not_fit_names_both_sides)
{
    fixture f = open_fixture(3, 3, 16);
    ls_loader *loader = ls_loader_open(
        f.data, &(ls_loader_config){ .batch_size = 1, .crop = 20, .crop_width = 122 });
    ls_batch batch;
    expect_ok(f.ctx);
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(!ls_loader_next(loader, &batch));
    expect_error(f.ctx, LS_ERR_DATA, "121 x 20 pixels with padding 0, crop is 122 x 20");
    ls_context_close(&f.ctx);
}
END_TEST

TEST_PROGRAM(resize_modes)
{
    return RUN_SUITE("resize_modes", sizes_follow_the_mode,
                     padding_has_the_mean_and_the_whole_image, stretching_is_a_resize_of_both_sides,
                     kernels_agree, settings_without_effect_are_refused,
                     a_crop_that_does_not_fit_names_both_sides);
}
