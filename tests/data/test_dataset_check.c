/* test_dataset_check.c: ls_dataset_check finds each planted fault and nothing else, whatever the
 * number of workers. */
#include "planted.h"
#include "support.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static ls_context *ctx;

static void open_context(void)
{
    ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
}

static void close_context(void)
{
    ls_context_close(&ctx);
}

static ls_dataset_report *check(const char *folder, int workers)
{
    ls_dataset_report *report =
        ls_dataset_check(ctx, folder, &(ls_dataset_check_config){ .workers = workers });
    expect_ok(ctx);
    return report;
}

static void expect_finding(const ls_dataset_report *report, int64_t i, ls_finding_kind kind,
                           const char *path, const char *reason)
{
    const ls_finding f = ls_dataset_report_finding_at(report, i);
    ck_assert_msg(f.kind == kind && strcmp(f.path, path) == 0 && strstr(f.reason, reason),
                  "finding %d is %s, %s: %s; expected %s, %s: %s", (int)i, ls_finding_name(f.kind),
                  f.path, f.reason, ls_finding_name(kind), path, reason);
}

START_TEST(nothing_is_found_in_a_clean_folder)
{
    char *folder = new_folder();
    make_clean_folder(folder);
    open_context();
    for (int workers = 0; workers < 3; workers++) {
        ls_dataset_report *report = check(workers == 1 ? path_in(folder, "//") : folder, workers);
        ck_assert_int_eq(ls_dataset_report_finding_count(report), 0);
        const ls_dataset_summary s = ls_dataset_report_summary(report);
        ck_assert(s.n_images == 24 && s.n_readable == 24);
        ck_assert(s.width.min == 32 && s.width.median == 32 && s.width.max == 32);
        ck_assert(s.height.min == 24 && s.height.median == 24 && s.height.max == 24);
        ck_assert_int_eq(ls_dataset_report_class_count(report), 6);
        const ls_class_summary c = ls_dataset_report_class_at(report, 4);
        ck_assert_str_eq(c.split, "val");
        ck_assert_str_eq(c.name, "dog");
        ck_assert(c.n_images == 4 && c.n_readable == 4);
        ls_dataset_report_close(&report);
    }
    /* Class folders without train and val; the images are larger than what is very small. */
    ls_dataset_report *report = check(path_in(folder, "train"), 0);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 0);
    ck_assert_str_eq(ls_dataset_report_class_at(report, 0).split, "");
    report = ls_dataset_check(ctx, folder, &(ls_dataset_check_config){ .min_side = 24 });
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 0);
    report = ls_dataset_check(ctx, folder, &(ls_dataset_check_config){ .min_side = 25 });
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 24);
    expect_finding(report, 23, LS_FINDING_SMALL, "val/fox/3.jpg", "32 x 24 pixels");
    report = ls_dataset_check(ctx, folder, &(ls_dataset_check_config){ .max_pixels = 767 });
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 24);
    expect_finding(report, 0, LS_FINDING_UNREADABLE, "train/cat/0.jpg", "limit of 767");
    close_context();
    remove_folder(folder);
}
END_TEST

START_TEST(planted_faults_are_found)
{
    static const int workers[] = { 0, 1, 3 };
    char *folder = new_folder();
    make_clean_folder(folder);
    plant_faults(folder);
    open_context();
    for (int w = 0; w < 3; w++) {
        ls_dataset_report *report = check(folder, workers[w]);
        for (int i = 0; i < N_PLANTED; i++)
            expect_finding(report, i, planted[i].kind, planted[i].path, planted[i].reason);
        ck_assert_int_eq(ls_dataset_report_finding_count(report), N_PLANTED);
        const ls_dataset_summary s = ls_dataset_report_summary(report);
        ck_assert_int_eq(s.n_images, 53);
        ck_assert_int_eq(s.n_readable, 46);
        ck_assert(s.width.min == 15 && s.width.median == 32 && s.width.max == 40);
        ls_dataset_report_close(&report);
    }
    close_context();
    remove_folder(folder);
}
END_TEST

/* ---- Arrangements ---- */

/* Makes these folders with an image in each file, checks, and expects one finding about the
 * arrangement before the others. */
static void expect_layout(const char *const *paths, const char *folder_of_finding,
                          const char *reason)
{
    char *folder = new_folder();
    for (unsigned i = 0; paths[i]; i++) {
        if (!strchr(paths[i], '.')) {
            make_folder(path_in(folder, "%s", paths[i]));
            continue;
        }
        uint8_t *pixels = draw_scene(20, 20, i);
        write_png(path_in(folder, "%s", paths[i]), 20, 20, 3, pixels);
        free(pixels);
    }
    ls_dataset_report *report = check(folder, 0);
    expect_finding(report, 0, LS_FINDING_LAYOUT, folder_of_finding, reason);
    ck_assert_msg(ls_dataset_report_finding_count(report) == 1, "also %s: %s",
                  ls_dataset_report_finding_at(report, 1).path,
                  ls_dataset_report_finding_at(report, 1).reason);
    ls_dataset_report_close(&report);
    remove_folder(folder);
}
#define EXPECT_LAYOUT(folder, reason, ...)                                                         \
    expect_layout((const char *const[]){ __VA_ARGS__, NULL }, folder, reason)

START_TEST(wrong_arrangements)
{
    open_context();
    EXPECT_LAYOUT("", "no class folders; found 0 images", "a.csv");
    EXPECT_LAYOUT("train", "no class folders; found 1 image", "train", "train/1.png");
    EXPECT_LAYOUT("val", "no class folders; found 0 images", "train", "train/a", "train/a/1.png",
                  "train/b", "train/b/1.png", "val");
    EXPECT_LAYOUT("", "one class only, 'a'", "a", "a/1.png");
    EXPECT_LAYOUT("", "1 image outside of class folders", "a", "a/1.png", "b", "b/1.png", "0.png");
    EXPECT_LAYOUT("", "1 image outside of class folders", "train", "train/a", "train/a/1.png",
                  "train/b", "train/b/1.png", "0.png");
    EXPECT_LAYOUT("", "one folder too many: 'photos' holds no images, but folders such as 'train'",
                  "photos", "photos/train", "photos/train/a", "photos/train/a/1.png",
                  "photos/train/b", "photos/train/b/1.png");
    EXPECT_LAYOUT("Train", "one class only, 'a'", "Train", "Train/a", "Train/a/1.png");
    EXPECT_LAYOUT("",
                  "no class folder holds images itself; they lie in folders below, such as "
                  "'a/train'",
                  "a", "a/train", "a/train/1.png", "b", "b/train", "b/train/1.png");
    EXPECT_LAYOUT("", "no folder 'train' beside 'test'", "test", "test/a", "test/a/1.png", "test/b",
                  "test/b/1.png");
    close_context();
}
END_TEST

START_TEST(empty_class_folders)
{
    char *folder = new_folder();
    open_context();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    const ls_dataset_report *report = check(folder, 0);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 2);
    expect_finding(report, 0, LS_FINDING_EMPTY_CLASS, "a", "no images");
    expect_finding(report, 1, LS_FINDING_EMPTY_CLASS, "b", "no images");
    ck_assert_int_eq(ls_dataset_report_summary(report).width.max, 0);
    close_context();
    remove_folder(folder);
}
END_TEST

static void write_scene(const char *path, int height, int width, unsigned seed)
{
    uint8_t *pixels = draw_scene(height, width, seed);
    write_png(path, height, width, 3, pixels);
    free(pixels);
}

/* Images without classes are no wrong arrangement of class folders, alone or for tests. */
START_TEST(unlabelled_images)
{
    char *folder = new_folder();
    open_context();
    write_scene(path_in(folder, "1.png"), 20, 20, 1);
    write_scene(path_in(folder, "2.png"), 20, 20, 2);
    write_file(path_in(folder, "3.png"), "x", 1);
    ls_dataset_report *report = check(folder, 0);
    ck_assert_int_eq(ls_dataset_report_class_count(report), 1);
    const ls_class_summary all = ls_dataset_report_class_at(report, 0);
    ck_assert_ptr_null(all.name);
    ck_assert_int_eq(all.n_images, 3);
    ck_assert_int_eq(all.n_readable, 2);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 1);
    expect_finding(report, 0, LS_FINDING_UNREADABLE, "3.png", "");
    ls_dataset_report_close(&report);
    for (int i = 0; i < 3; i++) {
        static const char *const folders[] = { "train", "train/a", "train/b" };
        make_folder(path_in(folder, "%s", folders[i]));
    }
    ck_assert_int_eq(rename(path_in(folder, "1.png"), path_in(folder, "train/a/1.png")), 0);
    ck_assert_int_eq(rename(path_in(folder, "2.png"), path_in(folder, "train/b/2.png")), 0);
    make_folder(path_in(folder, "Test"));
    ck_assert_int_eq(rename(path_in(folder, "3.png"), path_in(folder, "Test/3.png")), 0);
    report = check(folder, 0);
    ck_assert_str_eq(ls_dataset_report_class_at(report, 2).split, "Test");
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 1);
    expect_finding(report, 0, LS_FINDING_UNREADABLE, "Test/3.png", "");
    close_context();
    remove_folder(folder);
}
END_TEST

START_TEST(imbalance_begins_at_a_ratio)
{
    char *folder = new_folder();
    unsigned seed = 0;
    open_context();
    make_folder(path_in(folder, "train"));
    make_folder(path_in(folder, "train/rare"));
    make_folder(path_in(folder, "train/usual"));
    make_folder(path_in(folder, "val"));
    make_folder(path_in(folder, "val/rare"));
    make_folder(path_in(folder, "val/usual"));
    write_scene(path_in(folder, "train/rare/0.png"), 20, 20, seed++);
    write_scene(path_in(folder, "val/usual/0.png"), 20, 20, seed++);
    for (int i = 0; i < 12; i++) /* the validation images do not count */
        write_scene(path_in(folder, "val/rare/%d.png", i), 20, 20, seed++);
    for (int i = 0; i < LS_IMBALANCE_RATIO - 1; i++)
        write_scene(path_in(folder, "train/usual/%d.png", i), 20, 20, seed++);
    write_text(path_in(folder, "train/usual/bad.png"), ""); /* nor do unreadable ones */
    ls_dataset_report *report = check(folder, 0);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 1);
    expect_finding(report, 0, LS_FINDING_UNREADABLE, "train/usual/bad.png", "empty");
    ls_dataset_report_close(&report);
    write_scene(path_in(folder, "train/usual/more.png"), 20, 20, seed++);
    report = check(folder, 0);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 2);
    expect_finding(report, 0, LS_FINDING_IMBALANCE, "train",
                   "class 'usual' has 10 images, 'rare' 1: 10 times as many");
    close_context();
    remove_folder(folder);
}
END_TEST

/* Images are listed from an aspect ratio of 8:5 and a share of 2 % on. */
START_TEST(aspect_ratios_that_a_crop_cuts)
{
    enum { N = 60 };
    char *folder = new_folder();
    open_context();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    for (unsigned i = 0; i < N; i++)
        write_scene(path_in(folder, "%s/%02u.png", i % 2 ? "a" : "b", i), 20, 32, i);
    write_scene(path_in(folder, "a/wide.png"), 20, 33, N);
    ls_dataset_report *report = check(folder, 0);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 0);
    ls_dataset_report_close(&report);
    write_scene(path_in(folder, "a/high.png"), 80, 20, N + 1);
    report = check(folder, 0);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 2);
    expect_finding(report, 0, LS_FINDING_ASPECT, "a/high.png", "20 x 80 pixels: the crop drops 75");
    expect_finding(report, 1, LS_FINDING_ASPECT, "a/wide.png", "33 x 20 pixels: the crop drops 39");
    close_context();
    remove_folder(folder);
}
END_TEST

/* RGBA of one colour, with the shape in alpha: a disc of the radius. */
static void write_shape(const char *path, uint8_t colour, int radius)
{
    enum { SIDE = 40 };
    static uint8_t pixels[SIDE * SIDE * 4];
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            uint8_t *p = pixels + 4 * (y * SIDE + x);
            const int dx = 2 * x - SIDE, dy = 2 * y - SIDE;
            p[0] = p[1] = p[2] = colour;
            p[3] = dx * dx + dy * dy < 4 * radius * radius ? 255 : 0;
        }
    write_png(path, SIDE, SIDE, 4, pixels);
}

/* Shapes of one colour are compared by alpha, whatever the colour is. */
START_TEST(shapes_in_the_alpha_channel)
{
    char *folder = new_folder();
    open_context();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    write_shape(path_in(folder, "a/black.png"), 0, 8);
    write_shape(path_in(folder, "b/black.png"), 0, 18);
    write_shape(path_in(folder, "a/white.png"), 255, 8);
    write_shape(path_in(folder, "b/white.png"), 255, 18);
    write_shape(path_in(folder, "b/copy.png"), 255, 18);
    write_shape(path_in(folder, "b/opaque.png"), 90, 80);
    const ls_dataset_report *report = check(folder, 0);
    expect_finding(report, 0, LS_FINDING_DUPLICATE, "b/white.png", "same file as b/copy.png");
    expect_finding(report, 1, LS_FINDING_ALPHA, "a/black.png", "mean opacity 13 %");
    expect_finding(report, 2, LS_FINDING_ALPHA, "a/white.png", "mean opacity 13 %");
    expect_finding(report, 3, LS_FINDING_ALPHA, "b/black.png", "mean opacity 63 %");
    expect_finding(report, 4, LS_FINDING_ALPHA, "b/copy.png", "mean opacity");
    expect_finding(report, 5, LS_FINDING_ALPHA, "b/white.png", "mean opacity");
    expect_finding(report, 6, LS_FINDING_UNIFORM, "a/white.png", "one colour on white, not on bla");
    expect_finding(report, 7, LS_FINDING_UNIFORM, "b/copy.png",
                   "one colour on white, not on black");
    expect_finding(report, 8, LS_FINDING_UNIFORM, "b/opaque.png", "one colour");
    expect_finding(report, 9, LS_FINDING_UNIFORM, "b/white.png", "one colour on white, not on bla");
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 10);
    close_context();
    remove_folder(folder);
}
END_TEST

/* A PGM file of 16 bits with the samples of a scene from `min` to `max`. */
static void write_deep(const char *path, int maxval, int min, int max, unsigned seed)
{
    enum { SIDE = 32, HEADER = 32 };
    uint8_t *scene = draw_scene(SIDE, SIDE, seed), file[HEADER + 2 * SIDE * SIDE];
    const int n = snprintf((char *)file, HEADER, "P5 %d %d %d\n", SIDE, SIDE, maxval);
    scene[0] = 0;
    scene[3] = 255;
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int sample = min + scene[3 * i] * (max - min) / 255;
        file[n + 2 * i] = (uint8_t)(sample >> 8);
        file[n + 2 * i + 1] = (uint8_t)(sample & 255);
    }
    write_file(path, file, (size_t)n + 2 * SIDE * SIDE);
    free(scene);
}

/* Samples of 12 bits in files of 16: the range is stated, and the images are compared by their bits
 * in use. A maxval of 4095 says so itself. */
START_TEST(small_ranges_of_16_bits)
{
    char *folder = new_folder();
    open_context();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    write_deep(path_in(folder, "a/0.pgm"), 65535, 600, 2199, 1);
    write_deep(path_in(folder, "a/1.pgm"), 65535, 800, 2100, 2);
    write_deep(path_in(folder, "b/0.pgm"), 65535, 0, 400, 3);
    write_deep(path_in(folder, "b/1.pgm"), 65535, 0, 400, 4);
    ls_dataset_report *report = check(folder, 0);
    expect_finding(report, 0, LS_FINDING_DEPTH, "",
                   "4 images of 16 bits with samples from 0 to 2199, which are 12 bits");
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 1);
    ls_dataset_report_close(&report);
    write_deep(path_in(folder, "b/2.pgm"), 65535, 0, 40000, 5);
    report = check(folder, 0);
    expect_finding(report, 0, LS_FINDING_UNIFORM, "b/0.pgm", "one colour with 16 bits, not with 9");
    expect_finding(report, 1, LS_FINDING_UNIFORM, "b/1.pgm", "one colour with 16 bits, not with 9");
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 2);
    ls_dataset_report_close(&report);
    write_deep(path_in(folder, "b/2.pgm"), 4095, 0, 400, 5);
    report = check(folder, 0);
    expect_finding(report, 0, LS_FINDING_DEPTH, "", "4 images of 16 bits with samples from 0 to");
    ls_dataset_report_close(&report);
    for (int i = 0; i < 4; i++)
        write_deep(path_in(folder, "%s/%d.pgm", i < 2 ? "a" : "b", i % 2), 4095, 0, 2000, 10 + i);
    report = check(folder, 0);
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 0);
    close_context();
    remove_folder(folder);
}
END_TEST

/* Pairs that look different: other colours, a plain image, a mirrored one. */
START_TEST(images_that_do_not_look_the_same)
{
    enum { SIDE = 40 };
    char *folder = new_folder();
    open_context();
    make_folder(path_in(folder, "a"));
    make_folder(path_in(folder, "b"));
    for (int variant = 0; variant < 4; variant++) {
        uint8_t *pixels = draw_scene(SIDE, SIDE, 7);
        for (int i = 0; i < SIDE * SIDE; i++) {
            uint8_t *p = pixels + 3 * i, red = p[0];
            if (variant == 1) p[0] = p[2], p[2] = red;
            if (variant == 2) p[0] = p[1] = p[2] = 90;
            if (variant == 3) p[0] /= 2, p[1] /= 2, p[2] /= 2;
        }
        write_png(path_in(folder, "%s/%d.png", variant % 2 ? "a" : "b", variant), SIDE, SIDE, 3,
                  pixels);
        free(pixels);
    }
    ls_dataset_report *report = check(folder, 0);
    expect_finding(report, 0, LS_FINDING_UNIFORM, "b/2.png", "one colour");
    ck_assert_int_eq(ls_dataset_report_finding_count(report), 1);
    close_context();
    remove_folder(folder);
}
END_TEST

START_TEST(folders_are_listed_as_a_tree)
{
    static const struct {
        const char *path;
        int64_t n_images;
    } expected[] = { { "train", 1 },
                     { "train/cat", 11 },
                     { "train/dog", 10 },
                     { "train/empty", 0 },
                     { "train/fox", 10 },
                     { "train/fox/arctic", 1 },
                     { "train/fox/arctic/young", 1 },
                     { "train/fox/arctic2", 1 },
                     { "train/fox-a", 1 },
                     { "val/cat", 9 },
                     { "val/cow", 1 },
                     { "val/dog", 8 } };
    char *folder = new_folder();
    make_clean_folder(folder);
    plant_faults(folder);
    make_folder(path_in(folder, "train/fox-a"));
    write_text(path_in(folder, "train/fox-a/0.jpg"), "");
    open_context();
    ls_dataset_report *report = check(folder, 0);
    const int64_t n = ls_dataset_report_folder_count(report);
    for (int64_t i = 0; i < n; i++) {
        const ls_folder_summary f = ls_dataset_report_folder_at(report, i);
        ck_assert_str_eq(f.path, expected[i].path);
        ck_assert_int_eq(f.n_images, expected[i].n_images);
    }
    ck_assert_int_eq(n, sizeof(expected) / sizeof(expected[0]));
    close_context();
    remove_folder(folder);
}
END_TEST

/* ---- Errors ---- */

static bool stop_at_three(void *user, int64_t n_done, int64_t n_files)
{
    int64_t *last = user;
    *last = n_done;
    ck_assert_int_eq(n_files, 24);
    return n_done < 3;
}

START_TEST(misuse)
{
    char *folder = new_folder();
    int64_t last;
    make_clean_folder(folder);
    open_context();
    ck_assert_ptr_null(ls_dataset_check(ctx, NULL, NULL));
    expect_error(ctx, LS_ERR_INVALID, "ls_dataset_check: no folder given");
    ck_assert_ptr_null(ls_dataset_check(ctx, path_in(folder, "none"), NULL));
    expect_error(ctx, LS_ERR_NOT_FOUND, "none", "No such file");
    ck_assert_ptr_null(ls_dataset_check(ctx, path_in(folder, "train/cat/0.jpg"), NULL));
    expect_error(ctx, LS_ERR_IO, "0.jpg", "Not a directory");
    const ls_dataset_check_config wrong[] = { { .workers = -1 },
                                              { .workers = 1025 },
                                              { .max_pixels = -1 },
                                              { .max_pixels = 1 << 28 },
                                              { .min_side = -1 } };
    static const char *const names[] = { "workers", "workers", "max_pixels", "max_pixels",
                                         "min_side" };
    for (int i = 0; i < 5; i++) {
        ck_assert_ptr_null(ls_dataset_check(ctx, folder, &wrong[i]));
        expect_error(ctx, LS_ERR_INVALID, names[i]);
    }
    for (int workers = 0; workers < 3; workers += 2) {
        const ls_dataset_check_config stopped = { .workers = workers,
                                                  .progress = stop_at_three,
                                                  .user = &last };
        ck_assert_ptr_null(ls_dataset_check(ctx, folder, &stopped));
        expect_error(ctx, LS_ERR_IO, "stopped");
        ck_assert_int_eq(last, 3);
    }
    ck_assert_int_eq(symlink("..", path_in(folder, "train/cat/loop")), 0);
    const ls_dataset_report *report = ls_dataset_check(ctx, folder, NULL);
    const int64_t n_findings = ls_dataset_report_finding_count(report);
    int n_links = 0;
    for (int64_t i = 0; i < n_findings; i++)
        n_links += strstr(ls_dataset_report_finding_at(report, i).reason,
                          "a link that leads back") != NULL;
    ck_assert_int_eq(n_links, 1);
    ck_assert_ptr_null(ls_dataset_check(NULL, folder, NULL));
    ls_dataset_report_close(NULL);
    ck_assert_int_eq(ls_dataset_report_finding_count(NULL), 0);
    ck_assert_ptr_null(ls_dataset_report_finding_at(NULL, 0).path);
    ck_assert_str_eq(ls_finding_name((ls_finding_kind)99), "");
    close_context();
    remove_folder(folder);
}
END_TEST

static bool check_folder(ls_context *context, void *user)
{
    return ls_dataset_check(context, user, NULL) != NULL;
}

START_TEST(short_memory_is_an_error)
{
    char *folder = new_folder();
    make_folder(path_in(folder, "train"));
    make_folder(path_in(folder, "train/a"));
    write_text(path_in(folder, "train/a/1.jpg"), "no image");
    write_text(path_in(folder, "train/a/.hidden"), "");
    write_text(path_in(folder, "train/a/ignored.txt"), "");
    uint8_t *pixels = draw_image(8, 8, 3, 1);
    write_png(path_in(folder, "train/a/2.png"), 8, 8, 3, pixels);
    write_png(path_in(folder, "train/a/3.png"), 8, 8, 3, pixels);
    free(pixels);
    fail_each_allocation(check_folder, folder);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(dataset_check)
{
    return RUN_SUITE("dataset_check", nothing_is_found_in_a_clean_folder, planted_faults_are_found,
                     wrong_arrangements, unlabelled_images, empty_class_folders,
                     imbalance_begins_at_a_ratio, aspect_ratios_that_a_crop_cuts,
                     shapes_in_the_alpha_channel, small_ranges_of_16_bits,
                     images_that_do_not_look_the_same, folders_are_listed_as_a_tree, misuse,
                     short_memory_is_an_error);
}
