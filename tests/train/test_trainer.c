/* test_trainer.c: the training loop as a library: whole, stopped and resumed runs, what they write
 * and report, and models rebuilt from their checkpoints. */
#include "../failing_allocator.h"
#include "../checkpoint/checkpoint_support.h"
#include "../suite.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EPOCHS = 3 };

/* Counts and sums of the events of a run. */
typedef struct heard {
    int64_t counts[LS_EVENT_DATA_ERROR + 1];
    int64_t passes[2];  /* begun: of training, of validation */
    int64_t stop_after; /* steps of training; 0 = never */
    volatile sig_atomic_t stop;
    ls_averages train, validation; /* of the last epoch */
    int64_t best_epoch;
    char message[512];
    ls_status answer; /* to each step */
} heard;

static ls_status hear(void *user, const ls_event *e)
{
    heard *h = user;
    h->counts[e->kind]++;
    if (e->kind == LS_EVENT_PASS_BEGIN) h->passes[e->validation]++;
    if (e->kind == LS_EVENT_STEP && !e->validation && --h->stop_after == 0) h->stop = 1;
    if (e->kind == LS_EVENT_EPOCH) {
        h->train = e->averages;
        h->validation = e->validation_averages;
        if (e->is_best) h->best_epoch = e->epoch + 1;
    }
    if (e->message) snprintf(h->message, sizeof(h->message), "%s", e->message);
    return e->kind == LS_EVENT_STEP ? h->answer : LS_OK;
}

static ls_trainer_config config_of(heard *h, const char *dir)
{
    return (ls_trainer_config){
        .epochs = EPOCHS, .dir = dir, .stop = &h->stop, .on_event = hear, .user = h
    };
}

static ls_trainer *open_trainer(run *r, const ls_trainer_config *config)
{
    return ls_trainer_open(r->state.net, r->state.optimizer, r->state.schedule, r->state.loader,
                           config);
}

/* Opens the objects anew, runs, and gives the portrait and where the run then is. */
static ls_trainer_end run_once(const options *o, const ls_trainer_config *config,
                               char portrait[PORTRAIT], ls_trainer_state *where)
{
    run r = open_good_run(o);
    ls_trainer *trainer = open_trainer(&r, config);
    expect_ok(r.ctx);
    ls_trainer_end end;
    ck_assert_int_eq(ls_trainer_run(trainer, &end), LS_OK);
    *where = ls_trainer_get_state(trainer);
    r.state.epoch = where->epoch;
    r.state.step = where->step;
    r.state.best = where->best;
    portray(&r, portrait);
    ls_context_close(&r.ctx); /* closes the trainer too */
    return end;
}

static const char *dir_of(const char *name, char out[128])
{
    snprintf(out, 128, "%s", path_of(name));
    return out;
}

static void read_run_file(const char *dir, const char *name, char out[8192])
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    out[fread(out, 1, 8191, file)] = '\0';
    fclose(file);
}

/* Plain, with accumulate 4, with 8 shards. With accumulate 4, of the 6 steps of an epoch, both
 * interruptions are between two batches of an update. The last batch of an epoch has samples for 4
 * of the 8 shards. */
START_TEST(a_stopped_run_resumes_to_the_same_bits)
{
    static char whole[PORTRAIT], resumed[PORTRAIT], records[2][8192];
    options o = usual;
    static const char *const names[3][2] = { { "whole", "parts" },
                                             { "whole4", "parts4" },
                                             { "whole8", "parts8" } };
    o.accumulate = _i == 1 ? 4 : 0;
    o.shards = _i == 2 ? 8 : 0;
    char a[128], b[128];
    ls_trainer_state where;
    heard h = { 0 };
    ls_trainer_config config = config_of(&h, dir_of(names[_i][0], a));
    ck_assert_int_eq(run_once(&o, &config, whole, &where), LS_TRAINER_DONE);
    ck_assert_int_eq(where.n_steps, EPOCHS * STEPS);
    ck_assert_int_eq(h.counts[LS_EVENT_STEP], EPOCHS * STEPS);
    ck_assert_int_eq(h.counts[LS_EVENT_EPOCH], EPOCHS);
    ck_assert_int_eq(h.counts[LS_EVENT_SAVED], 1 + EPOCHS);
    ck_assert_int_eq(h.counts[LS_EVENT_PASS_END], EPOCHS);
    const ls_averages train = h.train;

    h = (heard){ .stop_after = STEPS + 2 }; /* in the second epoch, by the flag */
    config = config_of(&h, dir_of(names[_i][1], b));
    ck_assert_int_eq(run_once(&o, &config, resumed, &where), LS_TRAINER_INTERRUPTED);
    ck_assert_int_eq(where.n_steps, STEPS + 2);
    ck_assert_int_eq(where.averages.n_images, 2 * BATCH);
    o.threads = 3;
    h = (heard){ 0 };
    config.resume = true;
    config.max_steps = 2 * STEPS + 1;
    ck_assert_int_eq(run_once(&o, &config, resumed, &where), LS_TRAINER_MAX_STEPS);
    ck_assert_int_eq(where.n_steps, 2 * STEPS + 1);
    config.max_steps = 0;
    o.threads = 1;
    ck_assert_int_eq(run_once(&o, &config, resumed, &where), LS_TRAINER_DONE);
    ck_assert_str_eq(resumed, whole);
    ck_assert(h.train.loss == train.loss && h.train.top1 == train.top1);
    ck_assert_int_eq(h.train.n_images, N_SAMPLES);
    read_run_file(a, "run_log.txt", records[0]);
    read_run_file(b, "run_log.txt", records[1]);
    ck_assert_str_eq(records[0], records[1]);

    ck_assert_int_eq(run_once(&o, &config, resumed, &where), LS_TRAINER_DONE); /* all is done */
    ck_assert_str_eq(resumed, whole);

    if (_i == 0) return;
    o.accumulate = _i == 1 ? 2 : 0;
    o.shards = _i == 2 ? 4 : 0;
    run r = open_good_run(&o);
    ck_assert_ptr_null(open_trainer(&r, &config));
    expect_error(r.ctx, LS_ERR_MISMATCH,
                 _i == 1 ? "optimizer.accumulate is 4 there, 2 here" : "shards is 8 there, 4 here");
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(without_a_folder_the_bits_are_the_same)
{
    static char with[PORTRAIT], without[PORTRAIT];
    char dir[128];
    ls_trainer_state where;
    heard h = { 0 };
    ls_trainer_config config = config_of(&h, dir_of("with", dir));
    run_once(&usual, &config, with, &where);
    config.dir = NULL;
    h = (heard){ 0 };
    ck_assert_int_eq(run_once(&usual, &config, without, &where), LS_TRAINER_DONE);
    ck_assert_str_eq(without, with);
    ck_assert_int_eq(h.counts[LS_EVENT_SAVED], 0);
}
END_TEST

START_TEST(checkpoints_are_kept)
{
    static char portrait[PORTRAIT];
    char dir[128], path[256];
    ls_trainer_state where;
    heard h = { 0 };
    ls_trainer_config config = config_of(&h, dir_of("kept", dir));
    config.epochs = 1;
    config.checkpoint_every = 4;
    config.keep_checkpoints = true;
    run_once(&usual, &config, portrait, &where);
    for (int steps = 0; steps <= STEPS; steps++) {
        snprintf(path, sizeof(path), "%s/checkpoint-%012d.safetensors", dir, steps);
        ck_assert_int_eq(access(path, F_OK) == 0, steps == 0 || steps == 4 || steps == STEPS);
    }
}
END_TEST

/* Validation decides which epoch is the best; its weights are saved; patience ends the run. */
START_TEST(the_best_weights_are_kept)
{
    char dir[128], text[8192];
    heard h = { 0 };
    run r = open_good_run(&usual);
    ls_trainer_config config = config_of(&h, dir_of("best", dir));
    config.validation = r.state.loader;
    config.epochs = 60;
    config.patience = 2;
    ls_trainer *trainer = open_trainer(&r, &config);
    ls_trainer_end end;
    ck_assert_int_eq(ls_trainer_run(trainer, &end), LS_OK);
    const ls_trainer_state where = ls_trainer_get_state(trainer);
    ck_assert_int_eq(end, LS_TRAINER_EARLY_STOP);
    ck_assert_int_eq(where.epoch, where.best_epoch + 2);
    ck_assert_int_eq(where.best_epoch, h.best_epoch);
    ck_assert_int_eq(h.passes[true], where.epoch);
    read_run_file(dir, "metrics.csv", text);
    ck_assert(strncmp(text, "epoch,lr,train_loss,train_top1,val_loss", 39) == 0);

    char best[256];
    ls_averages averages;
    snprintf(best, sizeof(best), "%s/best.safetensors", dir);
    ck_assert_int_eq(ls_net_load_weights(r.state.net, best, NULL, NULL), LS_OK);
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, NULL, &averages), LS_OK);
    ck_assert(averages.top1 == where.best);
    ls_context_close(&r.ctx);

    ck_assert_int_eq(truncate(best, 100), 0); /* lost: the resumed run reports it and continues */
    r = open_good_run(&usual);
    config.validation = r.state.loader;
    config.resume = true;
    h = (heard){ 0 };
    trainer = open_trainer(&r, &config);
    expect_ok(r.ctx);
    ck_assert_int_eq(h.counts[LS_EVENT_BEST_LOST], 1);
    ck_assert(ls_trainer_get_state(trainer).best_is_lost && h.message[0]);
    ls_trainer_close(&trainer);
    ck_assert_ptr_null(trainer);
    ls_context_close(&r.ctx);
}
END_TEST

/* It is another run, which a kill in its first step must leave with its own identity. */
START_TEST(a_forced_run_is_saved_before_its_first_step)
{
    static char portrait[PORTRAIT];
    char dir[128];
    ls_trainer_state where;
    heard h = { .stop_after = 2 };
    ls_trainer_config config = config_of(&h, dir_of("forced", dir));
    ck_assert_int_eq(run_once(&usual, &config, portrait, &where), LS_TRAINER_INTERRUPTED);
    config.resume = true;
    for (int force = 0; force < 2; force++) {
        config.force = force;
        h = (heard){ .answer = LS_ERR_IO };
        run r = open_good_run(&usual);
        ls_trainer *trainer = open_trainer(&r, &config);
        expect_ok(r.ctx);
        ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_ERR_IO);
        ck_assert_int_eq(h.counts[LS_EVENT_STEP], 1);
        ck_assert_int_eq(h.counts[LS_EVENT_SAVED], force);
        ls_context_close(&r.ctx);
    }
}
END_TEST

START_TEST(evaluation_averages_over_images)
{
    run r = open_good_run(&usual);
    heard h = { 0 };
    const ls_evaluate_config config = { .stop = &h.stop, .on_event = hear, .user = &h };
    ls_averages averages;
    double loss = 0, one;
    int64_t n = 0;
    ls_loader_start(r.state.loader, 0);
    for (ls_batch b; ls_loader_next(r.state.loader, &b); n += b.n) {
        ck_assert_int_eq(ls_net_evaluate(r.state.net, &b), LS_OK);
        ck_assert_int_eq(ls_net_loss(r.state.net, &one), LS_OK);
        loss += one * (double)b.n;
    }
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, &config, &averages), LS_OK);
    ck_assert(averages.loss == loss / (double)n && averages.n_images == n && n == N_SAMPLES);
    ck_assert(averages.top1 >= 0 && averages.top1 <= 1 && averages.top5 == 0);
    ck_assert_int_eq(h.counts[LS_EVENT_STEP], STEPS);

    h.stop = 1;
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, &config, &averages), LS_OK);
    ck_assert_int_eq(averages.n_images, 0);
    h.stop = 0;
    h.answer = LS_ERR_IO; /* of the callback */
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, &config, &averages), LS_ERR_IO);
    expect_error(r.ctx, LS_ERR_IO, "callback");
    expect_failure(ls_evaluate(NULL, r.state.loader, NULL, &averages), r.ctx, LS_ERR_INVALID,
                   "net is NULL");
    ck_assert_int_eq(ls_evaluate(r.state.net, r.state.loader, NULL, NULL), LS_ERR_INVALID);
    expect_error(r.ctx, LS_ERR_INVALID, "ls_evaluate: out is NULL");
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(a_loss_that_is_not_finite_ends_the_run)
{
    heard h = { 0 };
    options o = usual;
    o.lr = 1e30;
    run r = open_good_run(&o);
    ls_trainer_config config = config_of(&h, NULL);
    ls_trainer *trainer = open_trainer(&r, &config);
    ls_trainer_end end;
    ck_assert_int_eq(ls_trainer_run(trainer, &end), LS_ERR_NONFINITE);
    ck_assert_int_eq(end, LS_TRAINER_NONFINITE);
    ck_assert_int_eq(h.counts[LS_EVENT_NONFINITE], 1);
    expect_error(r.ctx, LS_ERR_NONFINITE, "training, epoch 0");
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(an_unreadable_image_ends_the_run_after_a_save)
{
    char dir[128];
    heard h = { 0 };
    run r = open_good_run(&usual);
    const char *const paths[] = { "not-there.png" };
    const int32_t label = 0;
    ls_dataset *data = ls_image_list_open(r.ctx, 1, paths, &label, usual.n_classes);
    ls_trainer_config config = config_of(&h, dir_of("unreadable", dir));
    config.validation = ls_loader_open(data, &(ls_loader_config){ .batch_size = 1, .crop = SIDE });
    expect_ok(r.ctx);
    ls_trainer *trainer = open_trainer(&r, &config);
    ls_trainer_end end;
    ck_assert_int_ne(ls_trainer_run(trainer, &end), LS_OK);
    ck_assert_int_eq(end, LS_TRAINER_DATA_ERROR);
    ck_assert_int_eq(h.counts[LS_EVENT_DATA_ERROR], 1);
    ck_assert_int_eq(h.counts[LS_EVENT_SAVED], 2);
    ck_assert_int_eq(ls_trainer_get_state(trainer).step, STEPS); /* validation is next */
    ck_assert_ptr_nonnull(strstr(h.message, paths[0]));
    ck_assert_ptr_nonnull(strstr(ls_context_message(r.ctx), paths[0]));
    ls_context_close(&r.ctx);
}
END_TEST

static void expect_refused(run *r, const ls_trainer_config *config, const char *part)
{
    ck_assert_ptr_null(open_trainer(r, config));
    expect_error(r->ctx, LS_ERR_INVALID, part);
}

/* Without maximize the plateau schedule reads the loss, else the accuracy. */
START_TEST(a_plateau_schedule_reads_its_metric)
{
    for (int maximize = 0; maximize < 2; maximize++) {
        heard h = { 0 };
        run r = open_good_run(&usual);
        double state[LS_SCHEDULE_STATE_SIZE];
        r.state.schedule = ls_schedule_open(
            r.ctx, &(ls_schedule_config){
                       .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU, .lr = 0.1, .maximize = maximize });
        ls_trainer_config config = config_of(&h, NULL);
        config.epochs = 1;
        ls_trainer *trainer = open_trainer(&r, &config);
        ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_OK);
        ls_schedule_get_state(r.state.schedule, state);
        ck_assert(h.train.loss != h.train.top1);
        ck_assert(state[1] == (maximize ? h.train.top1 : h.train.loss));
        ls_context_close(&r.ctx);
    }
}
END_TEST

/* A schedule that counts steps would end early. */
START_TEST(a_schedule_counts_updates)
{
    options o = usual;
    o.accumulate = 4;
    for (int right = 0; right < 2; right++) {
        run r = open_good_run(&o);
        r.state.schedule = ls_schedule_open(
            r.ctx, &(ls_schedule_config){ .lr = 0.1,
                                          .epochs = EPOCHS,
                                          .steps_per_epoch = right ? (STEPS + 3) / 4 : STEPS });
        heard h = { 0 };
        const ls_trainer_config config = config_of(&h, NULL);
        ls_trainer *trainer = open_trainer(&r, &config);
        if (right) {
            ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_OK);
            ck_assert_int_eq(ls_optimizer_step_count(r.state.optimizer), 2 * EPOCHS);
        } else {
            ck_assert_ptr_null(trainer);
            expect_error(r.ctx, LS_ERR_INVALID,
                         "the schedule has 6 steps per epoch, expected 2: with accumulate 4");
        }
        ls_context_close(&r.ctx);
    }
}
END_TEST

START_TEST(misuse)
{
    static char portrait[PORTRAIT];
    char dir[128];
    ls_trainer_state where;
    heard h = { 0 };
    ls_trainer_config config = config_of(&h, dir_of("misuse", dir));
    run r = open_good_run(&usual);
    expect_refused(&r, NULL, "epochs is 0");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .max_steps = -1 }, "max_steps is -1");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .resume = true }, "resume has no effect");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .checkpoint_every = 5 },
                   "checkpoint_every has no effect");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .tensorboard = LS_TENSORBOARD_ALL },
                   "tensorboard has no effect without dir");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .log_every = 5 },
                   "log_every has no effect without dir");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .log_every = -1 },
                   "log_every is -1, expected 0 or more");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .tensorboard = (ls_tensorboard)3 },
                   "tensorboard is 3, expected an ls_tensorboard");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .dir = dir, .force = true },
                   "force has no effect");
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .dir = "" }, "dir is empty");
    const ls_model_info bad_stem = { .model = ls_model_find("resnet20"),
                                     .options.stem = (ls_stem)3,
                                     .resize = 32 };
    expect_refused(&r, &(ls_trainer_config){ .epochs = 1, .dir = dir, .model = &bad_stem },
                   "model.options.stem is 3, expected 0 to 2");
    ck_assert_ptr_null(ls_trainer_open(NULL, NULL, NULL, NULL, &config));
    ck_assert_int_eq(ls_trainer_run(NULL, NULL), LS_ERR_EARLIER);
    ls_trainer *bare = open_trainer(&r, &(ls_trainer_config){ .epochs = 1 });
    ck_assert_int_eq(ls_trainer_save(bare), LS_ERR_INVALID);
    expect_error(r.ctx, LS_ERR_INVALID, "no folder");
    ls_context_close(&r.ctx);

    r = open_good_run(&usual);
    config.resume = true;
    for (int made = 0; made < 2; made++) { /* without the folder, and in an empty one */
        if (made) ck_assert_int_eq(mkdir(dir, 0777), 0);
        ck_assert_ptr_null(open_trainer(&r, &config));
        expect_error(r.ctx, LS_ERR_NOT_FOUND, "no run to resume in '");
        ck_assert_int_eq(access(dir, F_OK) == 0, made);
    }
    config.resume = false;
    ls_context_close(&r.ctx);
    run_once(&usual, &config, portrait, &where);
    r = open_good_run(&usual);
    expect_refused(&r, &config, "holds a run already; set resume, or choose another folder");
    config.resume = true;
    ls_trainer *first = open_trainer(&r, &config);
    ck_assert_ptr_nonnull(first);
    expect_refused(&r, &config, "another trainer of this context");
    ls_trainer_close(&first); /* releases the folder's lock */
    run other = open_good_run(&usual);
    first = open_trainer(&other, &config);
    ck_assert_ptr_nonnull(first);
    ls_context_close(&other.ctx);
    config.resume = false;
    char last[160], best[160];
    snprintf(last, sizeof(last), "%s/last.safetensors", dir);
    snprintf(best, sizeof(best), "%s/best.safetensors", dir);
    ck_assert_int_eq(truncate(last, 100), 0);
    expect_refused(&r, &config, "holds a run already");
    ck_assert_int_eq(unlink(best), 0); /* the damaged file alone is not overwritten either */
    ck_assert_ptr_null(open_trainer(&r, &config));
    expect_error(r.ctx, LS_ERR_FORMAT, "last.safetensors");
    ls_context_close(&r.ctx);
    config = config_of(&h, dir_of("misuse-seed", dir));
    run_once(&usual, &config, portrait, &where);
    options o = usual;
    o.seed = 6;
    r = open_good_run(&o);
    config.resume = true;
    ck_assert_ptr_null(open_trainer(&r, &config));
    expect_error(r.ctx, LS_ERR_MISMATCH, "seed is \"5\" there, \"6\" here");
    ls_context_close(&r.ctx);
}
END_TEST

/* A loader of one image in memory; its classes have no names. */
static ls_loader *memory_loader(ls_context *ctx, int n_classes, int side)
{
    static const uint8_t pixels[4 * 4 * 3];
    static const int32_t label;
    return ls_loader_open(
        ls_dataset_from_memory(ctx, pixels, LS_SHAPE(1, side, side, 3), &label, n_classes),
        &(ls_loader_config){ .batch_size = 1 });
}

static ls_loader *folder_loader(ls_context *ctx, const char *dir)
{
    return ls_loader_open(ls_image_folder_open(ctx, dir),
                          &(ls_loader_config){ .batch_size = 1, .crop = 1 });
}

/* The folder `name` with one image of each class. */
static const char *class_folders(const char *name, const char *const *classes, char out[128])
{
    char command[512];
    for (dir_of(name, out); *classes; classes++) {
        snprintf(command, sizeof(command),
                 "mkdir -p '%s/%s' && printf 'P6 1 1 255\\nabc' >'%s/%s/a.ppm'", out, *classes, out,
                 *classes);
        ck_assert_int_eq(system(command), 0);
    }
    return out;
}

START_TEST(validation_of_other_classes)
{
    static const char *const names[][16] = {
        { "dress", "hat", "shoes" },
        { "dress", "shoes" },
        { "coat", "hat" },
        { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" },
        { "a", "a-class-with-a-name-of-more-than-forty-bytes" },
        { "a" },
    };
    enum { ALL, FEW, OTHER, MANY, LONG, ONE, N_FOLDERS };
    char name[16], dir[128];
    ls_loader *of[N_FOLDERS];
    run r = open_good_run(&usual);
    for (int i = 0; i < N_FOLDERS; i++) {
        snprintf(name, sizeof(name), "classes%d", i);
        of[i] = folder_loader(r.ctx, class_folders(name, names[i], dir));
    }
    const struct {
        ls_loader *training, *validation;
        const char *text;
    } cases[] = {
        { of[ALL], of[FEW],
          "validation has 2 classes (dress, shoes), training 3; missing: hat; open it with "
          "ls_image_folder_open_classes" },
        { of[ALL], of[OTHER],
          "validation has 2 classes (coat, hat), training 3; not in training: coat; both need the "
          "same classes" },
        { of[MANY], of[ONE],
          "validation has 1 class (a), training 12; missing: b, c, d, e, f, g, h, i, j, k and 1 "
          "more; open it" },
        { of[LONG], of[ONE], "missing: a-class-with-a-name-of-more-than-forty-b...; open" },
        { memory_loader(r.ctx, 2, 4), memory_loader(r.ctx, 3, 4),
          "validation has 3 classes, training 2" },
        { memory_loader(r.ctx, 2, 4), memory_loader(r.ctx, 2, 2),
          "validation has images [0,2,2,3], training [0,4,4,3]" },
    };
    expect_ok(r.ctx);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        r.state.loader = cases[i].training;
        ck_assert_ptr_null(open_trainer(
            &r, &(ls_trainer_config){ .epochs = 1, .validation = cases[i].validation }));
        expect_error(r.ctx, LS_ERR_SHAPE, cases[i].text);
    }
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(every_allocation_failing)
{
    char name[32], dir[128];
    int64_t n_failed = 0;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        options o = usual;
        o.allocator = &a.allocator;
        run r = open_good_run(&o);
        heard h = { 0 };
        snprintf(name, sizeof(name), "memory%lld", (long long)n);
        ls_trainer_config config = config_of(&h, dir_of(name, dir));
        config.max_steps = 1;
        a.fail_at = atomic_load(&a.n_requests) + n; /* within opening and saving alone */
        ls_trainer *trainer = open_trainer(&r, &config);
        const ls_status saved = ls_trainer_save(trainer);
        const bool failed = failing_allocator_failed(&a);
        if (saved != LS_OK) expect_error(r.ctx, LS_ERR_MEMORY, "");
        n_failed += saved != LS_OK;
        ls_context_close(&r.ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failed) break;
    }
    ck_assert_int_ge(n_failed, 8);
}
END_TEST

/* Wherever memory is short in the first step, the labels of its images are complete or missing. */
START_TEST(labels_of_the_first_batch_without_memory)
{
    char name[32], dir[128], path[160], text[8192];
    for (int64_t n = 1, n_failed = 0;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        options o = usual;
        o.allocator = &a.allocator;
        run r = open_good_run(&o);
        heard h = { 0 };
        snprintf(name, sizeof(name), "labels%lld", (long long)n);
        ls_trainer_config config = config_of(&h, dir_of(name, dir));
        config.max_steps = 1;
        ls_trainer *trainer = open_trainer(&r, &config);
        expect_ok(r.ctx);
        a.fail_at = atomic_load(&a.n_requests) + n;
        n_failed += ls_trainer_run(trainer, NULL) != LS_OK;
        const bool failed = failing_allocator_failed(&a);
        ls_context_close(&r.ctx);
        snprintf(path, sizeof(path), "%s/first_batch.json", dir);
        if (access(path, F_OK) == 0) {
            read_run_file(dir, "first_batch.json", text);
            ck_assert_msg(!strstr(text, "[]"), "request %lld: %s", (long long)n, text);
        }
        if (failed) continue;
        ck_assert_int_ge(n_failed, 8);
        break;
    }
}
END_TEST

/* A bundled model is rebuilt from its checkpoint; weights without its metadata are an error. */
START_TEST(a_model_is_rebuilt_from_its_checkpoint)
{
    char dir[128], path[256];
    heard h = { 0 };
    run r = open_good_run(&usual);
    const ls_model_info info = { .model = ls_model_find("resnet20"),
                                 .options = { .n_classes = usual.n_classes },
                                 .resize = SIDE,
                                 .resize_mode = LS_RESIZE_PAD,
                                 .alpha = LS_ALPHA_BLACK,
                                 .depth = 12 };
    ls_net *net = ls_net_build(r.ctx, info.model->function, &info.options,
                               &(ls_net_config){ .input = ls_loader_input_spec(r.state.loader),
                                                 .loss = { LS_LOSS_CROSS_ENTROPY } });
    ls_trainer_config config = config_of(&h, dir_of("model", dir));
    config.epochs = 1;
    config.model = &info;
    ls_optimizer *optimizer = ls_sgd(net, NULL);
    ls_trainer *trainer =
        ls_trainer_open(net, optimizer, r.state.schedule, r.state.loader, &config);
    expect_ok(r.ctx);
    ck_assert_int_eq(ls_trainer_run(trainer, NULL), LS_OK);
    ls_averages before, after;
    ck_assert_int_eq(ls_evaluate(net, r.state.loader, NULL, &before), LS_OK);

    snprintf(path, sizeof(path), "%s/best.safetensors", dir);
    ls_saved_model *saved = ls_saved_model_open(r.ctx, path);
    expect_ok(r.ctx);
    const ls_model_info found = ls_saved_model_info(saved);
    ck_assert_ptr_eq(found.model, info.model);
    ck_assert_int_eq(found.options.n_classes, usual.n_classes);
    ck_assert_int_eq(found.image_size, SIDE);
    const ls_loader_config prepared = ls_model_info_loader_config(&found, 3);
    ck_assert_int_eq(prepared.crop, SIDE);
    ck_assert_int_eq(prepared.crop_width, 0);
    ck_assert_int_eq(prepared.resize_mode, LS_RESIZE_PAD);
    ck_assert_int_eq(prepared.alpha, LS_ALPHA_BLACK);
    ck_assert_int_eq(prepared.depth, 12);
    ck_assert_str_eq(found.classes[3], "3");
    ls_net *rebuilt = ls_saved_model_build(saved, BATCH, LS_PRECISION_F32, true);
    expect_ok(r.ctx);
    ls_saved_model_close(&saved);
    ck_assert_int_eq(ls_evaluate(rebuilt, r.state.loader, NULL, &after), LS_OK);
    ck_assert(before.loss == after.loss && before.top1 == after.top1 && after.n_images > 0);

    ck_assert_int_eq(ls_checkpoint_save(&(ls_training_state){ .net = net }, path_of("bare")),
                     LS_OK);
    snprintf(path, sizeof(path), "%s.safetensors", path_of("bare"));
    ck_assert_ptr_null(ls_saved_model_open(r.ctx, path));
    expect_error(r.ctx, LS_ERR_FORMAT, "no 'model' in its metadata");
    ck_assert_ptr_null(ls_saved_model_open(r.ctx, NULL));
    expect_error(r.ctx, LS_ERR_INVALID, "path is NULL");
    ck_assert_ptr_null(ls_saved_model_build(NULL, 1, LS_PRECISION_F32, false));
    ls_context_close(&r.ctx);
}
END_TEST

TEST_PROGRAM(trainer)
{
    begin_runs();
    const int resumed = run_loop("resumed runs", a_stopped_run_resumes_to_the_same_bits, 3);
    const int others = RUN_SUITE(
        "trainer", without_a_folder_the_bits_are_the_same, a_schedule_counts_updates,
        checkpoints_are_kept, the_best_weights_are_kept,
        a_forced_run_is_saved_before_its_first_step, evaluation_averages_over_images,
        a_loss_that_is_not_finite_ends_the_run, an_unreadable_image_ends_the_run_after_a_save,
        a_plateau_schedule_reads_its_metric, misuse, validation_of_other_classes,
        every_allocation_failing, labels_of_the_first_batch_without_memory,
        a_model_is_rebuilt_from_its_checkpoint);
    return end_runs(both(resumed, others));
}
