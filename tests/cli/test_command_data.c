/* test_command_data.c: messages about unusable folders and images, and warnings about unusual
 * ones. */
#include "command.h"
#include "one_epoch.h"

#include "../suite.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each test makes "data" unusable in another way. */
START_TEST(unusable_folders)
{
    begin_folder();
    expect(3, TRAIN);
    expect_err("data: no such folder; expected data/train/<class>/<image>");
    mkdir("data", 0777);
    expect(3, TRAIN);
    expect_err("has no folder 'train'; expected data/train/<class>/<image>; for a folder of class "
               "folders add "
               "--val-split 0.2 or --no-val");
    mkdir("data/train", 0777);
    expect(3, TRAIN);
    expect_err("data/train");
    mkdir("data/train/a", 0777);
    expect(3, TRAIN);
    expect_err("data/train");
    expect(0, "demo-data drawn --train 8 --val 2 --seed 3");
    ck_assert_int_eq(system("rm -r data/train/a && cp -r drawn/train/star data/train"), 0);
    expect(3, TRAIN);
    expect_err("expected at least two classes, found one: 'star'");
    ck_assert_int_eq(system("cp -r drawn/train/ring data/train"), 0);
    expect(3, TRAIN);
    expect_err("has no folder 'val', 'validation', 'valid' or 'test'; --val-split 0.2 splits");
    ck_assert_int_eq(system("cp -r drawn/val data/test"), 0);
    expect(3, TRAIN);
    expect_err("arrow"); /* a class that training does not have */
    ck_assert_int_eq(system("rm -r data/test && mkdir data/test && cp -r drawn/val/ring data/test"),
                     0);
    expect(3, TRAIN "-b 17");
    expect_err("16 training images do not fill one batch of 17");
    expect(0, TRAIN);
    expect(0, TRAIN "--no-val --out without");
    end_folder();
}
END_TEST

/* --data-dir names no dataset: the message says what was found and what is expected. */
START_TEST(data_folders_of_the_wrong_kind)
{
    static const struct {
        const char *place, *said;
    } cases[] = {
        { "pipe", "pipe: a pipe; expected a folder or a pack\n" },
        { "/dev/null", "/dev/null: a device; expected a folder or a pack\n" },
        { "image.png", "image.png: a single image; expected a folder or a pack\n" },
        { "notes.md", "file 'notes.md': neither a folder nor a whole pack" },
    };
    begin_folder();
    expect(0, "demo-data data --train 8 --val 1");
    expect(0, TRAIN "--steps 1");
    ck_assert_int_eq(system("cp $(ls data/val/*/*.png | head -1) image.png"), 0);
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    write_text("notes.md", "no pack");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(3, TRAIN "--data-dir %s --out none", cases[i].place);
        expect_err(cases[i].said);
        expect(3, "eval --checkpoint run/last.safetensors --data-dir %s", cases[i].place);
        expect_err(cases[i].said);
        expect(3, "pack %s p", cases[i].place);
        expect_err(cases[i].said);
    }

    /* one level too low */
    expect(3, TRAIN "--data-dir data/train --out none");
    expect_err("data/train: has no folder 'train'; expected data/train/train/<class>/<image>; did "
               "you mean --data-dir data?\n");
    expect(3, TRAIN "--data-dir ./data/train/ --out none");
    expect_err("; did you mean --data-dir ./data?\n");
    ck_assert_int_eq(chdir("data"), 0);
    expect(3, TRAIN "--data-dir train --out none");
    expect_err("; did you mean --data-dir .?\n");
    ck_assert_int_eq(chdir(".."), 0);
    expect(3, TRAIN "--data-dir data/val --out none");
    ck_assert_ptr_null(strstr(said_err, "the folder above"));
    ck_assert(!exists("none") && !exists("p"));
    end_folder();
}
END_TEST

static int count_said(const char *text)
{
    int n = 0;
    for (const char *at = said_err; (at = strstr(at, text)); at++) n++;
    return n;
}

/* Unusual settings give one warning when a run begins. */
START_TEST(warnings_before_training)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1"); /* 40 images of 32 to 48 pixels */
    expect(0, TRAIN "--image-size 16 --steps 1");
    ck_assert_int_eq(count_said("warning"), 0);
    ck_assert_int_eq(system("rm -r run"), 0);
    expect(0, TRAIN "--steps 1");
    expect_err("warning: most training images are much larger than --image-size 8 (median shorter "
               "side of 15 images: ");
    expect_err("for photographs use --model resnet18 --image-size 128\n");
    ck_assert_int_eq(count_said("warning"), 1);
    expect(0, "train --resume run --steps 2");
    ck_assert_int_eq(count_said("warning"), 0);

    expect(0, "pack data p.pack");
    expect(0, TRAIN "--data-dir p.pack --model resnet18 --steps 1 --out packed");
    expect_err("warning: most training images are much larger than --image-size 8");
    expect_err("for photographs use --image-size 128\n");

    expect(0, TRAIN "--image-size 256 -b 10 --steps 1 --out large");
    expect_err("warning: most training images are much smaller than --image-size 256 (median ");
    expect_err("--image-size 64 may do\n");

    expect(0, TRAIN "--image-size 16 -b 10 --steps 1 --out quarter");
    ck_assert_int_eq(count_said("warning"), 0);
    expect(0, TRAIN "--image-size 16 -b 11 --steps 1 --out more");
    expect_err(
        "warning: -b 11 gives only 3 steps per epoch for 40 training images; -b 8 gives 5\n");
    expect(0, TRAIN "--image-size 16 -b 40 --steps 1 --out all");
    expect_err("-b 40 gives only 1 step per epoch for 40 training images; -b 8 gives 5\n");

    ck_assert_int_eq(system("mkdir up && mv data up/train"), 0);
    expect(0, TRAIN "--image-size 16 --data-dir up --no-val --steps 1 --out high");
    expect_err("did you mean --data-dir up/train?\n");
    ck_assert_int_eq(system("mv up/train up/photos"), 0);
    expect(3, TRAIN "--data-dir up --out none");
    expect_err("up: has no folder 'train'; expected up/train/<class>/<image>; did you mean "
               "--data-dir up/photos?\n");
    end_folder();
}
END_TEST

/* The orientation 6 is written into an APP1 segment of each JPEG file. */
START_TEST(rotated_images)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    ck_assert_int_eq(
        system(
            "for f in data/train/*/*.jpg; do (head -c 2 $f; printf '\\377\\341\\0\\042Exif\\0\\0MM"
            "\\0*\\0\\0\\0\\010\\0\\001\\001\\022\\0\\003\\0\\0\\0\\001\\0\\006\\0\\0\\0\\0\\0\\0';"
            " "
            "tail -c +3 $f) > new && mv new $f; done"),
        0);
    expect(0, "pack data p.pack");
    for (int i = 0; i < 2; i++) {
        expect(0, TRAIN "--image-size 16 --steps 1 --data-dir %s --out plain%d",
               i ? "p.pack" : "data", i);
        expect_err(" of 15 training images examined have an EXIF orientation: without --exif they "
                   "are used as stored, turned or mirrored\n");
        expect(0, TRAIN "--image-size 16 --steps 1 --exif --data-dir %s --out exif%d",
               i ? "p.pack" : "data", i);
        ck_assert_int_eq(count_said("warning"), 0);
    }
    end_folder();
}
END_TEST

/* Statistics over few values: one warning for all layers, naming the first. */
START_TEST(one_warning_of_small_batches)
{
    begin_folder();
    expect(0, "describe --image-size 8 -b 1");
    ck_assert_int_eq(count_said("batch_norm"), 1);
    expect_err("warning: batch_norm 'layer3.0.bn1': statistics over 4 values a channel; below 8 "
               "they are poor: use a larger batch (also in 6 more layers)\n");
    end_folder();
}
END_TEST

START_TEST(unusable_images)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(
        system("f=$(ls data/train/star/*.png | head -1);"
               "head -c 100 $f > data/train/star/cut.png; rm $f;"
               "f=$(ls data/train/ring/*.jpg | head -1); rm $f;"
               ": > data/train/ring/empty.jpg; echo hello > data/train/ring/notes.txt"),
        0);
    expect(3, TRAIN);
    ck_assert(strstr(said_err, "data/train/star/cut.png") ||
              strstr(said_err, "data/train/ring/empty.jpg"));
    ck_assert_ptr_null(strstr(said_err, "image replaced: ")); /* the run ended instead */
    expect_err("data/train: ignored 1 file not in a supported image format, such as");
    expect(0, TRAIN "--on-bad-image skip --out skipped");
    expect_err("unreadable image replaced: data/train/star/cut.png");
    expect_err("unreadable image replaced: data/train/ring/empty.jpg");
    size_t size;
    char *metrics = read_file("skipped/metrics.jsonl", &size);
    ck_assert_ptr_nonnull(strstr(metrics, "\"bad_images\": 2"));
    free(metrics);

    write_text("data/val/star/bad.png", "no image");
    expect(3, "eval --checkpoint skipped/last.safetensors --data-dir data -b 4");
    expect_err("lockstep eval: batch 5: image 'data/val/star/bad.png': ");
    expect_err("--on-bad-image skip replaces unreadable images by other images\n");
    expect(0, "eval --checkpoint skipped/last.safetensors --data-dir data --on-bad-image skip");
    end_folder();
}
END_TEST

/* demo-data generates images of 32 x 32 pixels or more. */
START_TEST(images_beyond_max_pixels)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(3, TRAIN "--max-pixels 1000 --out small");
    expect_err("pixels, more than the limit of 1000 (max_pixels)");
    expect_err("to accept larger images, start a new run with --max-pixels N\n");
    expect(3, TRAIN "--max-pixels 1 --on-bad-image skip --out none");
    expect_err("to accept larger images, start a new run with --max-pixels N\n");
    expect_err("warning: unreadable image replaced: data/train/");
    ck_assert_int_eq(count_said("warning: unreadable image replaced: "), 5);
    expect_err(" unreadable images replaced, among them:\n");
    expect(2, TRAIN "--max-pixels 268435456");
    expect_err("--max-pixels: expected an integer from 1 to 268435455");
    expect(0, TRAIN "--max-pixels 5000 --stop-at 1");
    expect(0, "train --resume run --stop-at 2"); /* the run's own limit */
    expect(2, "train --resume run --max-pixels 6000");
    expect_err("--max-pixels can't be changed on resume: the run has 5000 (run/config.json)");
    expect(0, TRAIN "--stop-at 1 --out default");
    expect(2, "train --resume default --max-pixels 6000");
    expect_err("--max-pixels can't be changed on resume: the run has the default, 89478485 (");
    expect(0, "train --resume default --max-pixels 89478485 --stop-at 2");
    const char *with = "--checkpoint run/last.safetensors --max-pixels 1000";
    expect(3, "eval %s --data-dir data", with);
    expect_err("limit of 1000 (max_pixels)");
    expect_err("to accept larger images, use --max-pixels N\n");
    expect(3, "eval %s --data-dir data --on-bad-image skip", with);
    expect_err("to accept larger images, use --max-pixels N\n");
    ck_assert_int_eq(system("cp $(ls data/val/star/* | head -1) image"), 0);
    expect(3, "predict %s image", with);
    expect_err("limit of 1000 (max_pixels)");
    expect_err("to accept larger images, use --max-pixels N\n");
    expect(3, "pack data data.pack --max-pixels 1000");
    expect_err("limit of 1000 (max_pixels)");
    expect_err("to accept larger images, use --max-pixels N\n");

    /* a run of a version that had no such option */
    expect(0, TRAIN "--stop-at 1 --out old");
    ck_assert_int_eq(
        system("grep -v max-pixels old/config.json > config; mv config old/config.json"), 0);
    expect(0, "train --resume old");
    end_folder();
}
END_TEST

TEST_PROGRAM(command_data)
{
    return RUN_SUITE("command_data", unusable_folders, data_folders_of_the_wrong_kind,
                     warnings_before_training, rotated_images, one_warning_of_small_batches,
                     unusable_images, images_beyond_max_pixels);
}
