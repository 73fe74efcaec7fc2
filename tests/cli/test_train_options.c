/* test_train_options.c: options of `lockstep train` that are refused because they would have no
 * effect, and those whose effect depends on the model or the number of steps. */
#include "command.h"
#include "run_files.h"

#include <lockstep/lockstep.h>

#include "../suite.h"
#include <stdlib.h>
#include <string.h>

START_TEST(misuse)
{
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 2, "train --data-dir data -b 1 --mixup-alpha 1",
          "--mixup-alpha has no effect with -b 1" },
        { 2, "train --data-dir data --model-ema 1e-300", "--model-ema 1e-300: expected 0, or at" },
        { 2, "train --data-dir data -b 8 --image-size 8 --freeze *",
          "--freeze '*': freezes all parameters" },
        { 2, "train --data-dir data -b 8 --image-size 8 --freeze none",
          "--freeze: the net has no parameter whose name matches 'none'" },
        { 2, "train --data-dir data -b 8 --image-size 8 --freeze fc.*,",
          "--freeze: expected PATTERN,..., got an empty pattern in 'fc.*,'" },
        { 2, "train --data-dir data -b 8 --image-size 8 --param-groups none:lr-scale=1",
          "--param-groups: group 'none': the net has no parameter whose name matches" },
        { 2,
          "train --data-dir data -b 8 --image-size 8 --freeze fc.* --param-groups "
          "fc.*:lr-scale=2",
          "--param-groups: group 'fc.*' has no effect: all its parameters are frozen" },
        { 2, "train --data-dir data --param-groups fc.*:lr-scale=2,",
          "(one of the two is enough) with numbers from 0 to 1e+09, got 'fc.*:lr-scale=2,'" },
        { 2, "train --data-dir data --param-groups fc.*:lr-scale=2e9", "from 0 to 1e+09" },
        { 2, "train --data-dir data --dropout 0.1", "--dropout has no effect here: it requires" },
        { 2, "train --data-dir data --model vgg16_bn --dropout 1",
          "--dropout: expected a number from 0 to 0.9999, got '1'" },
        { 2, "train --data-dir data --model vgg16_bn --dropout 1e-40",
          "--dropout 1e-40: expected 0, or at" },
        { 2, "train --data-dir data --model vgg16_bn --dropout 0.99999999", "got '0.99999999'" },
        { 1, "train --data-dir data -b 8 --model lenet5 --image-size 8",
          "--image-size is 8x8; the usual size of --model lenet5 is 28" },
        { 1, "train --data-dir data -b 8 --model vgg16_bn --image-size 64",
          "vgg16_bn: images of 64 x 64 pixels" },
    };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(cases[i].status, "%s", cases[i].line);
        expect_err(cases[i].said);
    }
    end_folder();
}
END_TEST

#define TRAIN                                                                                      \
    "train --data-dir data --model mobilenet_v2 --image-size 32 --epochs 1 -b 8 --threads 2 "
START_TEST(dropout_is_stored)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN "--dropout 0.5 --steps 1 --out a");
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file = ls_tensor_file_open(ctx, "a/last.safetensors");
    ck_assert_str_eq(ls_tensor_file_metadata(file, "dropout"), "0.5");
    ls_context_close(&ctx);
    expect(0, "eval --checkpoint a/last.safetensors --data-dir data");
    expect(2, "train --resume a --dropout 0.1");
    expect(0, "train --resume a --dropout 0.50 --steps 2");

    /* The default is that of the model. */
    expect(0, TRAIN "--steps 2 --out b");
    expect(0, TRAIN "--dropout 0.2 --steps 2 --out c");
    expect_same_tensors("b/last.safetensors", "c/last.safetensors");
    ctx = ls_context_open(NULL);
    file = ls_tensor_file_open(ctx, "c/last.safetensors");
    ck_assert_ptr_null(ls_tensor_file_metadata(file, "dropout"));
    ls_context_close(&ctx);
    end_folder();
}
END_TEST

/* A group of more batches than an epoch has is never complete. */
START_TEST(a_group_that_is_never_complete)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, "train --data-dir data --model mlp --image-size 8 --epochs 1 -b 8 --accumulate 6 "
              "--out a");
    expect_err(
        "--accumulate 6 is above the 5 steps of an epoch. The weights are updated at the end of "
        "each epoch, so --accumulate 5 gives the same updates, with a learning rate for as");
    expect(0, "train --data-dir data --model mlp --image-size 8 --epochs 1 -b 8 --accumulate 6 "
              "--lr 0.1 --out c");
    expect_err("gives the same updates\n");
    expect(0, "train --data-dir data --model mlp --image-size 8 --epochs 1 -b 8 --accumulate 5 "
              "--out b");
    ck_assert(!strstr(said_err, "--accumulate"));
    end_folder();
}
END_TEST

TEST_PROGRAM(train_options)
{
    return RUN_SUITE("train options", misuse, dropout_is_stored, a_group_that_is_never_complete);
}
