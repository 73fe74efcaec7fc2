/* test_run_calls.c: runs that a program makes by lockstep/run.h are those of the command: the same
 * folder, bits and errors; with a model of the program, too. */
#include "command.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMON "image-size=16", "batch-size=8", "epochs=2", "workers=0", "threads=1"
#define WORDS  " --model mlp --image-size 16 -b 8 --epochs 2 -j 0 --threads 1 "

static ls_run *open_run(const char *dir, const char *const *settings)
{
    return ls_run_open(dir, &(ls_run_config){ .settings = settings });
}

static void train(ls_run *run, ls_trainer_end expected)
{
    ls_trainer_end end;
    const ls_status status = ls_run_train(run, &end);
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(ls_run_context(run)));
    ck_assert_int_eq(end, expected);
    ls_run_close(&run);
    ck_assert_ptr_null(run);
}

static void fails_with(ls_run *run, ls_status status, const char *text)
{
    ls_context *ctx = ls_run_context(run);
    ck_assert_int_eq(ls_context_status(ctx), status);
    ck_assert_msg(strstr(ls_context_message(ctx), text) != NULL, "%s", ls_context_message(ctx));
    ck_assert_int_eq(ls_run_train(run, NULL), status);
    ls_run_close(&run);
}

START_TEST(the_run_of_the_command)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    static const char *const settings[] = { "data-dir=data", "model=mlp", "nesterov",
                                            COMMON,          "flip=0.25", NULL };
    expect(0, "train --data-dir data --nesterov --flip 0.25 --out a" WORDS);
    train(open_run("b", settings), LS_TRAINER_DONE);
    expect(0, "compare a b");
    expect_out("result: identical");
    ck_assert_int_eq(system("grep -v '\"out\"' a/config.json > a.json; grep -v '\"out\"' "
                            "b/config.json | cmp - a.json && cmp a/last.safetensors "
                            "b/last.safetensors && cmp a/best.safetensors b/best.safetensors"),
                     0);
    /* Interrupted by the program and resumed by it, then by the command. */
    static const char *const first[] = { "data-dir=data", "model=mlp", "nesterov", COMMON,
                                         "flip=0.25",     "stop-at=3", NULL };
    train(open_run("c", first), LS_TRAINER_MAX_STEPS);
    static const char *const next[] = { "threads=2", "stop-at=7", NULL };
    train(ls_run_resume("c", &(ls_run_config){ .settings = next }), LS_TRAINER_MAX_STEPS);
    expect(0, "train --resume c");
    expect(0, "compare a c");
    expect_out("result: identical");
    static const char *const longer[] = { "epochs=3", NULL };
    fails_with(ls_run_resume("c", &(ls_run_config){ .settings = longer }), LS_ERR_SETTING,
               "--epochs 3: the learning rates of --lr-scheduler cosine depend on");
    train(open_run(NULL, first), LS_TRAINER_MAX_STEPS);
    ck_assert_int_eq(system("test -f run/config.json"), 0);
    fails_with(
        open_run("run", first), LS_ERR_SETTING,
        "run already contains a run: resume it with ls_run_resume, or choose another folder");
    fails_with(
        ls_run_open("run", &(ls_run_config){ .settings = settings, .extent = LS_RUN_TRAINING }),
        LS_ERR_SETTING, "run: contains a run; choose another folder");
    fails_with(ls_run_resume("none", NULL), LS_ERR_NOT_FOUND,
               "none: no such folder; ls_run_open starts a run there");
    ck_assert_int_eq(system("rm run/last.safetensors"), 0);
    fails_with(ls_run_resume("run", NULL), LS_ERR_NOT_FOUND,
               "run/last.safetensors: no such file; the run can't resume without it");
    end_folder();
}
END_TEST

START_TEST(parts_and_settings)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    static const char *const settings[] = { "data-dir=data", "model=lenet5", COMMON, NULL };
    ls_run *run = open_run("frozen", settings);
    ck_assert_int_eq(ls_net_freeze(ls_run_net(run), "conv1.*"), LS_OK);
    ck_assert_ptr_null(ls_run_trainer(run));
    ck_assert(ls_run_optimizer(run) && ls_run_schedule(run) && ls_run_train_loader(run));
    ck_assert_ptr_nonnull(ls_run_validation_loader(run));
    ck_assert_str_eq(ls_run_dir(run), "frozen");
    ck_assert_int_eq(system("test -e frozen"), 256); /* nothing is written yet */
    train(run, LS_TRAINER_DONE);
    const ls_setting *settings_of_runs = ls_run_settings();
    const int batch = ls_setting_find(settings_of_runs, "batch-size", strlen("batch-size"));
    ck_assert(batch > 20 && settings_of_runs[batch].min == 1);
    ck_assert_str_eq(settings_of_runs[batch].fallback, "128");
    ck_assert_ptr_null(ls_run_context(NULL));
    ck_assert_int_eq(ls_run_train(NULL, NULL), LS_ERR_MEMORY);
    ls_run_close(NULL);
    end_folder();
}
END_TEST

START_TEST(errors)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    static const struct {
        const char *settings[3];
        ls_status status;
        const char *text;
    } cases[] = {
        { { "data-dir=data", "epoch=3" },
          LS_ERR_SETTING,
          "setting 'epoch'; did you mean 'epochs'" },
        { { "data-dir=data", "epochs=0" }, LS_ERR_SETTING, "--epochs: expected an integer from 1" },
        { { "data-dir=data", "epochs" }, LS_ERR_SETTING, "--epochs: expected an integer" },
        { { "data-dir=data", "nesterov=" }, LS_ERR_SETTING, "--nesterov: expected true or false" },
        { { "data-dir=data", "out=x" }, LS_ERR_SETTING, "--out is an option of the command" },
        { { "data-dir=data", "model=resnet21" }, LS_ERR_SETTING, "did you mean 'resnet20'" },
        { { "data-dir=data", "lr-power=2" }, LS_ERR_SETTING, "--lr-power has no effect here" },
        { { "data-dir=data", "data-dir=data" }, LS_ERR_SETTING, "--data-dir is given twice" },
        { { NULL }, LS_ERR_SETTING, "--data-dir DIR is required" },
        { { "data-dir=none" }, LS_ERR_DATA, "none: no such folder" },
        { { "data-dir=data/train" }, LS_ERR_DATA, "did you mean --data-dir data" },
        { { "data-dir=data", "device=tpu" }, LS_ERR_NOT_FOUND, "tpu" },
        { { "data-dir=data", "batch-size=4096" }, LS_ERR_DATA, "do not fill one batch of 4096" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        fails_with(open_run("x", cases[i].settings), cases[i].status, cases[i].text);
    ck_assert_int_eq(system("test -e x"), 256);
    fails_with(ls_run_open("x", NULL), LS_ERR_SETTING, "--data-dir DIR is required");
    fails_with(open_run("data", (const char *[]){ "data-dir=data", NULL }), LS_ERR_SETTING,
               "not empty and contains no run");
    fails_with(ls_run_resume("data", NULL), LS_ERR_NOT_FOUND, "data/config.json: no such file");
    fails_with(ls_run_resume(NULL, NULL), LS_ERR_INVALID, "dir is NULL");
    fails_with(ls_run_open("x", &(ls_run_config){ .extent = (ls_run_extent)3 }), LS_ERR_INVALID,
               "extent is 3; expected LS_RUN_WHOLE, LS_RUN_TRAINING or LS_RUN_IMAGES");
    fails_with(ls_run_resume("x", &(ls_run_config){ .extent = LS_RUN_IMAGES }), LS_ERR_INVALID,
               "extent is 2; expected LS_RUN_WHOLE");
    ck_assert_ptr_null(ls_run_text(NULL, "model"));
    ck_assert(ls_run_number(NULL, "epochs") == 0);
    end_folder();
}
END_TEST

static ls_node *own_function(ls_graph *g, ls_node *x, const void *options)
{
    const ls_model_options *o = options;
    x = ls_relu(g, ls_conv2d(g, "c1", x, 4, &(ls_conv2d_config){ .kernel = 3, .stride = 2 }));
    return ls_linear(g, "head", ls_global_avg_pool(g, x), o->n_classes, NULL);
}

/* text: of the report; NULL: there is none. */
static void expect_verdict(const char *a, const char *b, const ls_run_compare_config *config,
                           ls_run_verdict expected, const char *text)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls_run_verdict verdict;
    char *report;
    const ls_status status = ls_run_compare(ctx, a, b, config, &verdict, &report);
    ck_assert_int_eq(status == LS_OK, text != NULL);
    ck_assert_int_eq(verdict, expected);
    ck_assert_int_eq(report != NULL, text != NULL);
    if (text) ck_assert_msg(strstr(report, text) != NULL, "%s", report);
    free(report);
    ls_context_close(&ctx);
}

START_TEST(a_model_of_the_program)
{
    static const ls_model own = {
        .name = "own", .function = own_function, .image_size = 16, .dropout = -1
    };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    static const char *const settings[] = { "data-dir=data", COMMON, NULL };
    static const char *const first[] = { "data-dir=data", COMMON, "stop-at=3", NULL };
    train(ls_run_open("a", &(ls_run_config){ .settings = settings, .model = &own }),
          LS_TRAINER_DONE);
    train(ls_run_open("b", &(ls_run_config){ .settings = first, .model = &own }),
          LS_TRAINER_MAX_STEPS);
    train(ls_run_resume("b", &(ls_run_config){ .model = &own }), LS_TRAINER_DONE);
    expect(0, "compare a b");
    expect_out("result: identical");
    expect(0, "report a b --out both.html");
    static const ls_run_compare_config both = { .models = { &own, &own } };
    expect_verdict("a", "b", &both, LS_RUNS_IDENTICAL, "\"result\": 0");
    ck_assert_int_eq(
        system("sed -i '4s/ [0-9a-f]* / 00112233445566778899aabbccddeeff /' b/run_log.txt"), 0);
    expect_verdict("a", "b", &both, LS_RUNS_DIFFERENT, "\"found\": \"nothing\"");
    expect_verdict("a", "b", NULL, LS_RUNS_DIFFERENT, "\"first_different_step\": 3");
    expect(1, "compare a b");
    expect_err("the step is not replayed, because a program's own net can't be built here");
    expect_verdict("a", "data", &both, LS_RUNS_NOT_COMPARABLE, NULL);
    static const char *const preset[] = { "data-dir=data", "recipe=cifar", COMMON, NULL };
    ls_run *run = ls_run_open("c", &(ls_run_config){ .settings = preset, .model = &own });
    ck_assert_int_eq(ls_context_status(ls_run_context(run)), LS_OK);
    train(run, LS_TRAINER_DONE);
    ck_assert_int_eq(system("grep -q '\"model\": \"own\"' c/config.json"), 0);
    static const ls_model other = {
        .name = "other", .function = own_function, .image_size = 16, .dropout = -1
    };
    fails_with(ls_run_resume("a", &(ls_run_config){ .model = &other }), LS_ERR_SETTING,
               "the run's model is 'own', the program's 'other'");
    static const ls_model small = { .name = "small", .function = own_function, .image_size = 4 };
    fails_with(ls_run_open("d", &(ls_run_config){ .settings = settings, .model = &small }),
               LS_ERR_INVALID, "image_size 4, dropout 0; expected 8 to 4096");
    static const ls_model taken = { .name = "mlp", .function = own_function, .image_size = 16 };
    fails_with(ls_run_open("d", &(ls_run_config){ .settings = settings, .model = &taken }),
               LS_ERR_INVALID, "'mlp', is that of a bundled one");
    expect(2, "train --resume a");
    expect_err("option 'model': expected one of");
    expect_err("a run with a program's own model is resumed by that program");
    expect(1, "eval --checkpoint a --data-dir data");
    expect_err("no bundled model has this name: if it is a program's own");
    fails_with(ls_run_resume("a", NULL), LS_ERR_SETTING, "option 'model': expected one of");
    end_folder();
}
END_TEST

static ls_node *large_function(ls_graph *g, ls_node *x, const void *options)
{
    const ls_model_options *o = options;
    x = ls_conv2d(g, "c1", x, 4, &(ls_conv2d_config){ .kernel = 9 });
    return ls_linear(g, "head", ls_global_avg_pool(g, x), o->n_classes, NULL);
}

enum { WARNING_SIZE = 512 };

/* Copies a warning about --image-size to `user`. */
static void keep_warning(void *user, ls_log_level level, ls_log_category category,
                         const char *message)
{
    (void)level, (void)category;
    if (strstr(message, "--image-size")) snprintf(user, WARNING_SIZE, "%s", message);
}

/* The images are four times as large as image-size. */
START_TEST(advice_for_a_model_of_the_program)
{
    static const ls_model own = {
        .name = "own", .function = own_function, .image_size = 16, .dropout = -1
    };
    static const char *const settings[] = { "data-dir=data", "image-size=8", "batch-size=8",
                                            "epochs=1",      "workers=0",    NULL };
    char warning[WARNING_SIZE] = "";
    const ls_run_config config = {
        .settings = settings, .model = &own, .log = keep_warning, .log_user = warning
    };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    train(ls_run_open("a", &config), LS_TRAINER_DONE);
    ck_assert_msg(strstr(warning, "for photographs use --image-size 128") != NULL, "%s", warning);
    ls_run_config curve = config;
    curve.extent = LS_RUN_TRAINING;
    ls_run *run = ls_run_open("b", &curve);
    *warning = '\0';
    (void)ls_run_find_lr(run, &(ls_lr_find_config){ 0 });
    ck_assert_msg(strstr(warning, "for photographs use --image-size 128") != NULL, "%s", warning);
    ls_run_close(&run);
    static const ls_model large = {
        .name = "large", .function = large_function, .image_size = 16, .dropout = -1
    };
    run = ls_run_open("c", &(ls_run_config){ .settings = settings, .model = &large });
    ck_assert_str_eq(ls_context_hint(ls_run_context(run)),
                     "--image-size is 8x8; the usual size of the model large is 16");
    ls_run_close(&run);
    end_folder();
}
END_TEST

static void expect_images(ls_context *ctx, const char *path, const ls_dataset_config *config,
                          int64_t n_samples, int n_classes)
{
    ls_dataset *data = ls_dataset_open(ctx, path, config);
    ck_assert_msg(data != NULL, "%s", ls_context_message(ctx));
    ck_assert_int_eq(ls_dataset_sample_count(data), n_samples);
    ck_assert_int_eq(ls_dataset_class_count(data), n_classes);
    ls_dataset_close(&data);
}

START_TEST(datasets)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, "pack data data.pack");
    ck_assert_int_eq(
        system("mkdir -p outer && cp -r data/train outer/inner && (echo path,label,split; for f in "
               "data/*/*/*; do k=${f%/*}; s=${f#data/}; echo $f,${k##*/},${s%%/*}; done) > l.csv"),
        0);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const ls_dataset_config val = { .split = LS_SPLIT_VALIDATION };
    expect_images(ctx, "data", NULL, 40, 10);
    expect_images(ctx, "data", &val, 10, 10);
    expect_images(ctx, "data/train", NULL, 40, 10);
    expect_images(ctx, "data.pack", NULL, 40, 10);
    expect_images(ctx, "data.pack", &val, 10, 10);
    expect_images(ctx, "outer", NULL, 40, 10);
    expect_images(ctx, "l.csv", NULL, 40, 10);
    expect_images(ctx, "l.csv", &val, 10, 10);
    expect_images(ctx, "l.csv", &(ls_dataset_config){ .csv_columns = "label=split" }, 50, 2);
    expect_images(ctx, "data/val", &val, 10, 10);
    ck_assert_int_eq(system("(echo path,label,split,who; for i in 0 1 2 3 4 5 6 7; do echo "
                            "$(ls data/train/star/* | head -n $((i + 1)) | tail -n 1),c$((i % 2)),"
                            "$([ $i -lt 4 ] && echo train || echo val),p$((i % 3)); done) > g.csv"),
                     0);
    ls_dataset_config grouped = { .group_column = "who" };
    ls_dataset *train_data = ls_dataset_open(ctx, "g.csv", &grouped);
    grouped.split = LS_SPLIT_VALIDATION;
    ls_dataset *val_data = ls_dataset_open(ctx, "g.csv", &grouped);
    ls_shared_groups shared;
    ck_assert_int_eq(ls_dataset_shared_groups(train_data, val_data, &shared), LS_OK);
    ck_assert_int_eq(shared.n_groups, 3);
    static const struct {
        ls_dataset_config config;
        const char *path, *text;
        ls_status status;
    } cases[] = {
        { { .csv_columns = "label=split" }, "data", "--csv-columns is for lists", LS_ERR_SETTING },
        { { .split = LS_SPLIT_TEST }, "data", "expected the split", LS_ERR_INVALID },
        { { .split = LS_SPLIT_VALIDATION }, "outer", "has no folder 'val'", LS_ERR_DATA },
        { { .split = LS_SPLIT_VALIDATION }, "data/train", "has no folder 'val'", LS_ERR_DATA },
        { { .n_classes = 2 }, "data", "expected n_classes names", LS_ERR_INVALID },
        { { 0 }, NULL, "path is NULL", LS_ERR_INVALID },
        { { 0 }, "none", "no such folder", LS_ERR_DATA }
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_ptr_null(ls_dataset_open(ctx, cases[i].path, &cases[i].config));
        ck_assert_int_eq(ls_context_status(ctx), cases[i].status);
        ck_assert_msg(strstr(ls_context_message(ctx), cases[i].text) != NULL, "%s",
                      ls_context_message(ctx));
        ls_context_clear_error(ctx);
    }
    ls_context_close(&ctx);
    end_folder();
}
END_TEST

TEST_PROGRAM(run_calls)
{
    return RUN_SUITE("run_calls", the_run_of_the_command, parts_and_settings, errors,
                     a_model_of_the_program, advice_for_a_model_of_the_program, datasets);
}
