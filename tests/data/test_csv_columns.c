/* test_csv_columns.c: columns of lists that a program names, splits in a column, image roots, and
 * rows that are likely mistakes. */
#include "../suite.h"
#include "support.h"
#include <stdio.h>
#include <string.h>

/* "name=class " of each sample, names below the folder. */
static const char *listing(const ls_dataset *data, const char *folder, char out[1024])
{
    out[0] = '\0';
    for (int64_t i = 0; i < ls_dataset_sample_count(data); i++)
        sprintf(out + strlen(out), "%s=%s ", ls_dataset_sample_path(data, i) + strlen(folder) + 1,
                ls_dataset_class_name(data, ls_dataset_label(data, i)));
    return out;
}

#define WIDE  "id,color,shape,photo_url,when\n1,red,round,a.jpg,x\n2,blue,flat,b.jpg,y\n"
#define SPLIT "path,label,split\na.jpg,x,train\nb.jpg,y,Training\nc.jpg,x,val\nd.jpg,y,test\n"

START_TEST(columns)
{
    static const struct {
        const char *text;
        ls_csv_config config;
        const char *listing;
    } cases[] = {
        { WIDE,
          { .path_column = "photo_url", .label_column = "shape" },
          "a.jpg=round b.jpg=flat " },
        { WIDE, { .path_column = "4", .label_column = "2" }, "a.jpg=red b.jpg=blue " },
        { WIDE, { .label_column = "COLOR" }, "a.jpg=red b.jpg=blue " }, /* the path is recognized */
        { "a.jpg,1,x\nb.jpg,2,y\n", { .label_column = "3" }, "a.jpg=x b.jpg=y " }, /* no header */
        { "7,a.jpg,1,x\n8,b.jpg,2,y\n",
          { .path_column = "2", .label_column = "3" },
          "a.jpg=1 b.jpg=2 " },
        { "a.jpg,x,p1\nb.jpg,y,p2\n", { .group_column = "3" }, "a.jpg=x b.jpg=y " },
        { "k,v,who\na.jpg,x,p1\n", { .group_column = "who" }, "a.jpg=x " },
        { SPLIT, { .rows = LS_CSV_ROWS_TRAIN }, "a.jpg=x b.jpg=y " },
        { SPLIT, { .rows = LS_CSV_ROWS_VALIDATION }, "c.jpg=x " },
        { SPLIT, { .rows = LS_CSV_ROWS_TEST }, "d.jpg=y " },
        { "a.jpg,x,1\nb.jpg,y,2\n",
          { .path_column = "1", .label_column = "3" },
          "a.jpg=1 b.jpg=2 " },
        { "path,label,label\na.jpg,x,y\n", { .label_column = "3" }, "a.jpg=y " },
        { "path,label,path\na.jpg,x,b.jpg\n", { .path_column = "3" }, "b.jpg=x " },
        { "use,f,k\ntest,a.jpg,x\ntrain,b.jpg,y\n",
          { .split_column = "use", .rows = LS_CSV_ROWS_TRAIN },
          "b.jpg=y " },
        /* lists that were appended to each other */
        { "path,label\na.jpg,x\npath,label\nb.jpg,y\n", { 0 }, "a.jpg=x b.jpg=y " },
    };
    char *folder = new_folder();
    const char *const path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        write_text(path, cases[i].text);
        ls_dataset *data = ls_csv_open_config(ctx, path, &cases[i].config);
        ck_assert_msg(data != NULL, "case %zu: %s", i, ls_context_message(ctx));
        ck_assert_str_eq(listing(data, folder, text), cases[i].listing);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(mistakes)
{
    static const struct {
        const char *text;
        ls_csv_config config;
        ls_status status;
        const char *reason, *more;
    } cases[] = {
        { WIDE,
          { .label_column = "size" },
          LS_ERR_DATA,
          "no column 'size' (label_column)",
          "found 'id', 'color', 'shape', 'photo_url', 'when'" },
        { WIDE, { .label_column = "6" }, LS_ERR_DATA, "no column '6'", "line 1" },
        { WIDE, { .label_column = "0" }, LS_ERR_INVALID, "column 0 (label_column)", "1 or more" },
        { WIDE,
          { .label_column = "2", .path_column = "color" },
          LS_ERR_INVALID,
          "path_column and label_column are both column 2",
          "" },
        { "path,label,label\na.jpg,x,y\n",
          { .label_column = "label" },
          LS_ERR_DATA,
          "two columns 'label'",
          "a number" },
        { WIDE,
          { .group_column = "when" },
          LS_ERR_DATA,
          "a header with the columns",
          "or choose it (label_column)" },
        { WIDE,
          { .rows = LS_CSV_ROWS_TRAIN, .label_column = "2" },
          LS_ERR_DATA,
          "no column of splits",
          "(split_column)" },
        { SPLIT "e.jpg,x,extra\n",
          { .rows = LS_CSV_ROWS_TRAIN },
          LS_ERR_DATA,
          "line 6: 'extra' is no split",
          "'train', 'val' or 'test'" },
        { "path,label,split\na.jpg,x,train\n",
          { .rows = LS_CSV_ROWS_TEST },
          LS_ERR_DATA,
          "no rows of this split",
          "" },
        { "file,kind\na.jpg,x\nb.jpg,y\n",
          { .group_column = "file", .label_column = "kind" },
          LS_ERR_DATA,
          "column 1 (group_column) has the images",
          "" },
        { "a.jpg,x\n",
          { .image_root = "/none/here" },
          LS_ERR_INVALID,
          "image_root '/none/here' is no folder",
          "" },
        { "path,target_x,target_x\na.jpg,1,2\n",
          { .path_column = "path" },
          LS_ERR_DATA,
          "two columns 'target_x'",
          "line 1" },
        { "path,label,LABEL,who\na.jpg,x,y,z\n",
          { .group_column = "who" },
          LS_ERR_DATA,
          "two columns 'label'",
          "line 1" },
        { "path,label,Path\na.jpg,x,b.jpg\n",
          { .label_column = "2" },
          LS_ERR_DATA,
          "two columns 'path'",
          "line 1" },
        { "a.jpg,x\n", { .rows = 4 }, LS_ERR_INVALID, "no such rows", "" },
        { "a.jpg,x,1\n",
          { 0 },
          LS_ERR_DATA,
          "3 fields, expected 2",
          "(path_column, label_column)" },
        { "\xff\xfe"
          "a",
          { 0 },
          LS_ERR_DATA,
          "UTF-16",
          "iconv -f UTF-16 -t UTF-8" },
        { "\xfe\xff"
          "a",
          { 0 },
          LS_ERR_DATA,
          "UTF-16",
          "iconv -f UTF-16 -t UTF-8" },
    };
    char *folder = new_folder();
    const char *const path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_text(path, cases[i].text);
        ck_assert_ptr_null(ls_csv_open_config(ctx, path, &cases[i].config));
        expect_error(ctx, cases[i].status, cases[i].reason, cases[i].more);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(counts_of_splits)
{
    static const struct {
        const char *text, *column;
        int64_t counts[LS_N_SPLITS];
    } cases[] = { { SPLIT, NULL, { 2, 1, 1 } },
                  { "path,label,Subset\na.jpg,x,test\n", NULL, { 0, 0, 1 } },
                  { "path,label,fold\na.jpg,x,train\nb.jpg,x,dev\n", NULL, { 0 } },
                  { "path,label,fold\na.jpg,x,train\nb.jpg,x,valid\n", "fold", { 1, 1, 0 } },
                  { "path,label,set\na.jpg,x,train\nb.jpg,x,7\n", NULL, { 0 } },
                  { "a.jpg,x\n", NULL, { 0 } } };
    char *folder = new_folder();
    const char *const path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t counts[LS_N_SPLITS];
        const ls_csv_config config = { .split_column = cases[i].column };
        write_text(path, cases[i].text);
        ck_assert_int_eq(ls_csv_count_splits(ctx, path, &config, counts), LS_OK);
        for (int s = 0; s < LS_N_SPLITS; s++) ck_assert_int_eq(counts[s], cases[i].counts[s]);
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(warnings)
{
    static const struct {
        const char *text, *warning;
    } cases[] = {
        { "path,label\na.jpg,x\nb.jpg,y\n./a.jpg,y\n",
          "several classes: 1, such as '%s/a.jpg': 'x' in line 2, 'y' in line 4" },
        { "a.jpg,x\na.jpg,x\n", NULL },
        { SPLIT, "although column 'split' divides them" },
        { "path,label,split\na.jpg,x,train\nb.jpg,y,train\n", NULL },
        { "path,label,split\na.jpg,x,train\nb.jpg,y,val\nc.jpg,y,left\n", NULL },
    };
    char *folder = new_folder();
    const char *const path = path_in(folder, "list.csv");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_context *ctx = ls_context_open(NULL);
        char wanted[1024];
        write_text(path, cases[i].text);
        ck_assert_ptr_nonnull(ls_csv_open(ctx, path, 0, NULL));
        ck_assert_int_eq(ls_context_warning_count(ctx), cases[i].warning != NULL);
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        if (cases[i].warning) {
            snprintf(wanted, sizeof(wanted), cases[i].warning, folder);
            ck_assert_msg(strstr(ls_context_warning(ctx, 0), wanted) != NULL, "case %zu: %s", i,
                          ls_context_warning(ctx, 0));
        }
        ls_context_close(&ctx);
    }
    remove_folder(folder);
}
END_TEST

/* The names, and so digest and split, are those of a list in the folder of its images. */
START_TEST(image_root)
{
    char *folder = new_folder();
    make_folder(path_in(folder, "images"));
    make_folder(path_in(folder, "lists"));
    write_file(path_in(folder, "images/7.jpg"), "x", 1);
    write_text(path_in(folder, "lists/list.csv"), "id,label\n7,cat\n");
    write_text(path_in(folder, "images/list.csv"), "id,label\n7,cat\n");
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *here = ls_csv_open(ctx, path_in(folder, "images/list.csv"), 0, NULL);
    ls_digest wanted, digest;
    ck_assert_int_eq(ls_dataset_digest(here, false, &wanted), LS_OK);
    for (int slash = 0; slash < 2; slash++) {
        const ls_csv_config config = { .image_root =
                                           path_in(folder, "images%s", slash ? "/" : "") };
        ls_dataset *data = ls_csv_open_config(ctx, path_in(folder, "lists/list.csv"), &config);
        ck_assert_str_eq(ls_dataset_sample_path(data, 0), path_in(folder, "images/7.jpg"));
        ck_assert_int_eq(ls_dataset_digest(data, false, &digest), LS_OK);
        ck_assert(ls_digest_equal(digest, wanted));
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static bool open_rows(ls_context *ctx, void *path)
{
    const ls_csv_config config = { .rows = LS_CSV_ROWS_TRAIN,
                                   .group_column = "g",
                                   .image_root = "." };
    return ls_csv_open_config(ctx, path, &config) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    char *folder = new_folder();
    const char *const path = path_in(folder, "list.csv");
    write_text(path, "path,label,split,g\na.jpg,x,train,1\na.jpg,y,train,2\nb.jpg,y,val,3\n");
    fail_each_allocation(open_rows, (void *)path);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(csv_columns)
{
    return RUN_SUITE("csv_columns", columns, mistakes, counts_of_splits, warnings, image_root,
                     every_allocation_may_fail);
}
