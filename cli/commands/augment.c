/* augment.c: 'lockstep augment': an image of the training images as the model receives them. */
#include "runs/runs.h"
#include "commands/write_image.h"
#include <stdlib.h>
#include <string.h>

typedef struct augment_values {
    const char *grid;
    int64_t variants;
} augment_values;

/* ---- Options: those of the grid, then those of `lockstep train` that its images depend on ---- */

#define AT(member) offsetof(augment_values, member)

static const ls_setting own_options[] = {
    { LS_SETTING_HEADING, .help = "Grid:" },
    { LS_SETTING_TEXT, 0, "grid", AT(grid),
      "PNG file to write; replaces an older grid, but no other file", "FILE", .note = "required",
      .usual = true },
    { LS_SETTING_INTEGER, 'b', "batch-size", LS_SETTING_UNSTORED,
      "number of images, from the beginning of the first epoch; at most all", "N", 1, 1e5,
      .fallback = "64", .usual = true },
    { LS_SETTING_INTEGER, 0, "variants", AT(variants),
      "show each image as the first N epochs transform it, one row per image", "N", 1, 1e5,
      .fallback = "1", .usual = true },
    { .kind = LS_SETTING_END },
};

static bool changes_images(const ls_setting *option)
{
    return option->images;
}

/* ---- The grid ---- */

typedef struct grid {
    ls_size image;
    int64_t columns, rows;
    int64_t width, height;
    uint8_t *pixels; /* [height][width][3] */
} grid;

enum { GAP = 2 }; /* white pixels between images */

/* Variants are in a row; else the images fill the rows of a square. Returns the exit status. */
static int open_grid(grid *g, ls_size image, int64_t n, int64_t variants)
{
    int64_t root = 1;
    while (root * root < n) root++;
    *g = (grid){ .image = image, .columns = variants > 1 ? variants : root };
    g->rows = variants > 1 ? n : (n + root - 1) / root;
    g->width = g->columns * (image.width + GAP) - GAP;
    g->height = g->rows * (image.height + GAP) - GAP;
    if (g->height > LS_LARGEST_MAX_PIXELS / g->width)
        return fail_with(LS_EXIT_USAGE,
                         "the grid has %lld x %lld pixels: expected at most %d; use a smaller -b, "
                         "--variants or --image-size",
                         (long long)g->width, (long long)g->height, LS_LARGEST_MAX_PIXELS);
    const size_t n_bytes = (size_t)(g->width * g->height * 3);
    g->pixels = malloc(n_bytes);
    if (!g->pixels) return print_error(NULL, LS_EXIT_RUNTIME);
    memset(g->pixels, 255, n_bytes);
    return LS_EXIT_DONE;
}

/* Image i of a batch, at a place counted row by row. */
static void put_image(grid *g, int64_t place, const ls_batch *batch, int64_t i)
{
    const ls_shape *shape = ls_tensor_shape(batch->images);
    const int64_t channels = shape->dims[3];
    const int64_t height = g->image.height, width = g->image.width;
    const uint8_t *from =
        (const uint8_t *)ls_tensor_data_const(batch->images) + i * height * width * channels;
    const int64_t top = place / g->columns * (height + GAP);
    const int64_t left = place % g->columns * (width + GAP);
    for (int64_t y = 0; y < height; y++) {
        uint8_t *to = g->pixels + ((top + y) * g->width + left) * 3;
        for (int64_t x = 0; x < width; x++, from += channels)
            for (int64_t c = 0; c < 3; c++) to[3 * x + c] = from[channels == 3 ? c : 0];
    }
}

/* The images of the first batch in later epochs. A sample's transforms are keyed by its number and
 * the epoch, so a loader without shuffling gives the same pixels; of a balanced sampler, those of
 * the sample's first draw. */
static ls_status put_variants(ls_dataset *data, ls_loader_config config, grid *g, int64_t n,
                              const int64_t *samples)
{
    config.batch_size = 1;
    config.workers = 0;
    config.shuffle = config.drop_last = false;
    config.sampler = LS_SAMPLER_ALL;
    ls_loader *loader = ls_loader_open(data, &config);
    ls_status status = ls_loader_start(loader, 0);
    for (int64_t place = 0; place < n * g->columns && status == LS_OK; place++) {
        const int64_t image = place / g->columns, epoch = place % g->columns;
        if (epoch == 0) continue;
        ls_batch batch;
        status = ls_loader_start_at(loader, epoch, samples[image]);
        if (status == LS_OK && !ls_loader_next(loader, &batch)) status = ls_loader_status(loader);
        if (status == LS_OK) put_image(g, place, &batch, 0);
    }
    ls_loader_close(&loader);
    return status;
}

static int draw(const ls_run *run, const augment_values *v)
{
    grid g = { 0 };
    ls_batch batch;
    ls_context *ctx = ls_run_context(run);
    ls_dataset *data = ls_run_train_dataset(run);
    ls_loader_config config = ls_run_train_loader_config(run);
    const int64_t n_samples = ls_dataset_sample_count(data);
    if (config.batch_size > n_samples) config.batch_size = n_samples;
    /* Before an image is loaded, so that a grid that is too large fails at once. */
    int exit_status =
        open_grid(&g, (ls_size){ config.crop, config.crop_width }, config.batch_size, v->variants);
    if (exit_status != LS_EXIT_DONE) return exit_status;
    ls_loader *loader = ls_loader_open(data, &config);
    if (ls_loader_start(loader, 0) != LS_OK || !ls_loader_next(loader, &batch)) {
        free(g.pixels);
        return print_loader_error(ctx, "epoch");
    }
    for (int64_t i = 0; i < batch.n; i++) put_image(&g, i * v->variants, &batch, i);
    if (v->variants > 1 && put_variants(data, config, &g, batch.n, batch.samples) != LS_OK)
        exit_status = print_loader_error(ctx, NULL);
    if (exit_status == LS_EXIT_DONE && !write_grid(v->grid, (int)g.width, (int)g.height, g.pixels))
        exit_status = fail_errno(v->grid);
    if (exit_status == LS_EXIT_DONE)
        print_text(stdout, "%s: %lld image%s of %lld x %lld pixels\n", v->grid,
                   (long long)(batch.n * v->variants), plural(batch.n * v->variants),
                   (long long)g.image.width, (long long)g.image.height);
    free(g.pixels);
    return exit_status;
}

/* Whether the grid can be drawn, by the values of the settings; else prints why not. */
static bool can_draw(const ls_run *run, const augment_values *v)
{
    if (v->variants > 1 && ls_run_number(run, "seeding") == LS_SEED_BY_WORKER)
        return fail_with(false, "--variants requires --seeding sample");
    if (v->variants > 1 &&
        (ls_run_number(run, "mixup-alpha") > 0 || ls_run_number(run, "cutmix-alpha") > 0))
        return fail_with(false, "--variants draws each image alone, but --mixup-alpha and "
                                "--cutmix-alpha mix the images of a batch: omit one of them");
    return true;
}

static int run(const cli_parsed *parsed, void *values)
{
    augment_values *v = values;
    if (!v->grid) return fail_with(LS_EXIT_USAGE, "--grid FILE is required");
    if (!ends_with(v->grid, ".png") || strcmp(v->grid, ".png") == 0)
        return fail_with(LS_EXIT_USAGE, "--grid %s: expected a name that ends with .png", v->grid);
    if (path_exists(v->grid) && !(is_file(v->grid) && is_grid(v->grid)))
        return fail_with(
            LS_EXIT_USAGE,
            "--grid %s: already exists and is not a grid of 'lockstep augment'; choose "
            "another name",
            v->grid);
    cli_run r = { .parsed = parsed };
    int exit_status = open_run(&r, NULL, NULL, LS_RUN_IMAGES, true);
    if (exit_status == LS_EXIT_DONE)
        exit_status = can_draw(r.run, v) ? draw(r.run, v) : LS_EXIT_USAGE;
    ls_run_close(&r.run);
    return exit_status;
}

const cli_command command_augment = {
    .name = "augment",
    .summary = "draw training images as the model receives them",
    .arguments = "",
    .details =
        "The grid shows the pixels before normalization. With the options of 'lockstep "
        "train' that change images, its images are those of the run's first steps, in "
        "order; with --mixup-alpha or --cutmix-alpha only if --batch-size is the run's, with "
        "--seeding worker only if --workers is, too.",
    .values_bytes = sizeof(augment_values),
    .options = own_options,
    .settings = ls_run_settings,
    .selects = changes_images,
    .reads_runs = true,
    .run = run,
};
