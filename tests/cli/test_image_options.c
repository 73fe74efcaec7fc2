/* test_image_options.c: options for the shapes of images, transparency and 16 bits: the same in
 * training, evaluation, prediction, packs and when a run is resumed. */
#include "command.h"
#include "run_files.h"

#include "../data/support.h"
#include <stdlib.h>
#include <string.h>

#define TRAIN                                                                                      \
    "train --data-dir data --model mlp --image-size 8x16 --epochs 2 -b 8 -j 1 --threads 1 "        \
    "--no-report "

START_TEST(sizes_that_are_not_square)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN "--resize pad --out run --stop-at 1");
    expect_out("images of 8x16, padded");
    char *config = read_file("run/config.json", &(size_t){ 0 });
    ck_assert_ptr_nonnull(strstr(config, "\"image-size\": \"8x16\""));
    ck_assert_ptr_nonnull(strstr(config, "\"resize\": \"pad\""));
    ck_assert_ptr_nonnull(strstr(config, "\"crop-padding\": 0"));
    free(config);
    expect(0, "train --recipe small --data-dir data --model mlp -b 8 --resize pad --epochs 1 "
              "--threads 1 --no-report --stop-at 1 --out small");
    config = read_file("small/config.json", &(size_t){ 0 });
    ck_assert_ptr_nonnull(strstr(config, "\"scale-min\": 1.0"));
    free(config);
    expect(2, "train --resume run --image-size 8");
    expect_err("--image-size can't be changed on resume: the run has \"8x16\" (run/config.json)");
    expect(2, "train --resume run --resize stretch");
    expect_err("--resize can't be changed on resume: the run has \"pad\"");
    expect(0, "train --resume run --image-size 8x16");

    /* The same from a config.json, without an interruption. */
    expect(0, "train --config run/config.json --out again");
    ck_assert(same_files("run/run_log.txt", "again/run_log.txt"));
    expect(0, "eval --checkpoint run --data-dir data");
    expect(0, "predict --checkpoint run data/val");
    expect(0, "augment --config run/config.json -b 4 --grid grid.png");
    expect_out("grid.png: 4 images of 16 x 8 pixels");
    expect(0, "describe --model mlp --image-size 8x16 -b 1");
    expect(0, "export --checkpoint run --out out.safetensors");
    expect(0, "predict --checkpoint out.safetensors data/val");
    expect(0, TRAIN "--image-size 8x8 --steps 1 --out square"); /* a number, as of older versions */
    config = read_file("square/config.json", &(size_t){ 0 });
    ck_assert_ptr_nonnull(strstr(config, "\"image-size\": 8,"));
    free(config);
    end_folder();
}
END_TEST

START_TEST(wrong_sizes)
{
    static const char *const sizes[] = { "7",     "4097", "8x",   "x8",  "8x7",
                                         "8x8x8", "8X8",  "0x10", "-8x8" };
    begin_folder();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        expect(2, "train --data-dir data --image-size=%s", sizes[i]);
        expect_err("--image-size: expected N or HEIGHTxWIDTH, integers from 8 to 4096, got '");
    }
    expect(2, "train --data-dir data --resize fit");
    expect_err("--resize: expected one of crop|pad|stretch, got 'fit'");
    expect(2, "eval --checkpoint x --data-dir data --resize pad");
    expect_err("--resize has no effect here: it requires --model");
    expect(0, "demo-data data --train 8 --val 2");
    expect(1, "train --data-dir data --model lenet5 --image-size 11x16 -b 8 --out run");
    expect_err("--image-size is 11x16; the usual size of --model lenet5 is 28");
    end_folder();
}
END_TEST

/* A sweep and a file of settings take both forms. */
START_TEST(sizes_in_files)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    write_text("train.conf", "image-size = 12x8\nresize = stretch\nepochs = 1\nmodel = mlp\n"
                             "batch-size = 8\n");
    expect(0, "train --config train.conf --data-dir data --steps 1 --no-report --out run");
    expect_out("images of 12x8, stretched");
    write_text("a.sweep", "method = grid\nout = a\n[train]\ndata-dir = data\nmodel = mlp\n"
                          "epochs = 1\nbatch-size = 8\nthreads = 1\n[search]\n"
                          "image-size = 8, 8x16\nresize = pad, stretch\n");
    expect(0, "sweep a.sweep");
    expect_out("\n    2        8x16 ");
    write_text("b.sweep", "method = random\ntrials = 2\nout = b\n[train]\ndata-dir = data\n"
                          "model = mlp\nepochs = 1\nbatch-size = 8\nthreads = 1\n[search]\n"
                          "image-size = integer(8, 12)\n");
    expect(0, "sweep b.sweep");
    end_folder();
}
END_TEST

/* Replaces each image by a transparent one of its class's colour, or by one of 16 bits. */
static void write_images(const char *format)
{
    static const char *const splits[] = { "train", "val" };
    ck_assert_int_eq(system("mkdir -p data/train/a data/train/b data/val/a data/val/b"), 0);
    for (int split = 0; split < 2; split++)
        for (int i = 0; i < 16; i++) {
            const char *class = i % 2 ? "a" : "b";
            const char *path = path_in("data", "%s/%s/%d.%s", splits[split], class, i, format);
            if (strcmp(format, "png") == 0) {
                uint8_t pixels[8 * 8 * 4] = { 0 };
                for (int k = 0; k < 64; k++)
                    pixels[4 * k + 3] = (uint8_t)((k < 32) == i % 2 ? 255 : i);
                write_png(path, 8, 8, 4, pixels);
            } else {
                uint8_t file[13 + 128] = "P5 8 8 65535 ";
                for (int k = 0; k < 64; k++)
                    file[13 + 2 * k] = (uint8_t)((k < 32) == i % 2 ? 15 : 3);
                write_file(path, file, sizeof(file));
            }
        }
}

#define TINY                                                                                       \
    "train --data-dir data --model mlp --image-size 8 --epochs 1 -b 8 -j 1 --threads 1 "           \
    "--no-report --steps 1 "

START_TEST(transparent_images)
{
    begin_folder();
    write_images("png");
    expect(0, TINY "--out white");
    expect_err("15 of 15 training images examined have transparent pixels, which are composed on "
               "white (--alpha white|black|ignore)\n");
    expect(0, TINY "--alpha black --out black");
    expect_err("which are composed on black");
    ck_assert(!same_files("white/run_log.txt", "black/run_log.txt"));
    expect(2, "train --resume black --alpha white");
    expect_err("--alpha can't be changed on resume: the run has \"black\"");
    expect(0, "predict --checkpoint black data/val");
    expect(0, "pack data files.pack");
    expect(0, "pack data pixels.pack --raw --alpha black");
    expect(2, "pack data none.pack --alpha black");
    expect_err("--alpha has no effect here: it requires --raw or --resize");
    expect(0, TINY "--data-dir files.pack --alpha black --out of_files");
    expect(0, TINY "--data-dir pixels.pack --alpha black --out of_pixels");
    ck_assert(same_files("of_files/run_log.txt", "black/run_log.txt"));
    ck_assert(same_files("of_pixels/run_log.txt", "black/run_log.txt"));
    ck_assert_int_ne(run_command(TINY "--data-dir pixels.pack --out of_white"), 0);
    expect_err("alpha is white and depth 16, but the pixels of ");
    expect_err("were decoded with alpha black");
    end_folder();
}
END_TEST

/* Removes "alpha": what the run's version, which had no such option, wrote. */
static void remove_alpha(const char *run)
{
    const char *path = path_in(run, "config.json");
    json_t *config = json_load_file(path, 0, NULL);
    ck_assert_int_eq(json_object_del(json_object_get(config, "options"), "alpha"), 0);
    ck_assert_int_eq(json_dump_file(config, path, JSON_INDENT(2)), 0);
    json_decref(config);
}

static int64_t setting_of_alpha(const char *run, const char *name)
{
    json_t *identity = read_identity(path_in(run, "manifest.json"));
    const json_t *loader = json_object_get(identity, "loader"),
                 *found = json_object_get(loader, name);
    const int64_t out = json_integer_value(found);
    json_decref(identity);
    return out;
}

START_TEST(runs_of_older_versions_ignore_alpha)
{
    begin_folder();
    write_images("png");
    expect(0, TINY "--steps 2 --alpha ignore --out whole");
    expect(0, TINY "--steps 2 --alpha ignore --stop-at 1 --out old");
    expect(0, TINY "--steps 2 --out white");
    remove_alpha("old");
    expect(0, "train --resume old");
    ck_assert(same_files("whole/run_log.txt", "old/run_log.txt"));
    ck_assert(!same_files("white/run_log.txt", "old/run_log.txt"));

    ck_assert_int_eq(setting_of_alpha("white", "alpha_white"), 1);
    ck_assert_int_eq(setting_of_alpha("old", "alpha_white"), 0);
    char *file = read_file("old/last.safetensors", &(size_t){ 0 });
    ck_assert_ptr_null(strstr(file + 8, "\"alpha\"")); /* after the header's size */
    free(file);
    ls_context *ctx = ls_context_open(NULL);
    ls_saved_model *saved = ls_saved_model_open(ctx, "old/last.safetensors");
    ck_assert_ptr_nonnull(saved);
    ck_assert_int_eq(ls_saved_model_info(saved).alpha, LS_ALPHA_IGNORE);
    ls_context_close(&ctx);
    ck_assert_int_eq(system("rm -r data"), 0);
    write_images("pgm"); /* opaque: the identity is that of older versions */
    expect(0, TINY "--out opaque");
    ck_assert_int_eq(setting_of_alpha("opaque", "alpha_white"), 0);
    end_folder();
}
END_TEST

START_TEST(images_of_16_bits)
{
    begin_folder();
    write_images("pgm");
    expect(0, TINY "--out dark");
    expect_err("15 of 15 training images examined have samples of 16 bits that use 768 to 3840 "
               "only: they are nearly black; --depth 12 shows their differences\n");
    ck_assert_int_eq(system("for f in data/*/*/*.pgm; do sed -i '1s/65535/04095/' $f; done"), 0);
    expect(0, TINY "--out stated"); /* their maxval states the range */
    ck_assert_ptr_null(strstr(said_err, "16 bits"));
    ck_assert_int_eq(system("rm -r data"), 0);
    write_images("pgm");
    expect(0, TINY "--depth 12 --out range");
    ck_assert_ptr_null(strstr(said_err, "16 bits"));
    ck_assert(!same_files("dark/run_log.txt", "range/run_log.txt"));
    expect(0, "eval --checkpoint range --data-dir data");
    expect(0, TINY "--depth 11 --out low");
    expect_err("samples of 16 bits up to 3840: --depth 11 makes those above 2047 white\n");
    expect(2, TINY "--depth 8 --out none");
    expect_err("--depth: expected an integer from 9 to 16, got '8'");
    expect(2, "train --resume dark --depth 12");
    expect_err("--depth can't be changed on resume: the run has the default, 16 (");
    end_folder();
}
END_TEST

TEST_PROGRAM(image_options)
{
    return RUN_SUITE("image_options", sizes_that_are_not_square, wrong_sizes, sizes_in_files,
                     transparent_images, runs_of_older_versions_ignore_alpha, images_of_16_bits);
}
