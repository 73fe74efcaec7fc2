/* test_dataset_path.c: the public functions by which the commands find datasets, weights and files
 * of runs. */
#include "command.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN "train --model mlp --image-size 16 -b 8 --epochs 1 -j 0 --threads 1 "

typedef struct notes {
    char text[4096];
} notes;

static void keep_note(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    notes *n = user;
    const size_t length = strlen(n->text);
    if (level != LS_LOG_INFO && category == LS_LOG_DATA)
        snprintf(n->text + length, sizeof(n->text) - length, "%s\n", message);
}

static ls_context *open_context(notes *n)
{
    *n = (notes){ "" };
    return ls_context_open(&(ls_context_config){ .threads = 1, .log = keep_note, .log_user = n });
}

static void shell(const char *line)
{
    ck_assert_int_eq(system(line), 0);
}

static void fails(ls_context *ctx, ls_status status, const char *text, const char *hint)
{
    ck_assert_int_eq(ls_context_status(ctx), status);
    ck_assert_msg(strstr(ls_context_message(ctx), text) != NULL, "%s", ls_context_message(ctx));
    if (hint)
        ck_assert_msg(strstr(ls_context_hint(ctx), hint) != NULL, "%s", ls_context_hint(ctx));
    else
        ck_assert_str_eq(ls_context_hint(ctx), "");
    ls_context_clear_error(ctx);
}

START_TEST(kinds_of_paths)
{
    static const struct {
        const char *path;
        ls_path_kind kind;
    } cases[] = { { NULL, LS_PATH_NONE },
                  { "none", LS_PATH_NONE },
                  { "d", LS_PATH_FOLDER },
                  { "idx", LS_PATH_IDX_FOLDER },
                  { "a.CSV", LS_PATH_LIST },
                  { "b.txt", LS_PATH_LIST },
                  { "d/c.csv", LS_PATH_FOLDER } /* a folder of that name */,
                  { "a.pack", LS_PATH_FILE },
                  { "/dev/null", LS_PATH_OTHER } };
    begin_folder();
    shell("mkdir -p d/c.csv idx && touch a.CSV b.txt a.pack idx/t10k-labels-idx1-ubyte.gz");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_int_eq(ls_path_kind_of(cases[i].path), cases[i].kind);
    end_folder();
}
END_TEST

START_TEST(images_for_a_model)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    shell("(echo path,kind,hue; for f in data/train/*/*; do k=${f%/*}; echo $f,${k##*/},red; done) "
          "> l.csv;"
          "(echo path,labels; for f in data/train/*/*; do echo \"$f,x;y\"; done) > t.csv;"
          "(head -n 5 l.csv; echo none.png,star,red) > missing.csv");
    expect(0, TRAIN "--data-dir l.csv --csv-columns label=kind --val-split 0.25 --out r");
    notes n;
    ck_assert_ptr_null(ls_dataset_open_for_model(NULL, "data", NULL, NULL, NULL));
    ls_context *ctx = open_context(&n);
    const ls_saved_model *model = ls_saved_model_open(ctx, "r/best.safetensors");
    ls_model_images images;
    /* The column of labels is that of the training. */
    const ls_dataset *split = ls_dataset_open_for_model(ctx, "l.csv", NULL, model, &images);
    ck_assert(images.is_split && !images.is_other);
    ck_assert_int_eq(images.n_all, 40);
    ck_assert_int_eq(ls_dataset_sample_count(split), 10);
    const ls_dataset *other = ls_dataset_open_for_model(ctx, "data/val", NULL, model, &images);
    ck_assert(!images.is_split && images.is_other);
    ck_assert_int_eq(ls_dataset_sample_count(other), 10);
    ls_dataset_open_for_model(ctx, "data", NULL, model, &images);
    ck_assert(!images.is_split && !images.is_other);
    ck_assert_int_eq(images.n_all, 10);
    const ls_dataset_config labels = { .csv_columns = "label=labels" };
    ck_assert_ptr_null(ls_dataset_open_for_model(ctx, "t.csv", &labels, model, NULL));
    ls_context_clear_error(ctx);
    ck_assert_ptr_null(ls_dataset_open_for_model(ctx, "l.csv", NULL, NULL, NULL));
    fails(ctx, LS_ERR_DATA, "a header with the columns", "--csv-columns label=NAME");
    ck_assert_ptr_null(ls_dataset_open_for_model(ctx, NULL, NULL, NULL, NULL));
    fails(ctx, LS_ERR_INVALID, "path is NULL", NULL);
    ls_dataset *list = ls_dataset_open_for_model(ctx, "missing.csv", NULL, model, NULL);
    ck_assert_int_eq(ls_dataset_check_missing(ctx, "missing.csv", list, LS_BAD_IMAGE_FAIL),
                     LS_ERR_DATA);
    fails(ctx, LS_ERR_DATA, "1 of 5 listed images are missing, such as", "--on-bad-image skip");
    ck_assert_int_eq(ls_dataset_check_missing(ctx, "missing.csv", list, LS_BAD_IMAGE_SKIP), LS_OK);
    ck_assert_ptr_nonnull(strstr(n.text, "1 of 5 listed images are missing"));
    ck_assert_int_eq(ls_dataset_check_missing(ctx, "data", list, LS_BAD_IMAGE_FAIL), LS_OK);
    ck_assert_int_eq(ls_dataset_check_missing(ctx, "data", NULL, LS_BAD_IMAGE_FAIL),
                     LS_ERR_INVALID);
    ls_context_close(&ctx);
    end_folder();
}
END_TEST

START_TEST(checks_of_paths)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    shell("mkdir outer && cp -r data/train outer/inner && (echo path,label,split; for f in "
          "data/*/*/*; do k=${f%/*}; s=${f#data/}; echo $f,${k##*/},${s%%/*}; done) > l.csv");
    notes n;
    ls_context *ctx = open_context(&n);
    ls_dataset_report *report = ls_dataset_check_path(ctx, "outer", NULL, NULL);
    ck_assert_str_eq(ls_dataset_report_dir(report), "outer/inner");
    ck_assert_str_eq(n.text, "outer: checks 'outer/inner', the only folder in it\n");
    ck_assert_int_eq(ls_dataset_report_summary(report).n_readable, 40);
    report = ls_dataset_check_path(ctx, "data", NULL, NULL);
    ck_assert_str_eq(ls_dataset_report_dir(report), "data");
    ck_assert_int_eq(ls_dataset_report_class_count(report), 20);
    report = ls_dataset_check_path(ctx, "l.csv", NULL, NULL);
    ck_assert_str_eq(ls_dataset_report_dir(report), "");
    ck_assert_int_eq(ls_dataset_report_class_count(report), 20);
    ck_assert_str_eq(ls_dataset_report_class_at(report, 19).split, "val");
    ck_assert_str_eq(ls_dataset_report_dir(NULL), "");
    const ls_dataset_config columns = { .csv_columns = "label=label" };
    ck_assert_ptr_null(ls_dataset_check_path(ctx, "data", &columns, NULL));
    fails(ctx, LS_ERR_SETTING, "data: no CSV list; --csv-columns is for lists", NULL);
    const ls_dataset_config lacks = { .csv_columns = "label=kind" };
    ck_assert_ptr_null(ls_dataset_check_path(ctx, "l.csv", &lacks, NULL));
    fails(ctx, LS_ERR_DATA, "'kind'", "--csv-columns label=NAME names the column");
    ck_assert_ptr_null(ls_dataset_check_path(ctx, NULL, NULL, NULL));
    fails(ctx, LS_ERR_INVALID, "path is NULL", NULL);
    ls_context_close(&ctx);
    end_folder();
}
END_TEST

START_TEST(parts_of_packs)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    shell("mkdir flat empty && cp data/train/star/* flat && cp -r data lists && rm -r lists/val && "
          "echo path,label > lists/val.csv");
    notes n;
    ls_context *ctx = open_context(&n);
    ls_pack_split splits[LS_N_SPLITS];
    ck_assert_int_eq(ls_pack_open_splits(ctx, "data", splits), 2);
    ck_assert_str_eq(splits[1].name, "val");
    ck_assert_int_eq(ls_dataset_sample_count(splits[1].dataset), 10);
    ck_assert_int_eq(ls_pack_write(ctx, "a.pack", 2, splits, NULL, NULL), LS_OK);
    ck_assert_int_eq(ls_pack_open_splits(ctx, "data/train", splits), 1);
    ck_assert_str_eq(splits[0].name, "");
    ck_assert_int_eq(ls_pack_open_splits(ctx, "lists", splits), 1);
    ck_assert_str_eq(n.text, "lists/val.csv: a list, which a pack does not contain\n");
    ck_assert_int_eq(ls_pack_open_splits(ctx, "a.pack", splits), 0);
    fails(ctx, LS_ERR_DATA, "a.pack: is already a pack; expected a folder", NULL);
    ck_assert_int_eq(ls_pack_open_splits(ctx, "flat", splits), 0);
    fails(ctx, LS_ERR_DATA, "no class folders", "'lockstep train --data-dir flat --label-pattern");
    ck_assert_int_eq(ls_pack_open_splits(ctx, NULL, splits), 0);
    fails(ctx, LS_ERR_INVALID, "dir is NULL", NULL);
    ck_assert_int_eq(ls_pack_open_splits(NULL, "data", splits), 0);
    ls_context_close(&ctx);
    end_folder();
}
END_TEST

START_TEST(files_of_runs)
{
    char path[64];
    begin_folder();
    shell("mkdir -p a b c && touch a/last.safetensors a/config.json b/last.safetensors "
          "b/best.safetensors");
    ck_assert(ls_run_find_weights("a", path, sizeof(path)));
    ck_assert_str_eq(path, "a/last.safetensors");
    ck_assert(ls_run_find_weights("b", path, sizeof(path)));
    ck_assert_str_eq(path, "b/best.safetensors");
    ck_assert(ls_run_find_weights("none.pth", path, sizeof(path)));
    ck_assert_str_eq(path, "none.pth");
    ck_assert(!ls_run_find_weights("c", path, sizeof(path)));
    ck_assert_str_eq(path, "c");
    ck_assert(!ls_run_find_weights("none.pth", path, 8));
    ck_assert(ls_run_names_file("a/metrics.csv") && !ls_run_names_file("a/other.csv"));
    ck_assert(!ls_run_names_file("b/metrics.csv") && !ls_run_names_file(NULL));
    end_folder();
}
END_TEST

TEST_PROGRAM(dataset_path)
{
    return RUN_SUITE("dataset_path", kinds_of_paths, images_for_a_model, checks_of_paths,
                     parts_of_packs, files_of_runs);
}
