/* test_train_weights.c: --weights, --new-head and --freeze of 'lockstep train'; the run's identity
 * names the weights, and a resumed run does not read their file again. */
#include "run_files.h"
#include "three_epochs.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ONE    TRAIN "--epochs 1 "
#define FREEZE "--freeze conv1.*,bn1.*,layer[12].* "

/* As m.pt, because paths of fixtures may have spaces. */
static void link_fixture(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/%s", name);
    unlink("m.pt");
    ck_assert_int_eq(symlink(path, "m.pt"), 0);
}

START_TEST(a_run_resumes_without_the_file)
{
    begin_folder();
    draw_data();
    expect(0, ONE "--out base");
    expect(0, ONE "--weights base/best.safetensors " FREEZE "--out whole");
    expect_out("weights base/best.safetensors\n");
    expect_out("\nfrozen  ");
    expect(0, ONE "--weights base/last.safetensors " FREEZE "--out stopped --stop-at 7");
    expect(0, ONE FREEZE "--out plain --stop-at 7");
    ck_assert_int_eq(system("mv base moved"), 0);
    expect(2, "train --resume stopped --weights moved/last.safetensors");
    expect_err("--weights can't be changed on resume");
    expect(0, "train --resume stopped");
    /* best and last hold the same weights after one epoch, so the runs are the same */
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    size_t size;
    char *manifest = read_file("whole/manifest.json", &size);
    ck_assert_ptr_nonnull(strstr(manifest, "\"weights\": \""));
    ck_assert_ptr_nonnull(strstr(manifest, "\"layer2.2.conv2.weight\""));
    free(manifest);
    manifest = read_file("plain/manifest.json", &size);
    ck_assert_ptr_null(strstr(manifest, "\"weights\": \""));
    free(manifest);
    run_command("compare whole plain");
    expect_out("model.weights");
    end_folder();
}
END_TEST

START_TEST(compare_reads_the_weights_again)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out base --steps 3");
    expect(0, TRAIN "--weights base/last.safetensors --out a --steps 3");
    expect(0, TRAIN "--weights base/last.safetensors --out b --steps 3 --inject-fault "
                    "1:sgd@optimizer:3");
    expect(1, "compare a b");
    expect_out("step 1 (epoch 1, step 2): the first op whose output differs");
    expect_out(", sgd of 'optimizer'");
    ck_assert_int_eq(system("mv base moved"), 0);
    run_command("compare a b");
    expect_err("base/last.safetensors");
    end_folder();
}
END_TEST

START_TEST(other_classes_need_a_new_head)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out base --steps 2");
    ck_assert_int_eq(system("cp -r data few && rm -r few/*/[a-o]*"), 0);
    expect(1, "train --data-dir few --image-size 8 -b 4 --out run --steps 2 "
              "--weights base/last.safetensors");
    expect_err("'fc.weight' is F32 [10,64] there");
    expect_err("--new-head trains a new one for these classes");
    expect(0, "train --data-dir few --image-size 8 -b 4 --out run --steps 2 "
              "--weights base/last.safetensors --new-head");
    expect_out("weights base/last.safetensors  new last layer\n");
    expect(1, "eval --data-dir few --checkpoint base/last.safetensors --model resnet20 "
              "--image-size 8");
    expect_err("'fc.weight' is F32 [10,64] there");
    expect_err("only the last layer differs: 'lockstep train --weights FILE --new-head' trains a "
               "new one for these classes\n");
    end_folder();
}
END_TEST

/* The labels 1 to 10 have the order of numbers in a CSV file, and that of texts as folders. */
START_TEST(classes_have_another_order)
{
    begin_folder();
    draw_data();
    ck_assert_int_eq(
        system("i=0; for class in $(ls data/train); do i=$((i + 1)); for split in train val; do "
               "mv data/$split/$class data/$split/$i; done; done; for split in train val; do "
               "(echo path,label; cd data/$split; for f in */*; do echo data/$split/$f,${f%/*}; "
               "done) >$split.csv; done"),
        0);
    expect(0, "train --data-dir . --image-size 8 -b 4 --out base --steps 2");
    expect(0, TRAIN "--weights base/last.safetensors --out moved --steps 2");
    expect_out("weights base/last.safetensors  last layer in the order of these classes\n");
    ck_assert_int_eq(system("mv data/train/3 data/train/three; mv data/val/3 data/val/three"), 0);
    expect(1, TRAIN "--weights base/last.safetensors --out other --steps 2");
    expect_err("has no outputs for the class 'three': its classes are '1', '2', '3', ...");
    expect_err("--new-head trains a new one for these classes");
    expect(0, TRAIN "--weights base/last.safetensors --out other --steps 2 --new-head");
    end_folder();
}
END_TEST

START_TEST(keys_of_files)
{
    begin_folder();
    draw_data();
    expect(2, TRAIN "--out a --weights-key model");
    expect_err("--weights-key has no effect here: it requires --weights");
    link_fixture("two_nets.pt");
    expect(1, TRAIN "--out a --weights m.pt");
    expect_err("'student' (10 tensors), 'teacher' (10 tensors)");
    expect_err("--weights-key KEY names the weights in a file");
    expect(1, TRAIN "--out a --weights m.pt --weights-key teacher");
    expect_err("'m.pt', key 'teacher': ");
    expect(1, TRAIN "--out a --weights m.pt --weights-key nobody");
    expect_err("no tensors at the key 'nobody'");
    expect(2, "predict --checkpoint m.pt --weights-key teacher data/val/star");
    expect_err("--weights-key has no effect here: it requires --model");
    end_folder();
}
END_TEST

START_TEST(wrong_turns)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out base --steps 2");
    expect(1, TRAIN "--out a --weights none.pt");
    expect_err("none.pt");
    expect_err("No such file");
    expect(2, TRAIN "--out a --new-head");
    expect_err("--new-head has no effect here: it requires --weights");
    expect(1, TRAIN "--out a --model resnet32 --weights base/last.safetensors");
    expect_err("tensors of the net missing ('layer1.3.conv1.weight'");
    ck_assert_ptr_null(strstr(said_err, "--new-head"));
    expect_err("must be those of the weights");
    expect(1, TRAIN "--out a --stem large --weights base/last.safetensors");
    expect_err("--stem large has a 7x7 convolution, --stem small a 3x3 convolution");
    expect(2, TRAIN "--out a --freeze layer9.*");
    expect_err("--freeze: the net has no parameter whose name matches 'layer9.*'");
    expect(2, TRAIN "--out a --freeze layer1.*,%0256d", 0);
    expect_err("--freeze: expected patterns of less than 256 characters");
    expect(2, TRAIN "--out a --freeze layer1.*,");
    expect_err("got an empty pattern in 'layer1.*,'");
    expect(2, TRAIN "--out a --freeze layer1.* --param-groups layer1.*:lr-scale=3");
    expect_err("group 'layer1.*' has no effect: all its parameters are frozen");
    expect(2, TRAIN "--out a --model-ema 1");
    expect_err("--model-ema: expected a number from 0 to 0.9999999, got '1'");
    expect(0,
           TRAIN "--out frozen --steps 1 --weights base/last.safetensors --new-head --freeze fc.*");
    expect_err("--freeze 'fc.*' freezes the new last layer, which keeps random values");
    expect(0, TRAIN "--out thawed --steps 1 --weights base/last.safetensors --new-head "
                    "--freeze layer1.* --param-groups layer[12].*:lr-scale=2");
    ck_assert_ptr_null(strstr(said_err, "random values"));
    ck_assert_int_eq(system("sed -i 's/:lr-scale=2/:lr-scale=x/' thawed/config.json"), 0);
    expect(1, "train --resume thawed");
    expect_err("got 'layer[12].*:lr-scale=x'");
    expect_err("this is the value in thawed/config.json");
    link_fixture("whole_model.pt");
    expect(1, TRAIN "--out a --weights m.pt");
    expect_err("an object of the class 'torch.nn.modules.linear.Linear', expected a state dict");
    expect_err("python3 -c \"import sys, torch; torch.save(torch.load(sys.argv[1], ");
    ck_assert(!exists("a/config.json"));
    end_folder();
}
END_TEST

TEST_PROGRAM(train_weights)
{
    return RUN_SUITE("train_weights", a_run_resumes_without_the_file,
                     compare_reads_the_weights_again, other_classes_need_a_new_head,
                     classes_have_another_order, keys_of_files, wrong_turns);
}
