/* test_callbacks.c: datasets of a program's callbacks: the same batches as from memory, and
 * callbacks that fail. */
#include "../suite.h"
#include "loader_support.h"
#include <lockstep/random.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { N = 30, H = 9, W = 12, MAX_BYTES = H * W * 3 };

/* What the callbacks do. */
typedef struct source {
    int channels;
    int bad;          /* fails for this sample; 0 = none */
    ls_status status; /* with this; OK: reserves no image */
    const char *reason;
    int huge; /* sample that reserves a huge image */
    _Atomic int n_loads;
} source;

static void draw(int channels, int64_t sample, uint8_t *pixels)
{
    for (int i = 0; i < H * W * channels; i++)
        pixels[i] = (uint8_t)((uint32_t)(i + 1) * ((uint32_t)sample * 2654435761u + 1) >> 20);
}

static int label(void *user, int64_t sample)
{
    (void)user;
    return (int)(sample % 3);
}

static ls_status load(void *user, int64_t sample, ls_image_writer *out)
{
    source *s = user;
    atomic_fetch_add(&s->n_loads, 1);
    if (s->bad && sample == s->bad) {
        if (s->reason) ls_image_writer_reason(out, "%s %d", s->reason, (int)sample);
        return s->status;
    }
    const bool huge = s->huge && sample == s->huge;
    uint8_t *pixels = ls_image_writer_reserve(out, huge ? 1 << 20 : H, huge ? 1 << 20 : W);
    if (pixels) draw(s->channels, sample, pixels);
    return LS_OK;
}

static uint64_t digest(void *user, int64_t sample)
{
    const source *s = user;
    return (uint64_t)sample * 7 + (uint64_t)s->bad;
}

static ls_dataset *open_source(ls_context *ctx, source *s)
{
    return ls_dataset_from_callbacks(ctx, &(ls_dataset_callbacks){ .sample_count = N,
                                                                   .n_classes = 3,
                                                                   .channels = s->channels,
                                                                   .label = label,
                                                                   .load = load,
                                                                   .user = s });
}

START_TEST(same_batches_as_from_memory)
{
    static trace traces[5];
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 3 });
    for (int channels = 1; channels <= 3; channels += 2) {
        uint8_t pixels[N * MAX_BYTES];
        int32_t labels[N];
        for (int i = 0; i < N; i++) {
            draw(channels, i, pixels + i * H * W * channels);
            labels[i] = i % 3;
        }
        source s = { .channels = channels };
        ls_dataset *memory =
            ls_dataset_from_memory(ctx, pixels, LS_SHAPE(N, H, W, channels), labels, 3);
        ls_dataset *called = open_source(ctx, &s), *train, *val;
        ls_loader_config config = { .batch_size = 7,
                                    .shuffle = true,
                                    .resize = 8,
                                    .crop = 8,
                                    .crop_padding = 2,
                                    .flip_probability = 0.5f };
        run_epochs(ctx, memory, config, 0, 1, &traces[0]);
        ck_assert_int_eq(traces[0].n_images, 2 * N);
        for (int workers = 0; workers < 4; workers++) {
            config.workers = workers;
            run_epochs(ctx, called, config, 0, 1, &traces[1 + workers]);
            expect_same_trace(&traces[0], &traces[1 + workers], "callbacks");
        }
        ck_assert_int_eq(ls_dataset_split(called, 0.2, 0, &train, &val), LS_OK);
        ls_dataset_close(&called);
        run_epochs(ctx, val, config, 0, 0, &traces[1]);
        ck_assert_int_eq(traces[1].n_images, 6);
        ls_dataset_close(&train);
        ls_dataset_close(&val);
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(failing_callbacks)
{
    static const struct {
        source source;
        ls_bad_image on_bad;
        ls_status status;
        const char *said;
    } cases[] = {
        { { 3, 5, LS_ERR_IO, "no record" }, LS_BAD_IMAGE_FAIL, LS_ERR_IO, "sample 5: no record 5" },
        { { 3, 5, LS_ERR_IO, "no record" },
          LS_BAD_IMAGE_SKIP,
          LS_ERR_IO,
          "sample 5: no record 5; only images with unusable contents are replaced" },
        { { 3, 5, LS_ERR_DATA, "cut" }, LS_BAD_IMAGE_SKIP, LS_OK, "" },
        { { 3, 5, LS_ERR_DATA, NULL },
          LS_BAD_IMAGE_FAIL,
          LS_ERR_DATA,
          "sample 5: the callback load returned: " },
        { { 3, 5, LS_ERR_DEVICE, "gone" }, LS_BAD_IMAGE_SKIP, LS_ERR_DEVICE, "sample 5: gone 5" },
        { { 3, 5, LS_OK, NULL },
          LS_BAD_IMAGE_FAIL,
          LS_ERR_DATA,
          "sample 5: the callback load reserved no image" },
        { { 3, .huge = 6 },
          LS_BAD_IMAGE_FAIL,
          LS_ERR_DATA,
          "sample 6: claims 1048576 x 1048576 pixels" },
        { { 3, .huge = 6 }, LS_BAD_IMAGE_SKIP, LS_OK, "" },
    };
    static trace traces[2];
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        for (int workers = 0; workers < 2; workers++) {
            ls_context *ctx = ls_context_open(NULL);
            source s = cases[k].source;
            run_epochs(ctx, open_source(ctx, &s),
                       (ls_loader_config){ .batch_size = 4,
                                           .workers = 2 * workers,
                                           .crop = 8,
                                           .on_bad_image = cases[k].on_bad },
                       0, 0, &traces[workers]);
            ck_assert_int_eq(traces[workers].status, cases[k].status);
            ck_assert(strstr(traces[workers].message, cases[k].said));
            const bool replaces = cases[k].on_bad == LS_BAD_IMAGE_SKIP;
            ck_assert_int_eq(traces[workers].n_bad, !replaces || cases[k].status == LS_OK);
            ls_context_clear_error(ctx);
            ls_context_close(&ctx);
        }
        expect_same_trace(&traces[0], &traces[1], "failures");
    }
}
END_TEST

/* By the pixels, or by the callback, without loading. */
START_TEST(digest_of_pixels_or_by_callback)
{
    ls_context *ctx = ls_context_open(NULL);
    source s = { 3 }, other = { 3, 2, LS_ERR_DATA, NULL };
    ls_digest digests[5];
    ls_dataset_callbacks c = { .sample_count = N, .load = load };
    for (int i = 0; i < 5; i++) {
        c.user = i % 2 ? &other : &s;
        c.digest = i > 1 ? digest : NULL;
        if (i == 4) c.user = &s;
        atomic_store(&s.n_loads, 0);
        atomic_store(&other.n_loads, 0);
        ls_dataset *data = ls_dataset_from_callbacks(ctx, &c);
        ck_assert_int_eq(ls_dataset_label(data, 1), -1);
        ck_assert_int_eq(ls_dataset_digest(data, false, &digests[i]), LS_OK);
        ck_assert_int_eq(atomic_load(&s.n_loads) + atomic_load(&other.n_loads), i > 1 ? 0 : N);
        for (int j = 0; j < i; j++)
            ck_assert_int_eq(ls_digest_equal(digests[i], digests[j]), i == 4 && j == 2);
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(mistakes)
{
    ls_context *ctx = ls_context_open(NULL);
    source s = { 3 };
    const char *const names[] = { "a", NULL };
    const ls_dataset_callbacks good = {
        .sample_count = N, .n_classes = 3, .label = label, .load = load, .user = &s
    };
    ls_dataset_callbacks c = good;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, NULL));
    expect_error(ctx, LS_ERR_INVALID, "ls_dataset_from_callbacks: no callbacks");
    c.load = NULL;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "load is NULL");
    c = good, c.sample_count = 0;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "sample_count is 0, expected 1 to 1099511627776");
    /* products with the size of a label or a row of targets would overflow */
    for (int i = 0; i < 4; i++) {
        c = good, c.sample_count = i < 3 ? ((int64_t)1 << (40 + 11 * i)) + 1 : INT64_MAX;
        ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
        expect_error(ctx, LS_ERR_INVALID, "sample_count is ", "expected 1 to 1099511627776");
    }
    c = good, c.channels = 2;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "channels is 2, expected 0, 1 or 3");
    c = good, c.n_classes = 0;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "n_classes is 0 with label");
    c = good, c.label = NULL;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "n_classes is 3 without label");
    c = good, c.n_classes = 2, c.classes = names;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_INVALID, "classes[1] is NULL");
    c.classes = NULL;
    ck_assert_ptr_null(ls_dataset_from_callbacks(ctx, &c));
    expect_error(ctx, LS_ERR_DATA, "sample 2 has label 2, expected 0 to 1");
    ls_dataset *data = ls_dataset_from_callbacks(ctx, &good);
    ck_assert_ptr_null(ls_loader_open(
        data, &(ls_loader_config){ .batch_size = 1, .crop = 8, .decode = LS_DECODE_FAST }));
    expect_error(ctx, LS_ERR_INVALID, "decode is fast, but the callbacks give pixels, not files");
    ls_context_close(&ctx);
}
END_TEST

static bool digest_source(ls_context *ctx, void *user)
{
    (void)user;
    source s = { 3 };
    ls_digest out;
    return ls_dataset_digest(open_source(ctx, &s), false, &out) == LS_OK;
}

START_TEST(every_allocation_may_fail)
{
    fail_each_allocation(digest_source, NULL);
}
END_TEST

/* 9460 x 9460 pixels are more than a loader's default limit. */
static ls_status load_large(void *user, int64_t sample, ls_image_writer *out)
{
    enum { SIDE = 9460 };
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE, SIDE);
    if (!pixels) return LS_OK;
    memset(pixels, 0, (size_t)SIDE * SIDE);
    pixels[SIDE * SIDE - 1] = *(const uint8_t *)user;
    (void)sample;
    return LS_OK;
}

START_TEST(the_digest_covers_large_images)
{
    ls_digest digests[2];
    for (uint8_t i = 0; i < 2; i++) {
        ls_context *ctx = ls_context_open(NULL);
        ls_dataset *data = ls_dataset_from_callbacks(
            ctx, &(ls_dataset_callbacks){
                     .sample_count = 1, .channels = 1, .load = load_large, .user = &i });
        ck_assert_int_eq(ls_dataset_digest(data, false, &digests[i]), LS_OK);
        ls_context_close(&ctx);
    }
    ck_assert(!ls_digest_equal(digests[0], digests[1]));
}
END_TEST

TEST_PROGRAM(callbacks)
{
    return RUN_SUITE("callbacks", the_digest_covers_large_images, same_batches_as_from_memory,
                     failing_callbacks, digest_of_pixels_or_by_callback, mistakes,
                     every_allocation_may_fail);
}
