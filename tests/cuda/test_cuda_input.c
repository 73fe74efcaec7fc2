/* Batches on their way to the emulated device and results on their way back, with its streams in
 * many orders: the bytes are the CPU's and the record is the one that is written by waiting for
 * everything; no step waits for a stream; calls fail in turn. */
#include "../suite.h"
#include "emulator/driver.h"
#include "emulator/symbol.h"
#include "nn/net/net_state.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 61, SIDE = 6, CHANNELS = 3, BATCH = 4, CLASSES = 7, MAX_STEPS = 64 };
enum { IMAGE_BYTES = SIDE * SIDE * CHANNELS };

static const char *const orders[] = { "late", "now", "1", "2", "3", "4", "5", "6", "7", "8" };
enum { N_ORDERS = sizeof(orders) / sizeof(orders[0]) };

typedef struct source {
    ls_context *ctx;
    ls_dataset *data;
    ls_loader *loader;
} source;

/* Classes that no image tells apart, so that every step changes the weights. */
static source open_source(const char *device, int workers, int prefetch)
{
    static uint8_t pixels[SAMPLES * IMAGE_BYTES];
    int32_t labels[SAMPLES];
    for (size_t i = 0; i < sizeof(pixels); i++) pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < SAMPLES; i++) labels[i] = i % CLASSES;
    source s = { .ctx = ls_context_open(
                     &(ls_context_config){ .device = device, .seed = 7, .threads = 1 }) };
    s.data = ls_dataset_from_memory(s.ctx, pixels, LS_SHAPE(SAMPLES, SIDE, SIDE, CHANNELS), labels,
                                    CLASSES);
    s.loader = ls_loader_open(s.data, &(ls_loader_config){ .batch_size = BATCH,
                                                           .workers = workers,
                                                           .prefetch = prefetch,
                                                           .shuffle = true,
                                                           .flip_probability = 0.5f,
                                                           .mixup_alpha = 0.3f,
                                                           .cutmix_alpha = 1 });
    return s;
}

static void check_ok(const source *s)
{
    const ls_status status = ls_context_status(s->ctx);
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(s->ctx));
}

/* ---- Batches ---- */

/* All that an epoch's batches hold; copied on the device, which the host lets do it when it likes,
 * and read at the end. */
static void read_epoch(source *s, int64_t epoch, int64_t step, bool at_once,
                       uint8_t out[SAMPLES * IMAGE_BYTES], int32_t labels[SAMPLES],
                       float targets[SAMPLES * CLASSES])
{
    ls_tensor *kept[MAX_STEPS][3];
    int n = 0;
    int64_t n_samples = step * BATCH;
    ck_assert_int_eq(ls_loader_start_at(s->loader, epoch, step), LS_OK);
    for (ls_batch b; ls_loader_next(s->loader, &b); n++) {
        const ls_tensor *parts[3] = { b.images, b.labels, b.targets };
        for (int i = 0; i < 3; i++) {
            kept[n][i] =
                ls_tensor_open(s->ctx, ls_tensor_dtype(parts[i]), *ls_tensor_shape(parts[i]));
            ck_assert_int_eq(ls_tensor_copy(kept[n][i], parts[i]), LS_OK);
        }
        ls_digest digest;
        if (at_once) ck_assert_int_eq(ls_tensor_digest(kept[n][0], &digest), LS_OK);
    }
    check_ok(s);
    for (int i = 0; i < n; i++) {
        const size_t bytes = ls_tensor_bytes(kept[i][0]);
        ck_assert_int_eq(ls_tensor_read(kept[i][0], out + n_samples * IMAGE_BYTES, bytes), LS_OK);
        ck_assert_int_eq(
            ls_tensor_read(kept[i][1], labels + n_samples, ls_tensor_bytes(kept[i][1])), LS_OK);
        ck_assert_int_eq(
            ls_tensor_read(kept[i][2], targets + n_samples * CLASSES, ls_tensor_bytes(kept[i][2])),
            LS_OK);
        n_samples += (int64_t)bytes / IMAGE_BYTES;
        for (int j = 0; j < 3; j++) ls_tensor_close(&kept[i][j]);
    }
    ck_assert_int_eq(n_samples, SAMPLES);
}

START_TEST(bytes_are_the_cpus)
{
    static const int workers[] = { 0, 1, 3 };
    uint8_t pixels[2][SAMPLES * IMAGE_BYTES] = { { 0 } };
    int32_t labels[2][SAMPLES];
    float targets[2][SAMPLES * CLASSES];
    setenv("LOCKSTEP_EMULATED_STREAMS", orders[_i], 1);
    source cpu = open_source("cpu", 0, 0);
    read_epoch(&cpu, 3, 0, false, pixels[0], labels[0], targets[0]);
    for (int i = 0; i < 6; i++) {
        source cuda = open_source("cuda", workers[i % 3], i / 3 ? 1 : 4);
        /* An epoch that is dropped on its way leaves copies under way. */
        ck_assert_int_eq(ls_loader_start(cuda.loader, 1), LS_OK);
        ls_batch b;
        for (int j = 0; j < i; j++) ck_assert(ls_loader_next(cuda.loader, &b));
        read_epoch(&cuda, 3, 0, i % 2 == 1, pixels[1], labels[1], targets[1]);
        ck_assert_mem_eq(pixels[0], pixels[1], sizeof(pixels[0]));
        ck_assert_mem_eq(labels[0], labels[1], sizeof(labels[0]));
        ck_assert_mem_eq(targets[0], targets[1], sizeof(targets[0]));
        ls_context_close(&cuda.ctx);
    }
    ls_context_close(&cpu.ctx);
}
END_TEST

/* ---- Results ---- */

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv", x, 4, &(ls_conv2d_config){ .kernel = 3, .stride = 2 });
    x = ls_relu(g, ls_batch_norm(g, "bn", x, NULL));
    return ls_linear(g, "fc", ls_dropout(g, ls_global_avg_pool(g, x), 0.2f), CLASSES, NULL);
}

typedef struct history {
    ls_results results[MAX_STEPS];
    int n;
} history;

static ls_net *build(const source *s, ls_optimizer **opt)
{
    ls_net *net = ls_net_build(
        s->ctx, model, NULL,
        &(ls_net_config){ .input = ls_loader_input_spec(s->loader),
                          .loss = { .kind = LS_LOSS_CROSS_ENTROPY, .soft_targets = true } });
    *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .clip_norm = 0.5f });
    return net;
}

/* Waits for everything. */
static ls_status step_waiting(ls_net *net, ls_optimizer *opt, ls_run_log *record, const ls_batch *b,
                              history *h)
{
    ls_step_digest digest;
    ls_results r = {
        .epoch = b->epoch, .step = b->step, .n = b->n, .has_loss = true, .n_metrics = 2
    };
    LS_TRY(ls_net_step(net, opt, b, 0.1));
    LS_TRY(ls_net_digest(net, b, &digest));
    LS_TRY(ls_run_log_append(record, &digest));
    LS_TRY(ls_net_loss(net, &r.loss));
    LS_TRY(ls_net_metric(net, "top1", &r.metrics[0].value));
    LS_TRY(ls_net_metric(net, "top5", &r.metrics[1].value));
    LS_TRY(ls_optimizer_gradient_norm(opt, &r.gradient_norm));
    h->results[h->n++] = r;
    return LS_OK;
}

static ls_status step_late(ls_net *net, ls_optimizer *opt, ls_run_log *record, const ls_batch *b,
                           history *h)
{
    LS_TRY(ls_net_step(net, opt, b, 0.1));
    LS_TRY(ls_run_log_step(record, net, b));
    LS_TRY(ls_net_results(net, &h->results[h->n]));
    h->n += h->results[h->n].n > 0;
    return LS_OK;
}

static ls_status take_epoch(source *s, ls_net *net, ls_optimizer *opt, ls_run_log *record,
                            bool late, history *h)
{
    LS_TRY(ls_loader_start(s->loader, 0));
    for (ls_batch b; ls_loader_next(s->loader, &b);)
        LS_TRY((late ? step_late : step_waiting)(net, opt, record, &b, h));
    LS_TRY(ls_loader_status(s->loader));
    if (!late) return LS_OK;
    ck_assert_int_eq(h->n, ls_loader_step_count(s->loader) - 1);
    LS_TRY(ls_net_last_results(net, &h->results[h->n]));
    h->n += h->results[h->n].n > 0;
    ls_results none;
    LS_TRY(ls_net_last_results(net, &none));
    ck_assert_int_eq(none.n, 0);
    return LS_OK;
}

static char record_path[64];

static void open_path(void)
{
    snprintf(record_path, sizeof(record_path), "/tmp/lockstep-input-XXXXXX");
    const int file = mkstemp(record_path);
    ck_assert_int_ge(file, 0);
    close(file);
}

static size_t read_record(char *out, size_t size)
{
    FILE *file = fopen(record_path, "r");
    ck_assert_ptr_nonnull(file);
    const size_t n = fread(out, 1, size, file);
    fclose(file);
    return n;
}

static void check_same(const ls_results *a, const ls_results *b)
{
    ck_assert(a->epoch == b->epoch && a->step == b->step && a->n == b->n);
    ck_assert(a->has_loss && b->has_loss);
    ck_assert(a->loss == b->loss && a->gradient_norm == b->gradient_norm);
    ck_assert(a->n_metrics == 2 && b->n_metrics == 2);
    for (int i = 0; i < 2; i++) ck_assert(a->metrics[i].value == b->metrics[i].value);
}

START_TEST(results_are_those_that_are_waited_for)
{
    enum { TEXT = 1 << 14 };
    static char records[2][TEXT];
    static history histories[2];
    size_t sizes[2];
    open_path();
    setenv("LOCKSTEP_EMULATED_STREAMS", orders[_i], 1);
    for (int late = 0; late < 2; late++) {
        source s = open_source("cuda", late ? 2 : 0, 2);
        ls_optimizer *opt;
        ls_net *net = build(&s, &opt);
        ls_run_log *record = ls_run_log_open(s.ctx, record_path, 0);
        memset(&histories[late], 0, sizeof(histories[late]));
        const ls_status status = take_epoch(&s, net, opt, record, late, &histories[late]);
        ck_assert_msg(status == LS_OK, "%s", ls_context_message(s.ctx));
        /* The last line comes with the flush, or with the closing. */
        if (_i % 2) ck_assert_int_eq(ls_run_log_flush(record), LS_OK);
        ls_context_close(&s.ctx);
        sizes[late] = read_record(records[late], TEXT);
    }
    ck_assert_uint_eq(sizes[0], sizes[1]);
    ck_assert_mem_eq(records[0], records[1], sizes[0]);
    ck_assert_int_eq(histories[0].n, histories[1].n);
    for (int i = 0; i < histories[0].n; i++)
        check_same(&histories[0].results[i], &histories[1].results[i]);
    remove(record_path);
}
END_TEST

static int64_t count_waits(void)
{
    emulate_waits_fn *waits;
    void *symbol = module_symbol("emulate_waits");
    memcpy(&waits, &symbol, sizeof(waits));
    return waits();
}

/* The losses of batches without targets, from their labels or from given one-hot targets. */
static int evaluate_plain(const char *device, bool given, double losses[MAX_STEPS])
{
    source s = open_source(device, 2, 2);
    ls_optimizer *opt;
    ls_net *net = build(&s, &opt);
    ls_loader *plain = ls_loader_open(
        s.data, &(ls_loader_config){ .batch_size = BATCH, .workers = 2, .prefetch = 2 });
    ls_results r;
    int n = 0;
    int64_t before = 0;
    check_ok(&s);
    ck_assert_int_eq(ls_loader_start(plain, 0), LS_OK);
    for (ls_batch b; ls_loader_next(plain, &b);) {
        float rows[BATCH * CLASSES] = { 0 };
        for (int64_t i = 0; i < b.n; i++) rows[i * CLASSES + b.samples[i] % CLASSES] = 1;
        ls_tensor *targets =
            given ? ls_tensor_from_data(s.ctx, LS_F32, LS_SHAPE(b.n, CLASSES), rows) : NULL;
        b.targets = targets;
        ck_assert_int_eq(ls_net_evaluate(net, &b), LS_OK);
        ck_assert_int_eq(given ? ls_net_last_results(net, &r) : ls_net_results(net, &r), LS_OK);
        if (r.n > 0) losses[n++] = r.loss;
        ls_tensor_close(&targets);
        const bool warm = !given && b.step >= 3 && b.n == BATCH;
        if (warm) ck_assert_int_eq(count_waits(), before);
        before = count_waits();
    }
    ck_assert_int_eq(ls_net_last_results(net, &r), LS_OK);
    if (r.n > 0) losses[n++] = r.loss;
    check_ok(&s);
    ls_context_close(&s.ctx);
    return n;
}

START_TEST(labels_become_targets_without_waiting)
{
    double losses[2][MAX_STEPS];
    setenv("LOCKSTEP_EMULATED_STREAMS", orders[_i], 1);
    const int n = evaluate_plain("cuda", true, losses[0]);
    ck_assert_int_eq(n, (SAMPLES + BATCH - 1) / BATCH);
    ck_assert_int_eq(evaluate_plain("cuda", false, losses[1]), n);
    for (int i = 0; i < n; i++) ck_assert(losses[0][i] == losses[1][i]);
}
END_TEST

/* Batches of alternating sizes, of so many classes that each slot has segments of its own. */
START_TEST(targets_of_all_batch_sizes_share_their_memory)
{
    enum { MANY_CLASSES = 1 << 20, PASSES = 4 };
    static const int32_t labels[BATCH] = { 3, 1, 4, 1 };
    setenv("LOCKSTEP_EMULATED_STREAMS", orders[_i], 1);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    ls__one_hot one_hot = { 0 };
    int64_t n_allocated = 0;
    for (int i = 0; i < 2 * PASSES; i++) {
        const int64_t n = i % 2 ? 2 : BATCH;
        ls_tensor *fed = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(n), labels);
        ck_assert_int_eq(ls__one_hot_fill(ctx, &one_hot, fed, MANY_CLASSES), LS_OK);
        ck_assert(ls_shape_equal(ls_tensor_shape(&one_hot.targets), &LS_SHAPE(n, MANY_CLASSES)));
        if (i == 0) n_allocated = ls_context_memory(ctx).n_allocated;
        ck_assert_int_eq(ls_context_memory(ctx).n_allocated, n_allocated);
        ls_tensor_close(&fed);
    }
    ls__one_hot_close(ctx, &one_hot);
    ls_context_close(&ctx);
}
END_TEST

/* Results that nobody takes are dropped; on the CPU none are late. */
START_TEST(results_that_nobody_takes)
{
    static const char *const devices[] = { "cpu", "cuda" };
    for (int i = 0; i < 2; i++) {
        source s = open_source(devices[i], 0, 0);
        ls_optimizer *opt;
        ls_net *net = build(&s, &opt);
        ls_results r;
        ck_assert_int_eq(ls_net_results(net, &r), LS_OK);
        ck_assert_int_eq(r.n, 0);
        ck_assert_int_eq(ls_loader_start(s.loader, 0), LS_OK);
        ls_batch b;
        for (int step = 0; step < 5; step++) {
            ck_assert(ls_loader_next(s.loader, &b));
            ck_assert_int_eq(ls_net_step(net, opt, &b, 0.1), LS_OK);
        }
        for (int step = 3; step < 5; step++) {
            ck_assert_int_eq(ls_net_results(net, &r), LS_OK);
            ck_assert_int_eq(r.n, i == 1 && step == 4 ? 0 : BATCH);
            if (r.n > 0) ck_assert_int_eq(r.step, step);
        }
        /* An evaluation's have no norm. */
        ck_assert_int_eq(ls_net_evaluate(net, &b), LS_OK);
        while (ls_net_last_results(net, &r) == LS_OK && r.n > 0) ck_assert_int_eq(r.step, 4);
        ck_assert_int_eq(ls_net_results(net, NULL), LS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(ls_context_message(s.ctx), "ls_net_results: out is NULL"));
        ls_context_clear_error(s.ctx);
        ck_assert_int_eq(ls_net_results(NULL, &r), LS_ERR_EARLIER);
        ls_context_close(&s.ctx);
    }
}
END_TEST

START_TEST(no_step_waits_for_a_stream)
{
    open_path();
    source s = open_source("cuda", 2, 0);
    ls_optimizer *opt;
    ls_net *net = build(&s, &opt);
    ls_run_log *record = ls_run_log_open(s.ctx, record_path, 0);
    check_ok(&s);
    emulate_waits_fn *waits;
    void *symbol = module_symbol("emulate_waits");
    memcpy(&waits, &symbol, sizeof(waits));
    history h = { .n = 0 };
    int64_t before = 0;
    ck_assert_int_eq(ls_loader_start(s.loader, 0), LS_OK);
    for (ls_batch b; ls_loader_next(s.loader, &b);) {
        if (b.n < BATCH) break; /* another shape is another plan */
        ck_assert_int_eq(step_late(net, opt, record, &b, &h), LS_OK);
        if (b.step >= 3) ck_assert_int_eq(waits(), before);
        before = waits();
    }
    double loss; /* the counter counts */
    ck_assert_int_eq(ls_net_loss(net, &loss), LS_OK);
    ck_assert_int_eq(waits(), before + 1);
    ls_context_close(&s.ctx);
    remove(record_path);
}
END_TEST

/* ---- Failures ---- */

static ls_status use_all(void)
{
    source s = open_source("cuda", 1, 1);
    ls_optimizer *opt;
    ls_net *net = build(&s, &opt);
    ls_run_log *record = ls_run_log_open(s.ctx, record_path, 0);
    history h = { .n = 0 };
    ls_batch b;
    ls_loader_start(s.loader, 0);
    for (int step = 0; step < 4 && ls_loader_next(s.loader, &b); step++)
        if (step_late(net, opt, record, &b, &h) != LS_OK) break;
    ls_net_last_results(net, &h.results[h.n]);
    ls_run_log_flush(record);
    const ls_status status = ls_context_status(s.ctx);
    if (status != LS_OK) ck_assert_str_ne(ls_context_message(s.ctx), "");
    ls_context_close(&s.ctx);
    return status;
}

/* Every one that fails for ever, and a seventh of those that fail once. */
START_TEST(every_call_fails_in_turn)
{
    open_path();
    ck_assert_int_eq(use_all(), LS_OK);
    emulate_fail_at_fn *fail_at;
    emulate_calls_fn *calls;
    emulate_held_fn *held;
    void *symbols[3] = { module_symbol("emulate_fail_at"), module_symbol("emulate_calls"),
                         module_symbol("emulate_held") };
    memcpy(&fail_at, &symbols[0], sizeof(fail_at));
    memcpy(&calls, &symbols[1], sizeof(calls));
    memcpy(&held, &symbols[2], sizeof(held));
    fail_at(0, false);
    ck_assert_int_eq(use_all(), LS_OK);
    const int64_t n = calls();
    for (int64_t i = 1; i <= n; i++)
        for (int sticky = 0; sticky < 2; sticky++) {
            if (!sticky && i % 7 != 0) continue;
            fail_at(i, sticky != 0);
            const ls_status status = use_all();
            /* The last calls are the closing's. */
            ck_assert_msg(!sticky || status != LS_OK || i > n - 16, "call %d of %d: no error",
                          (int)i, (int)n);
            ck_assert_int_eq(held(), 0);
        }
    fail_at(0, false);
    ck_assert_int_eq(use_all(), LS_OK);
    remove(record_path);
}
END_TEST

TEST_PROGRAM(cuda_input)
{
    Suite *suite = suite_create("cuda input");
    TCase *all = tcase_create("all");
    tcase_add_loop_test(all, bytes_are_the_cpus, 0, N_ORDERS);
    tcase_add_loop_test(all, results_are_those_that_are_waited_for, 0, N_ORDERS);
    tcase_add_loop_test(all, labels_become_targets_without_waiting, 0, N_ORDERS);
    tcase_add_loop_test(all, targets_of_all_batch_sizes_share_their_memory, 0, 3);
    tcase_add_test(all, results_that_nobody_takes);
    tcase_add_test(all, no_step_waits_for_a_stream);
    tcase_add_test(all, every_call_fails_in_turn);
    suite_add_tcase(suite, all);
    return run_and_free(suite);
}
