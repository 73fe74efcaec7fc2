/* test_idx.c: idx files, plain and compressed, whole and damaged; and grey batches. */
#include "../suite.h"
#include "support.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { N = 5, H = 3, W = 4, IMAGE_BYTES = 16 + N * H * W, LABEL_BYTES = 8 + N };

static uint8_t images[IMAGE_BYTES] = { 0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, H, 0, 0, 0, W };
static uint8_t labels[LABEL_BYTES] = { 0, 0, 8, 1, 0, 0, 0, N, 3, 0, 9, 1, 2 };

static void fill_images(void)
{
    for (int i = 16; i < IMAGE_BYTES; i++) images[i] = (uint8_t)(i * 37);
}

static void write_gzip(const char *path, const void *bytes, size_t n)
{
    gzFile file = gzopen(path, "wb");
    ck_assert_int_eq(gzwrite(file, bytes, (unsigned)n), (int)n);
    ck_assert_int_eq(gzclose(file), Z_OK);
}

/* The dataset's first batch. */
static void expect_batch(ls_context *ctx, ls_dataset *data)
{
    uint8_t pixels[N * H * W];
    int32_t got[N];
    ls_batch batch;
    expect_ok(ctx);
    ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = N });
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(ls_loader_next(loader, &batch));
    ck_assert_int_eq(ls_tensor_shape(batch.images)->dims[3], 1);
    ck_assert_int_eq(ls_tensor_read(batch.images, pixels, sizeof(pixels)), LS_OK);
    ck_assert_int_eq(ls_tensor_read(batch.labels, got, sizeof(got)), LS_OK);
    ck_assert(memcmp(pixels, images + 16, sizeof(pixels)) == 0);
    for (int i = 0; i < N; i++) ck_assert_int_eq(got[i], labels[8 + i]);
    ls_loader_close(&loader);
}

START_TEST(plain_and_compressed)
{
    char *folder = new_folder();
    const char *paths[] = { path_in(folder, "i"), path_in(folder, "l"), path_in(folder, "i.gz"),
                            path_in(folder, "l.gz") };
    ls_context *ctx = ls_context_open(NULL);
    fill_images();
    write_file(paths[0], images, sizeof(images));
    write_file(paths[1], labels, sizeof(labels));
    write_gzip(paths[2], images, sizeof(images));
    write_gzip(paths[3], labels, sizeof(labels));
    ls_digest digests[4];
    for (int i = 0; i < 4; i++) {
        ls_dataset *data = ls_idx_open(ctx, paths[i & 2], paths[1 + (i & 1) * 2], i ? 12 : 0);
        expect_batch(ctx, data);
        ck_assert_int_eq(ls_dataset_class_count(data), i ? 12 : 10);
        ck_assert_str_eq(ls_dataset_class_name(data, 9), "9");
        ck_assert_int_eq(ls_dataset_channel_count(data), 1);
        ck_assert_int_eq(ls_dataset_digest(data, false, &digests[i]), LS_OK);
        ck_assert(ls_digest_equal(digests[i], digests[0]));
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* What is wrong with images or labels, and what the message says. */
START_TEST(damaged_files)
{
    static const struct {
        bool in_labels;
        int at;
        uint8_t value;
        const char *said[2];
    } cases[] = {
        { false, 2, 9, { "begins with 0x00000903, expected 0x00000803", "in 3 dimensions" } },
        { false, 3, 1, { "begins with 0x00000801", "it is a file of labels" } },
        { true, 3, 3, { "begins with 0x00000803", "it is a file of images" } },
        { false, 0, 'P', { "begins with 0x50000803" } },
        { false, 7, N + 1, { "claims 6 x 3 x 4 bytes, which a file of 76 bytes does not hold" } },
        { false, 4, 0xff, { "does not hold" } },
        { false, 8, 0xff, { "does not hold" } },
        { false, 7, 0, { "states 0 images of 3 x 4 pixels, expected 1 or more" } },
        { false, 11, 0, { "states 5 images of 0 x 4 pixels" } },
        { true, 7, 0, { "states 0 labels, expected 1 or more" } },
        { false, 7, N - 1, { "more bytes follow the 48 that its header states" } },
        { true, 7, N - 1, { "more bytes follow the 4 that" } },
        { true, 9, 10, { "label 1 is 10, expected 0 to 9" } },
    };
    char *folder = new_folder();
    const char *i_path = path_in(folder, "i"), *l_path = path_in(folder, "l");
    ls_context *ctx = ls_context_open(NULL);
    fill_images();
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        uint8_t i_bytes[IMAGE_BYTES], l_bytes[LABEL_BYTES];
        memcpy(i_bytes, images, sizeof(images));
        memcpy(l_bytes, labels, sizeof(labels));
        (cases[k].in_labels ? l_bytes : i_bytes)[cases[k].at] = cases[k].value;
        write_file(i_path, i_bytes, sizeof(i_bytes));
        write_file(l_path, l_bytes, sizeof(l_bytes));
        ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 10));
        expect_error(ctx, LS_ERR_DATA, cases[k].in_labels ? l_path : i_path, cases[k].said[0],
                     cases[k].said[1] ? cases[k].said[1] : "");
    }
    write_file(i_path, images, sizeof(images));
    write_file(l_path, "\0\0\10\1\0\0\0\2\1\2", 10);
    ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 0));
    expect_error(ctx, LS_ERR_DATA, "has 5 images", "has 2 labels");
    ck_assert_ptr_null(ls_idx_open(ctx, path_in(folder, "none"), l_path, 0));
    expect_error(ctx, LS_ERR_NOT_FOUND, "none");
    ck_assert_ptr_null(ls_idx_open(ctx, NULL, l_path, 0));
    expect_error(ctx, LS_ERR_INVALID, "ls_idx_open: no file of images");
    ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 257));
    expect_error(ctx, LS_ERR_INVALID, "257 classes, expected 0 to 256");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Each truncation and each flipped byte of a plain and of a compressed file: an error, or the same
 * number of samples; never more memory than the file can fill. */
START_TEST(cut_and_flipped)
{
    char *folder = new_folder();
    const char *i_path = path_in(folder, "i"), *l_path = path_in(folder, "l");
    ls_context *ctx = ls_context_open(NULL);
    fill_images();
    write_file(l_path, labels, sizeof(labels));
    for (int compressed = 0; compressed < 2; compressed++) {
        size_t n;
        if (compressed)
            write_gzip(i_path, images, sizeof(images));
        else
            write_file(i_path, images, sizeof(images));
        uint8_t *bytes = read_file(i_path, &n);
        for (size_t cut = 0; cut < n; cut++) {
            write_file(i_path, bytes, cut);
            ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 0));
            expect_error(ctx, LS_ERR_DATA, i_path);
        }
        for (size_t at = 0; at < n; at++) {
            bytes[at] ^= 0x55;
            write_file(i_path, bytes, n);
            bytes[at] ^= 0x55;
            ls_dataset *data = ls_idx_open(ctx, i_path, l_path, 0);
            /* Of a gzip header only the time, the flags and the system are free. */
            const bool is_free = compressed ? at >= 4 && at < 10 : at >= 16;
            ck_assert(is_free || !data);
            expect_error(ctx, data ? LS_OK : LS_ERR_DATA, "");
            ck_assert(!data || ls_dataset_sample_count(data) == N);
        }
        free(bytes);
    }
    write_gzip(i_path, images, sizeof(images));
    size_t n;
    uint8_t *bytes = read_file(i_path, &n);
    bytes[n - 8] ^= 1; /* the checksum */
    write_file(i_path, bytes, n);
    ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 0));
    expect_error(ctx, LS_ERR_DATA, path_in(folder, "i"),
                 "': a damaged gzip file: the checksum of its data is wrong");
    write_file(i_path, bytes, n - 9);
    ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 0));
    expect_error(ctx, LS_ERR_DATA, "a damaged gzip file: it is truncated");
    write_file(i_path, bytes, 12);
    ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 0));
    expect_error(ctx, LS_ERR_DATA, "begins with 0x1f8b0800", "; it is a truncated gzip file");
    free(bytes);
    i_path = path_in(folder, "i.gz");
    write_text(i_path, "<html>not found</html>");
    ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 0));
    expect_error(ctx, LS_ERR_DATA, "; it is named .gz, but not compressed by gzip");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* RFC 1952 lets a file have several members, which may be empty. */
START_TEST(several_members)
{
    char *folder = new_folder();
    const char *i_path = path_in(folder, "i"), *l_path = path_in(folder, "l");
    ls_context *ctx = ls_context_open(NULL);
    fill_images();
    write_file(l_path, labels, sizeof(labels));
    for (int cut = 0; cut <= IMAGE_BYTES; cut++) {
        write_gzip(i_path, images, (size_t)cut);
        size_t n[2];
        uint8_t *first = read_file(i_path, &n[0]);
        write_gzip(i_path, images + cut, (size_t)(IMAGE_BYTES - cut));
        uint8_t *second = read_file(i_path, &n[1]), *both = malloc(n[0] + n[1] + 1);
        memcpy(both, first, n[0]);
        memcpy(both + n[0], second, n[1]);
        both[n[0] + n[1]] = 0;
        write_file(i_path, both, n[0] + n[1]);
        expect_batch(ctx, ls_idx_open(ctx, i_path, l_path, 0));
        write_file(i_path, both, n[0] + n[1] + 1);
        ck_assert_ptr_null(ls_idx_open(ctx, i_path, l_path, 0));
        expect_error(ctx, LS_ERR_DATA, "a damaged gzip file: 1 more bytes follow its end");
        free(first);
        free(second);
        free(both);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static bool open_files(ls_context *ctx, void *folder)
{
    return ls_idx_open(ctx, path_in(folder, "i"), path_in(folder, "l"), 0) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    char *folder = new_folder();
    fill_images();
    write_gzip(path_in(folder, "i"), images, sizeof(images));
    write_gzip(path_in(folder, "l"), labels, sizeof(labels));
    fail_each_allocation(open_files, folder);
    remove_folder(folder);
}
END_TEST

/* Pillow 9.4: Image.fromarray(pixels, "RGB").convert("L"). */
START_TEST(grey_batches)
{
    static const uint8_t colours[][3] = { { 255, 0, 0 },   { 0, 255, 0 },  { 0, 0, 255 },
                                          { 10, 200, 77 }, { 77, 77, 77 }, { 255, 255, 255 } };
    static const uint8_t greys[] = { 76, 150, 29, 129, 77, 255 };
    ls_context *ctx = ls_context_open(NULL);
    const int32_t label = 0;
    ls_dataset *data = ls_dataset_from_memory(ctx, colours[0], LS_SHAPE(1, 2, 3, 3), &label, 1);
    for (int workers = 0; workers < 2; workers++) {
        uint8_t got[sizeof(greys)];
        ls_batch batch;
        ls_loader *loader = ls_loader_open(
            data, &(ls_loader_config){ .batch_size = 1, .workers = workers, .grey = true });
        ck_assert_int_eq(ls_loader_input_spec(loader).image.shape.dims[3], 1);
        ck_assert_float_eq(ls_loader_input_spec(loader).mean[0], 0.449f);
        ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
        ck_assert(ls_loader_next(loader, &batch));
        ck_assert_int_eq(ls_tensor_read(batch.images, got, sizeof(got)), LS_OK);
        for (size_t i = 0; i < sizeof(greys); i++) ck_assert_int_eq(got[i], greys[i]);
        ls_loader_close(&loader);
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

/* A grey batch is erased to the one mean that was given, 0.5 * 255 rounded. */
START_TEST(erased_grey_batches)
{
    enum { SIDE = 32, PIXELS = SIDE * SIDE };
    static uint8_t white[PIXELS * 3], got[PIXELS];
    memset(white, 255, sizeof(white));
    ls_context *ctx = ls_context_open(NULL);
    const int32_t label = 0;
    ls_batch batch;
    ls_dataset *data = ls_dataset_from_memory(ctx, white, LS_SHAPE(1, SIDE, SIDE, 3), &label, 1);
    ls_loader *loader = ls_loader_open(
        data,
        &(ls_loader_config){
            .batch_size = 1, .grey = true, .mean = { 0.5f }, .std = { 0.5f }, .random_erase = 1 });
    ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
    ck_assert(ls_loader_next(loader, &batch));
    ck_assert_int_eq(ls_tensor_read(batch.images, got, sizeof(got)), LS_OK);
    int n_erased = 0;
    for (int i = 0; i < PIXELS; i++) {
        ck_assert(got[i] == 255 || got[i] == 128);
        n_erased += got[i] == 128;
    }
    ck_assert(n_erased > 0 && n_erased < PIXELS);
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(idx)
{
    return RUN_SUITE("idx", plain_and_compressed, damaged_files, cut_and_flipped, several_members,
                     every_allocation_may_fail, grey_batches, erased_grey_batches);
}
