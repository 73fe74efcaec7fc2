/* bench_augment: the ops of TrivialAugment on one image, in microseconds of processor time,
 * averaged over magnitudes and signs. One JSON line; "trivial" is the mean over the ops, each
 * equally often.
 *
 *   bench_augment [--image-size S] [--repeat N] */
#include "data/transform/augment.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[LS__N_AUTO_OPS] = {
    "Identity", "ShearX",   "ShearY",    "TranslateX", "TranslateY", "Rotate",       "Brightness",
    "Color",    "Contrast", "Sharpness", "Posterize",  "Solarize",   "AutoContrast", "Equalize"
};

static double processor_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Gradients with noise, as a photograph. */
static void draw(int64_t side, uint8_t *pixels)
{
    uint32_t state = 1;
    for (int64_t i = 0; i < side * side * 3; i++) {
        state = state * 1664525u + 1013904223u;
        pixels[i] = (uint8_t)((i / 3 / side + i / 3 % side + i % 3 * 40) % 200 + (state >> 27));
    }
}

/* Measures a copy of the image, which each result needs, and an op. */
static double measure(ls__auto_op op, int64_t side, const uint8_t *image, uint8_t *pixels,
                      const ls_context *ctx, ls__buffer *copy)
{
    const size_t n_bytes = (size_t)(side * side * 3);
    const double begin = processor_now();
    for (int i = 0; i < 2 * LS__MAGNITUDE_BINS; i++) {
        ls__pixel_op out;
        memcpy(pixels, image, n_bytes);
        if (ls__auto_pixel_op(LS_AUTO_AUGMENT_TRIVIAL, op, i / 2, i % 2, side, side, &out))
            ls__apply_pixel_op(&out, ctx, copy, side, side, 3, pixels);
    }
    return (processor_now() - begin) * 1e6 / (2 * LS__MAGNITUDE_BINS);
}

int main(int argc, char **argv)
{
    enum { MAX_REPEATS = 100 };
    int64_t side = 224, repeat = 5;
    const bench_option table[] = {
        { "--image-size", BENCH_NUMBER, &side, "pixels of a side" },
        { "--repeat", BENCH_NUMBER, &repeat, "rounds, of which the medians are printed" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    if (repeat > MAX_REPEATS) repeat = MAX_REPEATS;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const size_t n_bytes = (size_t)(side * side * 3);
    uint8_t *image = malloc(n_bytes), *pixels = malloc(n_bytes);
    if (!ctx || !image || !pixels) return 1;
    draw(side, image);
    ls__buffer copy = { 0 };
    static double times[LS__N_AUTO_OPS][MAX_REPEATS];
    for (int64_t r = 0; r < repeat; r++)
        for (int op = 0; op < LS__N_AUTO_OPS; op++)
            times[op][r] = measure((ls__auto_op)op, side, image, pixels, ctx, &copy);
    double sum = 0;
    printf("{\"bench\": \"augment\", \"image_size\": %lld, \"us\": {", (long long)side);
    for (int op = 0; op < LS__N_AUTO_OPS; op++) {
        bench_sort(times[op], repeat);
        const double median = bench_quantile(times[op], repeat, 0.5);
        sum += median / LS__N_AUTO_OPS;
        printf("%s\"%s\": %.1f", op ? ", " : "", names[op], median);
    }
    printf("}, \"trivial\": %.1f}\n", sum);
    ls__buffer_free(ctx, &copy);
    free(image);
    free(pixels);
    ls_context_close(&ctx);
    return 0;
}
