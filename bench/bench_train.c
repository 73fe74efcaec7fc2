/* bench_train.c: the cost of reading images in training. Blocks of steps on batches from a folder
 * of images, and blocks of steps on one random batch, take turns with one net. One JSON line:
 *
 *   bench_train --data-dir FOLDER --model resnet18 --image-size 32 --batch 128 --workers 1
 *
 * A block from the folder begins without prefetched batches, and ends with a full prefetch queue.
 * Images are cropped at random from a padded image and flipped, or with --rrc by random resized
 * crop.
 *
 *   images_per_second, synthetic     medians of the blocks
 *   ratio                            of these two, with the least and the largest of any round */
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const ls_model *model;
    const char *data_dir;
    int64_t image_size, batch, workers, threads, steps, rounds;
    bool rrc;
} options;

static ls_loader *open_loader(const options *o, ls_dataset *data)
{
    ls_loader_config config = { .batch_size = o->batch,
                                .workers = (int)o->workers,
                                .shuffle = true,
                                .drop_last = true,
                                .crop = o->image_size,
                                .random_resized_crop = o->rrc,
                                .flip_probability = 0.5f };
    if (!o->rrc) config.crop_padding = o->image_size / 8;
    return ls_loader_open(data, &config);
}

/* A block's images per second; loader NULL = the random batch. */
static ls_status run_block(const options *o, bench_work *work, ls_loader *loader, int64_t epoch,
                           double *rate)
{
    ls_batch batch = work->batch;
    double loss;
    const double start = bench_now();
    if (loader) LS_TRY(ls_loader_start(loader, epoch));
    for (int64_t i = 0; i < o->steps; i++) {
        if (loader && !ls_loader_next(loader, &batch)) return ls_loader_status(loader);
        LS_TRY(ls_net_step(work->net, work->opt, &batch, 0.01));
    }
    LS_TRY(ls_net_loss(work->net, &loss));
    *rate = (double)(o->steps * o->batch) / (bench_now() - start);
    return LS_OK;
}

static ls_status run(const options *o, bench_work *work, double *real, double *synthetic)
{
    work->ctx = ls_context_open(&(ls_context_config){ .threads = (int)o->threads });
    ls_dataset *data = ls_image_folder_open(work->ctx, o->data_dir);
    ls_loader *loader = open_loader(o, data);
    LS_TRY(ls_context_status(work->ctx));
    if (ls_loader_step_count(loader) < o->steps) {
        fprintf(stderr, "bench_train: %s has images for %lld steps only\n", o->data_dir,
                (long long)ls_loader_step_count(loader));
        return LS_ERR_INVALID;
    }
    LS_TRY(bench_open_work(work, o->model, o->batch, o->image_size, ls_dataset_class_count(data)));
    double warm; /* the net, its arena and the page cache */
    LS_TRY(run_block(o, work, loader, 0, &warm));
    for (int64_t r = 0; r < o->rounds; r++) {
        LS_TRY(run_block(o, work, NULL, 0, &synthetic[r]));
        LS_TRY(run_block(o, work, loader, r + 1, &real[r]));
    }
    return LS_OK;
}

static void print_result(const options *o, const bench_work *work, double *real, double *synthetic)
{
    double min_ratio = real[0] / synthetic[0], max_ratio = min_ratio;
    for (int64_t r = 1; r < o->rounds; r++) {
        const double ratio = real[r] / synthetic[r];
        if (ratio < min_ratio) min_ratio = ratio;
        if (ratio > max_ratio) max_ratio = ratio;
    }
    bench_sort(real, o->rounds);
    bench_sort(synthetic, o->rounds);
    const double rate = bench_quantile(real, o->rounds, 0.5);
    const double other = bench_quantile(synthetic, o->rounds, 0.5);
    printf("{\"bench\": \"train\", \"model\": \"%s\", \"image_size\": %lld, \"batch\": %lld, "
           "\"recipe\": \"%s\", \"threads\": %d, \"workers\": %d, \"steps\": %lld, "
           "\"rounds\": %lld, \"images_per_second\": %.2f, \"synthetic\": %.2f, "
           "\"ratio\": {\"median\": %.4f, \"least\": %.4f, \"largest\": %.4f}, "
           "\"device\": \"%s\"}\n",
           o->model->name, (long long)o->image_size, (long long)o->batch, o->rrc ? "rrc" : "pad",
           ls_context_thread_count(work->ctx), (int)o->workers, (long long)o->steps,
           (long long)o->rounds, rate, other, rate / other, min_ratio, max_ratio,
           ls_context_device(work->ctx));
}

int main(int argc, char **argv)
{
    options o = { .model = ls_model_find("resnet18"),
                  .image_size = 32,
                  .batch = 128,
                  .workers = 1,
                  .steps = 4,
                  .rounds = 5 };
    const bench_option table[] = {
        { "--data-dir", BENCH_TEXT, &o.data_dir, "folder of images, or a pack; needed" },
        { "--model", BENCH_MODEL, &o.model, "a bundled model" },
        { "--image-size", BENCH_NUMBER, &o.image_size, "pixels of a side" },
        { "--batch", BENCH_NUMBER, &o.batch, "images" },
        { "--rrc", BENCH_FLAG, &o.rrc, "random resized crop in place of a crop from padded" },
        { "--workers", BENCH_COUNT, &o.workers,
          "threads that read images; 0: the calling one does" },
        { "--threads", BENCH_COUNT, &o.threads, "of the CPU; without it, or 0, all" },
        { "--steps", BENCH_NUMBER, &o.steps, "of a block" },
        { "--rounds", BENCH_NUMBER, &o.rounds, "blocks of either kind" },
        { 0 },
    };
    if (!bench_options(argc, argv, table)) return 2;
    if (!o.data_dir) {
        fprintf(stderr, "bench_train: --data-dir is missing\n");
        return 2;
    }
    double *real = calloc((size_t)o.rounds, sizeof *real);
    double *synthetic = calloc((size_t)o.rounds, sizeof *synthetic);
    bench_work work = { .steps = 0 };
    ls_status status = LS_ERR_MEMORY;
    if (real && synthetic) status = run(&o, &work, real, synthetic);
    if (status == LS_OK) print_result(&o, &work, real, synthetic);
    bench_report("bench_train", work.ctx);
    ls_context_close(&work.ctx);
    free(real);
    free(synthetic);
    return status == LS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
