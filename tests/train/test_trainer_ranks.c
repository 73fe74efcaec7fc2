/* test_trainer_ranks.c: a trainer in several ranks, here threads of one process: the results of one
 * rank, and the same end in all ranks where only one of them is stopped, reads a bad image or
 * fails. */
#include "../comm/local.h"
#include "../suite.h"
#include "base/context.h"
#include <lockstep/lockstep.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N_TRAIN = 52, N_VAL = 37, BATCH = 8, SHARDS = 8, SIDE = 9, CLASSES = 5, MOST_RANKS = 3 };
enum { STEPS = N_TRAIN / BATCH, EPOCHS = 2, VAL_BATCHES = (N_VAL + BATCH - 1) / BATCH };

/* What happens in one rank: in training step `at`, counted over epochs from 0, or in the validation
 * of the first epoch. */
typedef enum trouble {
    NONE,
    STOPS,
    STOPS_IN_LAST_VALIDATION,
    READS_BAD_IMAGE,
    READS_BAD_VALIDATION_IMAGE,
    FAILS_IN_CALLBACK,
    FAILS_AT_PASS_BEGIN,
    FAILS_AT_PASS_END,
    FAILS_AT_VALIDATION_BEGIN,
    FAILS_AT_VALIDATION_END,
    FAILS_WHEN_SAVED,
    HAS_OTHER_SEED
} trouble;

typedef struct rank {
    int rank, n_ranks, at;
    trouble trouble;
    bool skips_bad; /* several samples are unreadable, and replaced */
    bool weighted;  /* has class weights, and AUC decides */
    local_hub *hub;
    const char *dir; /* may be NULL */
    /* Results. */
    int64_t n_validated, n_steps, n_bad;
    double metric;
    ls_averages train, validation; /* of the last epoch */
    ls_trainer_end end;
    ls_status status;
    char message[LS__MESSAGE_SIZE];
    ls_digest weights;
    volatile sig_atomic_t stop;
} rank;

/* ---- Data ---- */

/* Also the source of training; validation has the samples after it. */
typedef struct source {
    const rank *of;
    int64_t first;
} source;

static int label(void *user, int64_t sample)
{
    const source *s = user;
    return (int)((s->first + sample * 7) % CLASSES);
}

static bool is_bad(const source *s, int64_t sample)
{
    const rank *r = s->of;
    if (r->skips_bad) return sample % 11 == 3;
    /* Each rank reads only its own samples, so all of them must find it. */
    return (r->trouble == READS_BAD_IMAGE && s->first == 0 && sample == 20) ||
           (r->trouble == READS_BAD_VALIDATION_IMAGE && s->first > 0 && sample == 2 * BATCH);
}

static ls_status load(void *user, int64_t sample, ls_image_writer *out)
{
    const source *s = user;
    if (is_bad(s, sample)) {
        ls_image_writer_reason(out, "planted");
        return LS_ERR_DATA;
    }
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE, SIDE);
    if (!pixels) return LS_ERR_MEMORY;
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        pixels[i] = (uint8_t)((uint32_t)((s->first + sample) * 1000 + i) * 2654435761u >> 13);
    return LS_OK;
}

static uint64_t digest(void *user, int64_t sample)
{
    return (uint64_t)(((source *)user)->first + sample);
}

static ls_loader *open_loader(ls_context *ctx, source *s, int64_t n, bool train)
{
    ls_dataset *data = ls_dataset_from_callbacks(ctx, &(ls_dataset_callbacks){ .sample_count = n,
                                                                               .n_classes = CLASSES,
                                                                               .label = label,
                                                                               .load = load,
                                                                               .digest = digest,
                                                                               .user = s });
    return ls_loader_open(data, &(ls_loader_config){ .batch_size = BATCH,
                                                     .shuffle = train,
                                                     .drop_last = train,
                                                     .flip_probability = train ? 0.5f : 0,
                                                     .on_bad_image = s->of->skips_bad
                                                                         ? LS_BAD_IMAGE_SKIP
                                                                         : LS_BAD_IMAGE_FAIL });
}

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv", x, 8, &(ls_conv2d_config){ .kernel = 3, .stride = 2 });
    x = ls_dropout(g, ls_relu(g, ls_batch_norm(g, "bn", x, NULL)), 0.2f);
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

/* ---- A rank ---- */

static bool is_troubled(const rank *r)
{
    return r->rank == r->n_ranks - 1;
}

static ls_status hear(void *user, const ls_event *e)
{
    rank *r = user;
    if (e->kind == LS_EVENT_STEP && e->validation) r->n_validated++;
    if (e->kind == LS_EVENT_EPOCH) {
        r->train = e->averages;
        r->validation = e->validation_averages;
        r->metric = e->metric_value;
    }
    if (!is_troubled(r)) return LS_OK;
    const bool is_due = e->kind == LS_EVENT_STEP && !e->validation && e->step == r->at;
    const bool begins = e->kind == LS_EVENT_PASS_BEGIN, ends = e->kind == LS_EVENT_PASS_END;
    if (r->trouble == FAILS_AT_PASS_BEGIN && begins && !e->validation) return LS_ERR_IO;
    if (r->trouble == FAILS_AT_PASS_END && ends && !e->validation) return LS_ERR_IO;
    if (r->trouble == FAILS_AT_VALIDATION_BEGIN && begins && e->validation) return LS_ERR_IO;
    if (r->trouble == FAILS_WHEN_SAVED && e->kind == LS_EVENT_SAVED) return LS_ERR_IO;
    if (r->trouble == FAILS_AT_VALIDATION_END && ends && e->validation) return LS_ERR_IO;
    if (is_due && r->trouble == STOPS) r->stop = 1;
    if (e->kind == LS_EVENT_PASS_END && e->validation && r->trouble == STOPS_IN_LAST_VALIDATION)
        r->stop = 1;
    return is_due && r->trouble == FAILS_IN_CALLBACK ? LS_ERR_IO : LS_OK;
}

static void finish(rank *r, ls_context *ctx, ls_net *net, const ls_trainer *trainer,
                   const ls_loader *loader)
{
    r->status = ls_context_status(ctx);
    snprintf(r->message, sizeof r->message, "%s", ls_context_message(ctx));
    r->n_steps = ls_trainer_get_state(trainer).n_steps;
    r->n_bad = ls_loader_statistics(loader).n_bad;
    ls_context_clear_error(ctx);
    ck_assert_int_eq(ls_tensor_digest(ls_net_parameter_at(net, 0).value, &r->weights), LS_OK);
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    source sources[2] = { { r, 0 }, { r, N_TRAIN } };
    static const float weights[CLASSES] = { 1, 0.25f, 3, 1.5f, 0.75f };
    const uint64_t seed = r->trouble == HAS_OTHER_SEED && is_troubled(r) ? 6 : 5;
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .seed = seed, .shards = SHARDS, .threads = 1 + r->rank % 2 });
    if (r->hub) {
        ck_assert_int_eq(local_comm_open(ctx, r->hub, r->rank, 60, &ctx->comm), LS_OK);
        ctx->device_comm = ctx->comm;
    }
    ls_loader *train = open_loader(ctx, &sources[0], N_TRAIN, true),
              *val = open_loader(ctx, &sources[1], N_VAL, false);
    ls_net *net =
        ls_net_build(ctx, model, NULL,
                     &(ls_net_config){ .input = ls_loader_input_spec(train),
                                       .loss = { LS_LOSS_CROSS_ENTROPY,
                                                 .class_weights = r->weighted ? weights : NULL } });
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f });
    ls_schedule *schedule = ls_schedule_open(
        ctx, &(ls_schedule_config){ .lr = 0.1, .epochs = EPOCHS, .steps_per_epoch = STEPS });
    ls_trainer *trainer =
        ls_trainer_open(net, opt, schedule, train,
                        &(ls_trainer_config){ .epochs = EPOCHS,
                                              .dir = r->dir,
                                              .validation = val,
                                              .metric = r->weighted ? "auc" : NULL,
                                              .stop = &r->stop,
                                              .on_event = hear,
                                              .user = r });
    if (trainer) (void)ls_trainer_run(trainer, &r->end);
    finish(r, ctx, net, trainer, train);
    /* A loader that evaluation has used trains as before. */
    if (r->trouble == NONE) {
        ls_averages averages;
        ls_batch batch;
        ck_assert_int_eq(ls_evaluate(net, train, NULL, &averages), LS_OK);
        ck_assert_int_eq(ls_loader_start(train, EPOCHS), LS_OK);
        ck_assert(ls_loader_next(train, &batch));
        ck_assert_int_eq(ls_net_step(net, opt, &batch, 0.1), LS_OK);
        ck_assert_int_eq(ls_tensor_digest(ls_net_parameter_at(net, 0).value, &r->weights), LS_OK);
    }
    ls_context_close(&ctx);
    return NULL;
}

static rank ranks[MOST_RANKS];

static void run_ranks(const rank *settings, int n_ranks)
{
    pthread_t threads[MOST_RANKS];
    local_hub *hub = n_ranks > 1 ? local_hub_open(n_ranks, NULL) : NULL;
    for (int i = 0; i < n_ranks; i++) {
        ranks[i] = *settings;
        ranks[i].rank = i;
        ranks[i].n_ranks = n_ranks;
        ranks[i].hub = hub;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < n_ranks; i++) pthread_join(threads[i], NULL);
    if (hub) local_hub_close(&hub);
}

static bool same_averages(ls_averages a, ls_averages b)
{
    return a.loss == b.loss && a.top1 == b.top1 && a.n_images == b.n_images;
}

/* ---- Tests ---- */

START_TEST(ranks_have_the_results_of_one)
{
    const rank settings = { .skips_bad = _i == 1, .weighted = _i == 2 };
    run_ranks(&settings, 1);
    const rank alone = ranks[0];
    ck_assert_int_eq(alone.end, LS_TRAINER_DONE);
    ck_assert_int_eq(alone.n_validated, EPOCHS * VAL_BATCHES);
    ck_assert_int_eq(alone.n_bad > 0, settings.skips_bad);
    for (int n = 2; n <= MOST_RANKS; n++) {
        run_ranks(&settings, n);
        int64_t n_validated = 0;
        for (int i = 0; i < n; i++) {
            ck_assert_msg(ranks[i].status == LS_OK, "%s", ranks[i].message);
            ck_assert_int_eq(ranks[i].end, LS_TRAINER_DONE);
            ck_assert(same_averages(ranks[i].train, alone.train));
            ck_assert(same_averages(ranks[i].validation, alone.validation));
            ck_assert_double_eq(ranks[i].metric, alone.metric);
            ck_assert(ls_digest_equal(ranks[i].weights, alone.weights));
            ck_assert_int_eq(ranks[i].n_bad, alone.n_bad);
            n_validated += ranks[i].n_validated;
        }
        ck_assert_int_eq(n_validated, EPOCHS * VAL_BATCHES);
    }
}
END_TEST

/* The status of the rank with the trouble, the end of all, and the steps until then. */
static const struct {
    trouble trouble;
    ls_trainer_end end;
    ls_status status;
    int64_t n_steps; /* -1: any, but the same */
    const char *message;
} troubles[] = {
    { STOPS, LS_TRAINER_INTERRUPTED, LS_OK, 4, "" },
    { STOPS_IN_LAST_VALIDATION, LS_TRAINER_INTERRUPTED, LS_OK, STEPS, "" },
    { READS_BAD_IMAGE, LS_TRAINER_DATA_ERROR, LS_ERR_DATA, -1, "sample 20: planted" },
    { READS_BAD_VALIDATION_IMAGE, LS_TRAINER_DATA_ERROR, LS_ERR_DATA, STEPS, "sample 16: planted" },
    { FAILS_IN_CALLBACK, LS_TRAINER_ERROR, LS_ERR_IO, 4, "the callback for events returned" },
    { FAILS_AT_PASS_BEGIN, LS_TRAINER_ERROR, LS_ERR_IO, 0, "the callback for events returned" },
    { FAILS_AT_PASS_END, LS_TRAINER_ERROR, LS_ERR_IO, STEPS, "the callback for events returned" },
    { FAILS_AT_VALIDATION_BEGIN, LS_TRAINER_ERROR, LS_ERR_IO, STEPS,
      "the callback for events returned" },
    { FAILS_AT_VALIDATION_END, LS_TRAINER_ERROR, LS_ERR_IO, STEPS,
      "the callback for events returned" },
    { FAILS_WHEN_SAVED, LS_TRAINER_ERROR, LS_ERR_IO, 0, "the callback for events returned" },
    { HAS_OTHER_SEED, LS_TRAINER_DONE, LS_ERR_MISMATCH, 0, "seed is \"5\" in rank 0, \"6\"" },
};
enum { N_TROUBLES = sizeof troubles / sizeof troubles[0] };

START_TEST(all_ranks_end_alike)
{
    rank settings = { .trouble = troubles[_i].trouble, .at = 3 };
    char *dir = settings.trouble == FAILS_WHEN_SAVED ? new_folder() : NULL;
    settings.dir = dir;
    run_ranks(&settings, MOST_RANKS);
    if (dir) remove_folder(dir);
    for (int i = 0; i < MOST_RANKS; i++) {
        const rank *r = &ranks[i];
        ck_assert_msg(r->status == troubles[_i].status, "rank %d: %s", i, r->message);
        ck_assert_int_eq(r->end, troubles[_i].end);
        ck_assert_int_eq(r->n_steps,
                         troubles[_i].n_steps < 0 ? ranks[0].n_steps : troubles[_i].n_steps);
        ck_assert_msg(strstr(r->message, troubles[_i].message), "rank %d: %s", i, r->message);
        ck_assert(ls_digest_equal(r->weights, ranks[0].weights) ||
                  troubles[_i].trouble == HAS_OTHER_SEED);
    }
}
END_TEST

TEST_PROGRAM(trainer_ranks)
{
    const int same = run_loop("trainer in ranks: results", ranks_have_the_results_of_one, 3);
    return both(same, run_loop("trainer in ranks: ends", all_ranks_end_alike, N_TROUBLES));
}
