/* test_metric.c: averages with class weights, a net's own metrics, and the metric that decides
 * which epoch of a run is the best. */
#include "../checkpoint/checkpoint_support.h"
#include "../failing_allocator.h"
#include "../suite.h"
#include "log/metrics.h"
#include "train/trainer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 22, CLASSES = 3, PIXELS = 4 * 4 * 3, EPOCHS = 4 };

static const float class_weights[CLASSES] = { 0.25f, 1, 6 };

/* ---- A net with two metrics of its own ---- */

static ls_status count_images(const ls_custom_op_call *c)
{
    *(float *)c->output = (float)c->input_specs[0].shape.dims[0];
    return LS_OK;
}

/* The sum of the images' first logits. */
static ls_status add_logits(const ls_custom_op_call *c)
{
    const float *x = c->inputs[0];
    float sum = 0;
    for (int64_t i = 0; i < c->input_specs[0].shape.dims[0]; i++) sum += x[i * CLASSES];
    *(float *)c->output = sum;
    return LS_OK;
}

/* name: of the second metric. */
static ls_node *small_net(ls_graph *g, ls_node *x, const void *name)
{
    x = ls_linear(g, "fc", ls_flatten(g, x), CLASSES, NULL);
    const ls_spec scalar = { LS_F32, LS_SHAPE(1) };
    ls_metric(g, "ones",
              ls_custom_op(g, "n", 1, &x,
                           &(ls_custom_op_config){
                               .kind = "count", .output = scalar, .forward = count_images }));
    ls_metric(g, name,
              ls_custom_op(g, "s", 1, &x,
                           &(ls_custom_op_config){
                               .kind = "sum", .output = scalar, .forward = add_logits }));
    return x;
}

typedef struct setting {
    int64_t batch;
    bool weighted, one_class;
    const char *name; /* of the net's second metric; NULL = "a,b" */
    const ls_allocator *allocator;
} setting;

typedef struct parts {
    ls_context *ctx;
    ls_dataset *data;
    ls_loader *train, *val;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
} parts;

static parts open_parts(const setting *s)
{
    static uint8_t pixels[N * PIXELS];
    static int32_t labels[N];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 21);
    for (int i = 0; i < N; i++) labels[i] = s->one_class ? 1 : i % 7 == 0 ? 2 : i % 2;
    parts p = { .ctx = ls_context_open(
                    &(ls_context_config){ .seed = 3, .threads = 1, .allocator = s->allocator }) };
    p.data = ls_dataset_from_memory(p.ctx, pixels, LS_SHAPE(N, 4, 4, 3), labels, CLASSES);
    p.train = ls_loader_open(
        p.data, &(ls_loader_config){ .batch_size = s->batch, .shuffle = true, .crop = 4 });
    p.val = ls_loader_open(p.data, &(ls_loader_config){ .batch_size = s->batch, .crop = 4 });
    p.net = ls_net_build(
        p.ctx, small_net, s->name ? s->name : "a,b",
        &(ls_net_config){ .input = ls_loader_input_spec(p.train),
                          .loss = { LS_LOSS_CROSS_ENTROPY,
                                    .class_weights = s->weighted ? class_weights : NULL } });
    p.optimizer = ls_sgd(p.net, NULL);
    p.schedule = ls_schedule_open(
        p.ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU, .lr = 0.01 });
    expect_ok(p.ctx);
    return p;
}

/* ---- Averages ---- */

/* By probabilities: (sum of w l) / (sum of w). */
static double loss_by_hand(const parts *p, bool weighted)
{
    double sum = 0, weights = 0;
    float rows[N * CLASSES];
    int32_t labels[N];
    ck_assert_int_eq(ls_loader_start(p->val, 0), LS_OK);
    for (ls_batch b; ls_loader_next(p->val, &b);) {
        const size_t n = (size_t)b.n;
        ck_assert_int_eq(ls_predict(p->net, &b, NULL, rows, n * CLASSES * sizeof *rows), LS_OK);
        ck_assert_int_eq(ls_tensor_read(b.labels, labels, n * sizeof *labels), LS_OK);
        for (int64_t i = 0; i < b.n; i++) {
            const double w = weighted ? (double)class_weights[labels[i]] : 1;
            sum -= w * log((double)rows[i * CLASSES + labels[i]]);
            weights += w;
        }
    }
    return sum / weights;
}

START_TEST(averages_do_not_depend_on_the_batch_size)
{
    static const int64_t batches[] = { 1, 3, 8, N };
    for (int weighted = 0; weighted < 2; weighted++)
        for (int i = 0; i < 4; i++) {
            ls_averages a;
            const parts p = open_parts(&(setting){ .batch = batches[i], .weighted = weighted });
            ck_assert_int_eq(ls_evaluate(p.net, p.val, NULL, &a), LS_OK);
            ck_assert_double_eq_tol(a.loss, loss_by_hand(&p, weighted), 1e-6);
            ck_assert_int_eq(a.n_images, N);
            ck_assert_int_eq(a.n_metrics, 2);
            ck_assert_str_eq(a.metrics[0].name, "ones");
            ck_assert_str_eq(a.metrics[1].name, "a,b");
            ck_assert_double_eq(a.metrics[0].value, 1);
            static double expected;
            if (i == 0) expected = a.metrics[1].value;
            ck_assert_double_eq_tol(a.metrics[1].value, expected, 1e-6);
            parts closed = p;
            ls_context_close(&closed.ctx);
        }
}
END_TEST

/* A batch without images of a class, one with ignored labels, one without any. */
START_TEST(results_have_the_divisor_of_the_loss)
{
    static const struct {
        int32_t labels[4];
        double weight;
    } cases[] = { { { 0, 0, 1, 2 }, 7.5 }, { { -1, 0, -1, 0 }, 0.5 }, { { -1, -1, -1, -1 }, 0 } };
    parts p = open_parts(&(setting){ .batch = 4, .weighted = true });
    ls_batch b;
    ls_results r;
    ck_assert_int_eq(ls_loader_start(p.val, 0), LS_OK);
    ck_assert(ls_loader_next(p.val, &b));
    for (int i = 0; i < 3; i++) {
        ls_tensor *labels = ls_tensor_from_data(p.ctx, LS_I32, LS_SHAPE(4), cases[i].labels);
        ls_batch own = b;
        own.labels = labels;
        for (int trains = 0; trains < 2; trains++) {
            ck_assert_int_eq(
                trains ? ls_net_step(p.net, NULL, &own, 0) : ls_net_evaluate(p.net, &own), LS_OK);
            ck_assert_int_eq(ls_net_last_results(p.net, &r), LS_OK);
            ck_assert_double_eq(r.loss_weight, cases[i].weight);
        }
    }
    ls_context_close(&p.ctx);
}
END_TEST

/* ---- Runs ---- */

typedef struct heard {
    ls_averages train, validation; /* of the last epoch */
    double values[EPOCHS], losses[EPOCHS];
    bool is_best[EPOCHS];
    char metric[32];
} heard;

static ls_status hear(void *user, const ls_event *e)
{
    heard *h = user;
    if (e->kind != LS_EVENT_EPOCH) return LS_OK;
    h->train = e->averages;
    h->validation = e->validation_averages;
    h->values[e->epoch] = e->metric_value;
    h->losses[e->epoch] = e->validation_averages.loss;
    h->is_best[e->epoch] = e->is_best;
    snprintf(h->metric, sizeof h->metric, "%s", e->metric);
    return LS_OK;
}

static ls_trainer *open_trainer(const parts *p, const ls_trainer_config *config)
{
    return ls_trainer_open(p->net, p->optimizer, p->schedule, p->train, config);
}

static ls_trainer_state run_parts(const setting *s, ls_trainer_config config)
{
    parts p = open_parts(s);
    if (config.validation) config.validation = p.val;
    ls_trainer *trainer = open_trainer(&p, &config);
    expect_ok(p.ctx);
    ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_OK);
    const ls_trainer_state state = ls_trainer_get_state(trainer);
    ls_context_close(&p.ctx);
    return state;
}

static ls_loader *const VALIDATES = (ls_loader *)1; /* replaced by that of the parts */

/* The best epoch has the best value; of equal ones the lowest loss, then it is the earliest. */
START_TEST(the_metric_decides)
{
    static const struct {
        const char *metric;
        bool minimize;
        int sign;
    } cases[] = { { NULL, false, 1 },       { "loss", false, -1 }, { "macro_recall", false, 1 },
                  { "macro_f1", false, 1 }, { "auc", false, 1 },   { "cross_entropy", false, -1 },
                  { "ones", false, 1 },     { "a,b", false, 1 },   { "a,b", true, -1 } };
    heard h = { 0 };
    const ls_trainer_state state = run_parts(&(setting){ .batch = 5, .weighted = true },
                                             (ls_trainer_config){ .epochs = EPOCHS,
                                                                  .validation = VALIDATES,
                                                                  .metric = cases[_i].metric,
                                                                  .minimize = cases[_i].minimize,
                                                                  .on_event = hear,
                                                                  .user = &h });
    int best = 0;
    for (int i = 1; i < EPOCHS; i++) {
        const double better = cases[_i].sign * (h.values[i] - h.values[best]);
        const bool is_best = better > 0 || (better == 0 && h.losses[i] < h.losses[best]);
        ck_assert_int_eq(h.is_best[i], is_best);
        if (is_best) best = i;
    }
    ck_assert_str_eq(h.metric, cases[_i].metric ? cases[_i].metric : "top1");
    ck_assert_int_eq(state.best_epoch, best + 1);
    ck_assert_double_eq(state.best, h.values[best]);
}
END_TEST

static void read_file_of(const char *dir, const char *name, char out[8192])
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    ck_assert(file);
    out[fread(out, 1, 8191, file)] = '\0';
    fclose(file);
}

START_TEST(a_run_writes_and_keeps_its_metric)
{
    char dir[128], text[8192];
    snprintf(dir, sizeof dir, "%s", path_of("metric"));
    heard whole = { 0 }, parted = { 0 };
    const setting s = { .batch = 5, .weighted = true };
    ls_trainer_config config = { .epochs = EPOCHS,
                                 .validation = VALIDATES,
                                 .metric = "a,b",
                                 .minimize = true,
                                 .on_event = hear,
                                 .user = &whole };
    const ls_trainer_state expected = run_parts(&s, config);
    config.dir = dir;
    config.user = &parted;
    config.max_steps = 8; /* in the second epoch */
    run_parts(&s, config);
    config.resume = true;
    config.max_steps = 0;
    const ls_trainer_state state = run_parts(&s, config);
    ck_assert(memcmp(&whole.train.loss, &parted.train.loss, sizeof(double)) == 0);
    ck_assert_double_eq(whole.train.metrics[1].value, parted.train.metrics[1].value);
    ck_assert_double_eq(whole.validation.metrics[1].value, parted.validation.metrics[1].value);
    ck_assert_int_eq(state.best_epoch, expected.best_epoch);
    ck_assert_double_eq(state.best, expected.best);
    read_file_of(dir, "metrics.csv", text);
    static const char head[] = "epoch,lr,train_loss,train_top1,train_ones,\"train_a,b\",val_loss,"
                               "val_top1,val_ones,\"val_a,b\",best_epoch,images_per_second";
    ck_assert_msg(strncmp(text, head, sizeof head - 1) == 0, "%s", text);
    read_file_of(dir, "metrics.jsonl", text);
    ck_assert_ptr_nonnull(strstr(text, "\"train_ones\": 1.0, \"train_a,b\": "));
    read_file_of(dir, "report.html", text);

    config.metric = NULL;
    config.minimize = false;
    for (int force = 0; force < 2; force++) {
        parts p = open_parts(&s);
        config.validation = p.val;
        config.force = force;
        ck_assert_ptr_null(open_trainer(&p, &config));
        expect_error(p.ctx, LS_ERR_MISMATCH, "metric is a,b, lowest there, the default here");
        ls_context_close(&p.ctx);
    }
}
END_TEST

/* The trainer's metric precedes an own metric of the same name in the columns, too. */
START_TEST(the_row_has_the_value_that_decides)
{
    heard h = { 0 };
    char dir[128];
    snprintf(dir, sizeof dir, "%s", path_of("name"));
    const setting s = { .batch = 5, .weighted = true, .name = "macro_f1" };
    run_parts(&s, (ls_trainer_config){ .epochs = EPOCHS,
                                       .validation = VALIDATES,
                                       .metric = "macro_f1",
                                       .dir = dir,
                                       .on_event = hear,
                                       .user = &h });
    ls_context *ctx = ls_context_open(NULL);
    for (int i = 0; i < EPOCHS; i++) {
        json_t *row;
        ck_assert_int_eq(ls__metrics_read_row(ctx, dir, i + 1, &row), LS_OK);
        ck_assert_double_eq(json_number_value(json_object_get(row, "val_macro_f1")), h.values[i]);
        ck_assert_double_ne(h.validation.metrics[1].value, h.values[i]);
        ck_assert_ptr_null(json_object_get(row, "train_macro_f1"));
        json_decref(row);
    }
    ls_context_close(&ctx);
}
END_TEST

/* Without the loss of the best epoch, an equal metric would be a better one. */
START_TEST(a_resumed_run_has_the_best_loss_or_fails)
{
    char dir[128];
    snprintf(dir, sizeof dir, "%s", path_of("loss"));
    setting s = { .batch = 5 };
    ls_trainer_config config = {
        .epochs = EPOCHS, .validation = VALIDATES, .dir = dir, .max_steps = 8
    };
    run_parts(&s, config);
    config.resume = true;
    int n_failed = 0;
    double expected = NAN;
    for (int64_t n = 0;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        s.allocator = &a.allocator;
        parts p = open_parts(&s);
        config.validation = p.val;
        if (n > 0) a.fail_at = atomic_load(&a.n_requests) + n;
        const ls_trainer *trainer = open_trainer(&p, &config);
        const bool failed = failing_allocator_failed(&a);
        if (n == 0) expected = trainer->best_loss;
        if (trainer) ck_assert_double_eq(trainer->best_loss, expected);
        n_failed += trainer == NULL;
        ls_context_close(&p.ctx);
        if (n > 0 && !failed) break;
    }
    ck_assert(isfinite(expected));
    ck_assert_int_ge(n_failed, 8);
}
END_TEST

/* The checkpoint of an earlier version in mid-epoch: its epoch has no averages of own metrics. */
START_TEST(own_metrics_of_a_part_of_an_epoch_are_unknown)
{
    char dir[128];
    snprintf(dir, sizeof dir, "%s", path_of("earlier"));
    heard h = { 0 };
    const setting s = { .batch = 5 };
    ls_trainer_config config = { .epochs = EPOCHS, .dir = dir, .max_steps = 8 };
    parts p = open_parts(&s);
    ls_trainer *trainer = open_trainer(&p, &config);
    ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_OK);
    trainer->progress.sums.n_own = 0; /* earlier versions did not write these sums */
    trainer->is_saved = false;
    ck_assert_int_eq(ls_trainer_save(trainer), LS_OK);
    ls_context_close(&p.ctx);
    config.resume = true;
    config.max_steps = 0;
    config.on_event = hear;
    config.user = &h;
    run_parts(&s, config);
    ls_context *ctx = ls_context_open(NULL);
    for (int i = 1; i < EPOCHS; i++) {
        json_t *row;
        ck_assert_int_eq(ls__metrics_read_row(ctx, dir, i + 1, &row), LS_OK);
        const json_t *ones = json_object_get(row, "train_ones");
        ck_assert(i == 1 ? json_is_null(ones) : json_number_value(ones) == 1);
        json_decref(row);
    }
    ls_context_close(&ctx);
}
END_TEST

START_TEST(a_metric_that_is_not_there_is_an_error)
{
    static const struct {
        const char *metric;
        bool minimize, validates, one_class;
        const char *message;
    } cases[] = {
        { "accuracy", false, true, false,
          "metric is 'accuracy', expected one of loss, top1, ones, a,b, macro_recall, macro_f1, "
          "auc, "
          "cross_entropy" },
        { "macro_f1", false, false, false,
          "metric is 'macro_f1', which requires validation, expected one of loss, top1, ones, "
          "a,b" },
        { "top5", false, true, false, "metric is 'top5', expected" },
        { "auc", false, true, true, "'auc' requires validation images of two classes or more" },
        { "loss", true, true, false, "minimize is for a metric of the net, not for 'loss'" },
        { NULL, true, true, false, "minimize is for a metric of the net, not for 'top1'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        parts p = open_parts(&(setting){ .batch = 5, .one_class = cases[i].one_class });
        ck_assert_ptr_null(
            open_trainer(&p, &(ls_trainer_config){ .epochs = 1,
                                                   .validation = cases[i].validates ? p.val : NULL,
                                                   .metric = cases[i].metric,
                                                   .minimize = cases[i].minimize }));
        expect_error(p.ctx, LS_ERR_INVALID, cases[i].message);
        ls_context_close(&p.ctx);
    }
}
END_TEST

TEST_PROGRAM(metric)
{
    begin_runs();
    int status = run_loop("metric: decides", the_metric_decides, 9);
    status =
        both(status,
             RUN_SUITE("metric", averages_do_not_depend_on_the_batch_size,
                       results_have_the_divisor_of_the_loss, a_run_writes_and_keeps_its_metric,
                       the_row_has_the_value_that_decides, a_resumed_run_has_the_best_loss_or_fails,
                       own_metrics_of_a_part_of_an_epoch_are_unknown,
                       a_metric_that_is_not_there_is_an_error));
    return end_runs(status);
}
