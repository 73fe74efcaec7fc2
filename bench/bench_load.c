/* bench_load: how fast a loader makes batches of a folder of images. One JSON line.
 *
 *   bench_load --data-dir DIR [--image-size S] [--recipe rrc|pad|val] [--batch N] [--workers 0,1,2]
 *              [--images N] [--repeat N]
 *
 * rrc: random resized crop and flip; pad: crop from a padded picture and flip; val: resize and
 * centre crop. The numbers of workers take turns; the median of the repeats is given. One pass over
 * the images before warms the page cache: disks are not measured. */
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNTS = 16, MAX_REPEATS = 32 };

typedef struct options {
    const char *data_dir, *recipe;
    int64_t image_size, batch, images;
    int repeat, n_counts, workers[MAX_COUNTS];
} options;

static int fail(const char *text)
{
    fprintf(stderr, "bench_load: %s\n", text);
    return 1;
}

static bool parse_workers(const char *text, options *o)
{
    o->n_counts = 0;
    while (o->n_counts < MAX_COUNTS) {
        char *end;
        o->workers[o->n_counts++] = (int)strtol(text, &end, 10);
        if (end == text || (*end != ',' && *end != '\0')) return false;
        if (*end == '\0') return true;
        text = end + 1;
    }
    return false;
}

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--data-dir") == 0) {
            o->data_dir = value;
        } else if (strcmp(name, "--recipe") == 0) {
            o->recipe = value;
        } else if (strcmp(name, "--image-size") == 0) {
            o->image_size = atoll(value);
        } else if (strcmp(name, "--batch") == 0) {
            o->batch = atoll(value);
        } else if (strcmp(name, "--images") == 0) {
            o->images = atoll(value);
        } else if (strcmp(name, "--repeat") == 0) {
            o->repeat = atoi(value);
        } else if (strcmp(name, "--workers") != 0 || !parse_workers(value, o)) {
            return false;
        }
    }
    return argc % 2 == 1 && o->data_dir && o->repeat >= 1 && o->repeat <= MAX_REPEATS &&
           o->images >= 1;
}

static ls_loader_config configure(const options *o, int workers)
{
    ls_loader_config config = { .batch = o->batch, .workers = workers, .crop = o->image_size };
    if (strcmp(o->recipe, "val") == 0) {
        config.resize = o->image_size * 8 / 7;
        return config;
    }
    config.shuffle = true;
    config.flip = 0.5f;
    if (strcmp(o->recipe, "pad") == 0)
        config.crop_padding = 4;
    else
        config.random_resized_crop = true;
    return config;
}

/* Images per second over at least o->images images of one epoch, as far as it goes; 0 on error. */
static double measure(ls_dataset *data, const options *o, int workers)
{
    const ls_loader_config config = configure(o, workers);
    ls_loader *loader = ls_loader_open(data, &config);
    if (!loader) return 0;
    int64_t n = 0;
    const double begin = bench_now();
    ls_loader_start(loader, 0);
    for (ls_batch batch; n < o->images && ls_loader_next(loader, &batch);) n += batch.n;
    const double seconds = bench_now() - begin;
    const ls_status status = ls_loader_status(loader);
    ls_loader_close(&loader);
    return status == LS_OK ? (double)n / seconds : 0;
}

static int run(ls_context *ctx, const options *o)
{
    double rates[MAX_COUNTS][MAX_REPEATS];
    ls_dataset *data = ls_image_folder_open(ctx, o->data_dir);
    measure(data, o, 0);
    for (int r = 0; r < o->repeat; r++)
        for (int i = 0; i < o->n_counts; i++) rates[i][r] = measure(data, o, o->workers[i]);
    if (ls_context_status(ctx) != LS_OK) return fail(ls_context_message(ctx));

    printf("{\"bench\": \"load\", \"recipe\": \"%s\", \"image_size\": %lld, \"batch\": %lld, "
           "\"results\": [",
           o->recipe, (long long)o->image_size, (long long)o->batch);
    for (int i = 0; i < o->n_counts; i++) {
        bench_sort(rates[i], o->repeat);
        printf("%s{\"workers\": %d, \"images_per_second\": %.1f}", i ? ", " : "", o->workers[i],
               rates[i][o->repeat / 2]);
    }
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    options o = { .recipe = "rrc",
                  .image_size = 224,
                  .batch = 64,
                  .images = 1024,
                  .repeat = 3,
                  .n_counts = 3,
                  .workers = { 0, 1, 2 } };
    if (!parse(argc, argv, &o))
        return fail("usage: bench_load --data-dir DIR [--image-size S] [--recipe rrc|pad|val] "
                    "[--batch N] [--workers 0,1,2] [--images N] [--repeat N]");
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const int code = run(ctx, &o);
    ls_context_close(&ctx);
    return code;
}
