/* test_train_targets.c: training on samples with several labels and with numbers: the losses, the
 * best epoch by loss, resumed runs, and rebuilt models. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 24, SIDE = 8, N_TARGETS = 3, BATCH = 4, EPOCHS = 4, STEPS = N / BATCH };

typedef struct objects {
    ls_context *ctx;
    ls_dataset *data;
    ls_loader *loader;
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_model_info info;
} objects;

static ls_status load(void *user, int64_t sample, ls_image_writer *out)
{
    (void)user;
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE, SIDE);
    for (int i = 0; pixels && i < SIDE * SIDE * 3; i++)
        pixels[i] = (uint8_t)(sample * 10 + i % 3 * (sample % 2 ? 40 : 3));
    return LS_OK;
}

/* Numbers in [-1,1], or labels. */
static void target(void *user, int64_t sample, float *out)
{
    const ls_loss_kind *loss = user;
    for (int k = 0; k < N_TARGETS; k++) {
        const bool bit = (sample >> k & 1) != 0;
        out[k] = *loss == LS_LOSS_MSE ? (float)sample / N - 0.3f * (float)k : bit;
    }
}

static objects open_objects(ls_loss_kind *loss, int threads)
{
    objects o = { .ctx = ls_context_open(&(ls_context_config){ .threads = threads, .seed = 1 }) };
    static const char *const names[] = { "x", "y", "z" };
    o.data = ls_dataset_from_callbacks(o.ctx, &(ls_dataset_callbacks){ .sample_count = N,
                                                                       .load = load,
                                                                       .target = target,
                                                                       .n_targets = N_TARGETS,
                                                                       .target_names = names,
                                                                       .user = loss });
    o.loader = ls_loader_open(o.data, &(ls_loader_config){ .batch_size = BATCH, .shuffle = true });
    o.info = (ls_model_info){
        .model = ls_model_find("mlp"), .options.n_classes = N_TARGETS, .resize = SIDE, .loss = *loss
    };
    o.net = ls_net_build(
        o.ctx, o.info.model->function, &o.info.options,
        &(ls_net_config){ .input = ls_loader_input_spec(o.loader), .loss.kind = *loss });
    o.optimizer = ls_sgd(o.net, NULL);
    o.schedule =
        ls_schedule_open(o.ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 0.02 });
    expect_ok(o.ctx);
    return o;
}

/* By the formulas of nn.h, in double. */
static double expected_loss(objects *o, const ls_batch *b, ls_loss_kind loss)
{
    float x[BATCH * N_TARGETS], t[BATCH * N_TARGETS];
    double sum = 0;
    ck_assert_int_eq(ls_tensor_read(ls_net_output(o->net, "output"), x, sizeof(x)), LS_OK);
    ck_assert_int_eq(ls_tensor_read(b->targets, t, sizeof(t)), LS_OK);
    for (int i = 0; i < BATCH * N_TARGETS; i++) {
        const double p = 1 / (1 + exp(-(double)x[i])), d = (double)x[i] - (double)t[i];
        sum += loss == LS_LOSS_MSE ? d * d : -(t[i] > 0 ? log(p) : log(1 - p));
    }
    return sum / (BATCH * N_TARGETS);
}

static ls_loss_kind losses[] = { LS_LOSS_BINARY_CROSS_ENTROPY, LS_LOSS_MSE };

START_TEST(the_loss_is_that_of_the_targets)
{
    objects o = open_objects(&losses[_i], 1);
    ls_batch b;
    double loss;
    ls_loader_start(o.loader, 0);
    while (ls_loader_next(o.loader, &b)) {
        ck_assert_int_eq(ls_net_evaluate(o.net, &b), LS_OK);
        ck_assert_int_eq(ls_net_loss(o.net, &loss), LS_OK);
        ck_assert_double_eq_tol(loss, expected_loss(&o, &b, losses[_i]), 1e-5); /* of f32 sums */
        float probabilities[BATCH * N_TARGETS], x[BATCH * N_TARGETS];
        ck_assert_int_eq(ls_tensor_read(ls_net_output(o.net, "output"), x, sizeof(x)), LS_OK);
        ck_assert_int_eq(ls_predict(o.net, &b, &(ls_predict_config){ .loss = losses[_i] },
                                    probabilities, sizeof(probabilities)),
                         LS_OK);
        for (int i = 0; i < BATCH * N_TARGETS; i++)
            ck_assert_double_eq_tol((double)probabilities[i],
                                    _i ? (double)x[i] : 1 / (1 + exp(-(double)x[i])), 1e-6);
    }
    ls_context_close(&o.ctx);
}
END_TEST

typedef struct heard {
    double best;
    int64_t best_epoch;
    ls_averages last;
} heard;

static ls_status hear(void *user, const ls_event *e)
{
    heard *h = user;
    if (e->kind != LS_EVENT_EPOCH) return LS_OK;
    ck_assert_int_eq(e->is_best, h->best_epoch == 0 || e->averages.loss < h->best);
    if (e->is_best) *h = (heard){ e->averages.loss, e->epoch + 1, e->averages };
    h->last = e->averages;
    return LS_OK;
}

/* Runs to max_steps, and returns the digest of the weights. */
static ls_digest run(ls_loss_kind *loss, int threads, const char *dir, bool resume,
                     int64_t max_steps, heard *h)
{
    objects o = open_objects(loss, threads);
    ls_trainer *trainer = ls_trainer_open(o.net, o.optimizer, o.schedule, o.loader,
                                          &(ls_trainer_config){ .epochs = EPOCHS,
                                                                .max_steps = max_steps,
                                                                .dir = dir,
                                                                .resume = resume,
                                                                .model = &o.info,
                                                                .on_event = hear,
                                                                .user = h });
    expect_ok(o.ctx);
    ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_OK);
    const ls_trainer_state state = ls_trainer_get_state(trainer);
    ck_assert(state.best_epoch == 0 || state.best == h->best);
    ck_assert_int_eq(state.best_epoch, h->best_epoch);
    ls_step_digest digest;
    ls_batch b;
    ls_loader_start(o.loader, 0);
    ck_assert(ls_loader_next(o.loader, &b));
    ck_assert_int_eq(ls_net_step(o.net, NULL, &b, 0), LS_OK);
    ck_assert_int_eq(ls_net_digest(o.net, &b, &digest), LS_OK);
    ls_context_close(&o.ctx);
    return digest.weights;
}

START_TEST(runs_are_reproducible_and_the_best_has_the_lowest_loss)
{
    char *folder = new_folder(), whole[512], parts[512], path[600];
    snprintf(whole, sizeof(whole), "%s", path_in(folder, "whole"));
    snprintf(parts, sizeof(parts), "%s", path_in(folder, "parts"));
    heard h = { 0 }, in_parts = { 0 };
    const ls_digest digest = run(&losses[_i], 1, whole, false, 0, &h);
    run(&losses[_i], 3, parts, false, STEPS + 2, &in_parts);
    ck_assert(ls_digest_equal(digest, run(&losses[_i], 2, parts, true, 0, &in_parts)));
    ck_assert(h.best == in_parts.best && h.best_epoch == in_parts.best_epoch);
    ck_assert(h.best_epoch > 1 && h.last.top1 == 0);

    /* The rebuilt model has the loss of its training. */
    objects o = open_objects(&losses[_i], 1);
    snprintf(path, sizeof(path), "%s/last.safetensors", whole);
    ls_saved_model *saved = ls_saved_model_open(o.ctx, path);
    const ls_model_info info = ls_saved_model_info(saved);
    ck_assert_int_eq(info.loss, losses[_i]);
    ck_assert_str_eq(info.classes[2], "z");
    ls_net *net = ls_saved_model_build(saved, BATCH, LS_PRECISION_F32, true);
    ls_averages a, b;
    ls_net_load_weights(o.net, path, NULL, NULL);
    ck_assert_int_eq(ls_evaluate(net, o.loader, NULL, &a), LS_OK);
    ck_assert_int_eq(ls_evaluate(o.net, o.loader, NULL, &b), LS_OK);
    ck_assert(a.loss == b.loss && a.loss < h.last.loss * 1.5 && a.n_images == N);
    expect_failure(ls_evaluate(net, o.loader, &(ls_evaluate_config){ .test_time_flip = true }, &a),
                   o.ctx, LS_ERR_INVALID, "test_time_flip");
    ls_context_close(&o.ctx);

    /* A row of the metrics has no accuracy. */
    char row[1024] = "";
    snprintf(path, sizeof(path), "%s/metrics.jsonl", whole);
    FILE *file = fopen(path, "r");
    ck_assert(file && fgets(row, sizeof(row), file));
    fclose(file);
    ck_assert(strstr(row, "\"train_loss\"") && !strstr(row, "top1"));
    remove_folder(folder);
}
END_TEST

static int class_of(void *user, int64_t sample)
{
    (void)user;
    return (int)sample % 6;
}

/* Callbacks with 6 classes and N_TARGETS targets. */
static ls_loader *open_both(ls_context *ctx, ls_loss_kind *loss)
{
    static const char *const names[] = { "x", "y", "z" };
    return ls_loader_open(
        ls_dataset_from_callbacks(ctx, &(ls_dataset_callbacks){ .sample_count = N,
                                                                .load = load,
                                                                .label = class_of,
                                                                .n_classes = 6,
                                                                .target = target,
                                                                .n_targets = N_TARGETS,
                                                                .target_names = names,
                                                                .user = loss }),
        &(ls_loader_config){ .batch_size = BATCH, .shuffle = true });
}

/* The net decides which of the two a run reads, its metrics, and the loss and names stored. */
START_TEST(labels_and_targets)
{
    static ls_loss_kind kinds[] = { LS_LOSS_CROSS_ENTROPY, LS_LOSS_BINARY_CROSS_ENTROPY,
                                    LS_LOSS_MSE };
    const bool by_class = _i == 0;
    char *folder = new_folder(), row[1024] = "";
    const char *dir = path_in(folder, "run");
    ls_context *ctx = ls_context_open(NULL);
    ls_loader *loader = open_both(ctx, &kinds[_i]);
    ls_model_info info = { .model = ls_model_find("mlp"),
                           .options.n_classes = by_class ? 6 : N_TARGETS,
                           .resize = SIDE,
                           .loss = LS_LOSS_CROSS_ENTROPY };
    ls_net *net = ls_net_build(
        ctx, ls_mlp, &info.options,
        &(ls_net_config){ .input = ls_loader_input_spec(loader), .loss = { kinds[_i] } });
    expect_ok(ctx);
    ls_trainer *trainer = ls_trainer_open(
        net, ls_sgd(net, NULL),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 0.02 }),
        loader, &(ls_trainer_config){ .epochs = 1, .dir = dir, .model = &info });
    (void)ls_trainer_run(trainer, NULL);
    expect_ok(ctx);
    FILE *file = fopen(path_in(dir, "metrics.jsonl"), "r");
    ck_assert(file && fgets(row, sizeof(row), file));
    fclose(file);
    ck_assert_int_eq(strstr(row, "train_top1") != NULL, by_class);
    ck_assert_int_eq(strstr(row, "train_top5") != NULL, by_class);
    ls_saved_model *saved = ls_saved_model_open(ctx, path_in(dir, "last.safetensors"));
    const ls_model_info read = ls_saved_model_info(saved);
    ck_assert_int_eq(read.loss, kinds[_i]);
    ck_assert_int_eq(read.options.n_classes, by_class ? 6 : N_TARGETS);
    ck_assert_str_eq(read.classes[2], by_class ? "2" : "z");
    ck_assert_ptr_nonnull(ls_saved_model_build(saved, BATCH, LS_PRECISION_F32, true));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

static ls_node *with_three_dims(ls_graph *g, ls_node *x, const void *options)
{
    (void)g, (void)options;
    return x;
}

START_TEST(misuse)
{
    objects o = open_objects(&losses[_i], 1);
    const float weights[] = { 1, 2, 3 };
    const ls_loss_config wrong[] = { { losses[_i], .label_smoothing = 0.1f },
                                     { losses[_i], .class_weights = weights },
                                     { losses[_i], .soft_targets = true } };
    ls_net_config config = { .input = ls_loader_input_spec(o.loader) };
    for (int i = 0; i < 3; i++) {
        config.loss = wrong[i];
        ck_assert_ptr_null(ls_net_build(o.ctx, ls_mlp, &o.info.options, &config));
        expect_error(o.ctx, LS_ERR_INVALID, "are for LS_LOSS_CROSS_ENTROPY only");
    }
    config.loss = (ls_loss_config){ losses[_i] };
    ck_assert_ptr_null(ls_net_build(o.ctx, ls_mlp, &(ls_model_options){ .n_classes = 4 }, &config));
    expect_error(o.ctx, LS_ERR_SHAPE, "is [4,4]", "requires [N,K], with K = 3");
    config.loss = (ls_loss_config){ .kind = (ls_loss_kind)5 };
    ck_assert_ptr_null(ls_net_build(o.ctx, ls_mlp, &o.info.options, &config));
    expect_error(o.ctx, LS_ERR_INVALID, "config.loss.kind is 5, expected 0 to 4");
    ls_schedule *by_accuracy = ls_schedule_open(
        o.ctx, &(ls_schedule_config){
                   .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU, .lr = 0.1, .maximize = true });
    ck_assert_ptr_null(ls_trainer_open(o.net, o.optimizer, by_accuracy, o.loader,
                                       &(ls_trainer_config){ .epochs = 1 }));
    expect_error(o.ctx, LS_ERR_INVALID, "the schedule has maximize", "no metric 'top1'");
    config.loss = (ls_loss_config){ LS_LOSS_CROSS_ENTROPY };
    ck_assert_ptr_null(ls_net_build(o.ctx, ls_mlp, &o.info.options, &config));
    expect_error(o.ctx, LS_ERR_INVALID, "targets but no labels",
                 "LS_LOSS_BINARY_CROSS_ENTROPY or LS_LOSS_MSE");
    config.loss = (ls_loss_config){ losses[_i] };
    config.input.n_targets = 0;
    ck_assert_ptr_null(ls_net_build(o.ctx, with_three_dims, NULL, &config));
    ck_assert(!strstr(ls_context_message(o.ctx), "for this data"));
    expect_error(o.ctx, LS_ERR_SHAPE, "requires [N,K]");
    ls_batch b;
    ls_loader_start(o.loader, 0);
    ck_assert(ls_loader_next(o.loader, &b));
    b.targets = NULL;
    ck_assert_int_ne(ls_net_step(o.net, o.optimizer, &b, 0.1), LS_OK);
    expect_error(o.ctx, LS_ERR_INVALID, "target");
    ls_context_close(&o.ctx);
}
END_TEST

TEST_PROGRAM(train_targets)
{
    int answer = run_loop("the loss", the_loss_is_that_of_the_targets, 2);
    answer =
        both(answer, run_loop("runs", runs_are_reproducible_and_the_best_has_the_lowest_loss, 2));
    answer = both(answer, run_loop("labels and targets", labels_and_targets, 3));
    return both(answer, run_loop("misuse", misuse, 2));
}
