/* test_pack.c: a pack stands for the folder that it was made of. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "data/dataset/dataset.h"
#include "loader_support.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES, PIXELS, N_FORMS };

static ls_pack_summary pack(ls_context *ctx, const char *folder, const char *path,
                            ls_pack_config config)
{
    ls_pack_summary summary;
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    const ls_pack_split split = { "", data };
    ls_pack_write(ctx, path, 1, &split, &config, &summary);
    expect_ok(ctx);
    ls_dataset_close(&data);
    return summary;
}

/* All that can be asked of two data sets is the same, but for where they are. */
static void expect_same_data(ls_dataset *a, ls_dataset *b)
{
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    ck_assert_int_eq(ls_dataset_sample_count(a), ls_dataset_sample_count(b));
    ck_assert_int_eq(ls_dataset_class_count(a), ls_dataset_class_count(b));
    for (int c = 0; c < ls_dataset_class_count(a); c++)
        ck_assert_str_eq(ls_dataset_class_name(a, c), ls_dataset_class_name(b, c));
    for (int64_t i = 0; i < ls_dataset_sample_count(a); i++)
        ck_assert_int_eq(ls_dataset_label(a, i), ls_dataset_label(b, i));
    for (int contents = 0; contents < 2; contents++) {
        ls_digest digests[2];
        ck_assert_int_eq(ls_dataset_digest(a, contents, &digests[0]), LS_OK);
        ck_assert_int_eq(ls_dataset_digest(b, contents, &digests[1]), LS_OK);
        ck_assert(ls_digest_equal(digests[0], digests[1]));
    }
}

static const ls_loader_config random_crops = { .batch_size = 8,
                                               .shuffle = true,
                                               .random_resized_crop = true,
                                               .crop = 16,
                                               .flip_probability = 0.5f,
                                               .auto_augment = LS_AUTO_AUGMENT_TRIVIAL,
                                               .hue = 0.1f };

/* Batches of folder and pack, both forms, with and without the turn of EXIF. */
static void expect_same_batches(bool bad)
{
    char *folder = make_images(bad), *place = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    for (int form = FILES; form < N_FORMS; form++) {
        ls_dataset *data = ls_image_folder_open(ctx, folder);
        ls_pack_config config = { .pixels = form == PIXELS };
        config.on_bad_image = bad ? LS_BAD_IMAGE_SKIP : LS_BAD_IMAGE_FAIL;
        const ls_pack_summary summary = pack(ctx, folder, path_in(place, "%d", form), config);
        ck_assert_int_eq(summary.n_samples, N_IMAGES);
        ck_assert_int_eq(summary.n_bad, bad ? N_BAD_KINDS : 0);
        ck_assert(summary.pixels == (form == PIXELS));
        config.workers = 3;
        pack(ctx, folder, path_in(place, "%d.again", form), config);
        ck_assert(same_files(path_in(place, "%d", form), path_in(place, "%d.again", form)));

        ls_dataset *packed = ls_image_folder_open(ctx, path_in(place, "%d", form));
        expect_same_data(data, packed);
        ck_assert_str_eq(ls_dataset_sample_path(packed, 1),
                         path_in(place, "%d/class0/01.jpg", form));
        for (int i = 0; i < 4; i++) {
            ls_loader_config loading = random_crops;
            loading.on_bad_image = config.on_bad_image;
            loading.honour_exif = i % 2;
            loading.workers = i;
            loading.decode = form == FILES && i >= 2 ? LS_DECODE_FAST : LS_DECODE_EXACT;
            trace traces[2];
            run_epochs(ctx, data, loading, 0, 1, &traces[0]);
            run_epochs(ctx, packed, loading, 0, 1, &traces[1]);
            expect_same_trace(&traces[0], &traces[1], form == PIXELS ? "pixels" : "files");
        }
    }
    ls_context_close(&ctx);
    remove_folder(folder), remove_folder(place);
}

START_TEST(packs_read_as_the_folder)
{
    expect_same_batches(false);
}
END_TEST

START_TEST(bad_images_stay_bad)
{
    expect_same_batches(true);
}
END_TEST

START_TEST(bad_images_end_the_packing)
{
    char *folder = make_images(true), *place = new_folder();
    for (int workers = 0; workers < 3; workers++) {
        ls_context *ctx = ls_context_open(NULL);
        const ls_pack_split split = { "x", ls_image_folder_open(ctx, folder) };
        const ls_pack_config config = { .workers = workers };
        ck_assert_int_eq(ls_pack_write(ctx, path_in(place, "p"), 1, &split, &config, NULL),
                         LS_ERR_DATA);
        expect_error(ctx, LS_ERR_DATA, path_in(place, "p': image '"), "class0/03.jpg': empty file");
        ls_context_close(&ctx);
    }
    ck_assert_int_eq(rmdir(place), 0); /* nothing was left in it */
    free(place);
    remove_folder(folder);
}
END_TEST

/* A file that grew after the pack was made is not the one that counts. */
START_TEST(packs_need_no_folder)
{
    char *folder = make_images(false), *place = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    trace traces[2];
    run_epochs(ctx, ls_image_folder_open(ctx, folder), random_crops, 0, 0, &traces[0]);
    pack(ctx, folder, path_in(place, "p"), (ls_pack_config){ 0 });
    remove_folder(folder);
    ls_dataset *packed = ls_image_folder_open(ctx, path_in(place, "p"));
    unlink(path_in(place, "p")); /* and what was opened stays open */
    run_epochs(ctx, packed, random_crops, 0, 0, &traces[1]);
    expect_same_trace(&traces[0], &traces[1], "no folder");
    ls_context_close(&ctx);
    remove_folder(place);
}
END_TEST

static ls_digest digest_of(ls_context *ctx, const char *path)
{
    ls_digest out;
    ls_dataset *data = ls_image_folder_open(ctx, path);
    ck_assert_int_eq(ls_dataset_digest(data, false, &out), LS_OK);
    ls_dataset_close(&data);
    return out;
}

START_TEST(resized_packs_are_data_of_their_own)
{
    char *folder = make_images(false), *place = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    const ls_pack_summary s =
        pack(ctx, folder, path_in(place, "24"), (ls_pack_config){ .resize = 24 });
    ck_assert(s.pixels && s.resize == 24);
    pack(ctx, folder, path_in(place, "25"), (ls_pack_config){ .resize = 25 });
    pack(ctx, folder, path_in(place, "24.again"), (ls_pack_config){ .resize = 24, .workers = 2 });
    ck_assert(same_files(path_in(place, "24"), path_in(place, "24.again")));
    const ls_digest digests[3] = { digest_of(ctx, folder), digest_of(ctx, path_in(place, "24")),
                                   digest_of(ctx, path_in(place, "25")) };
    for (int i = 0; i < 3; i++) ck_assert(!ls_digest_equal(digests[i], digests[(i + 1) % 3]));

    /* Image 7 has 28 x 56 pixels, turned by EXIF to 56 x 28. */
    ls_dataset *data = ls_image_folder_open(ctx, path_in(place, "24"));
    const char *path = path_in(folder, "class0/07.jpg");
    ls_tensor *image = ls_image_load(ctx, path, false);
    const int64_t h = ls_tensor_shape(image)->dims[0], w = ls_tensor_shape(image)->dims[1];
    ls_tensor *wanted = ls_image_resize(image, h < w ? 24 : 24 * h / w, h < w ? 24 * w / h : 24);
    ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 8, .crop = 24 });
    ls_batch b;
    ls_loader_start(loader, 0);
    ck_assert(ls_loader_next(loader, &b));
    const int64_t wh = ls_tensor_shape(wanted)->dims[0], ww = ls_tensor_shape(wanted)->dims[1];
    const uint8_t *pixels = (const uint8_t *)ls_tensor_data_const(wanted);
    const uint8_t *got = (const uint8_t *)ls_tensor_data_const(b.images) + 7 * 24 * 24 * 3;
    int64_t top = (wh - 24) / 2, left = (ww - 24) / 2; /* centred; halves go to even numbers */
    top += (wh - 24) % 2 && top % 2, left += (ww - 24) % 2 && left % 2;
    for (int64_t y = 0; y < 24; y++)
        ck_assert_mem_eq(got + y * 72, pixels + ((top + y) * ww + left) * 3, 72);
    expect_ok(ctx);
    ls_context_close(&ctx);
    remove_folder(folder), remove_folder(place);
}
END_TEST

START_TEST(parts_are_folders)
{
    static const char *const classes[] = { "class2", "none", "class0", "class1" };
    char *folder = make_images(false), *place = new_folder();
    char file[4096];
    snprintf(file, sizeof(file), "%s", path_in(place, "p"));
    ls_context *ctx = ls_context_open(NULL);
    make_folder(path_in(place, "other"));
    make_folder(path_in(place, "other/class1"));
    uint8_t pixel[3] = { 1, 2, 3 };
    write_png(path_in(place, "other/class1/1.png"), 1, 1, 3, pixel);
    ls_dataset *other = ls_image_folder_open(ctx, path_in(place, "other"));
    const ls_pack_split splits[] = { { "train", ls_image_folder_open(ctx, folder) },
                                     { "val", other } };
    ls_pack_summary s;
    ck_assert_int_eq(ls_pack_write(ctx, file, 2, splits, NULL, &s), LS_OK);
    ck_assert_int_eq(s.n_splits, 2);
    static const char *const names[] = { "val", "", "train", NULL };
    bool found[4];
    ck_assert(ls_pack_holds(file, 4, names, found));
    ck_assert(found[0] && !found[1] && found[2] && !found[3]);
    ck_assert(!ls_pack_holds(file, 1, &names[1], found));
    ck_assert(!ls_pack_holds(folder, 4, names, found) && !found[0] && !found[2]);
    ck_assert(!ls_pack_holds(path_in(place, "none"), 4, names, found));
    ck_assert(!ls_pack_holds(NULL, 4, names, found) && !ls_pack_holds(file, 4, NULL, found));
    ck_assert(!ls_pack_holds(file, 4, names, NULL));
    ck_assert(ls_pack_check(ctx, file, NULL, &s) == LS_OK && s.n_samples == N_IMAGES + 1);

    expect_same_data(splits[0].dataset, ls_image_folder_open(ctx, path_in(place, "p/train")));
    expect_same_data(other, ls_image_folder_open(ctx, path_in(place, "p//val//")));
    /* Classes that are given in another order, one of which has no folder. */
    ls_dataset *ordered[2] = { ls_image_folder_open_classes(ctx, folder, 4, classes),
                               ls_image_folder_open_classes(ctx, path_in(place, "p/train"), 4,
                                                            classes) };
    expect_same_data(ordered[0], ordered[1]);
    trace traces[2];
    for (int i = 0; i < 2; i++) run_epochs(ctx, ordered[i], random_crops, 0, 0, &traces[i]);
    expect_same_trace(&traces[0], &traces[1], "classes in another order");

    ck_assert_ptr_null(ls_image_folder_open(ctx, file));
    expect_error(ctx, LS_ERR_NOT_FOUND, "holds 'train', 'val'", file);
    ck_assert_ptr_null(ls_image_folder_open(ctx, path_in(place, "p/test")));
    expect_error(ctx, LS_ERR_NOT_FOUND, "p/test", "holds 'train', 'val'");
    ck_assert_ptr_null(ls_image_folder_open_classes(ctx, path_in(place, "p/train"), 2, classes));
    expect_error(ctx, LS_ERR_MISMATCH, "class0", "p/train");
    ls_context_close(&ctx);
    remove_folder(folder), remove_folder(place);
}
END_TEST

/* The decoder of WebP belongs to the splits with WebP files alone, as in their folders. */
START_TEST(decoders_are_those_of_the_split)
{
    static const char *const names[] = { "train", "val" };
    char *place = new_folder(), buffers[2][LS__DECODERS_SIZE];
    const uint8_t pixel[3] = { 1, 2, 3 };
    ls_context *ctx = ls_context_open(NULL);
    ls_pack_split splits[2];
    for (int i = 0; i < 2; i++) {
        make_folder(path_in(place, "%s", names[i]));
        make_folder(path_in(place, "%s/a", names[i]));
        write_png(path_in(place, "%s/a/1.%s", names[i], i == 0 ? "png" : "webp"), 1, 1, 3, pixel);
        splits[i] =
            (ls_pack_split){ names[i], ls_image_folder_open(ctx, path_in(place, "%s", names[i])) };
    }
    const ls_pack_config forms[N_FORMS] = { [PIXELS] = { .pixels = true } };
    for (int form = 0; form < N_FORMS; form++) {
        char *file = strdup(path_in(place, "p%d", form));
        ck_assert_int_eq(ls_pack_write(ctx, file, 2, splits, &forms[form], NULL), LS_OK);
        for (int i = 0; i < 2; i++) {
            ls_dataset *packed = ls_image_folder_open(ctx, path_in(file, "%s", names[i]));
            expect_ok(ctx);
            const char *got = ls__dataset_decoders(packed, buffers[0]);
            ck_assert_str_eq(got, ls__dataset_decoders(splits[i].dataset, buffers[1]));
            ck_assert_int_eq(strstr(got, LS__WEBP_DECODER) != NULL, i);
        }
        free(file);
    }
    ls_context_close(&ctx);
    remove_folder(place);
}
END_TEST

START_TEST(names_may_hold_any_byte)
{
    static const char *const names[] = { "a b", "\xff\xfe", "line\nbreak", "quote'\"%s" };
    char *folder = new_folder(), *place = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    uint8_t pixel[3] = { 1, 2, 3 };
    for (int c = 0; c < 4; c++) {
        make_folder(path_in(folder, "%s", names[c]));
        make_folder(path_in(folder, "%s/below", names[c]));
        for (int i = 0; i < 4; i++)
            write_png(path_in(folder, "%s/below/%s.png", names[c], names[i]), 1, 1, 3, pixel);
        write_png(path_in(folder, "%s/%s.png", names[c], names[c]), 1, 1, 3, pixel);
    }
    pack(ctx, folder, path_in(place, "p q"), (ls_pack_config){ 0 });
    ls_dataset *data[2] = { ls_image_folder_open(ctx, folder),
                            ls_image_folder_open(ctx, path_in(place, "p q")) };
    expect_same_data(data[0], data[1]);
    for (int64_t i = 0; i < 20; i++)
        ck_assert_str_eq(ls_dataset_sample_path(data[0], i) + strlen(folder),
                         ls_dataset_sample_path(data[1], i) + strlen(path_in(place, "p q")));
    ls_context_close(&ctx);
    remove_folder(folder), remove_folder(place);
}
END_TEST

/* Another file comes to stand where the pack is to be. */
static bool write_meanwhile(void *path, int64_t n_done, int64_t n_samples)
{
    (void)n_done;
    (void)n_samples;
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    return true;
}

static bool stop_at_20(void *user, int64_t n_done, int64_t n_samples)
{
    ck_assert_int_eq(n_samples, N_IMAGES);
    ck_assert_int_eq(n_done, *(int64_t *)user);
    return (*(int64_t *)user)++ < 20;
}

static bool die_at_20(void *user, int64_t n_done, int64_t n_samples)
{
    (void)user;
    (void)n_samples;
    return n_done < 20 || raise(SIGKILL) != 0;
}

/* Where the file system has no unnamed files, the next pack removes what was left. */
START_TEST(killed_packings_leave_nothing)
{
    char *folder = make_images(false), *place = new_folder();
    for (int i = 0; i < 3; i++) {
        int status;
        const pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            ls_context *ctx = ls_context_open(NULL);
            const ls_pack_split split = { "", ls_image_folder_open(ctx, folder) };
            ls_pack_write(ctx, path_in(place, "p"), 1, &split,
                          &(ls_pack_config){ .progress = die_at_20 }, NULL);
            _exit(EXIT_SUCCESS);
        }
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    ls_context *ctx = ls_context_open(NULL);
    pack(ctx, folder, path_in(place, "p"), (ls_pack_config){ 0 });
    ls_context_close(&ctx);
    ck_assert_int_eq(unlink(path_in(place, "p")), 0);
    ck_assert_int_eq(rmdir(place), 0); /* nothing else was left in it */
    free(place);
    remove_folder(folder);
}
END_TEST

static bool close_split(void *user, int64_t n_done, int64_t n_samples)
{
    (void)n_done;
    (void)n_samples;
    ls_dataset_close((ls_dataset **)user);
    return true;
}

START_TEST(progress_may_close_a_dataset)
{
    char *folder = make_images(false), *place = new_folder();
    ls_context *ctx = ls_context_open(NULL);
    pack(ctx, folder, path_in(place, "p"), (ls_pack_config){ 0 });
    for (int workers = 0; workers < 3; workers += 2) {
        ls_dataset *data = ls_image_folder_open(ctx, folder);
        const ls_pack_split split = { "", data };
        const ls_pack_config config = {
            .workers = workers, .overwrite = true, .progress = close_split, .user = &data
        };
        ck_assert_int_eq(ls_pack_write(ctx, path_in(place, "q"), 1, &split, &config, NULL), LS_OK);
        ck_assert_ptr_null(data);
        ck_assert(same_files(path_in(place, "p"), path_in(place, "q")));
    }
    ls_context_close(&ctx);
    remove_folder(folder), remove_folder(place);
}
END_TEST

START_TEST(mistakes)
{
    char *folder = make_images(false), *place = new_folder();
    ls_context *ctx = ls_context_open(NULL), *another = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, folder), *packed;
    const char *const image = path_in(folder, "class0/01.jpg");
    char file[4096];
    snprintf(file, sizeof(file), "%s", path_in(place, "p"));
    static const char *const backwards[] = { "class2", "class1", "class0" };
    pack(ctx, folder, path_in(place, "is"), (ls_pack_config){ 0 });
    packed = ls_image_folder_open(ctx, path_in(place, "is"));
    const struct {
        int n;
        ls_pack_split splits[2];
        ls_pack_config config;
        const char *word;
    } cases[] = {
        { 0, { { "", data } }, { 0 }, "no splits" },
        { 1, { { NULL, data } }, { 0 }, "(NULL)" },
        { 1, { { "a/b", data } }, { 0 }, "without slashes" },
        { 2, { { "", data }, { "b", data } }, { 0 }, "split 0 of 2" },
        { 2, { { "b", data }, { "b", data } }, { 0 }, "'b' is given twice" },
        { 1, { { "b", NULL } }, { 0 }, "expected a dataset of an image folder" },
        { 1, { { "b", packed } }, { 0 }, "expected a dataset of an image folder" },
        { 1, { { "b", ls_image_list_open(ctx, 1, &image, NULL, 0) } }, { 0 }, "an image folder" },
        { 1, { { "b", ls_image_folder_open(another, folder) } }, { 0 }, "in this context" },
        { 1,
          { { "b", ls_image_folder_open_classes(ctx, folder, 3, backwards) } },
          { 0 },
          "'class1' comes after 'class2'" },
        { 1, { { "", data } }, { .resize = -1 }, "resize is -1" },
        { 1, { { "", data } }, { .resize = 1 << 20 }, "resize is 1048576" },
        { 1, { { "", data } }, { .workers = -1 }, "workers is -1" },
        { 1, { { "", data } }, { .on_bad_image = (ls_bad_image)2 }, "on_bad_image is 2" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_pack_write(ctx, file, cases[i].n, cases[i].splits, &cases[i].config, NULL);
        expect_error(ctx, LS_ERR_INVALID, "ls_pack_write", cases[i].word);
    }
    ls_loader_config fast = random_crops;
    fast.decode = LS_DECODE_FAST;
    ck_assert_ptr_nonnull(ls_loader_open(packed, &fast));
    pack(ctx, folder, path_in(place, "raw"), (ls_pack_config){ .pixels = true });
    ck_assert_ptr_null(ls_loader_open(ls_image_folder_open(ctx, path_in(place, "raw")), &fast));
    expect_error(ctx, LS_ERR_INVALID, "decode is fast", "pixels");
    unlink(path_in(place, "raw"));
    const ls_pack_split split = { "", data };
    ls_pack_write(ctx, NULL, 1, &split, NULL, NULL);
    expect_error(ctx, LS_ERR_INVALID, "ls_pack_write", "no path");
    ck_assert_int_eq(ls_pack_write(NULL, file, 1, &split, NULL, NULL), LS_ERR_EARLIER);
    ls_pack_write(ctx, path_in(place, "is"), 1, &split, NULL, NULL);
    expect_error(ctx, LS_ERR_IO, "there is a file already", "/is");
    ls_pack_write(ctx, path_in(place, "is"), 1, &split, &(ls_pack_config){ .overwrite = true },
                  NULL);
    expect_ok(ctx);
    ls_pack_write(ctx, path_in(place, "no/p"), 1, &split, NULL, NULL);
    expect_error(ctx, LS_ERR_NOT_FOUND, "no/p", "No such file");
    ls_pack_write(ctx, "/dev/full", 1, &split, NULL, NULL);
    expect_error(ctx, LS_ERR_IO, "/dev/full", "No space left");

    for (int workers = 0; workers < 3; workers++) {
        int64_t n = 0;
        const ls_pack_config config = { .workers = workers, .progress = stop_at_20, .user = &n };
        ls_pack_write(ctx, file, 1, &split, &config, NULL);
        expect_error(ctx, LS_ERR_IO, file, "stopped");
        n = 0;
        ls_pack_check(ctx, path_in(place, "is"), &config, NULL);
        expect_error(ctx, LS_ERR_IO, "/is", "stopped");
    }
    char *late = strdup(path_in(place, "late"));
    const ls_pack_config meanwhile = { .progress = write_meanwhile, .user = late };
    ls_pack_write(ctx, late, 1, &split, &meanwhile, NULL);
    expect_error(ctx, LS_ERR_IO, "there is a file already", "/late");
    ck_assert_int_eq(unlink(late), 0);
    free(late);
    const char *sample = ls_dataset_sample_path(data, 0);
    ls_pack_write(ctx, sample, 1, &split, &(ls_pack_config){ .overwrite = true }, NULL);
    expect_error(ctx, LS_ERR_INVALID, "one of the images", sample);

    ls_pack_check(ctx, path_in(place, "none"), NULL, NULL);
    expect_error(ctx, LS_ERR_NOT_FOUND, "none", "No such file");
    ls_pack_check(ctx, folder, NULL, NULL);
    expect_error(ctx, LS_ERR_IO, folder, "not a regular file");
    ls_pack_check(ctx, NULL, NULL, NULL);
    expect_error(ctx, LS_ERR_INVALID, "ls_pack_check", "no path");
    ls_context_close(&another);
    ls_context_close(&ctx);
    ck_assert_int_eq(unlink(path_in(place, "is")), 0);
    ck_assert_int_eq(rmdir(place), 0); /* nothing else was left in it */
    free(place);
    remove_folder(folder);
}
END_TEST

/* The n-th request for memory fails, for all n; the loop variable is what is made. */
static void starve(const char *folder, const char *file, int form)
{
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        ls_context *ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
        a.fail_at = atomic_load(&a.n_requests) + n;
        const ls_pack_split split = { "", ls_image_folder_open(ctx, folder) };
        const ls_pack_config config = { .pixels = form != FILES,
                                        .resize = form == N_FORMS ? 4 : 0,
                                        .overwrite = true };
        if (split.dataset) ls_pack_write(ctx, file, 1, &split, &config, NULL);
        ls_loader *loader = ls_loader_open(
            ls_image_folder_open(ctx, file),
            &(ls_loader_config){ .batch_size = 3, .crop = 4, .resize = 4, .honour_exif = true });
        ls_batch b;
        ls_loader_start(loader, 0);
        const bool good = ls_loader_next(loader, &b);
        const ls_status status = ls_context_status(ctx);
        ck_assert_msg(status == (good ? LS_OK : LS_ERR_MEMORY), "request %lld: %s", (long long)n,
                      ls_context_message(ctx));
        const bool failed = failing_allocator_failed(&a);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failed) return;
        unlink(file);
    }
}

START_TEST(no_memory)
{
    char *folder = new_folder(), *place = new_folder();
    uint8_t *pixels = draw_image(8, 8, 3, 1);
    for (int c = 0; c < 2; c++) {
        make_folder(path_in(folder, "%d", c));
        write_jpeg(path_in(folder, "%d/x.jpg", c), 8, 8, pixels,
                   (jpeg_options){ .orientation = 6 });
    }
    write_png(path_in(folder, "1/y.png"), 8, 8, 3, pixels);
    for (int form = FILES; form <= N_FORMS; form++) starve(folder, path_in(place, "p"), form);
    free(pixels);
    remove_folder(folder), remove_folder(place);
}
END_TEST

TEST_PROGRAM(pack)
{
    return RUN_SUITE(
        "pack", packs_read_as_the_folder, bad_images_stay_bad, bad_images_end_the_packing,
        packs_need_no_folder, resized_packs_are_data_of_their_own, parts_are_folders,
        decoders_are_those_of_the_split, names_may_hold_any_byte, killed_packings_leave_nothing,
        progress_may_close_a_dataset, mistakes, no_memory);
}
