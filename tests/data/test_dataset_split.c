/* test_dataset_split.c: training and validation parts of one dataset. */
#include "../suite.h"
#include "loader_support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* n_classes folders "a", "b", ... with so many images each, which are empty files. */
static char *make_classes(int n_classes, const int *counts)
{
    char *folder = new_folder();
    for (int c = 0; c < n_classes; c++) {
        make_folder(path_in(folder, "%c", 'a' + c));
        for (int i = 0; i < counts[c]; i++)
            write_file(path_in(folder, "%c/%02d.png", 'a' + c, i), "", 0);
    }
    return folder;
}

static int count_label(const ls_dataset *data, int label)
{
    int n = 0;
    for (int64_t i = 0; i < ls_dataset_sample_count(data); i++)
        n += ls_dataset_label(data, i) == label;
    return n;
}

/* "a/03.png b/00.png ": the samples by name, below the folder. */
static const char *names_of(const ls_dataset *data, const char *folder, char text[4096])
{
    text[0] = '\0';
    for (int64_t i = 0; i < ls_dataset_sample_count(data); i++) {
        strcat(text, ls_dataset_sample_path(data, i) + strlen(folder) + 1);
        strcat(text, " ");
    }
    return text;
}

/* n = floor(samples * fraction + 0.5), at least 1, at most samples - 1. */
START_TEST(counts_of_each_class)
{
    static const int counts[] = { 10, 1, 2, 7, 13 };
    static const struct {
        double fraction;
        int validation[5];
    } cases[] = { { 0.2, { 2, 0, 1, 1, 3 } },     /* 1.4 and 2.6 */
                  { 0.25, { 3, 0, 1, 2, 3 } },    /* 2.5, 1.75, 3.25 */
                  { 0.01, { 1, 0, 1, 1, 1 } },    /* at least one */
                  { 0.99, { 9, 0, 1, 6, 12 } } }; /* one stays in training */
    char *folder = make_classes(5, counts);
    ls_context *ctx = ls_context_open(NULL);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        ls_dataset *data = ls_image_folder_open(ctx, folder), *train, *val;
        ck_assert_int_eq(ls_dataset_split(data, cases[k].fraction, 0, &train, &val), LS_OK);
        for (int c = 0; c < 5; c++) {
            ck_assert_int_eq(count_label(val, c), cases[k].validation[c]);
            ck_assert_int_eq(count_label(train, c), counts[c] - cases[k].validation[c]);
            ck_assert_str_eq(ls_dataset_class_name(val, c), ls_dataset_class_name(data, c));
        }
        ck_assert(strstr(ls_context_warning(ctx, 0), "classes with one sample: 1, such as 'b'"));
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Of other classes, in another folder, in another order. */
START_TEST(only_seed_and_path_choose)
{
    static const int counts[] = { 20, 20, 20 };
    char *folder = make_classes(3, counts), *copy = make_classes(2, counts);
    char names[5][4096];
    ls_context *ctx = ls_context_open(NULL);
    const char *classes[] = { "c", "b", "a" };
    ls_dataset *data[] = { ls_image_folder_open(ctx, folder), ls_image_folder_open(ctx, folder),
                           ls_image_folder_open(ctx, copy),
                           ls_image_folder_open_classes(ctx, folder, 3, classes) };
    for (int i = 0; i < 4; i++) {
        ls_dataset *train, *val;
        ck_assert_int_eq(ls_dataset_split(data[i], 0.2, i == 1, &train, &val), LS_OK);
        names_of(val, i == 2 ? copy : folder, names[i]);
        names_of(train, i == 2 ? copy : folder, names[4]);
        for (const char *at = names[i]; *at; at += strcspn(at, " ") + 1) {
            char name[32];
            snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, " "), at);
            ck_assert_ptr_null(strstr(names[4], name)); /* no sample is in both parts */
        }
    }
    ck_assert_str_ne(names[0], names[1]); /* another seed */
    ck_assert(strncmp(names[0], names[2], strlen(names[2])) == 0 && names[2][0] == 'a');
    /* the same names, class c first */
    const char *const b = strchr(names[0], 'b'), *const c = strchr(names[0], 'c');
    ck_assert(strncmp(names[3], c, strlen(c)) == 0);
    ck_assert(strncmp(names[3] + strlen(c), b, strlen(b) - strlen(c)) == 0);
    ls_context_close(&ctx);
    remove_folder(folder);
    remove_folder(copy);
}
END_TEST

/* The parts of a folder and of its packs give the same batches, after the whole is closed. */
START_TEST(parts_of_packs)
{
    static trace traces[3];
    char *folder = make_images(false);
    ls_context *ctx = ls_context_open(NULL);
    ls_digest digests[3][2];
    for (int i = 0; i < 3; i++) {
        ls_dataset *data = ls_image_folder_open(ctx, folder), *train, *val;
        if (i > 0) {
            const char *path = path_in(folder, "images%d.pack", i);
            const ls_pack_split split = { "", data };
            ls_pack_write(ctx, path, 1, &split, &(ls_pack_config){ .pixels = i == 2 }, NULL);
            ls_dataset_close(&data);
            data = ls_image_folder_open(ctx, path);
        }
        ls_digest other;
        ck_assert_int_eq(ls_dataset_split(data, 0.3, 6, &train, &val), LS_OK);
        ck_assert_int_eq(ls_dataset_digest(train, true, &other), LS_OK);
        ck_assert_int_eq(ls_dataset_split(data, 0.3, 5, &train, &val), LS_OK);
        ls_dataset_close(&data);
        ck_assert_int_eq(ls_dataset_digest(train, true, &digests[i][0]), LS_OK);
        ck_assert_int_eq(ls_dataset_digest(val, true, &digests[i][1]), LS_OK);
        ck_assert(!ls_digest_equal(digests[i][0], other)); /* its samples, not the first ones */
        run_epochs(ctx, train,
                   (ls_loader_config){ .batch_size = 8,
                                       .workers = 2,
                                       .shuffle = true,
                                       .resize = 16,
                                       .crop = 16,
                                       .flip_probability = 0.5f },
                   0, 1, &traces[i]);
        ck_assert_int_eq(traces[i].n_images, 2 * ls_dataset_sample_count(train));
        if (i > 0) expect_same_trace(&traces[0], &traces[i], "a pack");
        for (int part = 0; part < 2; part++)
            ck_assert(ls_digest_equal(digests[0][part], digests[i][part]));
        ls_dataset_close(&train);
        ls_dataset_close(&val);
    }
    ck_assert(!ls_digest_equal(digests[0][0], digests[0][1]));
    expect_ok(ctx);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* A part of a part, and a list, whose paths count as they were given. */
START_TEST(parts_of_parts_and_of_memory)
{
    enum { N = 40 };
    ls_context *ctx = ls_context_open(NULL);
    uint8_t pixels[N];
    int32_t labels[N];
    for (int i = 0; i < N; i++) pixels[i] = (uint8_t)i, labels[i] = i % 2;
    ls_dataset *data = ls_dataset_from_memory(ctx, pixels, LS_SHAPE(N, 1, 1, 1), labels, 2);
    ls_dataset *rest, *test, *train, *val;
    ck_assert_int_eq(ls_dataset_split(data, 0.5, 1, &rest, &test), LS_OK);
    ck_assert_int_eq(ls_dataset_split(rest, 0.25, 2, &train, &val), LS_OK);
    ls_dataset_close(&data);
    ls_dataset_close(&rest);
    bool seen[N] = { false };
    ls_dataset *const parts[] = { test, train, val };
    for (int p = 0; p < 3; p++) {
        ls_loader *loader = ls_loader_open(parts[p], &(ls_loader_config){ .batch_size = 1 });
        ls_batch batch;
        ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
        while (ls_loader_next(loader, &batch)) {
            uint8_t pixel;
            int32_t label;
            ck_assert_int_eq(ls_tensor_read(batch.images, &pixel, 1), LS_OK);
            ck_assert_int_eq(ls_tensor_read(batch.labels, &label, sizeof(label)), LS_OK);
            ck_assert(!seen[pixel] && label == pixel % 2);
            seen[pixel] = true;
        }
        ls_loader_close(&loader);
    }
    expect_ok(ctx);
    for (int i = 0; i < N; i++) ck_assert(seen[i]);
    ck_assert_int_eq(ls_dataset_sample_count(val), 6); /* floor(10 * 0.25 + 0.5) of each class */
    ls_context_close(&ctx);
}
END_TEST

START_TEST(mistakes)
{
    static const int counts[] = { 1, 1 };
    char *folder = make_classes(2, counts);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder), *train, *val;
    static const double fractions[] = { 0, 1, -0.1, 1.5, 0.0 / 0.0 };
    for (size_t i = 0; i < 5; i++) {
        ls_status status = ls_dataset_split(data, fractions[i], 0, &train, &val);
        ck_assert_int_eq(status, LS_ERR_INVALID);
        expect_error(ctx, LS_ERR_INVALID, "ls_dataset_split: fraction is", "more than 0");
    }
    expect_failure(ls_dataset_split(data, 0.5, 0, &train, &val), ctx, LS_ERR_DATA,
                   "no class has two images", "2 samples in 2 classes");
    ck_assert(!train && !val);
    expect_failure(ls_dataset_split(data, 0.5, 0, NULL, &val), ctx, LS_ERR_INVALID,
                   "train is NULL");
    const char *path = "a.png";
    ls_dataset *list = ls_image_list_open(ctx, 1, &path, NULL, 0);
    expect_failure(ls_dataset_split(list, 0.5, 0, &train, &val), ctx, LS_ERR_INVALID,
                   "sample 0 has no label");
    ck_assert_int_eq(ls_dataset_split(NULL, 0.5, 0, &train, &val), LS_ERR_EARLIER);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static bool split_folder(ls_context *ctx, void *folder)
{
    ls_dataset *train, *val;
    ls_dataset_split(ls_image_folder_open(ctx, folder), 0.3, 0, &train, &val);
    ck_assert_int_eq(train != NULL, val != NULL);
    return val != NULL;
}

START_TEST(every_allocation_may_fail)
{
    static const int counts[] = { 3, 2 };
    char *folder = make_classes(2, counts);
    fail_each_allocation(split_folder, folder);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(dataset_split)
{
    return RUN_SUITE("dataset_split", counts_of_each_class, only_seed_and_path_choose,
                     parts_of_packs, parts_of_parts_and_of_memory, mistakes,
                     every_allocation_may_fail);
}
