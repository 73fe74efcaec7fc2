/* bench_photos.c: makes a folder of JPEG files of the size of photographs, for benchmarks that read
 * images:
 *
 *   bench_photos --out DIR --count 2048 --width 500 --height 375 --classes 10 --processes 16
 *
 * DIR/0, DIR/1, .. have one class each. An image is value noise of several octaves in three
 * colours, with about the decoding cost of a photograph: 45 KB at 500 x 375. The same options give
 * the same files. One JSON line. */
#include "../cli/commands/write_image.h"
#include "support.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QUALITY = 90, OCTAVES = 6, PATH_SIZE = 4096 };

typedef struct options {
    const char *out;
    int64_t count, width, height, classes, processes;
} options;

/* A number in [0, 1) for a point of a lattice. */
static float lattice(uint32_t seed, uint32_t x, uint32_t y)
{
    uint32_t h = seed * 0x9e3779b1u ^ x * 0x85ebca77u ^ y * 0xc2b2ae3du;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return (float)((h ^ h >> 15) >> 8) * 0x1p-24f;
}

/* The lattice's numbers, interpolated between its points. */
static float noise(uint32_t seed, float x, float y)
{
    const uint32_t x0 = (uint32_t)x, y0 = (uint32_t)y;
    const float u = x - (float)x0, v = y - (float)y0;
    const float top = lattice(seed, x0, y0) * (1 - u) + lattice(seed, x0 + 1, y0) * u;
    const float bottom = lattice(seed, x0, y0 + 1) * (1 - u) + lattice(seed, x0 + 1, y0 + 1) * u;
    return top * (1 - v) + bottom * v;
}

static void draw(const options *o, uint32_t number, uint8_t *pixels)
{
    for (int64_t y = 0; y < o->height; y++)
        for (int64_t x = 0; x < o->width; x++) {
            float light = 0, share = 0.3f, step = 1.0f / 64;
            for (uint32_t octave = 0; octave < OCTAVES; octave++) {
                light += share * noise(number * OCTAVES + octave, (float)x * step, (float)y * step);
                share *= 0.75f;
                step *= 2;
            }
            for (uint32_t c = 0; c < 3; c++) {
                const float tint = noise(~number * 3 + c, (float)x / 97, (float)y / 97);
                *pixels++ = (uint8_t)fminf(255, 255 * light * (0.5f + tint));
            }
        }
}

/* Each n-th image, from the first on. */
static bool make_images(const options *o, int64_t first)
{
    char path[PATH_SIZE];
    uint8_t *pixels = malloc((size_t)(o->width * o->height * 3));
    bool ok = pixels != NULL;
    for (int64_t i = first; ok && i < o->count; i += o->processes) {
        draw(o, (uint32_t)i, pixels);
        snprintf(path, sizeof path, "%s/%lld/%06lld.jpg", o->out, (long long)(i % o->classes),
                 (long long)i);
        ok = write_image(path, (int)o->width, (int)o->height, pixels, QUALITY);
        if (!ok) fprintf(stderr, "bench_photos: %s: %s\n", path, strerror(errno));
    }
    free(pixels);
    return ok;
}

static bool make_folders(const options *o)
{
    char path[PATH_SIZE];
    bool ok = mkdir(o->out, 0777) == 0;
    if (!ok) fprintf(stderr, "bench_photos: %s: %s\n", o->out, strerror(errno));
    for (int64_t i = 0; ok && i < o->classes; i++) {
        snprintf(path, sizeof path, "%s/%lld", o->out, (long long)i);
        ok = mkdir(path, 0777) == 0;
    }
    return ok;
}

static bool make_all(const options *o)
{
    bool ok = make_folders(o);
    int64_t started = 0;
    for (; ok && started < o->processes; started++) {
        const pid_t child = fork();
        if (child == 0) _exit(make_images(o, started) ? EXIT_SUCCESS : EXIT_FAILURE);
        ok = child > 0;
    }
    for (int status; wait(&status) > 0;)
        ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
    return ok;
}

int main(int argc, char **argv)
{
    options o = { .count = 256, .width = 500, .height = 375, .classes = 10, .processes = 1 };
    const bench_option table[] = {
        { "--out", BENCH_TEXT, &o.out, "folder to make; needed" },
        { "--count", BENCH_NUMBER, &o.count, "images" },
        { "--width", BENCH_NUMBER, &o.width, "pixels" },
        { "--height", BENCH_NUMBER, &o.height, "pixels" },
        { "--classes", BENCH_NUMBER, &o.classes, "folders" },
        { "--processes", BENCH_NUMBER, &o.processes, "that draw at the same time" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    if (!o.out || strlen(o.out) > PATH_SIZE - 64 || o.width > 8192 || o.height > 8192) {
        fprintf(stderr, "bench_photos: expected --out DIR, and at most 8192 x 8192 pixels\n");
        return 2;
    }
    const double start = bench_now();
    if (!make_all(&o)) return EXIT_FAILURE;
    printf("{\"bench\": \"photos\", \"count\": %lld, \"width\": %lld, \"height\": %lld, "
           "\"classes\": %lld, \"seconds\": %.2f}\n",
           (long long)o.count, (long long)o.width, (long long)o.height, (long long)o.classes,
           bench_now() - start);
    return EXIT_SUCCESS;
}
