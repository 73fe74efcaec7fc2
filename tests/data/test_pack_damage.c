/* test_pack_damage.c: packs that are not as they were written, whether by accident or by design. */
#include "../suite.h"
#include "base/hash.h"
#include "data/dataset/packs/pack.h"
#include "support.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { N_IMAGES = 3 };

/* Three images in two classes, packed; the file's bytes, to be freed. */
static unsigned char *make_pack(const char *folder, bool pixels, size_t *n)
{
    ls_context *ctx = ls_context_open(NULL);
    uint8_t *image = draw_image(4, 5, 3, 1);
    make_folder(path_in(folder, "data"));
    for (int c = 0; c < 2; c++) {
        make_folder(path_in(folder, "data/%d", c));
        for (int i = 0; i <= c; i++) {
            image[0] = (uint8_t)(10 * c + i);
            write_png(path_in(folder, "data/%d/%d.png", c, i), 4, 5, 3, image);
        }
    }
    const ls_pack_split split = { "", ls_image_folder_open(ctx, path_in(folder, "data")) };
    ls_pack_write(ctx, path_in(folder, "pack"), 1, &split, &(ls_pack_config){ .pixels = pixels },
                  NULL);
    expect_ok(ctx);
    ls_context_close(&ctx);
    free(image);
    return read_file(path_in(folder, "pack"), n);
}

static char message[1024];

/* Opens and reads all: how that ends, with `message`. */
static ls_status use(ls_context *ctx, const char *path)
{
    ls_dataset *data = ls_image_folder_open(ctx, path);
    ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 1, .crop = 3 });
    ls_loader_start(loader, 0);
    ls_digest digest;
    if (data) ls_dataset_digest(data, true, &digest);
    for (ls_batch b; ls_loader_next(loader, &b);) continue;
    ls_loader_close(&loader);
    ls_dataset_close(&data);
    const ls_status status = ls_context_status(ctx);
    snprintf(message, sizeof(message), "%s", ls_context_message(ctx));
    ls_context_clear_error(ctx);
    return status;
}

static bool holds(const char *path, const char *split)
{
    bool found;
    return ls_pack_holds(path, 1, &split, &found) && found;
}

static uint64_t get64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

/* Where the index begins. */
static size_t index_of(const unsigned char *bytes, size_t n)
{
    return (size_t)get64(bytes + n - LS__PACK_BLOCK + 16);
}

/* One bit of every byte of the file. */
START_TEST(flipped_bits_are_found)
{
    char *folder = new_folder();
    size_t n;
    unsigned char *bytes = make_pack(folder, _i == 1, &n);
    const char *path = path_in(folder, "pack");
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_int_eq(use(ctx, path), LS_OK);
    const size_t index = index_of(bytes, n);
    int n_gaps = 0;
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= (unsigned char)(1 << i % 8);
        write_file(path, bytes, n);
        const ls_status status = use(ctx, path);
        const bool told = strstr(message, "damaged in the pack");
        const bool data = i >= LS__PACK_BLOCK && i < index;
        if (data && status == LS_OK)
            n_gaps++;
        else
            ck_assert_msg(data ? status == LS_ERR_DATA && told : status == LS_ERR_FORMAT,
                          "byte %zu of %zu: %s: %s", i, n, ls_status_text(status), message);
        ck_assert_int_eq(ls_pack_check(ctx, path, NULL, NULL), LS_ERR_FORMAT);
        expect_error(ctx, LS_ERR_FORMAT, "");
        bytes[i] ^= (unsigned char)(1 << i % 8);
    }
    ck_assert_int_lt(n_gaps, N_IMAGES * LS__PACK_BLOCK);
    free(bytes);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(cut_and_grown_files_are_refused)
{
    char *folder = new_folder();
    size_t n;
    unsigned char *bytes = make_pack(folder, _i == 1, &n);
    const char *path = path_in(folder, "pack");
    ls_context *ctx = ls_context_open(NULL);
    bytes = realloc(bytes, n + 1);
    bytes[n] = 0;
    for (size_t length = 0; length <= n + 1; length++) {
        write_file(path, bytes, length);
        ck_assert_int_eq(use(ctx, path), length == n ? LS_OK : LS_ERR_FORMAT);
        ck_assert(holds(path, ""));
    }
    /* Two packs, one behind the other: the end of the second does not fit. */
    bytes = realloc(bytes, 2 * n);
    memcpy(bytes + n, bytes, n);
    write_file(path, bytes, 2 * n);
    ck_assert_int_eq(use(ctx, path), LS_ERR_FORMAT);
    free(bytes);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* What can't be opened is not taken for a pack without that split, nor for a damaged one. */
START_TEST(no_file_handles)
{
    char *folder = new_folder();
    size_t n;
    free(make_pack(folder, false, &n));
    const char *path = path_in(folder, "pack");
    ls_context *ctx = ls_context_open(NULL);
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0, before.rlim_max }), 0);
    const bool found = holds(path, "");
    const ls_status checked = ls_pack_check(ctx, path, NULL, NULL);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert(found);
    ck_assert_int_eq(checked, LS_ERR_DEVICE);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static void put64(unsigned char *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) at[i] = (unsigned char)(value >> 8 * i);
}

/* Makes all sums right again. */
static void reseal(unsigned char *bytes, size_t n)
{
    unsigned char *trailer = bytes + n - LS__PACK_BLOCK;
    const size_t index = index_of(bytes, n);
    put64(bytes + 56, ls__hash(bytes, 56, 0));
    put64(trailer + 32, ls__hash(bytes + index, n - LS__PACK_BLOCK - index, 0));
    put64(trailer + 40, ls__hash(bytes, LS__PACK_BLOCK, 0));
    put64(trailer + 56, ls__hash(trailer, 56, 0));
}

/* Somebody wrote numbers that lead astray, and right sums with them: refused, or harmless. */
START_TEST(hostile_indices_do_no_harm)
{
    char *folder = new_folder();
    size_t n;
    unsigned char *bytes = make_pack(folder, _i == 1, &n), *copy = malloc(n);
    const char *path = path_in(folder, "pack");
    ls_context *ctx = ls_context_open(NULL);
    const size_t index = index_of(bytes, n);
    int n_refused = 0, n_used = 0;
    for (size_t at = 8; at < n - 8; at = at == 48 ? index : at + 8) {
        const uint64_t was = get64(bytes + at);
        const uint64_t values[] = { 0,          1,          was - 1,         was + 1,
                                    1ull << 24, n,          n - 64,          UINT64_MAX,
                                    1ull << 32, 1ull << 63, UINT64_MAX / 64, was | 1ull << 40 };
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            memcpy(copy, bytes, n);
            put64(copy + at, values[v]);
            const uint64_t place = get64(copy + n - LS__PACK_BLOCK + 16);
            if (place <= n - LS__PACK_BLOCK) reseal(copy, n);
            write_file(path, copy, n);
            const ls_status status = use(ctx, path);
            *(status == LS_OK ? &n_used : &n_refused) += 1;
            ck_assert_msg(status == LS_OK || status == LS_ERR_FORMAT || status == LS_ERR_DATA ||
                              status == LS_ERR_NOT_FOUND || status == LS_ERR_IO ||
                              status == LS_ERR_INVALID, /* another alpha than the loader's */
                          "%zu: %s", at, message);
        }
    }
    ck_assert_int_gt(n_refused, n_used);
    free(bytes), free(copy);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* The same pack with its last image and its index moved beyond 5 GiB, in a file with a hole. */
START_TEST(files_may_be_large)
{
    const uint64_t far = 5ull << 30;
    char *folder = new_folder();
    size_t n;
    unsigned char *bytes = make_pack(folder, _i == 1, &n);
    const size_t index = index_of(bytes, n);
    unsigned char *last = bytes + index + sizeof(ls__pack_index) + 3 * sizeof(ls__pack_group) +
                          (N_IMAGES - 1) * sizeof(ls__pack_sample);
    const size_t place = (size_t)get64(last), tail = n - place;
    put64(last, place + far);
    unsigned char *trailer = bytes + n - LS__PACK_BLOCK;
    reseal(bytes, n);
    put64(trailer + 8, n + far);
    put64(trailer + 16, index + far);
    put64(trailer + 56, ls__hash(trailer, 56, 0));
    const int fd = open(path_in(folder, "large"), O_RDWR | O_CREAT, 0666);
    ck_assert_int_eq(pwrite(fd, bytes, place, 0), (ssize_t)place);
    ck_assert_int_eq(pwrite(fd, bytes + place, tail, (off_t)(place + far)), (ssize_t)tail);
    close(fd);
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_int_eq(use(ctx, path_in(folder, "large")), LS_OK);
    ls_digest digests[2];
    for (int i = 0; i < 2; i++)
        ls_dataset_digest(ls_image_folder_open(ctx, path_in(folder, i ? "large" : "pack")), true,
                          &digests[i]);
    expect_ok(ctx);
    ck_assert(ls_digest_equal(digests[0], digests[1]));
    ck_assert_int_eq(ls_pack_check(ctx, path_in(folder, "large"), NULL, NULL), LS_ERR_FORMAT);
    expect_error(ctx, LS_ERR_FORMAT, "1/1.png", "damaged"); /* a gap that no writer leaves */
    free(bytes);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Where the data of image number i begin. */
static uint64_t offset_of(const char *path, int64_t i)
{
    ls_context *ctx = ls_context_open(NULL);
    ls__pack pack;
    char reason[LS__REASON_SIZE];
    ck_assert_int_eq(ls__pack_open(ctx, path, &pack, reason), LS_OK);
    const uint64_t offset = pack.samples[i].offset;
    ls__pack_close(&pack);
    ls_context_close(&ctx);
    return offset;
}

START_TEST(cut_while_it_is_open)
{
    char *folder = new_folder();
    size_t n;
    free(make_pack(folder, _i == 1, &n));
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *data = ls_image_folder_open(ctx, path_in(folder, "pack"));
    ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 1, .crop = 3 });
    ls_batch b;
    ls_loader_start(loader, 0);
    ck_assert(ls_loader_next(loader, &b));
    ck_assert_int_eq(truncate(path_in(folder, "pack"), LS__PACK_BLOCK), 0);
    ck_assert(!ls_loader_next(loader, &b));
    expect_error(ctx, LS_ERR_IO, "pack/1/0.png", "truncated pack: read 0 of");
    ls_digest digest; /* of the index, which is in memory */
    ck_assert_int_eq(ls_dataset_digest(data, true, &digest), LS_OK);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* A file that shrinks during a run may be in repair, so skip does not replace the image. */
START_TEST(cut_images_are_not_skipped)
{
    char *folder = new_folder(), wanted[80];
    size_t n;
    free(make_pack(folder, _i == 1, &n));
    const char *path = path_in(folder, "pack");
    const uint64_t last = offset_of(path, N_IMAGES - 1);
    ls_context *ctx = ls_context_open(NULL);
    ls_loader *loader = ls_loader_open(
        ls_image_folder_open(ctx, path),
        &(ls_loader_config){ .batch_size = 1, .crop = 3, .on_bad_image = LS_BAD_IMAGE_SKIP });
    int n_batches = 0;
    ls_loader_start(loader, 0);
    for (ls_batch b; ls_loader_next(loader, &b); n_batches++)
        if (n_batches == 0) ck_assert_int_eq(truncate(path, (off_t)last + 7), 0);
    ck_assert_int_eq(n_batches, N_IMAGES - 1);
    ck_assert_int_eq(ls_loader_status(loader), LS_ERR_IO);
    ck_assert_int_eq(ls_loader_statistics(loader).n_bad, 0);
    snprintf(wanted, sizeof(wanted), "truncated pack: read 7 of %d bytes at offset %d;",
             _i == 1 ? 60 : 131, (int)last);
    expect_error(ctx, LS_ERR_IO, wanted, "only images with unusable contents are replaced");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Truncates a file in the n-th request for memory: between any two steps of reading a sample. */
typedef struct cutting_allocator {
    ls_allocator allocator;
    const char *path;
    int n_left;
} cutting_allocator;

static void *allocate_and_cut(void *user, size_t bytes, size_t alignment)
{
    cutting_allocator *a = user;
    if (a->n_left > 0 && --a->n_left == 0) ck_assert_int_eq(truncate(a->path, 0), 0);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

START_TEST(cut_while_an_image_is_read)
{
    char *folder = new_folder();
    size_t n;
    unsigned char *bytes = make_pack(folder, _i == 1, &n);
    int n_failed = 0;
    cutting_allocator a = { .path = path_in(folder, "pack") };
    a.allocator = (ls_allocator){ allocate_and_cut, release, &a };
    for (int at = 1; a.n_left == 0; at++) {
        write_file(a.path, bytes, n);
        ls_context *ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
        ls_loader *loader =
            ls_loader_open(ls_image_folder_open(ctx, a.path),
                           &(ls_loader_config){ .batch_size = 1, .resize = 7, .crop = 6 });
        expect_ok(ctx);
        a.n_left = at;
        ls_batch b;
        ls_loader_start(loader, 0);
        if (!ls_loader_next(loader, &b)) {
            expect_error(ctx, LS_ERR_IO, "pack/0/0.png", "truncated pack");
            n_failed++;
        }
        const int n_left = a.n_left;
        a.n_left = 0;
        ls_context_close(&ctx);
        a.n_left = n_left;
    }
    ck_assert_int_eq(n_failed, 1); /* the request for the buffer that the image is read into */
    free(bytes);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(pack_damage)
{
    const TTest *const tests[] = { flipped_bits_are_found,     cut_and_grown_files_are_refused,
                                   hostile_indices_do_no_harm, files_may_be_large,
                                   cut_while_it_is_open,       no_file_handles,
                                   cut_images_are_not_skipped, cut_while_an_image_is_read };
    Suite *suite = suite_create("pack_damage");
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        TCase *one = tcase_create(tests[i]->name);
        tcase_add_loop_test(one, tests[i], 0, 2); /* of files, of pixels */
        suite_add_tcase(suite, one);
    }
    return run_and_free(suite);
}
