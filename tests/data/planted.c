/* planted.c: see planted.h. */
#include "planted.h"

#include "support.h"
#include <stdio.h>
#include <string.h>

enum { HEIGHT = 24, WIDTH = 32 };

static const char *const classes[] = { "cat", "dog", "fox" };

/* Bilinear between random colours at the corners of a grid. */
uint8_t *draw_scene(int height, int width, unsigned seed)
{
    enum { SIDE = 6, UNIT = 1 << 10 };
    uint8_t *pixels = malloc((size_t)height * (size_t)width * 3), corners[SIDE + 1][SIDE + 1][3];
    uint32_t state = seed * 2654435761u + 1;
    for (int i = 0; i < (int)sizeof(corners); i++) {
        state = state * 1664525u + 1013904223u;
        ((uint8_t *)corners)[i] = (uint8_t)(state >> 24);
    }
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int v = (2 * y + 1) * SIDE * UNIT / (2 * height), r = v / UNIT, b = v % UNIT;
            const int u = (2 * x + 1) * SIDE * UNIT / (2 * width), k = u / UNIT, a = u % UNIT;
            for (int c = 0; c < 3; c++) {
                const int top = corners[r][k][c] * (UNIT - a) + corners[r][k + 1][c] * a;
                const int low = corners[r + 1][k][c] * (UNIT - a) + corners[r + 1][k + 1][c] * a;
                const int value = (top / UNIT * (UNIT - b) + low / UNIT * b) / UNIT;
                pixels[3 * (y * width + x) + c] = (uint8_t)value;
            }
        }
    return pixels;
}

static void draw_jpeg(const char *path, unsigned seed, jpeg_options options)
{
    uint8_t *pixels = options.channels ? draw_image(HEIGHT, WIDTH, options.channels, seed)
                                       : draw_scene(HEIGHT, WIDTH, seed);
    write_jpeg(path, HEIGHT, WIDTH, pixels, options);
    free(pixels);
}

/* The image of a clean folder that make_clean_folder drew with the seed, saved again at quality 80,
 * or scaled to 90 %. */
static void draw_quality(const char *path, unsigned seed)
{
    draw_jpeg(path, seed, (jpeg_options){ .quality = 80 });
}
static void draw_scaled(const char *path, unsigned seed)
{
    const int height = HEIGHT * 9 / 10, width = WIDTH * 9 / 10;
    uint8_t *pixels = draw_scene(height, width, seed);
    write_png(path, height, width, 3, pixels);
    free(pixels);
}

void make_clean_folder(const char *folder)
{
    static const char *const splits[] = { "train", "val" };
    for (unsigned s = 0; s < 2; s++) {
        make_folder(path_in(folder, "%s", splits[s]));
        for (unsigned c = 0; c < 3; c++) {
            make_folder(path_in(folder, "%s/%s", splits[s], classes[c]));
            for (unsigned i = 0; i < 4; i++)
                draw_jpeg(path_in(folder, "%s/%s/%u.jpg", splits[s], classes[c], i),
                          100 * s + 10 * c + i, (jpeg_options){ 0 });
        }
    }
}

static void copy(const char *folder, const char *from, const char *to)
{
    size_t n;
    void *bytes = read_file(path_in(folder, "%s", from), &n);
    write_file(path_in(folder, "%s", to), bytes, n);
    free(bytes);
}

static void truncate_jpeg(const char *folder, const char *from, const char *to)
{
    size_t n;
    void *bytes = read_file(path_in(folder, "%s", from), &n);
    write_file(path_in(folder, "%s", to), bytes, n / 2);
    free(bytes);
}

static void plant_unreadable(const char *folder)
{
    truncate_jpeg(folder, "train/cat/0.jpg", "train/cat/cut.jpg");
    truncate_jpeg(folder, "train/dog/0.jpg", "train/dog/cut.JPEG");
    truncate_jpeg(folder, "val/dog/0.jpg", "val/dog/cut.jpg");
    write_text(path_in(folder, "train/cat/empty.jpg"), "");
    write_text(path_in(folder, "val/cat/empty.png"), "");
    write_text(path_in(folder, "train/fox/text.jpg"), "This is no image.");
    write_text(path_in(folder, "train/dog/page.jpg"), "<html></html>");
}

/* The same pixels as PPM and PNG. */
static void plant_same_pixels(const char *folder)
{
    uint8_t *pixels = draw_scene(HEIGHT, WIDTH, 500);
    static uint8_t ppm[HEIGHT * WIDTH * 3 + 16];
    const int n = snprintf((char *)ppm, sizeof(ppm), "P6 %d %d 255\n", WIDTH, HEIGHT);
    memcpy(ppm + n, pixels, HEIGHT * WIDTH * 3);
    write_png(path_in(folder, "train/fox/pixels.png"), HEIGHT, WIDTH, 3, pixels);
    write_file(path_in(folder, "train/fox/pixels.ppm"), ppm, (size_t)n + HEIGHT * WIDTH * 3);
    free(pixels);
}

static void plant_duplicates(const char *folder)
{
    copy(folder, "train/cat/1.jpg", "train/cat/copy.jpg");
    copy(folder, "train/cat/1.jpg", "train/cat/copy2.jpg");
    plant_same_pixels(folder);
    copy(folder, "train/cat/2.jpg", "train/dog/copy.jpg");
    copy(folder, "train/fox/2.jpg", "train/dog/copy2.jpg");
    copy(folder, "train/cat/3.jpg", "val/cat/copy.jpg");
    copy(folder, "train/cat/3.jpg", "val/dog/copy.jpg");
    copy(folder, "train/cat/1.jpg", "val/cat/copy2.jpg");
    draw_quality(path_in(folder, "val/cat/quality.jpg"), 0);
    draw_scaled(path_in(folder, "val/dog/scaled.png"), 11);
    draw_quality(path_in(folder, "train/dog/quality.jpg"), 3);
    draw_quality(path_in(folder, "train/cat/quality.jpg"), 2);
    draw_scaled(path_in(folder, "train/fox/scaled.png"), 20);
}

static void plant_images(const char *folder)
{
    draw_jpeg(path_in(folder, "train/cat/turned3.jpg"), 503, (jpeg_options){ .orientation = 3 });
    draw_jpeg(path_in(folder, "train/cat/turned6.jpg"), 506, (jpeg_options){ .orientation = 6 });
    draw_jpeg(path_in(folder, "val/cat/turned8.jpg"), 508, (jpeg_options){ .orientation = 8 });
    draw_jpeg(path_in(folder, "train/dog/cmyk.jpg"), 510, (jpeg_options){ .channels = 4 });
    draw_jpeg(path_in(folder, "val/dog/cmyk.jpg"), 511,
              (jpeg_options){ .channels = 4, .adobe = true });
    uint8_t *pixels = draw_scene(15, 40, 512);
    write_png(path_in(folder, "train/fox/low.png"), 15, 40, 3, pixels);
    write_png(path_in(folder, "train/fox/narrow.png"), 40, 15, 3, pixels);
    free(pixels);
}

static void plant_skipped(const char *folder)
{
    write_text(path_in(folder, ".DS_Store"), "x");
    make_folder(path_in(folder, "train/.ipynb_checkpoints"));
    copy(folder, "train/cat/0.jpg", "train/.ipynb_checkpoints/0.jpg");
    copy(folder, "train/cat/0.jpg", "train/dog/._0.jpg");
    write_text(path_in(folder, "train/cat/new.avif"), "0000ftypavif0000");
    write_text(path_in(folder, "train/cat/anim.gif"), "GIF89a");
    write_text(path_in(folder, "val/cat/phone.heic"), "0000ftypheic0000");
    copy(folder, "train/cat/0.jpg", "train/cat/0.jpe");
    write_text(path_in(folder, "train/notes.txt"), "not in a class folder, so it does not count");
}

static void plant_folders(const char *folder)
{
    remove_folder(strdup(path_in(folder, "val/fox")));
    make_folder(path_in(folder, "val/cow"));
    draw_jpeg(path_in(folder, "val/cow/0.jpg"), 520, (jpeg_options){ 0 });
    make_folder(path_in(folder, "train/empty"));
    make_folder(path_in(folder, "train/fox/arctic"));
    make_folder(path_in(folder, "train/fox/arctic/young"));
    draw_jpeg(path_in(folder, "train/fox/arctic/0.jpg"), 521, (jpeg_options){ 0 });
    draw_jpeg(path_in(folder, "train/fox/arctic/young/1.jpg"), 522, (jpeg_options){ 0 });
    make_folder(path_in(folder, "train/fox/arctic2"));
    draw_jpeg(path_in(folder, "train/fox/arctic2/2.jpg"), 524, (jpeg_options){ 0 });
    draw_jpeg(path_in(folder, "train/loose.jpg"), 523, (jpeg_options){ 0 });
}

void plant_faults(const char *folder)
{
    plant_unreadable(folder);
    plant_duplicates(folder);
    plant_images(folder);
    plant_skipped(folder);
    plant_folders(folder);
}

const planted_fault planted[N_PLANTED] = {
    { LS_FINDING_LAYOUT, "train", "1 image outside of class folders" },
    { LS_FINDING_EMPTY_CLASS, "train/empty", "no images" },
    { LS_FINDING_NO_VALIDATION, "val/fox", "no readable folder; train/fox has 13 images" },
    { LS_FINDING_NO_TRAINING, "train/cow", "no readable folder; val/cow has 1 image" },
    { LS_FINDING_NESTED, "train/fox/arctic", "2 images of class 'fox'" },
    { LS_FINDING_NESTED, "train/fox/arctic2", "1 image of class 'fox'" },
    { LS_FINDING_UNREADABLE, "train/cat/cut.jpg", "damaged JPEG" },
    { LS_FINDING_UNREADABLE, "train/cat/empty.jpg", "empty file" },
    { LS_FINDING_UNREADABLE, "train/dog/cut.JPEG", "damaged JPEG" },
    { LS_FINDING_UNREADABLE, "train/dog/page.jpg", "a file of type HTML, XML or SVG" },
    { LS_FINDING_UNREADABLE, "train/fox/text.jpg", "not a JPEG, PNG, WebP, BMP or PNM file" },
    { LS_FINDING_UNREADABLE, "val/cat/empty.png", "empty file" },
    { LS_FINDING_UNREADABLE, "val/dog/cut.jpg", "damaged JPEG" },
    { LS_FINDING_LEAK, "val/cat/copy.jpg", "the same file as train/cat/3.jpg" },
    { LS_FINDING_LEAK, "val/cat/copy2.jpg", "the same file as train/cat/1.jpg" },
    { LS_FINDING_LEAK, "val/dog/copy.jpg", "the same file as train/cat/3.jpg" },
    { LS_FINDING_NEAR_LEAK, "val/cat/quality.jpg", "looks the same as train/cat/0.jpg" },
    { LS_FINDING_NEAR_LEAK, "val/dog/scaled.png", "looks the same as train/dog/1.jpg" },
    { LS_FINDING_AMBIGUOUS, "train/dog/copy.jpg", "the same file as train/cat/2.jpg" },
    { LS_FINDING_AMBIGUOUS, "train/fox/2.jpg", "the same file as train/dog/copy2.jpg" },
    { LS_FINDING_NEAR_AMBIGUOUS, "train/dog/quality.jpg", "looks the same as train/cat/3.jpg" },
    { LS_FINDING_DUPLICATE, "train/cat/copy.jpg", "the same file as train/cat/1.jpg" },
    { LS_FINDING_DUPLICATE, "train/cat/copy2.jpg", "the same file as train/cat/1.jpg" },
    { LS_FINDING_DUPLICATE, "train/fox/pixels.ppm", "the same pixels as train/fox/pixels.png" },
    { LS_FINDING_NEAR_DUPLICATE, "train/cat/quality.jpg", "looks the same as train/cat/2.jpg" },
    { LS_FINDING_NEAR_DUPLICATE, "train/fox/scaled.png", "looks the same as train/fox/0.jpg" },
    { LS_FINDING_IGNORED, "train/cat/0.jpe", "a readable image" },
    { LS_FINDING_IGNORED, "train/cat/anim.gif", "a file of type GIF" },
    { LS_FINDING_IGNORED, "train/cat/new.avif", "a file of type HEIF, AVIF or MP4" },
    { LS_FINDING_IGNORED, "val/cat/phone.heic", "a file of type HEIF" },
    { LS_FINDING_HIDDEN, ".DS_Store", "begins with a dot" },
    { LS_FINDING_HIDDEN, "train/.ipynb_checkpoints", "begins with a dot" },
    { LS_FINDING_HIDDEN, "train/dog/._0.jpg", "begins with a dot" },
    { LS_FINDING_ROTATED, "train/cat/turned3.jpg", "orientation 3" },
    { LS_FINDING_ROTATED, "train/cat/turned6.jpg", "orientation 6" },
    { LS_FINDING_ROTATED, "val/cat/turned8.jpg", "orientation 8" },
    { LS_FINDING_CMYK, "train/dog/cmyk.jpg", "CMYK" },
    { LS_FINDING_CMYK, "val/dog/cmyk.jpg", "CMYK" },
    { LS_FINDING_ASPECT, "train/fox/low.png", "40 x 15 pixels: the crop drops 62 %" },
    { LS_FINDING_ASPECT, "train/fox/narrow.png", "15 x 40 pixels: the crop drops 62 %" },
    { LS_FINDING_SMALL, "train/fox/low.png", "40 x 15 pixels" },
    { LS_FINDING_SMALL, "train/fox/narrow.png", "15 x 40 pixels" },
};
