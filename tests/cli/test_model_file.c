/* test_model_file.c: 'lockstep export', and 'eval' and 'predict' with weights that do not store
 * their model. */
#include "three_epochs.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fails the test unless both files have a tensor of that name with the same bits. */
static void expect_same_tensor(ls_tensor_file *a, ls_tensor_file *b, const char *name)
{
    ls_digest digests[2];
    ck_assert_int_eq(ls_tensor_digest(ls_tensor_file_load(a, name), &digests[0]), LS_OK);
    ck_assert_int_eq(ls_tensor_digest(ls_tensor_file_load(b, name), &digests[1]), LS_OK);
    ck_assert_msg(ls_digest_equal(digests[0], digests[1]), "%s", name);
}

START_TEST(weights_go_out_and_back)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --out run");
    expect(0, "export --checkpoint run/last.safetensors --format torch --out out.safetensors");
    expect_out("out.safetensors: 128 tensors\n");
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *run = ls_tensor_file_open(ctx, "run/last.safetensors");
    ls_tensor_file *out = ls_tensor_file_open(ctx, "out.safetensors");
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(out); i++)
        expect_same_tensor(run, out, ls_tensor_file_name(out, i));
    ck_assert(ls_tensor_file_find(out, "layer3.0.downsample.1.num_batches_tracked", NULL));
    ck_assert(!ls_tensor_file_find(out, "optimizer.momentum.fc.weight", NULL));
    ck_assert_str_eq(ls_tensor_file_metadata(out, "format"), "pt");
    expect_ok(ctx);
    ls_context_close(&ctx);
    expect(0, TRAIN "--epochs 1 --out a --weights run/last.safetensors");
    expect(0, TRAIN "--epochs 1 --out b --weights out.safetensors");
    ck_assert(same_files("a/last.safetensors", "b/last.safetensors"));
    expect(0, "export --checkpoint out.safetensors --out again.safetensors");
    expect(2, "export --checkpoint out.safetensors --out ./out.safetensors");
    expect_err("--out ./out.safetensors is the file of --checkpoint");
    ck_assert(same_files("out.safetensors", "again.safetensors"));
    end_folder();
}
END_TEST

/* Files and folders that are named in other ways. */
START_TEST(folders_of_runs)
{
    static char with[sizeof said_out];
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 3 --stop-at 25 --out run");
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data");
    memcpy(with, said_out, sizeof with);
    expect(0, "eval --checkpoint run --data-dir data");
    ck_assert_str_eq(said_out, with);
    expect(0, "export --checkpoint run --out out.safetensors"); /* knows model and classes */
    expect(0, "eval --checkpoint out.safetensors --data-dir data");
    ck_assert_str_eq(said_out, with);
    expect(2, "export --checkpoint run --out out.pth");
    expect_err("--out out.pth: expected a name that ends in .safetensors");
    expect(0, TRAIN "--steps 2 --out a --weights run");
    expect(0, TRAIN "--steps 2 --out b --weights run/best.safetensors");
    ck_assert(same_files("a/run_log.txt", "b/run_log.txt"));
    expect(0, "train --resume run/last.safetensors");
    expect_out("run     run, resumed at ");
    expect(1, "train --resume data/train/none.safetensors");
    end_folder();
}
END_TEST

START_TEST(files_without_a_model)
{
    static char with[sizeof said_out];
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --out run");
    expect(0, "export --checkpoint run/best.safetensors --out out.safetensors");
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    memcpy(with, said_out, sizeof with);
    expect(0, "eval --checkpoint out.safetensors --data-dir data --per-class --model resnet20 "
              "--image-size 8");
    ck_assert_str_eq(said_out, with);
    ck_assert_int_eq(system("(printf '\\357\\273\\277'; ls data/train) >names.txt"), 0);
    ck_assert_int_eq(system("cp data/val/triangle/$(ls data/val/triangle | head -1) image"), 0);
    expect(0, "predict --checkpoint run/best.safetensors image");
    memcpy(with, said_out, sizeof with);
    expect(0, "predict --checkpoint out.safetensors --model resnet20 --image-size 8 --classes "
              "names.txt image");
    ck_assert_str_eq(said_out, with);
    ck_assert_int_eq(system("head -c -64 out.safetensors >nan.safetensors && "
                            "head -c 64 /dev/zero | tr '\\0' '\\377' >>nan.safetensors"),
                     0);
    expect(1, "predict --checkpoint nan.safetensors --model resnet20 --image-size 8 --classes "
              "names.txt image");
    expect_err("nan.safetensors': 16 of ");
    expect_err("values of 'layer3.2.conv2.weight' are not finite");
    ck_assert_int_eq(
        system("(head -c -64 out.safetensors; for i in 1 2 3 4 5 6 7 8 9 a b c d e f g; do "
               "printf '\\377\\377\\177\\177'; done) >large.safetensors"),
        0);
    expect(4, "predict --checkpoint large.safetensors --model resnet20 --image-size 8 --classes "
              "names.txt image");
    expect_err("image: the model's output is not finite");

    ck_assert_int_eq(symlink(LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/state_dict.pt", "m.pt"), 0);
    expect(1, "eval --checkpoint m.pt --data-dir data");
    expect_err("--model NAME reads weights that do not store their model");
    expect(2, "eval --checkpoint run/best.safetensors --data-dir data --image-size 8");
    expect_err("--image-size has no effect here: it requires --model");
    expect(2, "predict --checkpoint out.safetensors --model resnet20 image");
    expect_err("--model requires --classes FILE");
    expect(2, "predict --checkpoint run/best.safetensors --classes names.txt image");
    expect_err("--classes has no effect here: it requires --model");
    expect(1, "predict --checkpoint out.safetensors --model resnet20 --classes none image");
    expect_err("none: No such file");
    expect(2, "eval --checkpoint run/best.safetensors --data-dir data --grey");
    expect_err("--grey has no effect here: it requires --model");
    expect(2, "eval --checkpoint out.safetensors --data-dir data --model lenet5 --stem small");
    expect_err("--stem has no effect here: it requires a resnet");
    expect(2, "describe --model lenet5 --parameter-free-shortcuts");
    expect_err("--parameter-free-shortcuts has no effect here: it requires a resnet");
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    expect(1, "predict --checkpoint out.safetensors --model resnet20 --classes pipe image");
    expect_err("pipe: not a regular file");
    expect(1, "eval --checkpoint out.safetensors --data-dir data --model resnet32");
    expect_err("tensors of the net missing");
    end_folder();
}
END_TEST

START_TEST(grey_models)
{
    static char with[sizeof said_out];
    begin_folder();
    draw_data();
    expect(0, "train --data-dir data --model lenet5 --grey -b 8 --epochs 1 --threads 1 --out run");
    expect(0, "export --checkpoint run/best.safetensors --out out.safetensors");
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data");
    memcpy(with, said_out, sizeof with);
    expect(0, "eval --checkpoint out.safetensors --data-dir data --model lenet5 --grey");
    ck_assert_str_eq(said_out, with);
    expect(1, "eval --checkpoint out.safetensors --data-dir data --model lenet5");
    expect_err("'conv1.weight' is F32 [6,1,5,5] there");
    end_folder();
}
END_TEST

START_TEST(export_errors)
{
    begin_folder();
    expect(2, "export --out a");
    expect_err("--checkpoint FILE is required");
    expect(2, "export --checkpoint a");
    expect_err("--out FILE is required");
    expect(1, "export --checkpoint none.safetensors --out a.safetensors");
    expect_err("none.safetensors");
    ck_assert(!exists("a.safetensors"));
    expect(2, "export --checkpoint a --out a.safetensors --opset 18");
    expect_err("--opset has no effect here: it requires --format onnx");
    expect(2, "export --checkpoint a --out a.safetensors --input bytes");
    expect_err("--input has no effect here: it requires --format onnx");
    expect(2, "export --checkpoint a --out a.safetensors --keep-batch-norm");
    expect(2, "export --checkpoint a --out a.onnx --format onnx --opset 16");
    expect(2, "export --checkpoint a --out a.safetensors --format onnx");
    expect_err("--out a.safetensors: expected a name that ends in .onnx");
    expect(2, "export --checkpoint a --out a.onnx");
    expect_err("--out a.onnx: expected a name that ends in .safetensors; for ONNX add --format "
               "onnx\n");
    ck_assert_int_eq(symlink(LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/state_dict.pt", "m.pt"), 0);
    expect(1, "export --checkpoint m.pt --format onnx --out a.onnx");
    expect_err("m.pt: no 'model' in its metadata; --format onnx requires a checkpoint of 'lockstep "
               "train', and 'lockstep train --weights FILE' makes one of these weights\n");
    ck_assert_ptr_null(strstr(said_err, "--model"));
    end_folder();
}
END_TEST

/* A key and its value as protobuf writes them: each is a tag, a length of one byte and the text. */
static void expect_metadata(const char *path, const char *key, const char *value)
{
    char pair[64];
    const int n = snprintf(pair, sizeof pair, "\n%c%s\x12%c%s", (int)strlen(key), key,
                           (int)strlen(value), value);
    size_t size;
    char *bytes = read_file(path, &size);
    ck_assert_msg(memmem(bytes, size, pair, (size_t)n), "%s: no metadata '%s': '%s'", path, key,
                  value);
    free(bytes);
}

START_TEST(onnx_models)
{
    if (!HAS_ONNX) SKIP("this build has no ONNX export");
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --out run");
    expect(0, "export --checkpoint run --format onnx --out a.onnx");
    expect_out("a.onnx: resnet20, opset 17\n");
    expect(0, "export --checkpoint run/best.safetensors --format onnx --out b.onnx --opset 17");
    ck_assert(same_files("a.onnx", "b.onnx"));
    expect_metadata("a.onnx", "resize", "8");
    expect_metadata("a.onnx", "crop", "8");
    expect_metadata("a.onnx", "exif", "ignored");
    expect_metadata("a.onnx", "alpha", "white");
    expect(0, "export --checkpoint run --format onnx --out b.onnx --input bytes --opset 20 "
              "--keep-batch-norm");
    expect_out("b.onnx: resnet20, opset 20\n");
    ck_assert(!same_files("a.onnx", "b.onnx"));
    expect(1, "export --checkpoint run --format onnx --out none/a.onnx");
    expect_err("none/a.onnx");
    end_folder();
}
END_TEST

TEST_PROGRAM(model_file)
{
    return RUN_SUITE("model_file", weights_go_out_and_back, folders_of_runs, files_without_a_model,
                     grey_models, export_errors, onnx_models);
}
