/* test_event_file.c: event files: their frames, scalars, images, histograms and failures. */
#include "io/event_file.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include "data/decode/decoder.h"
#include "event_reader.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;
static ls_context *ctx;

static void enter(void)
{
    ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    folder = new_folder();
}

static void leave(void)
{
    ls_context_close(&ctx);
    remove_folder(folder);
}

enum { MAX_VALUES = 32 };
typedef struct values {
    int n;
    event_value list[MAX_VALUES];
} values;

static void add_value(void *user, const event_value *value)
{
    values *v = user;
    ck_assert_int_lt(v->n, MAX_VALUES);
    v->list[v->n++] = *value;
}

/* The bytes are the caller's. */
static char *read_back(const char *path, int n_records, values *out)
{
    size_t size;
    char *bytes = read_file(path, &size);
    out->n = 0;
    ck_assert_int_eq(read_events((unsigned char *)bytes, size, add_value, out), n_records);
    return bytes;
}

/* As TensorBoard's own writer writes it. */
START_TEST(the_first_record)
{
    static const unsigned char first[] = {
        0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,       /* length */
        0xA3, 0x7F, 0x4B, 0x22,                               /* its CRC */
        0x09, 0x00, 0x00, 0x00, 0xC0, 0x0B, 0x5A, 0xD6, 0x41, /* time */
        0x1A, 0x0D, 'b',  'r',  'a',  'i',  'n',  '.',  'E',
        'v',  'e',  'n',  't',  ':',  '2', /* version */
        0x4C, 0xA9, 0xA4, 0x64
    };
    enter();
    ls__event_file *file;
    const char *path = path_in(folder, "events");
    ck_assert_int_eq(ls__event_file_create(ctx, path, 1.5e9, &file), LS_OK);
    ls__event_file_close(&file);
    ck_assert_ptr_null(file);
    size_t size;
    char *bytes = read_file(path, &size);
    ck_assert_uint_eq(size, sizeof(first));
    ck_assert_mem_eq(bytes, first, sizeof(first));
    free(bytes);
    leave();
}
END_TEST

START_TEST(scalars_and_sessions)
{
    enter();
    ls__event_file *file;
    static values v;
    const char *path = path_in(folder, "events");
    ck_assert_int_eq(ls__event_file_create(ctx, path, 1.5e9, &file), LS_OK);
    ls__event_begin(file, 1.5e9, 41);
    ls__event_add_session_start(file);
    ck_assert_int_eq(ls__event_commit(file), LS_OK);
    ls__event_begin(file, 1.5e9 + 0.25, INT64_C(1) << 40);
    ls__event_add_scalar(file, "loss", 0.1);
    ls__event_add_scalar(file, "nan", (double)NAN);
    ck_assert_int_eq(ls__event_commit(file), LS_OK);
    free(read_back(path, 3, &v)); /* before the file is closed */
    ck_assert_int_eq(v.n, 4);
    ck_assert_str_eq(v.list[0].version, "brain.Event:2");
    ck_assert(v.list[1].session_start && v.list[1].step == 41);
    ck_assert(v.list[2].wall_time == 1.5e9 + 0.25 && v.list[2].step == INT64_C(1) << 40);
    ck_assert_str_eq(v.list[2].tag, "loss");
    ck_assert(v.list[2].has_scalar && v.list[2].scalar == (double)0.1f && isnan(v.list[3].scalar));
    ls__event_file_close(&file);
    leave();
}
END_TEST

/* The decoder returns RGB. */
static void expect_pixels(const event_value *image, const unsigned char *pixels)
{
    ls__decoder decoder = { .ctx = ctx };
    ck_assert_int_eq(ls__decoder_probe_memory(&decoder, image->png, image->png_bytes, false),
                     LS_OK);
    ck_assert_int_eq(ls__decode_region(&decoder, NULL), LS_OK);
    const ls__image_view *view = &decoder.source.view;
    ck_assert(view->height == image->height && view->width == image->width);
    for (int64_t i = 0; i < view->height * view->width * 3; i++)
        ck_assert_uint_eq(view->pixels[i], pixels[image->channels == 3 ? i : i / 3]);
    ls__decoder_free(&decoder);
}

START_TEST(images_are_png)
{
    enum { WIDTH = 5, HEIGHT = 3 };
    enter();
    ls__event_file *file;
    static values v;
    const char *path = path_in(folder, "events");
    unsigned char pixels[HEIGHT * WIDTH * 3];
    for (size_t i = 0; i < sizeof(pixels); i++) pixels[i] = (unsigned char)(37 * i);
    ck_assert_int_eq(ls__event_file_create(ctx, path, 1, &file), LS_OK);
    ls__event_begin(file, 1, 0);
    ls__event_add_image(file, "rgb", HEIGHT, WIDTH, 3, pixels);
    ls__event_add_image(file, "grey", HEIGHT, WIDTH, 1, pixels);
    ck_assert_int_eq(ls__event_commit(file), LS_OK);
    char *bytes = read_back(path, 2, &v);
    ck_assert_int_eq(v.n, 3);
    for (int i = 1; i < 3; i++) {
        const event_value *image = &v.list[i];
        ck_assert(image->height == HEIGHT && image->width == WIDTH);
        ck_assert_int_eq(image->channels, i == 1 ? 3 : 1);
        expect_pixels(image, pixels);
    }
    free(bytes);
    ls__event_file_close(&file);
    leave();
}
END_TEST

START_TEST(histograms)
{
    static const float all[] = { -1, 0.5f, 3, (float)NAN, 0.5f, (float)INFINITY, 0 };
    static const float same[] = { 2, 2 }, none[] = { (float)NAN };
    enter();
    ls__event_file *file;
    static values v;
    const char *path = path_in(folder, "events");
    ck_assert_int_eq(ls__event_file_create(ctx, path, 1, &file), LS_OK);
    ls__event_begin(file, 1, 7);
    ls__event_add_histogram(file, "all", 7, all);
    ls__event_add_histogram(file, "same", 2, same);
    ls__event_add_histogram(file, "none", 1, none);
    ck_assert_int_eq(ls__event_commit(file), LS_OK);
    free(read_back(path, 2, &v));
    const event_value *h = &v.list[1];
    ck_assert(h->min == -1 && h->max == 3 && h->count == 5 && h->sum == 3 && h->squares == 10.5);
    ck_assert_int_eq(h->n_buckets, 64);
    double sum = 0;
    for (int i = 0; i < h->n_buckets; i++) {
        sum += h->buckets[i];
        ck_assert(i == 0 || h->limits[i] > h->limits[i - 1]);
    }
    ck_assert(sum == 5 && h->limits[63] == 3 && h->buckets[63] == 1 && h->buckets[0] == 1);
    ck_assert(h->buckets[24] == 2); /* 0.5 = -1 + 24 / 16 */
    h = &v.list[2];
    ck_assert(h->min == 2 && h->max == 2 && h->count == 2 && h->buckets[0] == 2);
    ck_assert(v.list[3].count == 0);
    ls__event_file_close(&file);
    leave();
}
END_TEST

START_TEST(files_that_exist_stay)
{
    enter();
    ls__event_file *file;
    const char *path = path_in(folder, "events");
    write_text(path, "mine");
    ck_assert_int_eq(ls__event_file_create(ctx, path, 1, &file), LS_ERR_IO);
    expect_error(ctx, LS_ERR_IO, "writing '", "/events': File exists");
    ck_assert_ptr_null(file);
    leave();
}
END_TEST

/* A record that does not fit is removed, so that readers find whole records only. */
START_TEST(full_disk)
{
    enter();
    ls__event_file *file;
    static values v;
    const char *path = path_in(folder, "events");
    struct rlimit before, few;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN); /* of writes by Check, whose file the limit applies to, too */
    few = (struct rlimit){ 10, before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &few);
    ck_assert_int_eq(ls__event_file_create(ctx, path, 1, &file), LS_ERR_IO);
    setrlimit(RLIMIT_FSIZE, &before);
    expect_error(ctx, LS_ERR_IO, "File too large");
    ck_assert_int_ne(access(path, F_OK), 0); /* no empty file remains */
    ck_assert_int_eq(ls__event_file_create(ctx, path, 1, &file), LS_OK);
    few = (struct rlimit){ 60, before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &few);
    ls__event_begin(file, 1, 1);
    ls__event_add_scalar(file, "a", 1);
    const ls_status status = ls__event_commit(file);
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_eq(status, LS_ERR_IO);
    expect_error(ctx, LS_ERR_IO, "writing '", "/events': File too large");
    free(read_back(path, 1, &v));
    ls__event_begin(file, 1, 2);
    ls__event_add_scalar(file, "b", 2);
    ck_assert_int_eq(ls__event_commit(file), LS_OK);
    free(read_back(path, 2, &v));
    ck_assert_str_eq(v.list[1].tag, "b");
    ls__event_file_close(&file);
    leave();
}
END_TEST

static bool write_one(ls_context *failing, void *user)
{
    static const float numbers[] = { 1, 2 };
    static const unsigned char pixels[12];
    const char *path = user;
    ls__event_file *file;
    if (ls_context_status(failing) != LS_OK) return false;
    remove(path);
    bool good = ls__event_file_create(failing, path, 1, &file) == LS_OK;
    if (good) {
        ls__event_begin(file, 1, 1);
        ls__event_add_scalar(file, "a", 1);
        ls__event_add_image(file, "b", 2, 2, 3, pixels);
        ls__event_add_histogram(file, "c", 2, numbers);
        good = ls__event_commit(file) == LS_OK;
    }
    ls__event_file_close(&file);
    return good;
}

START_TEST(failing_allocations)
{
    enter();
    char path[256];
    snprintf(path, sizeof(path), "%s", path_in(folder, "events"));
    fail_each_allocation(write_one, path);
    leave();
}
END_TEST

TEST_PROGRAM(event_file)
{
    return RUN_SUITE("event_file", the_first_record, scalars_and_sessions, images_are_png,
                     histograms, files_that_exist_stay, full_disk, failing_allocations);
}
