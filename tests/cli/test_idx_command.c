/* test_idx_command.c: the commands on a folder of idx files, and on grey images. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define TRAIN "train --data-dir mnist --model lenet5 --epochs 2 -b 8 -j 1 --threads 1 "

enum { SIDE = 28, N_TRAIN = 40, N_TEST = 20 };

/* n images whose bright rows tell the label, 0 to 3. */
static void write_part(const char *part, int n, bool compressed)
{
    static uint8_t images[16 + N_TRAIN * SIDE * SIDE], labels[8 + N_TRAIN];
    memcpy(images, (uint8_t[]){ 0, 0, 8, 3, 0, 0, 0, (uint8_t)n, 0, 0, 0, SIDE, 0, 0, 0, SIDE },
           16);
    memcpy(labels, (uint8_t[]){ 0, 0, 8, 1, 0, 0, 0, (uint8_t)n }, 8);
    for (int i = 0; i < n; i++) {
        labels[8 + i] = (uint8_t)(i % 4);
        for (int k = 0; k < SIDE * SIDE; k++)
            images[16 + i * SIDE * SIDE + k] =
                (uint8_t)(k / SIDE / 7 == i % 4 ? 200 + i : (k * 7 + i * 13) % 60);
    }
    char path[64];
    const struct {
        const char *name;
        const uint8_t *bytes;
        unsigned size;
    } files[] = { { "images-idx3", images, 16 + (unsigned)(n * SIDE * SIDE) },
                  { "labels-idx1", labels, 8 + (unsigned)n } };
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "mnist/%s-%s-ubyte%s", part, files[i].name,
                 compressed ? ".gz" : "");
        gzFile file = gzopen(path, compressed ? "wb" : "wbT"); /* T: plain */
        ck_assert_int_eq(gzwrite(file, files[i].bytes, files[i].size), (int)files[i].size);
        ck_assert_int_eq(gzclose(file), Z_OK);
    }
}

static void write_mnist(void)
{
    begin_folder();
    make_folder("mnist");
    write_part("train", N_TRAIN, false);
    write_part("t10k", N_TEST, true);
}

START_TEST(training_and_evaluation)
{
    char loss[64];
    write_mnist();
    expect(0, TRAIN "--label-smoothing 0 --out run");
    expect_out("40 training images  20 validation images  4 classes");
    expect_out("lenet5  61196 parameters  images of 28x28");
    json_t *row = read_row("run/metrics.jsonl", 1);
    snprintf(loss, sizeof(loss), "20 images: loss %.4f", number(row, "val_loss"));
    json_decref(row);
    expect(0, "eval --checkpoint run/last.safetensors --data-dir mnist --per-class");
    expect_out(loss);
    expect_out("  3             5  ");

    expect(0, TRAIN "--label-smoothing 0 --stop-at 7 --out half -j 3");
    expect(0, "train --resume half --threads 2");
    expect_same_tensors("run/last.safetensors", "half/last.safetensors");

    expect(0, TRAIN "--model resnet20 --image-size 16 --steps 2 --out small");
    expect(0, TRAIN "--val-split 0.2 --steps 2 --out split"); /* t10k is left for tests */
    expect_out("32 training images  8 validation images");
    expect_err("mnist: --val-split takes the validation images from the training images; "
               "'t10k-images-idx3-ubyte.gz' is not used\n");
    expect(0, "eval --checkpoint split/last.safetensors --data-dir mnist");
    expect_out("mnist: 8 of 40 images, the validation split of --val-split");
    end_folder();
}
END_TEST

/* Colour images for a model of one channel become grey; the reverse is an error. */
START_TEST(grey_and_colour)
{
    write_mnist();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, "train --data-dir data --model lenet5 --grey -b 8 --epochs 1 --threads 1 --out grey");
    expect(0, "eval --checkpoint grey/last.safetensors --data-dir data");
    expect_out("10 images: loss");
    expect(3, "eval --checkpoint grey/last.safetensors --data-dir mnist"); /* other classes */
    expect_err("mnist/t10k-images-idx3-ubyte.gz: class 0 is '0', expected '");
    ck_assert_int_eq(system("cp $(ls data/val/*/*.png | head -1) image.png"), 0);
    expect(0, "predict --checkpoint grey/last.safetensors image.png");
    expect_out("image.png\n  0.");
    ck_assert_int_eq(system("i=0; for class in $(ls data/train); do "
                            "mv data/train/$class data/train/$i; mv data/val/$class data/val/$i; "
                            "i=$((i + 1)); done"),
                     0);
    expect(0, TRAIN "--steps 2 --out run");
    expect(0, "predict --checkpoint run/last.safetensors image.png");
    expect(0,
           "train --data-dir data --image-size 16 -b 8 --epochs 1 --threads 1 --steps 1 --out rgb");
    expect(3, "eval --checkpoint rgb/last.safetensors --data-dir mnist");
    expect_err("mnist: grey images of one channel; the model was trained on colour images");
    expect(0, "describe --model lenet5 --grey -b 2 --threads 1");
    expect_out("61706");
    end_folder();
}
END_TEST

START_TEST(wrong_files)
{
    write_mnist();
    expect(3, "pack mnist mnist.pack");
    expect_err("mnist: idx files, which hold all images in one file already; expected a folder of "
               "image files");
    expect(2, TRAIN "--stem small --out none");
    expect_err("--stem has no effect here: it requires a resnet");
    expect(1, TRAIN "--image-size 8 --out none");
    expect_err("lenet5: images of 8 x 8 pixels, expected sides of at least 12");
    expect_err("--image-size is 8");
    ck_assert_int_eq(system("mv mnist/t10k-labels-idx1-ubyte.gz labels.gz"), 0);
    expect(3, TRAIN "--out none");
    expect_err("idx file 'mnist/t10k-labels-idx1-ubyte': ");
    ck_assert_int_eq(system("cp mnist/train-images-idx3-ubyte mnist/t10k-labels-idx1-ubyte"), 0);
    expect(3, TRAIN "--out none");
    expect_err(
        "begins with 0x00000803, expected 0x00000801: unsigned bytes in 1 dimension; it is a "
        "file of images");
    ck_assert_int_eq(system("rm mnist/t10k*"), 0);
    expect(3, TRAIN "--out none");
    expect_err("mnist: has no folder 'val'");
    expect(0, TRAIN "--no-val --steps 1 --out run");
    write_file("mnist/train-labels-idx1-ubyte",
               (uint8_t[8 + N_TRAIN]){ 0, 0, 8, 1, 0, 0, 0, N_TRAIN }, 8 + N_TRAIN);
    expect(3, TRAIN "--no-val --out none");
    expect_err("mnist/train-images-idx3-ubyte: expected at least two classes, found one: '0'");
    end_folder();
}
END_TEST

TEST_PROGRAM(idx_command)
{
    return RUN_SUITE("idx_command", training_and_evaluation, grey_and_colour, wrong_files);
}
