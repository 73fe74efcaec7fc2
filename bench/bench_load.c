/* bench_load: the speed of a loader on a folder of images. One JSON line.
 *
 *   bench_load --data-dir DIR [--image-size S] [--recipe rrc|pad|val] [--batch N] [--workers 0,1,2]
 *              [--images N] [--repeat N] [--decode exact|fast]
 *
 * rrc: random resized crop and flip; pad: crop from a padded image and flip; val: resize and
 * centre crop. The numbers of workers take turns. The result is the median of the repeats. The
 * first epoch is not timed, because it reads each file to its end; later ones read only the region
 * that the crop needs. A pass over the images before warms the page cache, so disks are not
 * measured. per_core is per second of processor time of all threads, which depends less on the load
 * of the machine. */
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_COUNTS = 16, MAX_REPEATS = 32 };

typedef struct options {
    const char *data_dir, *recipe, *decode;
    int64_t image_size, batch, images, repeat;
    int n_counts, workers[MAX_COUNTS];
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

static ls_loader_config configure(const options *o, int workers)
{
    ls_loader_config config = { .batch_size = o->batch, .workers = workers, .crop = o->image_size };
    if (strcmp(o->decode, "fast") == 0) config.decode = LS_DECODE_FAST;
    if (strcmp(o->recipe, "val") == 0) {
        config.resize = o->image_size * 8 / 7;
        return config;
    }
    config.shuffle = true;
    config.flip_probability = 0.5f;
    if (strcmp(o->recipe, "pad") == 0)
        config.crop_padding = 4;
    else
        config.random_resized_crop = true;
    return config;
}

typedef struct rate {
    double per_second, per_core;
} rate;

typedef struct side {
    int workers;
    ls_loader *loader;
    rate first; /* of epoch 0 */
    double per_second[MAX_REPEATS], per_core[MAX_REPEATS];
} side;

static double processor_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One epoch, or its first batches with at least this many images. */
static rate measure(ls_loader *loader, int64_t epoch, int64_t images)
{
    int64_t n = 0;
    const double begin = bench_now(), processor = processor_now();
    ls_loader_start(loader, epoch);
    for (ls_batch batch; n < images && ls_loader_next(loader, &batch);) n += batch.n;
    return (rate){ (double)n / (bench_now() - begin), (double)n / (processor_now() - processor) };
}

static void print_side(side *s, int64_t repeat)
{
    bench_sort(s->per_second, repeat);
    bench_sort(s->per_core, repeat);
    printf("{\"workers\": %d, \"images_per_second\": %.1f, \"per_core\": %.1f, "
           "\"first_epoch_images_per_second\": %.1f, \"first_epoch_per_core\": %.1f}",
           s->workers, bench_quantile(s->per_second, repeat, 0.5),
           bench_quantile(s->per_core, repeat, 0.5), s->first.per_second, s->first.per_core);
}

static int run(ls_context *ctx, const options *o)
{
    static side sides[MAX_COUNTS];
    ls_dataset *data = ls_image_folder_open(ctx, o->data_dir);
    const int64_t all = ls_dataset_sample_count(data);
    for (int i = 0; i <= o->n_counts; i++) { /* once more at first, for the page cache */
        side *s = &sides[i ? i - 1 : 0];
        s->workers = o->workers[i ? i - 1 : 0];
        const ls_loader_config config = configure(o, s->workers);
        ls_loader_close(&s->loader);
        s->loader = ls_loader_open(data, &config);
        s->first = measure(s->loader, 0, all);
    }
    for (int r = 0; r < o->repeat; r++)
        for (int i = 0; i < o->n_counts; i++) {
            const rate got = measure(sides[i].loader, 1 + r, o->images);
            sides[i].per_second[r] = got.per_second;
            sides[i].per_core[r] = got.per_core;
        }
    if (ls_context_status(ctx) != LS_OK) return fail(ls_context_message(ctx));

    printf("{\"bench\": \"load\", \"recipe\": \"%s\", \"decode\": \"%s\", \"image_size\": %lld, "
           "\"batch\": %lld, \"results\": [",
           o->recipe, o->decode, (long long)o->image_size, (long long)o->batch);
    for (int i = 0; i < o->n_counts; i++) {
        if (i) printf(", ");
        print_side(&sides[i], o->repeat);
    }
    printf("]}\n");
    return 0;
}

int main(int argc, char **argv)
{
    options o = { .recipe = "rrc",
                  .decode = "exact",
                  .image_size = 224,
                  .batch = 64,
                  .images = 1024,
                  .repeat = 3 };
    const char *workers = "0,1,2";
    const bench_option table[] = {
        { "--data-dir", BENCH_TEXT, &o.data_dir, "folder of images, or a pack; needed" },
        { "--recipe", BENCH_TEXT, &o.recipe,
          "rrc: random resized crop; pad: crop from padded; val: resize, centre crop" },
        { "--decode", BENCH_TEXT, &o.decode, "exact or fast" },
        { "--image-size", BENCH_NUMBER, &o.image_size, "pixels of a side" },
        { "--batch", BENCH_NUMBER, &o.batch, "images" },
        { "--images", BENCH_NUMBER, &o.images, "of an epoch, at most" },
        { "--repeat", BENCH_NUMBER, &o.repeat, "epochs by each number of workers" },
        { "--workers", BENCH_TEXT, &workers,
          "numbers that take turns; 0: the calling thread alone" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    if (!o.data_dir) return fail("--data-dir is missing");
    if (strcmp(o.recipe, "rrc") != 0 && strcmp(o.recipe, "pad") != 0 &&
        strcmp(o.recipe, "val") != 0)
        return fail("--recipe is none of rrc, pad, val");
    if (strcmp(o.decode, "exact") != 0 && strcmp(o.decode, "fast") != 0)
        return fail("--decode is neither exact nor fast");
    if (o.repeat > MAX_REPEATS) return fail("--repeat is more than 32");
    if (!parse_workers(workers, &o)) return fail("--workers is no list of numbers, such as 0,1,2");
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const int code = run(ctx, &o);
    ls_context_close(&ctx);
    return code;
}
