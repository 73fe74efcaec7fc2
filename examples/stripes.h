/* stripes.h: images for the examples, so that they need no download: stripes that lie, stand or
 * lean, in any colours and any place. */
#ifndef EXAMPLES_STRIPES_H
#define EXAMPLES_STRIPES_H

#include <errno.h>
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { STRIPES_CLASSES = 3, STRIPES_SIDE = 24, STRIPES_BYTES = STRIPES_SIDE * STRIPES_SIDE * 3 };
static const char *const stripes_names[STRIPES_CLASSES] = { "leaning", "lying", "standing" };

/* Image `number` of a class, [24,24,3]: a function of its arguments alone. */
static void stripes_draw(int label, int64_t number, uint8_t pixels[STRIPES_BYTES])
{
    uint32_t dice[8];
    for (uint32_t i = 0; i < 2; i++)
        ls_random_words(1,
                        &(ls_draw){ .stream = LS_RANDOM_USER,
                                    .layer = (uint32_t)label,
                                    .sample = (uint64_t)number,
                                    .block = i },
                        dice + 4 * i);
    const int width = 2 + (int)(dice[6] % 3), shift = (int)(dice[7] % 16);
    for (int y = 0; y < STRIPES_SIDE; y++)
        for (int x = 0; x < STRIPES_SIDE; x++) {
            const int along[STRIPES_CLASSES] = { x + y, y, x };
            const int band = (along[label] + shift) / width % 2;
            for (int c = 0; c < 3; c++)
                pixels[(y * STRIPES_SIDE + x) * 3 + c] = (uint8_t)(dice[band * 3 + c] >> 24);
        }
}

/* n images in memory, the classes in turn, numbered from `first`. */
static inline ls_dataset *stripes_dataset(ls_context *ctx, int64_t first, int64_t n)
{
    enum { MAX = 1024 };
    static uint8_t pixels[MAX][STRIPES_BYTES];
    int32_t labels[MAX];
    for (int64_t i = 0; i < n && i < MAX; i++) {
        labels[i] = (int32_t)(i % STRIPES_CLASSES);
        stripes_draw(labels[i], first + i, pixels[i]);
    }
    return ls_dataset_from_memory(ctx, pixels[0], LS_SHAPE(n, STRIPES_SIDE, STRIPES_SIDE, 3),
                                  labels, STRIPES_CLASSES);
}

/* A folder DIR/<class>/<number>.ppm with n images of each class; false when it cannot be written.
 */
static inline bool stripes_folder(const char *dir, int64_t first, int64_t n)
{
    char path[4096];
    bool ok = mkdir(dir, 0777) == 0 || errno == EEXIST;
    for (int label = 0; ok && label < STRIPES_CLASSES; label++) {
        snprintf(path, sizeof(path), "%s/%s", dir, stripes_names[label]);
        ok = mkdir(path, 0777) == 0 || errno == EEXIST;
        for (int64_t i = first; ok && i < first + n; i++) {
            uint8_t pixels[STRIPES_BYTES];
            stripes_draw(label, i, pixels);
            snprintf(path, sizeof(path), "%s/%s/%04d.ppm", dir, stripes_names[label], (int)i);
            FILE *file = fopen(path, "wb");
            if (!file) return false;
            fprintf(file, "P6 %d %d 255\n", STRIPES_SIDE, STRIPES_SIDE);
            ok = fwrite(pixels, sizeof(pixels), 1, file) == 1;
            ok = fclose(file) == 0 && ok;
        }
    }
    return ok;
}

#endif
