/* test_augment_command.c: the grid of 'lockstep augment' holds the batches of the training loader.
 */
#include "command.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <string.h>

enum { SIDE = 16, GAP = 2, N = 7, SEED = 5 };

#define OPTIONS                                                                                    \
    "--data-dir data --image-size 16 --seed 5 --auto-augment rand --hue 0.2 --random-erase 0.5 "   \
    "--vertical-flip 0.5 "

static const ls_loader_config training = { .batch_size = N,
                                           .shuffle = true,
                                           .drop_last = true,
                                           .resize = SIDE,
                                           .crop = SIDE,
                                           .crop_padding = 4,
                                           .flip_probability = 0.5f,
                                           .vertical_flip_probability = 0.5f,
                                           .auto_augment = LS_AUTO_AUGMENT_RAND,
                                           .hue = 0.2f,
                                           .random_erase = 0.5f };

/* Image i of the batch is at (row, column) of the grid. */
static void expect_image(const ls_tensor *grid, int row, int column, const ls_batch *batch,
                         int64_t i)
{
    const int64_t width = ls_tensor_shape(grid)->dims[1];
    const uint8_t *pixels = ls_tensor_data_const(grid);
    const uint8_t *images = ls_tensor_data_const(batch->images);
    for (int y = 0; y < SIDE; y++)
        ck_assert_mem_eq(pixels + ((row * (SIDE + GAP) + y) * width + column * (SIDE + GAP)) * 3,
                         images + (i * SIDE + y) * SIDE * 3, SIDE * 3);
}

static ls_tensor *load_grid(ls_context *ctx, const char *path, int rows, int columns)
{
    ls_tensor *grid = ls_image_load(ctx, path, false);
    ck_assert_msg(grid, "%s", ls_context_message(ctx));
    ck_assert(ls_shape_equal(ls_tensor_shape(grid), &LS_SHAPE(rows * (SIDE + GAP) - GAP,
                                                              columns * (SIDE + GAP) - GAP, 3)));
    return grid;
}

START_TEST(the_grid_holds_what_training_loads)
{
    enum { N_VARIANTS = 3 };
    begin_folder();
    expect(0, "demo-data data --train 3 --val 1");
    expect(0, "augment " OPTIONS "-b 7 --grid batch.png -j 2");
    expect_out("batch.png: 7 images of 16 x 16 pixels\n");
    expect(0, "augment " OPTIONS "-b 7 --grid variants.png --variants 3");
    expect_out("variants.png: 21 images of 16 x 16 pixels\n");
    expect(0, "augment " OPTIONS "-b 7 --grid balanced.png --variants 3 --sampler balanced");
    expect_out("balanced.png: 21 images of 16 x 16 pixels\n");
    expect(0, "augment " OPTIONS "-b 4 --grid worker.png --seeding worker -j 1 --mixup-alpha 1");

    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = SEED, .threads = 1 });
    ls_dataset *data = ls_image_folder_open(ctx, "data/train");
    ls_loader *loader = ls_loader_open(data, &training);
    ls_tensor *batch_grid = load_grid(ctx, "batch.png", 3, 3);
    ls_tensor *variants = load_grid(ctx, "variants.png", N, N_VARIANTS);
    int64_t samples[N];
    int n_found = 0;
    for (int epoch = 0; epoch < N_VARIANTS; epoch++) {
        ck_assert_int_eq(ls_loader_start(loader, epoch), LS_OK);
        for (ls_batch batch; ls_loader_next(loader, &batch);)
            for (int64_t i = 0; i < N; i++) {
                if (batch.step == 0 && epoch == 0) {
                    samples[i] = batch.samples[i];
                    expect_image(batch_grid, (int)i / 3, (int)i % 3, &batch, i);
                }
                for (int row = 0; row < N; row++)
                    if ((epoch > 0 || batch.step == 0) && samples[row] == batch.samples[i]) {
                        expect_image(variants, row, epoch, &batch, i);
                        n_found++;
                    }
            }
    }
    /* Of 30 images 28 are in an epoch. */
    ck_assert_int_ge(n_found, N * N_VARIANTS - 4);

    ls_loader_config by_worker = training;
    by_worker.batch_size = 4;
    by_worker.workers = 1;
    by_worker.seeding = LS_SEED_BY_WORKER;
    by_worker.mixup_alpha = 1;
    ls_batch batch;
    loader = ls_loader_open(data, &by_worker);
    ck_assert(ls_loader_start(loader, 0) == LS_OK && ls_loader_next(loader, &batch));
    ls_tensor *worker_grid = load_grid(ctx, "worker.png", 2, 2);
    for (int i = 0; i < 4; i++) expect_image(worker_grid, i / 2, i % 2, &batch, i);
    ls_context_close(&ctx);
    end_folder();
}
END_TEST

START_TEST(misuse)
{
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 2, "--grid g.png", "--data-dir DIR is required" },
        { 2, "--data-dir data", "--grid FILE is required" },
        { 2, "--data-dir data --grid data.jpg",
          "--grid data.jpg: expected a name that ends with .png" },
        { 2, "--data-dir data --grid .png", "--grid .png: expected a name" },
        { 2, "--data-dir data --grid g.png --variants 2 --seeding worker",
          "--variants requires --seeding sample" },
        { 2, "--data-dir data --grid g.png --variants 2 --cutmix-alpha 1",
          "--variants draws each image alone" },
        { 2, "--data-dir data --grid g.png --hue 0.7", "--hue" },
        { 2, "--data-dir data --grid g.png --scale-min 0.5", "--scale-min has no effect here" },
        { 2, "--data-dir data --grid g.png --lr 1", "unknown option '--lr'" },
        { 2, "--data-dir data --grid g.png --no-val", "unknown option '--no-val'" },
        { 2, "--data-dir data --grid g.png --digest-contents", "unknown option '--digest" },
        { 2, "--data-dir data --grid photo.png",
          "--grid photo.png: already exists and is not a grid of 'lockstep augment'" },
        { 2, "--data-dir data --grid short.png", "--grid short.png: already exists" },
        { 2, "--data-dir data --grid folder.png", "--grid folder.png: already exists" },
        { 3, "--data-dir none --grid g.png", "none: no such folder" },
        { 1, "--data-dir data -b 4 --grid none/g.png", "none/g.png: No such file or directory" },
        { 2, "--data-dir data -b 30 --variants 100000 --image-size 32 --grid g.png",
          "the grid has 3399998 x 1018 pixels: expected at most 268435455; use a smaller -b, "
          "--variants or --image-size" },
        /* before an image is loaded */
        { 2, "--data-dir bad --variants 100000 --image-size 4096 --grid g.png",
          "the grid has 409799998 x 8194 pixels" },
    };
    begin_folder();
    expect(0, "demo-data data --train 3 --val 1");
    write_text(
        "photo.png",
        "longer than the header of a PNG and the chunk that marks a grid of images, but not one");
    write_text("short.png", "\x89PNG");
    for (int i = 0; i < 2; i++) {
        if (i == 0) make_folder("bad");
        if (i == 0) make_folder("bad/train");
        make_folder(i ? "bad/train/b" : "bad/train/a");
        write_text(i ? "bad/train/b/1.png" : "bad/train/a/1.png", "no image");
    }
    make_folder("folder.png");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(cases[i].status, "augment %s", cases[i].line);
        expect_err(cases[i].said);
        ck_assert(!exists("g.png"));
    }
    end_folder();
}
END_TEST

/* All that it requires is some training images; it draws another grid over its own. */
START_TEST(few_images_without_validation)
{
    begin_folder();
    expect(0, "demo-data data --train 3 --val 1");
    remove_folder(strdup("data/val"));
    expect(0, "augment --data-dir data --grid g.png");
    expect_out("g.png: 30 images of 32 x 32 pixels\n");
    expect(0, "augment --data-dir data/train --val-split 0.4 --grid g.png");
    expect_out("g.png: 20 images of 32 x 32 pixels\n");
    expect(0, "augment --help");
    ck_assert(!strstr(said_out, "--no-val ") && strstr(said_out, "Model:\n"));
    end_folder();
}
END_TEST

TEST_PROGRAM(augment_command)
{
    return RUN_SUITE("augment command", the_grid_holds_what_training_loads, misuse,
                     few_images_without_validation);
}
