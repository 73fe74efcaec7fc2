/* test_config_file.c: --config: lines `key = value`, and the config.json of a run. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char small[] = "\xef\xbb\xbf# a small run\n" /* with a byte order mark */
                            "\n"
                            "data-dir = 'data'   # as demo-data made it\n"
                            "image-size=8\r\n"
                            "  batch-size = 8\n"
                            "epochs = 1\n"
                            "crop-padding = 2\n"
                            "nesterov = true\n"
                            "exif = false\n"
                            "param-groups = \"fc.*:lr-scale=2 conv*:weight-decay=0\"\n"
                            "threads = 1\n"
                            "workers = 1";

#define SMALL_WORDS                                                                                \
    "--data-dir data --image-size 8 -b 8 --epochs 1 --crop-padding 2 --nesterov --threads 1 -j 1 "

static void begin(void)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    write_text("small.conf", small);
}

static json_t *options_of(const char *config)
{
    json_t *json = json_load_file(config, 0, NULL);
    ck_assert_ptr_nonnull(json);
    json_t *options = json_incref(json_object_get(json, "options"));
    json_decref(json);
    return options;
}

static void expect_same_run(const char *a, const char *b)
{
    static const char *const names[] = { "run_log.txt", "best.safetensors", "last.safetensors" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char one[64], other[64];
        snprintf(one, sizeof(one), "%s/%s", a, names[i]);
        snprintf(other, sizeof(other), "%s/%s", b, names[i]);
        ck_assert_msg(same_files(one, other), "%s differs", names[i]);
    }
}

START_TEST(lines_are_options)
{
    begin();
    expect(0, "train --config small.conf --out a");
    json_t *options = options_of("a/config.json");
    ck_assert(json_is_true(json_object_get(options, "nesterov")));
    ck_assert_str_eq(json_string_value(json_object_get(options, "param-groups")),
                     "fc.*:lr-scale=2 conv*:weight-decay=0");
    json_decref(options);
    write_text("grouped.conf",
               "param-groups = fc.*:lr-scale=2 conv*:weight-decay=0 # two groups\n");
    expect(0, "train " SMALL_WORDS "--config grouped.conf --out b");
    expect_same_run("a", "b");
    end_folder();
}
END_TEST

/* Command line, then file, then --recipe, then defaults. */
START_TEST(precedence)
{
    begin();
    write_text("recipe.conf", "recipe = cifar\nlr-per-256 = 0.2\nseed = 3\nnesterov = false\n"
                              "model = lenet5\ngrey = true\n");
    expect(0, "train --seed=5 --config recipe.conf " SMALL_WORDS
              "--nesterov=true --image-size 32 --out a --stop-at 1");
    expect_out("recipe  cifar  --opt sgd  --momentum 0.9  --weight-decay 0.0005");
    ck_assert_ptr_null(strstr(said_out, "--lr-per-256"));
    json_t *options = options_of("a/config.json");
    ck_assert_int_eq(json_integer_value(json_object_get(options, "seed")), 5);
    ck_assert(number(options, "lr-per-256") == 0.2 && number(options, "weight-decay") == 0.0005);
    ck_assert(json_is_true(json_object_get(options, "nesterov")));
    ck_assert_str_eq(json_string_value(json_object_get(options, "model")), "lenet5");
    json_decref(options);
    expect(2, "train --config recipe.conf --lr 0.1 --lr-per-256 0.1 --data-dir data");
    expect_err("--lr and --lr-per-256 exclude each other");
    expect(0, "train --config recipe.conf " SMALL_WORDS
              "--image-size 32 --lr 0.1 --stop-at 1 --out b");
    options = options_of("b/config.json");
    ck_assert_double_eq(json_number_value(json_object_get(options, "lr")), 0.1);
    ck_assert_double_eq(json_number_value(json_object_get(options, "lr-per-256")), 0);
    json_decref(options);
    write_text("tiny.conf", "batch-size = 2\nimage-size = 8\n");
    expect(0, "describe --config tiny.conf");
    expect_out("[2,8,8,");
    end_folder();
}
END_TEST

START_TEST(wrong_lines)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "# x\n\nephocs = 3\n", "x.conf:3: unknown option 'ephocs'; did you mean 'epochs'?\n" },
        { "--epochs = 3\n", "x.conf:1: unknown option '--epochs'; did you mean 'epochs'?\n" },
        { "config = y\n", "x.conf:1: unknown option 'config'" },
        { "epochs = many\n", "x.conf:1: epochs: expected an integer from 1 to 100000, got 'many'" },
        { "epochs = 3 4\n", "got '3 4'" },
        { "lr = 0\n", "x.conf:1: lr: expected a number from 1e-12 to 1000, got '0'" },
        { "opt = lion\n", "x.conf:1: opt: expected one of sgd|adam|adamw|rmsprop, got 'lion'" },
        { "nesterov = yes\n", "x.conf:1: nesterov: expected true or false, got 'yes'" },
        { "nesterov =\n", "x.conf:1: nesterov: expected true or false, got ''" },
        { "seed =  # none\n", "x.conf:1: seed: expected an integer" },
        { "model = ''\n", "x.conf:1: model: expected a NAME, got ''" },
        { "\n\nseed = 1\nepochs = 2\nseed = 1\n", "x.conf:5: 'seed' is already in line 3\n" },
        { "seed\n", "x.conf:1: expected 'key = value'\n" },
        { "seed 1\n", "x.conf:1: expected 'key = value'\n" },
        { "= 1\n", "x.conf:1: expected 'key = value'\n" },
        { "model = \"lenet5\n", "x.conf:1: the closing quote is missing\n" },
        { "model = \"lenet5\" x\n", "x.conf:1: expected nothing after the closing quote\n" },
        { "model = 'lenet5' 'x'\n", "x.conf:1: expected nothing after the closing quote\n" },
        { "model = it's # a comment\n", "unknown model 'it's'" },
        { "model = 'a # b' # c\n", "unknown model 'a # b'" },
        { "model = a \"# b\n", "unknown model 'a \"# b'" },
        { "model = a#b, '#' # c\n", "unknown model 'a#b, '#''" },
        { "[train]\nepochs = 3\n", "x.conf:1: expected 'key = value'\n" },
        { "model = \xff\n", "x.conf:1: expected a line of text in UTF-8\n" },
        { "{ \"options\": 1 }", "x.conf: expected the config.json of a run, with 'options'\n" },
        { "{ \"options\": {} ", "x.conf: line 1" },
        { "{ \"options\": { \"ephocs\": 1 } }", "x.conf: unknown option 'ephocs'; did you mean" },
        { "{ \"options\": { \"seed\": \"1\" } }",
          "x.conf: option 'seed': expected an integer from 0 to 9000000000000000000, got \"1\"\n" },
    };
    begin_folder();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_text("x.conf", cases[i].text);
        expect(2, "train --data-dir x --epochs 1 --config x.conf");
        expect_err(cases[i].said);
    }
    /* The command line's value does not hide that of the file. */
    write_text("x.conf", "epochs = many\n");
    expect(2, "train --epochs 3 --config x.conf");
    expect_err("x.conf:1: epochs: expected");
    expect(2, "train --config none.conf");
    expect_err("lockstep train: none.conf: No such file or directory\n");
    expect(2, "train --config .");
    expect_err("lockstep train: .: Is a directory\n");
    write_text("run.json", "{ \"options\": {} }");
    expect(2, "describe --config run.json");
    expect_err("run.json: JSON; expected lines 'key = value'\n");
    end_folder();
}
END_TEST

/* The stored config starts the same run again, whatever its options had for defaults. */
START_TEST(a_run_starts_again)
{
    begin();
    expect(0,
           "train --recipe cifar " SMALL_WORDS "--epochs 2 --seed 9 --lr-warmup-epochs 0 --out a");
    expect(0, "train --config a/config.json --out b");
    expect_same_run("a", "b");
    expect_same_metrics("a/metrics.jsonl", "b/metrics.jsonl", 2);

    expect(0, "train --config a/config.json --out c --threads 2 --workers 2");
    ck_assert(same_files("a/run_log.txt", "c/run_log.txt"));

    /* Values of the command line replace those of the run; a session's options are not repeated. */
    expect(0, "train --config a/config.json --lr 0.01 --stop-at 3 --out d");
    json_t *options = options_of("d/config.json");
    ck_assert(number(options, "lr") == 0.01 && number(options, "lr-per-256") == 0);
    json_decref(options);
    ck_assert_int_eq(count_steps("d"), 3);
    expect(0, "train --config d/config.json --lr-per-256 3.2 --out e");
    options = options_of("e/config.json");
    ck_assert(number(options, "lr") == 0.1 && number(options, "lr-per-256") == 3.2);
    json_decref(options);
    ck_assert_int_eq(count_steps("e"), 10);

    /* Values that a default has computed are computed again. */
    expect(0, "train --config a/config.json --batch-size 4 --stop-at 1 --out f");
    options = options_of("f/config.json");
    ck_assert(number(options, "lr") == 0.00625 && number(options, "lr-per-256") == 0.4);
    json_decref(options);
    expect(0, "train --config f/config.json --image-size 64 --lr 0.1 --stop-at 1 --out g");
    options = options_of("g/config.json");
    ck_assert(number(options, "scale-min") == 0.35 && number(options, "crop-padding") == 0);
    json_decref(options);
    expect(2, "train --config a/config.json --epochs 1 --lr-warmup-epochs 1");
    expect_err("options that the command line does not have are those of a/config.json\n");

    expect(0, "augment --config a/config.json --grid grid.png");
    expect_out("grid.png: 8 images of 8 x 8 pixels\n");
    expect(2, "train --config a/config.json --recipe cifar");
    expect_err("--recipe has no effect here");
    expect(2, "train --config a/config.json --resume a");
    expect_err("--resume uses the options of its run: omit the config.json of --config");
    write_text("more.conf", "steps = 11\nthreads = 1\n");
    expect(0, "train --config more.conf --resume d");
    ck_assert_int_eq(count_steps("d"), 10);
    write_text("more.conf", "lr = 3");
    expect(2, "train --config more.conf --resume d");
    expect_err("--lr can't be changed on resume");
    end_folder();
}
END_TEST

TEST_PROGRAM(config_file)
{
    return RUN_SUITE("config_file", lines_are_options, precedence, wrong_lines, a_run_starts_again);
}
