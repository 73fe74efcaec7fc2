/* test_balance.c: 'lockstep train' with --class-weights and --sampler. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN                                                                                      \
    "train --data-dir data --image-size 8 --epochs 1 -b 8 -j 1 --threads 1 --label-smoothing 0 "

static json_t *identity_of(const char *run, const char *section)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/manifest.json", run);
    json_t *identity = read_identity(path);
    json_t *out = json_incref(json_object_get(identity, section));
    json_decref(identity);
    return out;
}

static double loss_of(const char *run)
{
    char path[64];
    snprintf(path, sizeof(path), "%s/metrics.jsonl", run);
    json_t *row = read_row(path, 0);
    const double loss = number(row, "val_loss");
    json_decref(row);
    return loss;
}

/* With as many images in each class all weights are 1: only the identity differs. With one rare
 * class the loss differs, too. */
START_TEST(class_weights)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN "--out none");
    expect_out("10 classes\n");
    ck_assert(!strstr(said_out, "loss    ") && !strstr(said_out, "ema     "));
    expect(0, TRAIN "--class-weights balanced --model-ema 0.99 --out even");
    expect_out(
        "\nloss    cross-entropy  balanced class weights  validation uses it, too; 'lockstep "
        "eval' does not\n"
        "ema     decay 0.99; validation and the best weights use the averages\n");
    expect(0, TRAIN "--class-weights balanced --out even-2");
    expect_same_metrics("none/metrics.jsonl", "even-2/metrics.jsonl", 1);
    json_t *none = identity_of("none", "model"), *even = identity_of("even-2", "model");
    ck_assert(!json_equal(none, even));
    json_decref(none);
    json_decref(even);

    ck_assert_int_eq(system("cd data/train/star && rm $(ls | tail -7)"), 0);
    expect(0, TRAIN "--out plain");
    expect(0, TRAIN "--class-weights balanced --out weighted");
    ck_assert(loss_of("plain") != loss_of("weighted"));
    expect(0, TRAIN "--class-weights balanced --stop-at 4 --out half");
    expect(0, "train --resume half");
    expect_same_tensors("weighted/last.safetensors", "half/last.safetensors");
    expect(2, "train --resume half --class-weights none");
    expect_err("--class-weights can't be changed on resume");
    end_folder();
}
END_TEST

START_TEST(sampler)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("cd data/train/star && rm $(ls | tail -7)"), 0);
    expect(0, TRAIN "--sampler balanced --out run");
    expect_out("10 classes  drawn equally often\n");
    json_t *loader = identity_of("run", "loader");
    ck_assert_int_eq(json_integer_value(json_object_get(loader, "sampler_balanced")), 1);
    json_decref(loader);
    expect(0, TRAIN "--sampler balanced --stop-at 5 --out half -j 0");
    expect(0, "train --resume half -j 3");
    expect_same_tensors("run/last.safetensors", "half/last.safetensors");
    expect(0, TRAIN "--out all");
    loader = identity_of("all", "loader");
    ck_assert_ptr_null(json_object_get(loader, "sampler_balanced"));
    json_decref(loader);
    ck_assert(loss_of("all") != loss_of("run"));
    expect(2, TRAIN "--sampler balanced --class-weights balanced --out none");
    expect_err("--sampler balanced and --class-weights balanced exclude each other");
    end_folder();
}
END_TEST

/* A warning from a ratio of LS_IMBALANCE_RATIO on, unless the classes are weighed already. */
START_TEST(imbalance_is_mentioned)
{
    static const char said[] = "warning: class 'arrow' has 10 training images, 'star' 1: "
                               "--class-weights balanced or --sampler balanced gives";
    begin_folder();
    expect(0, "demo-data data --train 10 --val 1");
    ck_assert_int_eq(system("cd data/train/star && rm $(ls | tail -8)"), 0);
    expect(0, TRAIN "--out two");
    ck_assert_ptr_null(strstr(said_err, "training images, 'star'"));
    ck_assert_int_eq(system("cd data/train/star && rm $(ls | tail -1)"), 0);
    expect(0, TRAIN "--out one");
    expect_err(said);
    expect(0, "pack data data.pack");
    expect(0, "train --data-dir data.pack --image-size 8 --epochs 1 -b 8 --out packed");
    expect_err(said);
    expect(0, TRAIN "--class-weights balanced --out weighted");
    ck_assert_ptr_null(strstr(said_err, "training images, 'star'"));
    expect(0, TRAIN "--sampler balanced --out drawn");
    ck_assert_ptr_null(strstr(said_err, "training images, 'star'"));
    end_folder();
}
END_TEST

TEST_PROGRAM(balance)
{
    return RUN_SUITE("balance", class_weights, sampler, imbalance_is_mentioned);
}
