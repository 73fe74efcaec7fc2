/* The record of a run: digests of steps, their lines, cutting and comparing. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "own_folder.h"
#include <lockstep/lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 129 };

/* Valid until the fourth call after. */
static ls_step_digest digest_of(uint64_t i)
{
    return (ls_step_digest){ .batch = { { i, ~i } },
                             .loss = 1.0 / (double)(i + 3),
                             .gradients = { { i << 40, 7 } },
                             .weights = { { 5, i * i } } };
}

static void write_record(const char *name, int n)
{
    ls_run_log *record = ls_run_log_open(ctx, path(name), 0);
    for (int i = 0; i < n; i++) {
        const ls_step_digest digest = digest_of((uint64_t)i);
        ck_assert_int_eq(ls_run_log_append(record, &digest), LS_OK);
    }
    ck_assert_int_eq(ls_run_log_flush(record), LS_OK);
    ls_run_log_close(&record);
    ck_assert_ptr_null(record);
}

static long size_of(const char *name)
{
    struct stat there;
    ck_assert_int_eq(stat(path(name), &there), 0);
    return (long)there.st_size;
}

/* Writes over part of a file. */
static void patch(const char *name, long at, const char *text)
{
    FILE *file = fopen(path(name), "r+b");
    fseek(file, at, SEEK_SET);
    fputs(text, file);
    fclose(file);
}

START_TEST(lines_come_back)
{
    begin();
    write_record("a", 200);
    ck_assert_int_eq(size_of("a"), 200 * LINE);
    int64_t n;
    ck_assert_int_eq(ls_run_log_step_count(ctx, path("a"), &n), LS_OK);
    ck_assert_int_eq(n, 200);
    for (int i = 0; i < 200; i += 13) {
        const ls_step_digest wanted = digest_of((uint64_t)i);
        ls_step_digest got;
        ck_assert_int_eq(ls_run_log_read(ctx, path("a"), i, &got), LS_OK);
        ck_assert(memcmp(&got, &wanted, sizeof(got)) == 0);
    }
    char line[LINE + 1] = "";
    FILE *file = fopen(path("a"), "rb");
    ck_assert_int_eq(fread(line, 1, LINE, file), LINE);
    fclose(file);
    ck_assert_str_eq(line, "000000000000 0000000000000000ffffffffffffffff 3fd5555555555555 "
                           "00000000000000000000000000000007 00000000000000050000000000000000\n");
    end();
}
END_TEST

/* The default NaN of x86 is negative, that of ARM positive. */
START_TEST(every_nan_has_one_line)
{
    begin();
    static const uint64_t nans[] = { 0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001 };
    ls_run_log *record = ls_run_log_open(ctx, path("a"), 0);
    for (int i = 0; i < 3; i++) {
        ls_step_digest digest = digest_of(1);
        memcpy(&digest.loss, &nans[i], sizeof digest.loss);
        ck_assert_int_eq(ls_run_log_append(record, &digest), LS_OK);
    }
    ls_run_log_close(&record);
    for (int i = 0; i < 3; i++) {
        ls_step_digest got;
        ck_assert_int_eq(ls_run_log_read(ctx, path("a"), i, &got), LS_OK);
        ck_assert_mem_eq(&got.loss, &nans[0], sizeof got.loss);
    }
    end();
}
END_TEST

START_TEST(going_on_cuts_what_came_after)
{
    begin();
    write_record("a", 9);
    patch("a", 9 * LINE, "000000000009 half a line");
    ls_run_log *record = ls_run_log_open(ctx, path("a"), 4);
    ck_assert_ptr_nonnull(record);
    ck_assert_int_eq(size_of("a"), 4 * LINE);
    for (uint64_t i = 4; i < 9; i++) {
        const ls_step_digest digest = digest_of(i);
        ck_assert_int_eq(ls_run_log_append(record, &digest), LS_OK);
    }
    ls_run_log_close(&record);
    write_record("b", 9);
    ls_run_log_difference difference;
    ck_assert_int_eq(ls_run_log_compare(ctx, path("a"), path("b"), &difference), LS_OK);
    ck_assert(difference.step == -1 && difference.n_a == 9 && difference.n_b == 9);
    write_record("a", 0);
    ck_assert_int_eq(size_of("a"), 0);
    end();
}
END_TEST

/* Every field of every place in a chunk of lines, and around its ends. */
START_TEST(the_first_difference_is_found)
{
    begin();
    write_record("a", 150);
    static const struct {
        int at, fields;
    } places[] = { { 13, 1 }, { 44, 1 }, { 46, 2 }, { 61, 2 }, { 63, 4 }, { 96, 8 }, { 127, 8 } };
    static const int steps[] = { 0, 1, 63, 64, 65, 127, 128, 149 };
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
            write_record("b", 150);
            char old[2] = "";
            FILE *file = fopen(path("b"), "rb");
            fseek(file, steps[s] * LINE + places[p].at, SEEK_SET);
            old[0] = (char)fgetc(file);
            fclose(file);
            patch("b", steps[s] * LINE + places[p].at, old[0] == '4' ? "5" : "4");
            ls_run_log_difference d;
            ck_assert_int_eq(ls_run_log_compare(ctx, path("a"), path("b"), &d), LS_OK);
            ck_assert_int_eq(d.step, steps[s]);
            ck_assert_int_eq(d.batch + 2 * d.loss + 4 * d.gradients + 8 * d.weights,
                             places[p].fields);
        }
    }
    write_record("b", 70);
    ls_run_log_difference d;
    ck_assert_int_eq(ls_run_log_compare(ctx, path("b"), path("a"), &d), LS_OK);
    ck_assert(d.step == -1 && d.n_a == 70 && d.n_b == 150);
    end();
}
END_TEST

START_TEST(wrong_records_are_refused)
{
    begin();
    write_record("a", 5);
    ls_step_digest digest;
    ls_run_log_difference difference;
    int64_t n;
    ck_assert_ptr_null(ls_run_log_open(ctx, path("a"), 6));
    expect_error(ctx, LS_ERR_DATA, "has 5 whole lines, expected 6");
    ck_assert_ptr_null(ls_run_log_open(ctx, path("none"), 1));
    expect_error(ctx, LS_ERR_NOT_FOUND, "none");
    ck_assert_ptr_null(ls_run_log_open(ctx, path("no/folder"), 0));
    expect_error(ctx, LS_ERR_NOT_FOUND, "no/folder");
    ck_assert_ptr_null(ls_run_log_open(ctx, path("a"), -1));
    expect_error(ctx, LS_ERR_INVALID, "-1 steps");
    ck_assert_ptr_null(ls_run_log_open(ctx, NULL, 0));
    expect_error(ctx, LS_ERR_INVALID, "path");
    ck_assert_int_eq(ls_run_log_read(ctx, path("a"), 5, &digest), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "step 5");
    ck_assert_int_eq(ls_run_log_step_count(ctx, dir, &n), LS_ERR_IO);
    expect_error(ctx, LS_ERR_IO, "not a regular file");
    ck_assert_int_eq(mkfifo(path("pipe"), 0600), 0); /* opening one waits for its other end */
    ck_assert_int_eq(ls_run_log_step_count(ctx, path("pipe"), &n), LS_ERR_IO);
    expect_error(ctx, LS_ERR_IO, "not a regular file");
    ck_assert_ptr_null(ls_run_log_open(ctx, path("pipe"), 0));
    expect_error(ctx, LS_ERR_IO, "not a regular file");
    /* a link is read, but not written */
    fclose(fopen(path("victim"), "w"));
    ck_assert_int_eq(symlink("victim", path("link")), 0);
    ck_assert_int_eq(ls_run_log_step_count(ctx, path("link"), &n), LS_OK);
    ck_assert_ptr_null(ls_run_log_open(ctx, path("link"), 0));
    expect_error(ctx, LS_ERR_IO, "link': a symbolic link; expected a regular file");
    ck_assert_int_eq(ls_run_log_append(NULL, &digest), LS_ERR_EARLIER);

    patch("a", 2 * LINE + 30, "G");
    ck_assert_int_eq(ls_run_log_read(ctx, path("a"), 2, &digest), LS_ERR_DATA);
    expect_error(ctx, LS_ERR_DATA, "line 3 is not that of step 2");
    ck_assert_ptr_null(ls_run_log_open(ctx, path("a"), 3));
    expect_error(ctx, LS_ERR_DATA, "line 3");
    write_record("b", 5);
    ck_assert_int_eq(ls_run_log_compare(ctx, path("a"), path("b"), &difference), LS_ERR_DATA);
    expect_error(ctx, LS_ERR_DATA, "line 3");
    end();
}
END_TEST

/* ---- Digests of a net's steps ---- */

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), 3, NULL);
}

enum { N = 6, SIDE = 5 };

typedef struct training {
    ls_loader *loader;
    ls_net *net;
    ls_optimizer *optimizer;
} training;

static training open_training(const uint8_t *images)
{
    static const int32_t labels[N] = { 0, 1, 2, 0, 1, 2 };
    training t;
    ls_dataset *data = ls_dataset_from_memory(ctx, images, LS_SHAPE(N, SIDE, SIDE, 3), labels, 3);
    t.loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 3, .shuffle = true });
    t.net = ls_net_build(ctx, model, NULL,
                         &(ls_net_config){ .input = ls_loader_input_spec(t.loader),
                                           .loss = { LS_LOSS_CROSS_ENTROPY } });
    t.optimizer = ls_sgd(t.net, &(ls_sgd_config){ .momentum = 0.9f });
    ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
    return t;
}

/* The digests of the first step. */
static ls_step_digest first_step(training t)
{
    ls_batch batch;
    ls_step_digest digest;
    ck_assert_int_eq(ls_loader_start(t.loader, 0), LS_OK);
    ck_assert(ls_loader_next(t.loader, &batch));
    ck_assert_int_eq(ls_net_step(t.net, t.optimizer, &batch, 0.1), LS_OK);
    ck_assert_int_eq(ls_net_digest(t.net, &batch, &digest), LS_OK);
    return digest;
}

static int differences(ls_step_digest a, ls_step_digest b)
{
    return !ls_digest_equal(a.batch, b.batch) + 2 * (a.loss != b.loss) +
           4 * !ls_digest_equal(a.gradients, b.gradients) +
           8 * !ls_digest_equal(a.weights, b.weights);
}

START_TEST(digests_see_each_part)
{
    begin();
    uint8_t images[N * SIDE * SIDE * 3];
    for (size_t i = 0; i < sizeof(images); i++) images[i] = (uint8_t)(i * 37 % 251);
    const ls_step_digest whole = first_step(open_training(images));
    ck_assert_int_eq(differences(whole, first_step(open_training(images))), 0);

    for (size_t i = 0; i < sizeof(images); i++) images[i] ^= 1;
    ck_assert_int_eq(differences(whole, first_step(open_training(images))), 15);
    for (size_t i = 0; i < sizeof(images); i++) images[i] ^= 1;

    training t = open_training(images);
    float *mean = ls_tensor_data(ls_net_parameter(t.net, "bn.running_mean"));
    mean[7] += 1e-6f; /* a buffer: neither loss nor gradients know it */
    ck_assert_int_eq(differences(whole, first_step(t)), 8);

    /* A frozen parameter's gradient is zero, whatever it was before. */
    t = open_training(images);
    ck_assert_int_eq(ls_net_freeze(t.net, "conv.*"), LS_OK);
    const ls_step_digest frozen = first_step(t);
    ck_assert_int_eq(differences(whole, frozen), 12);
    t = open_training(images);
    ls_batch batch;
    ck_assert_int_eq(ls_loader_start(t.loader, 0), LS_OK);
    ck_assert(ls_loader_next(t.loader, &batch));
    ck_assert_int_eq(ls_net_step(t.net, NULL, &batch, 0), LS_OK);
    ck_assert_int_eq(ls_net_freeze(t.net, "conv.*"), LS_OK);
    ck_assert_int_eq(differences(frozen, first_step(t)), 8); /* running statistics moved twice */
    end();
}
END_TEST

START_TEST(digests_refuse_what_they_cannot_see)
{
    begin();
    const uint8_t images[N * SIDE * SIDE * 3] = { 0 };
    training t = open_training(images);
    ls_step_digest digest;
    ls_batch batch;
    ck_assert_int_eq(ls_net_digest(t.net, NULL, &digest), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "ls_net_digest: the batch is NULL");
    ls_run_log *record = ls_run_log_open(ctx, path("a"), 0);
    ck_assert_int_eq(ls_run_log_step(record, t.net, NULL), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "ls_run_log_step: the batch is NULL");
    ck_assert_int_eq(ls_loader_start(t.loader, 0), LS_OK);
    ck_assert(ls_loader_next(t.loader, &batch));
    ck_assert_int_eq(ls_net_digest(t.net, &batch, &digest), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "ls_net_digest: ", "has not been run");
    ck_assert_int_eq(ls_run_log_step(record, t.net, &batch), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "ls_run_log_step: ", "has not been run");
    ck_assert_int_eq(ls_net_digest(NULL, &batch, &digest), LS_ERR_EARLIER);
    end();
}
END_TEST

static bool open_record(ls_context *own, void *user)
{
    (void)user;
    return ls_run_log_open(own, path("a"), 0) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    begin();
    fail_each_allocation(open_record, NULL);
    end();
}
END_TEST

/* A step whose line got no memory leaves no trace: the next one is written in its place. */
START_TEST(allocations_of_a_step_may_fail)
{
    static const uint8_t images[N * SIDE * SIDE * 3] = { 0 };
    begin();
    ls_context *const outer = ctx;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator, .threads = 1 });
        const training t = open_training(images);
        ls_run_log *record = ls_run_log_open(ctx, path("a"), 0);
        ls_batch batch;
        ck_assert_int_eq(ls_loader_start(t.loader, 0), LS_OK);
        ck_assert(ls_loader_next(t.loader, &batch));
        ck_assert_int_eq(ls_net_step(t.net, t.optimizer, &batch, 0.1), LS_OK);
        a.fail_at = a.n_requests + n;
        const ls_status status = ls_run_log_step(record, t.net, &batch);
        const bool failed = failing_allocator_failed(&a);
        a.fail_at = 0;
        ck_assert(status == LS_OK || (failed && status == LS_ERR_MEMORY));
        expect_error(ctx, status, "");
        ck_assert_int_eq(ls_run_log_step(record, t.net, &batch), LS_OK);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        ck_assert_int_eq(size_of("a"), LINE * (status == LS_OK ? 2 : 1));
        if (!failed) break;
    }
    ctx = outer;
    end();
}
END_TEST

TEST_PROGRAM(record)
{
    return RUN_SUITE("record", lines_come_back, every_nan_has_one_line,
                     going_on_cuts_what_came_after, the_first_difference_is_found,
                     wrong_records_are_refused, digests_see_each_part,
                     digests_refuse_what_they_cannot_see, every_allocation_may_fail,
                     allocations_of_a_step_may_fail);
}
