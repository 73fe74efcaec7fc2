/* test_splits.c: the parts of a dataset by the names of folders and lists. */
#include "../suite.h"

#include <lockstep/data.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(names)
{
    static const struct {
        const char *name;
        int split; /* -1: none */
    } cases[] = {
        { "train", LS_SPLIT_TRAIN },
        { "Train", LS_SPLIT_TRAIN },
        { "TRAINING", LS_SPLIT_TRAIN },
        { "train_images", LS_SPLIT_TRAIN },
        { "Training Set", LS_SPLIT_TRAIN },
        { "trainset", LS_SPLIT_TRAIN },
        { "images-train", LS_SPLIT_TRAIN },
        { "seg_train", LS_SPLIT_TRAIN },
        { "val", LS_SPLIT_VALIDATION },
        { "Validation", LS_SPLIT_VALIDATION },
        { "valid", LS_SPLIT_VALIDATION },
        { "val.images", LS_SPLIT_VALIDATION },
        { "validation_data", LS_SPLIT_VALIDATION },
        { "test", LS_SPLIT_TEST },
        { "Testing", LS_SPLIT_TEST },
        { "test_set", LS_SPLIT_TEST },
        { "", -1 },
        { "images", -1 },
        { "trains", -1 },
        { "invalid", -1 },
        { "train_val", -1 },
        { "train_cat", -1 },
        { "test1", -1 },
        { "train_annotations", -1 },
        { "train_labels", -1 },
        { "trainer", -1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_split split = LS_N_SPLITS;
        const bool found = ls_split_of_name(cases[i].name, &split);
        ck_assert_msg(found == (cases[i].split >= 0), "'%s'", cases[i].name);
        if (found) ck_assert_msg((int)split == cases[i].split, "'%s'", cases[i].name);
    }
    ck_assert(ls_split_of_name("train", NULL));
    ck_assert(!ls_split_of_name(NULL, NULL));
}
END_TEST

/* A new folder with these folders. */
static char *make_folders(const char *const *paths)
{
    char *folder = new_folder();
    for (; *paths; paths++) make_folder(path_in(folder, "%s", *paths));
    return folder;
}

/* A wanted name with an extension is a list's, "train" that of a folder without folders. */
static void expect_split(const char *dir, ls_split split, int i, const char *wanted)
{
    char path[512] = "none";
    ls_split_kind kind = LS_SPLIT_CLASS_FOLDERS, wanted_kind = LS_SPLIT_CLASS_FOLDERS;
    const ls_status status = ls_split_find(dir, split, i, path, sizeof(path), &kind);
    ck_assert_int_eq(status, wanted ? LS_OK : LS_ERR_NOT_FOUND);
    ck_assert_msg(!wanted || strcmp(path, wanted) == 0, "%d: got '%s', expected '%s'", i, path,
                  wanted ? wanted : "none");
    if (wanted && strchr(wanted, '.')) wanted_kind = LS_SPLIT_LIST;
    if (wanted && (i == 2 || strcmp(wanted, "Test") == 0)) wanted_kind = LS_SPLIT_FLAT_FOLDER;
    ck_assert_int_eq(kind, wanted_kind);
}

START_TEST(folders_and_lists)
{
    char *dir =
        make_folders((const char *[]){ "Training", "Training/a", "train_images", "valid", "valid/a",
                                       "val", "val/a", "__MACOSX", "Test", "other", NULL });
    write_file(path_in(dir, "train_labels.csv"), "", 0);
    write_file(path_in(dir, "._train.csv"), "", 0);
    make_folder(path_in(dir, ".train"));
    make_folder(path_in(dir, ".train/a"));
    write_file(path_in(dir, "TEST.CSV"), "", 0);
    expect_split(dir, LS_SPLIT_TRAIN, 0, "Training");
    expect_split(dir, LS_SPLIT_TRAIN, 1,
                 "train_labels.csv"); /* "train_images" has no class folders */
    expect_split(dir, LS_SPLIT_TRAIN, 2, NULL);
    expect_split(dir, LS_SPLIT_VALIDATION, 0, "val");
    expect_split(dir, LS_SPLIT_VALIDATION, 1, "valid");
    expect_split(dir, LS_SPLIT_VALIDATION, 2, NULL);
    expect_split(dir, LS_SPLIT_TEST, 0, "TEST.CSV");
    expect_split(dir, LS_SPLIT_TEST, 1, "Test"); /* beside training images it is no class */
    expect_split(dir, LS_SPLIT_TEST, 2, NULL);
    make_folder(path_in(dir, "train")); /* exactly, but without class folders */
    expect_split(dir, LS_SPLIT_TRAIN, 1, "train_labels.csv");
    expect_split(dir, LS_SPLIT_TRAIN, 2, "train");
    make_folder(path_in(dir, "train/b"));
    expect_split(dir, LS_SPLIT_TRAIN, 0, "train");
    char small[4];
    ls_status status = ls_split_find(dir, LS_SPLIT_TRAIN, 0, small, sizeof(small), NULL);
    ck_assert_int_eq(status, LS_ERR_INVALID);
    status = ls_split_find(dir, LS_SPLIT_TRAIN, -1, small, sizeof(small), NULL);
    ck_assert_int_eq(status, LS_ERR_INVALID);
    status = ls_split_find(NULL, LS_SPLIT_TRAIN, 0, small, sizeof(small), NULL);
    ck_assert_int_eq(status, LS_ERR_INVALID);
    expect_split(path_in(dir, "TEST.CSV"), LS_SPLIT_TRAIN, 0, NULL);
    if (geteuid() != 0) { /* root reads it */
        char path[16];
        ck_assert_int_eq(chmod(dir, 0300), 0);
        status = ls_split_find(dir, LS_SPLIT_TRAIN, 0, path, sizeof(path), NULL);
        ck_assert_int_eq(chmod(dir, 0700), 0);
        ck_assert_int_eq(status, LS_ERR_IO);
    }
    expect_split(path_in(dir, "none"), LS_SPLIT_TRAIN, 0, NULL);
    remove_folder(dir);
}
END_TEST

/* As archives unpack: seg_train/seg_train/CLASS. */
START_TEST(folders_in_folders)
{
    char *dir =
        make_folders((const char *[]){ "seg_train", "seg_train/seg_train", "seg_train/seg_train/a",
                                       "seg_test", "seg_test/only", "seg_test/__MACOSX", NULL });
    expect_split(dir, LS_SPLIT_TRAIN, 0, "seg_train/seg_train");
    expect_split(dir, LS_SPLIT_TEST, 0, "seg_test"); /* one class, "only" */
    write_file(path_in(dir, "seg_train/1.png"), "", 0);
    expect_split(dir, LS_SPLIT_TRAIN, 0, "seg_train");
    remove_folder(dir);
}
END_TEST

TEST_PROGRAM(splits)
{
    return RUN_SUITE("splits", names, folders_and_lists, folders_in_folders);
}
