/* test_decode_pillow.c: every kind of image file against the pixels of
 * tests/fixtures/images.safetensors and webp.safetensors, which tests/reference/images.py and
 * webp.py made with Pillow. */
#include "decode_support.h"
#include "../suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE = 600 };

typedef struct fixture {
    ls_context *ctx;
    ls_tensor_file *file;
    ls__decoder decoder;
} fixture;

/* The tensor CASE/part; NULL when there is none. */
static ls_tensor *load_part(fixture *f, const char *name, const char *part)
{
    char full[256];
    snprintf(full, sizeof(full), "%s/%s", name, part);
    ls_spec spec;
    return ls_tensor_file_find(f->file, full, &spec) ? ls_tensor_file_load(f->file, full) : NULL;
}

/* What differs between an image and the pixels it should have, in `text`; "" when nothing does. */
static const char *difference(const ls__image *image, const ls_tensor *pixels, char text[TEXT_SIZE])
{
    const ls_shape *shape = ls_tensor_shape(pixels);
    const int64_t width = shape->dims[1], count = ls_tensor_element_count(pixels);
    *text = '\0';
    if (shape->dims[0] != image->height || width != image->width) {
        snprintf(text, TEXT_SIZE, "%lld x %lld pixels, expected %lld x %lld",
                 (long long)image->width, (long long)image->height, (long long)width,
                 (long long)shape->dims[0]);
        return text;
    }
    const uint8_t *expected = ls_tensor_data_const(pixels);
    int64_t first = -1, n = 0;
    int largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const int d = abs(image->pixels[i] - expected[i]);
        if (d == 0) continue;
        if (n++ == 0) first = i;
        if (d > largest) largest = d;
    }
    if (n > 0)
        snprintf(text, TEXT_SIZE,
                 "%lld of %lld values differ by up to %d, the first at row %lld, column %lld, "
                 "channel %lld: %d, expected %d",
                 (long long)n, (long long)count, largest, (long long)(first / 3 / width),
                 (long long)(first / 3 % width), (long long)(first % 3), image->pixels[first],
                 expected[first]);
    return text;
}

/* NULL when the case is as it should be. */
static const char *check_case(fixture *f, const char *name, char text[TEXT_SIZE])
{
    ls_tensor *file = load_part(f, name, "file"), *pixels = load_part(f, name, "pixels");
    const char *refused = pixels ? NULL : ls_tensor_file_metadata(f->file, name);
    const bool honour_exif = strncmp(name, "exif/", 5) == 0;
    const ls_status status =
        decode(&f->decoder, ls_tensor_data_const(file), ls_tensor_bytes(file), honour_exif);
    *text = '\0';
    if (refused && !(status == LS_ERR_DATA && strstr(f->decoder.reason, refused)))
        snprintf(text, TEXT_SIZE, "%s, expected an error with '%s'",
                 status == LS_OK ? "decoded" : f->decoder.reason, refused);
    else if (!refused && status != LS_OK)
        snprintf(text, TEXT_SIZE, "%s", f->decoder.reason);
    else if (!refused)
        difference(&f->decoder.image, pixels, text);
    ls_tensor_close(&file);
    ls_tensor_close(&pixels);
    return *text ? text : NULL;
}

/* Every case of tests/fixtures/FILE, at least `least`. */
static void check_cases(const char *file, int least)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/tests/fixtures/%s", LOCKSTEP_SOURCE_DIR, file);
    fixture f = { .ctx = open_context() };
    f.decoder.ctx = f.ctx;
    f.decoder.alpha = LS_ALPHA_IGNORE; /* as convert("RGB") */
    f.file = ls_tensor_file_open(f.ctx, path);
    expect_ok(f.ctx);
    int n = 0, n_wrong = 0;
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(f.file); i++) {
        const char *tensor = ls_tensor_file_name(f.file, i), *slash = strrchr(tensor, '/');
        if (!slash || strcmp(slash, "/file") != 0) continue;
        char name[128], text[TEXT_SIZE];
        snprintf(name, sizeof(name), "%.*s", (int)(slash - tensor), tensor);
        n++;
        if (!check_case(&f, name, text)) continue;
        fprintf(stderr, "%s: %s\n", name, text);
        n_wrong++;
    }
    ck_assert_msg(n_wrong == 0, "%d of %d cases are wrong", n_wrong, n);
    ck_assert_int_ge(n, least);
    ls__decoder_free(&f.decoder);
    ls_tensor_file_close(&f.file);
    ls_context_close(&f.ctx);
}

START_TEST(pixels_are_pillows)
{
    check_cases("images.safetensors", 200);
}
END_TEST

START_TEST(pixels_of_webp_are_pillows)
{
    check_cases("webp.safetensors", 29);
}
END_TEST

TEST_PROGRAM(decode_pillow)
{
    return RUN_SUITE("decode_pillow", pixels_are_pillows, pixels_of_webp_are_pillows);
}
