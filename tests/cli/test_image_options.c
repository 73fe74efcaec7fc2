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

/* One step of a tiny model on any folder of classes. */
#define ANY                                                                                        \
    "train --val-split 0.5 --model mlp --epochs 1 -b 4 -j 1 --threads 1 --no-report --steps 1 "

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

static int64_t setting_of_alpha(const char *run, const char *name)
{
    json_t *identity = read_identity(path_in(run, "manifest.json"));
    const json_t *loader = json_object_get(identity, "loader"),
                 *found = json_object_get(loader, name);
    const int64_t out = json_integer_value(found);
    json_decref(identity);
    return out;
}

START_TEST(alpha_belongs_to_the_identity)
{
    begin_folder();
    write_images("png");
    expect(0, TINY "--steps 2 --alpha ignore --out ignored");
    expect(0, TINY "--steps 2 --out white");
    ck_assert(!same_files("white/run_log.txt", "ignored/run_log.txt"));
    ck_assert_int_eq(setting_of_alpha("white", "alpha_white"), 1);
    ck_assert_int_eq(setting_of_alpha("ignored", "alpha_white"), 0);
    char *file = read_file("ignored/last.safetensors", &(size_t){ 0 });
    ck_assert_ptr_null(strstr(file + 8, "\"alpha\"")); /* after the header's size */
    free(file);
    ls_context *ctx = ls_context_open(NULL);
    ls_saved_model *saved = ls_saved_model_open(ctx, "ignored/last.safetensors");
    ck_assert_ptr_nonnull(saved);
    ck_assert_int_eq(ls_saved_model_info(saved).alpha, LS_ALPHA_IGNORE);
    ls_context_close(&ctx);
    ck_assert_int_eq(system("rm -r data"), 0);
    write_images("pgm"); /* opaque images do not depend on it */
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

static void make_classes(const char *name)
{
    make_folder(name);
    make_folder(path_in(name, "a"));
    make_folder(path_in(name, "b"));
}

/* Of two classes, each with 16 images of a size. */
static void write_sized(const char *name, int height, int width)
{
    make_classes(name);
    for (int i = 0; i < 32; i++) {
        uint8_t *pixels = draw_image(height, width, 3, (unsigned)i);
        write_png(path_in(name, "%c/%d.png", i % 2 ? 'a' : 'b', i), height, width, 3, pixels);
        free(pixels);
    }
}

/* What 'lockstep check' says of the whole folder, before the first step. */
START_TEST(images_that_a_crop_cuts)
{
    static const char said[] =
        "the centre crop leaves out more than 37 % of 15 of 15 training images examined (median";
    static const struct {
        const char *options;
        bool cuts;
    } cases[] = {
        { "--image-size 8", true },
        { "--image-size 8 --resize pad", false },
        { "--image-size 8 --resize stretch", false },
        { "--image-size 8x24", false },
        { "--image-size 24x8", true },
        { "--image-size 8x16", false }, /* two thirds are left */
    };
    begin_folder();
    write_sized("wide", 10, 30);
    write_sized("square", 10, 12);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(0, ANY "--data-dir wide --out run%d %s", (int)i, cases[i].options);
        ck_assert_msg(!strstr(said_err, said) == !cases[i].cuts, "%s: %s", cases[i].options,
                      said_err);
    }
    expect(0, ANY "--data-dir square --out square1 --image-size 8");
    ck_assert_ptr_null(strstr(said_err, "crop"));
    expect(0, ANY "--data-dir square --out square2 --image-size 8x24");
    expect_err("training images examined (median 60 %): --resize pad or ");
    run_command("lr-find --data-dir wide --val-split 0.5 --model mlp --image-size 8 -b 4 -j 1 "
                "--threads 1 --steps 10");
    expect_err("(median 66 %): --resize pad or --resize stretch uses the whole image");
    write_text("a.sweep", "method = grid\n[train]\ndata-dir = wide\nval-split = 0.5\nmodel = "
                          "mlp\nimage-size = 8\nbatch-size = 4\nepochs = 1\nworkers = 1\nthreads "
                          "= 1\n[search]\nlr = 0.1\n");
    expect(0, "sweep a.sweep");
    expect_err("(median 66 %)");
    expect(0, "sweep a.sweep");
    ck_assert_ptr_null(strstr(said_err, "typically"));
    end_folder();
}
END_TEST

/* The side that decides the scale is that of the resize. */
START_TEST(sizes_far_from_those_of_the_images)
{
    begin_folder();
    write_sized("wide", 10, 40);
    expect(0, ANY "--data-dir wide --out crop --image-size 48");
    expect_err("much smaller than --image-size 48 (median shorter side of 15 images: 10 pixels)");
    expect(0, ANY "--data-dir wide --out pad --image-size 48 --resize pad");
    ck_assert_ptr_null(strstr(said_err, "much"));
    expect(0, ANY "--data-dir wide --out both --image-size 48x192");
    expect_err("much smaller than --image-size 48x192 (median side that decides the scale of 15 "
               "images: 10 pixels)");
    expect_err("--image-size 32x128 may do");
    expect(0, ANY "--data-dir wide --out upright --image-size 48x8"); /* enlarged by the height */
    ck_assert_ptr_null(strstr(said_err, "much"));
    write_sized("tall", 80, 40);
    expect(0, ANY "--data-dir tall --out large --image-size 16x8");
    expect_err("much larger than --image-size 16x8 (median side that decides the scale of 15 ");
    expect_err("--model resnet18 --image-size 256x128\n");
    end_folder();
}
END_TEST

START_TEST(images_of_one_colour)
{
    begin_folder();
    make_classes("data");
    for (int i = 0; i < 8; i++) {
        uint8_t pixels[8 * 8 * 4];
        memset(pixels, 255, sizeof(pixels));
        for (int k = 0; k < 32; k++) pixels[4 * (k + 4 * i) + 3] = 0;
        write_png(path_in("data", "%c/%d.png", i % 2 ? 'a' : 'b', i), 8, 8, 4, pixels);
    }
    expect(0, ANY "--data-dir data --out white --image-size 8 -b 2");
    expect_err("4 of 4 training images examined have one colour when they are composed on white, "
               "because their shapes are in alpha: --alpha black shows 4 of them\n");
    expect(0, ANY "--data-dir data --out black --image-size 8 -b 2 --alpha black");
    ck_assert_ptr_null(strstr(said_err, "one colour"));
    expect(1, "check data --json");
    json_t *report = json_loads(said_out, 0, NULL);
    int n_uniform = 0;
    size_t i;
    json_t *finding;
    json_array_foreach(json_object_get(report, "findings"), i, finding) n_uniform +=
        strcmp(json_string_value(json_object_get(finding, "kind")), "uniform") == 0;
    ck_assert_int_eq(n_uniform, 8);
    ck_assert_ptr_nonnull(json_object_get(json_object_get(report, "advice"), "uniform"));
    json_decref(report);
    end_folder();
}
END_TEST

/* 16 bits of which the range is one grey, and options without an effect. */
START_TEST(options_that_change_nothing)
{
    begin_folder();
    write_sized("data", 8, 8);
    expect(0, ANY "--data-dir data --out depth --image-size 8 --depth 12");
    expect_err("note: --depth 12 changes nothing in the 15 training images examined");
    expect(0, ANY "--data-dir data --out alpha --image-size 8 --alpha black");
    expect_err("note: --alpha black changes nothing in the 15 training images examined");
    expect(0, ANY "--data-dir data --out neither --image-size 8");
    ck_assert_ptr_null(strstr(said_err, "changes nothing"));
    make_classes("deep");
    for (int i = 0; i < 4; i++) {
        uint8_t file[13 + 128] = "P5 8 8 65535 ";
        for (int k = 0; k < 64; k++) file[13 + 2 * k] = (uint8_t)(200 + k % 2);
        write_file(path_in("deep", "%c/%d.pgm", i % 2 ? 'a' : 'b', i), file, sizeof(file));
    }
    expect(0, ANY "--data-dir deep --out deep1 --image-size 8 -b 2");
    expect_err("use 51200 to 51456 only, which are one grey with any --depth");
    expect(0, ANY "--data-dir deep --out deep2 --image-size 8 -b 2 --depth 16");
    ck_assert_ptr_null(strstr(said_err, "changes nothing"));
    end_folder();
}
END_TEST

TEST_PROGRAM(image_options)
{
    return RUN_SUITE("image_options", sizes_that_are_not_square, wrong_sizes, sizes_in_files,
                     transparent_images, alpha_belongs_to_the_identity, images_of_16_bits,
                     images_that_a_crop_cuts, sizes_far_from_those_of_the_images,
                     images_of_one_colour, options_that_change_nothing);
}
