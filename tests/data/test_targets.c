/* test_targets.c: samples with several labels or with numbers: CSV lists, callbacks, digests,
 * splits, and the batches of a loader. */
#include "../suite.h"
#include "support.h"
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_dataset *open_text(ls_context *ctx, const char *path, const char *text)
{
    write_text(path, text);
    return ls_csv_open(ctx, path, 0, NULL);
}

/* "name,name: 1 0|0 1|": the targets' names, and those of each sample. */
static const char *listing(const ls_dataset *data, char out[1024])
{
    const int n = ls_dataset_target_count(data);
    out[0] = '\0';
    for (int k = 0; k < n; k++)
        sprintf(out + strlen(out), "%s%s", ls_dataset_target_name(data, k), k + 1 < n ? "," : ":");
    for (int64_t i = 0; i < ls_dataset_sample_count(data); i++)
        for (int k = 0; k < n; k++)
            sprintf(out + strlen(out), "%s%g",
                    k   ? " "
                    : i ? "|"
                        : " ",
                    (double)ls_dataset_targets(data, i)[k]);
    return out;
}

START_TEST(lists)
{
    static const struct {
        const char *text, *listing;
    } cases[] = {
        { "path,labels\na,cat;dog\nb,\nc,dog\n", "cat,dog: 1 1|0 0|0 1" },
        { "Labels,x,File\n\" dog ; cat \",1,a\ncat,2,b\n", "cat,dog: 1 1|1 0" },
        { "path,labels\na,10;9\nb,100\n", "9,10,100: 1 1 0|0 0 1" }, /* by value */
        { "path,target\na,1.5\nb,-2e-3\n", "target: 1.5|-0.002" },
        { "target_y,image,note,TARGET_x\n1,a,n,2\n-3,b,n,+4.5\n", "target_y,TARGET_x: 1 2|-3 4.5" },
        { "path,target_x,target_X\na,1,2\n", "target_x,target_X: 1 2" },
        { "path,labels,target\na,x,7\n", "x: 1" },     /* the labels come first */
        { "path,label,target,labels\na,x,7,y\n", "" }, /* a class comes first */
    };
    char *folder = new_folder(), text[1024];
    const char *path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it exists, numbers still have points */
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        ls_dataset *data = open_text(ctx, path, cases[k].text);
        expect_ok(ctx);
        ck_assert_str_eq(listing(data, text), cases[k].listing);
        const bool has_targets = *cases[k].listing;
        ck_assert_int_eq(ls_dataset_class_count(data) == 0, has_targets);
        ck_assert_int_eq(ls_dataset_label(data, 0) == -1, has_targets);
        ck_assert_int_eq(ls_dataset_targets_are_labels(data),
                         has_targets && strstr(cases[k].text, "abels") != NULL);
        ck_assert_ptr_null(ls_dataset_targets(data, 2 + has_targets * 8));
        ck_assert_ptr_null(ls_dataset_target_name(data, 9));
    }
    setlocale(LC_ALL, "C");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(refused_lists)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "path,labels\na,cat;;dog\n", "line 2: an empty label" },
        { "path,labels\na,cat;\n", "line 2: an empty label" },
        { "path,labels\na,dog\nb,cat;dog; cat\n", "line 3: the label 'cat' twice" },
        { "path,labels\na,\nb, \n", "no row has a label" },
        { "path,target\na,x\n", "line 2: the target 'x' is no finite number of type f32" },
        { "path,target\na,1\nb,\n", "line 3: the target ''" },
        { "path,target\na,\"1 \"\n", "line 2: the target '1 '" },
        { "path,target\na,1e39\n", "line 2: the target '1e39'" },
        { "path,target\na,nan\n", "line 2: the target 'nan'" },
        { "path,target\na,0x1\n", "line 2: the target '0x1'" },
        { "path,target\na,\"1,5\"\n", "line 2: the target '1,5'" },
        { "path,target,target\na,1,2\n", "line 1: two columns 'target'" },
        { "path,labels,Labels\na,x,y\n", "line 1: two columns 'labels'" },
        { "path,target_x,target_y\na,1\n", "line 2: 2 fields, expected 3, as in the header" },
        { "path,target\na\n", "line 2: 1 field, expected 2, as in the header" },
        { "path,target\n", "no rows" },
    };
    char *folder = new_folder();
    const char *path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        ck_assert_ptr_null(open_text(ctx, path, cases[k].text));
        ck_assert(!strstr(ls_context_message(ctx), "a path and a label"));
        expect_error(ctx, LS_ERR_DATA, path, cases[k].said);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Rows x labels, which a short file may have too many of. */
START_TEST(too_many_targets)
{
    enum { ROWS = 33000 };
    char *folder = new_folder(), *text = malloc(ROWS * 16 + 16);
    const char *path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    int n = sprintf(text, "path,labels\n");
    for (int i = 0; i < ROWS; i++) n += sprintf(text + n, "a,%d\n", i);
    ck_assert_ptr_null(open_text(ctx, path, text));
    expect_error(ctx, LS_ERR_UNSUPPORTED, path, "33000 rows with 33000 labels",
                 "at most 1073741824 targets");
    free(text);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Validation lists: labels and columns in the order of the training data. */
START_TEST(given_names)
{
    static const char *const names[] = { "target_b", "target_a" }, *const labels[] = { "y", "x" };
    char *folder = new_folder(), text[1024];
    const char *path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    write_text(path, "path,target_a,target_b,target_c\np,1,2,3\n");
    ck_assert_str_eq(listing(ls_csv_open(ctx, path, 2, names), text), "target_b,target_a: 2 1");
    ck_assert_ptr_null(ls_csv_open(ctx, path, 2, labels));
    expect_error(ctx, LS_ERR_MISMATCH, path, "line 1: no column of numbers 'y'");
    write_text(path, "path,labels\np,x\nq,\n");
    ck_assert_str_eq(listing(ls_csv_open(ctx, path, 2, labels), text), "y,x: 0 1|0 0");
    ck_assert_ptr_null(ls_csv_open(ctx, path, 1, labels));
    expect_error(ctx, LS_ERR_MISMATCH, path,
                 "line 2: the label 'x' is not among the 1 known classes, such as 'y'");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static ls_digest digest_of(ls_context *ctx, const char *path, const char *text)
{
    ls_digest digest;
    ck_assert_int_eq(ls_dataset_digest(open_text(ctx, path, text), false, &digest), LS_OK);
    return digest;
}

START_TEST(digests)
{
    static const char *const differ[] = {
        "path,target\na,1\nb,2\n",
        "path,target\na,1\nb,3\n",
        "path,target\na,2\nb,1\n",
        "path,labels\na,x\nb,y\n",
        "path,labels\na,x\nb,\n",
        "path,label\na,1\nb,2\n",
        "path,target,target_2\na,1,0\nb,2,0\n",
    };
    enum { COUNT = sizeof(differ) / sizeof(differ[0]) };
    char *folder = new_folder();
    const char *path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    ls_digest all[COUNT];
    for (int i = 0; i < COUNT; i++) {
        all[i] = digest_of(ctx, path, differ[i]);
        for (int k = 0; k < i; k++) ck_assert(!ls_digest_equal(all[i], all[k]));
    }
    ck_assert(ls_digest_equal(all[0], digest_of(ctx, path, "target,x,path\n1.0,2,a\n20e-1,3,b\n")));
    /* A class list has the digest that it has always had. */
    char text[LS_DIGEST_TEXT_SIZE];
    const ls_digest classes = digest_of(ctx, path, "x.png,cat\ny.png,dog\nz.png,cat\n");
    ck_assert_str_eq(ls_digest_text(classes, text), "231e609da9f9cf098f00bfc80d7e3190");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* ---- Batches ---- */

enum { N = 20, SIDE = 4, N_TARGETS = 3 };

static ls_status load(void *user, int64_t sample, ls_image_writer *out)
{
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE, SIDE);
    if (sample == 7 && user) return LS_ERR_DATA;
    if (pixels) memset(pixels, (int)sample, SIDE * SIDE * 3);
    return LS_OK;
}

static void target(void *user, int64_t sample, float *out)
{
    (void)user;
    for (int k = 0; k < N_TARGETS; k++) out[k] = (float)sample + 0.25f * (float)k;
}

static void bad_target(void *user, int64_t sample, float *out)
{
    target(user, sample, out);
    if (sample == 5) out[2] = INFINITY;
}

static int label(void *user, int64_t sample)
{
    (void)user;
    return (int)(sample % 2);
}

static ls_dataset *open_callbacks(ls_context *ctx, bool has_bad, bool has_labels)
{
    static int bad;
    return ls_dataset_from_callbacks(ctx, &(ls_dataset_callbacks){
                                              .sample_count = N,
                                              .n_classes = has_labels ? 2 : 0,
                                              .label = has_labels ? label : NULL,
                                              .load = load,
                                              .target = target,
                                              .n_targets = N_TARGETS,
                                              .user = has_bad ? &bad : NULL,
                                          });
}

/* The targets of a batch are those of its samples. Returns a digest of all targets. */
static uint64_t check_batches(ls_loader *loader)
{
    uint64_t sum = 0;
    ls_batch batch;
    ck_assert_int_eq(ls_loader_start(loader, 1), LS_OK);
    while (ls_loader_next(loader, &batch)) {
        float got[N * N_TARGETS], want[N_TARGETS];
        const size_t bytes = (size_t)batch.n * N_TARGETS * sizeof(float);
        ck_assert(ls_shape_equal(ls_tensor_shape(batch.targets), &LS_SHAPE(batch.n, N_TARGETS)));
        ck_assert_int_eq(ls_tensor_read(batch.targets, got, bytes), LS_OK);
        for (int64_t i = 0; i < batch.n; i++) {
            uint8_t pixels[N * SIDE * SIDE * 3];
            ck_assert_int_eq(
                ls_tensor_read(batch.images, pixels, (size_t)batch.n * SIDE * SIDE * 3), LS_OK);
            const int64_t sample = pixels[i * SIDE * SIDE * 3];
            target(NULL, sample, want);
            ck_assert_mem_eq(got + i * N_TARGETS, want, sizeof(want));
            sum = sum * 31 + (uint64_t)sample;
        }
    }
    ck_assert_int_eq(ls_loader_status(loader), LS_OK);
    return sum;
}

START_TEST(batches)
{
    for (int variant = 0; variant < 4; variant++) {
        uint64_t sums[3];
        for (int workers = 0; workers < 3; workers++) {
            ls_context *ctx = ls_context_open(NULL);
            ls_dataset *all = open_callbacks(ctx, variant & 1, variant & 2), *train, *val;
            ls_loader_config config = { .batch_size = 6,
                                        .shuffle = true,
                                        .workers = workers,
                                        .sampler =
                                            variant & 2 ? LS_SAMPLER_BALANCED : LS_SAMPLER_ALL,
                                        .on_bad_image = LS_BAD_IMAGE_SKIP };
            ls_loader *loader = ls_loader_open(all, &config);
            expect_ok(ctx);
            const ls_input_spec spec = ls_loader_input_spec(loader);
            ck_assert(spec.n_targets == N_TARGETS && spec.n_classes == (variant & 2));
            sums[workers] = check_batches(loader);
            ck_assert_uint_eq(sums[workers], sums[0]);
            /* All samples of a split without labels count as one class. */
            ck_assert_int_eq(ls_dataset_split(all, 0.2, 3, &train, &val), LS_OK);
            ls_dataset_close(&all);
            ck_assert_int_eq(ls_dataset_sample_count(val), N / 5);
            ck_assert_int_eq(ls_dataset_target_count(val), N_TARGETS);
            loader = ls_loader_open(val, &config);
            check_batches(loader);
            ls_context_close(&ctx);
        }
    }
}
END_TEST

START_TEST(misuse)
{
    static const char *const no_names[] = { "a", NULL, "c" };
    ls_dataset_callbacks c = { .sample_count = N, .load = load, .n_targets = 1 };
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "n_targets is 1 without target");
    c.target = bad_target;
    c.n_targets = 0;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "n_targets is 0 with target");
    c.n_targets = (1 << 20) + 1;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "n_targets 1048577, expected at most 1048576", "");
    c.n_targets = N_TARGETS;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_DATA, "target 2 of sample 5 is inf");
    c.target_names = no_names;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "target_names[1] is NULL");

    ls_loader_config config = { .batch_size = 2, .shuffle = true, .mixup_alpha = 1 };
    ls_dataset *labelled = open_callbacks(ctx, false, true);
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(
            ls_loader_open(i ? labelled : open_callbacks(ctx, false, false), &config));
        expect_error(ctx, LS_ERR_INVALID, "the samples have targets of their own");
    }
    config = (ls_loader_config){ .batch_size = 2, .shuffle = true, .sampler = LS_SAMPLER_BALANCED };
    ck_assert_ptr_null(ls_loader_open(open_callbacks(ctx, false, false), &config));
    expect_error(ctx, LS_ERR_INVALID, "sampler is balanced, but the samples have no labels");
    int64_t counts[2];
    ck_assert_int_eq(ls_dataset_class_sizes(open_callbacks(ctx, false, false), counts),
                     LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "the samples have no labels");
    ls_context_close(&ctx);
}
END_TEST

static bool open_list(ls_context *ctx, void *path)
{
    return ls_csv_open(ctx, path, 0, NULL) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    char *folder = new_folder(), path[512];
    static const char *const texts[] = { "path,labels\na,x;y\n/b,y\nc,\n",
                                         "path,target_x,target_y\na,1,2\nb,3,4\n" };
    snprintf(path, sizeof(path), "%s", path_in(folder, "list.csv"));
    for (int k = 0; k < 2; k++) {
        write_text(path, texts[k]);
        fail_each_allocation(open_list, path);
    }
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(targets)
{
    return RUN_SUITE("targets", lists, refused_lists, too_many_targets, given_names, digests,
                     batches, misuse, every_allocation_may_fail);
}
