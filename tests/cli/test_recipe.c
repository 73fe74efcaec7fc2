/* test_recipe.c: --recipe is the same as its values as options, and options go before it. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <string.h>

#define SMALL_RUN "--data-dir data --image-size 8 --epochs 2 -b 8 -j 1 --threads 1 "

START_TEST(values_as_options)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, "train --recipe small --model resnet20 " SMALL_RUN "--stop-at 3 --out recipe");
    expect_out("recipe  small  --auto-augment trivial  --random-erase 0.1  --opt sgd  "
               "--lr-per-256 0.1  --momentum 0.9  --nesterov  --weight-decay 0.0005  "
               "--label-smoothing 0.1  --lr-scheduler cosine\n");
    expect(0, "train " SMALL_RUN "--auto-augment trivial --random-erase 0.1 --lr-per-256 0.1 "
              "--nesterov --out options");
    ck_assert_ptr_null(strstr(said_out, "recipe"));
    expect(0, "train --resume recipe");
    expect_same_metrics("recipe/metrics.jsonl", "options/metrics.jsonl", 2);
    expect_same_tensors("recipe/last.safetensors", "options/last.safetensors");
    expect(2, "train --resume recipe --recipe cifar");
    expect_err("--recipe can't be changed on resume");
    end_folder();
}
END_TEST

/* An optimizer, a schedule, a learning rate or an image size removes the values that belong to
 * the recipe's. */
START_TEST(other_options)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, "train --recipe cifar --opt adamw " SMALL_RUN "--steps 1 --out adamw");
    expect_out("recipe  cifar  --model resnet20  --label-smoothing 0  --lr-scheduler cosine\n");
    expect(0, "train --recipe cifar --lr 0.01 --crop-padding 1 " SMALL_RUN "--steps 1 --out rate");
    expect_out("recipe  cifar  --model resnet20  --opt sgd  --momentum 0.9  --nesterov  "
               "--weight-decay 0.0005  --label-smoothing 0  --lr-scheduler cosine\n");
    expect(0, "train --recipe cifar --momentum 0 " SMALL_RUN "--steps 1 --out plain");
    expect_out("recipe  cifar  --model resnet20  --opt sgd  --lr-per-256 0.4  --weight-decay "
               "0.0005  --label-smoothing 0");
    expect(0, "train --recipe imagenet --model resnet20 --lr-scheduler cosine " SMALL_RUN
              "--steps 1 --out schedule");
    expect_out("recipe  imagenet  --opt sgd  --lr-per-256 0.1  --momentum 0.9  --weight-decay "
               "0.0001  --label-smoothing 0\n");
    end_folder();
}
END_TEST

START_TEST(finetune)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(2, "train --recipe finetune " SMALL_RUN);
    expect_err("--recipe finetune requires --weights FILE");
    expect(0, "train --model resnet20 " SMALL_RUN "--steps 1 --out first");
    expect(0, "train --recipe finetune --weights first/last.safetensors --model resnet20 " SMALL_RUN
              "--steps 1 --out second");
    expect_out("recipe  finetune  --new-head  --opt sgd  --lr-per-256 0.04  ");
    expect_out("weights first/last.safetensors  new last layer\n");
    expect(0, "augment --recipe finetune --data-dir data --image-size 8 -b 4 --grid grid.png");
    end_folder();
}
END_TEST

TEST_PROGRAM(recipe)
{
    return RUN_SUITE("recipe", values_as_options, other_options, finetune);
}
