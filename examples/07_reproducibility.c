/* 07_reproducibility.c: the same training with different numbers of data-loader workers and
 * threads, in one go and stopped in mid-epoch and resumed on other numbers: one result, to the last
 * bit. Then with seeds by worker, as other frameworks have them: as many results as numbers of
 * workers. */
#include "stripes.h"

enum { EPOCHS = 2, STEPS_PER_EPOCH = 10, STEPS = EPOCHS * STEPS_PER_EPOCH, STOP_AT = 13 };

typedef struct setting {
    int workers, threads;
    ls_seeding seeding;
} setting;

/* x [N,21,21,3] -> [N,3] */
static ls_node *tiny(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 16, &(ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_dropout(g, ls_global_avg_pool(g, x), 0.1f);
    return ls_linear(g, "fc", x, STRIPES_CLASSES, NULL);
}

/* Steps first..last-1 of the run, each with a digest of its batch, loss, gradients and weights. */
static ls_status train(ls_context *ctx, const setting *s, int64_t first, int64_t last,
                       ls_step_digest digests[STEPS])
{
    const ls_loader_config loading = { .batch_size = 16,
                                       .workers = s->workers,
                                       .seeding = s->seeding,
                                       .shuffle = true,
                                       .crop = 21,
                                       .crop_padding = 2,
                                       .flip_probability = 0.5f };
    const ls_schedule_config cosine = {
        .kind = LS_SCHEDULE_COSINE, .lr = 0.1, .epochs = EPOCHS, .steps_per_epoch = STEPS_PER_EPOCH
    };
    ls_loader *loader = ls_loader_open(stripes_dataset(ctx, 0, 160), &loading);
    ls_net *net = ls_net_build(ctx, tiny, NULL,
                               &(ls_net_config){ .input = ls_loader_input_spec(loader),
                                                 .loss = { LS_LOSS_CROSS_ENTROPY } });
    ls_training_state state = { .net = net,
                                .optimizer = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f }),
                                .schedule = ls_schedule_open(ctx, &cosine),
                                .loader = loader };
    if (first > 0) LS_TRY(ls_checkpoint_load(&state, "07_reproducibility"));
    LS_TRY(ls_context_status(ctx));

    for (int64_t at = first; at < last; state.epoch++, state.step = 0) {
        LS_TRY(ls_loader_start_at(loader, state.epoch, state.step));
        for (ls_batch b; at < last && ls_loader_next(loader, &b); at++) {
            const double lr = ls_schedule_lr(state.schedule, state.epoch, b.step);
            LS_TRY(ls_net_step(net, state.optimizer, &b, lr));
            LS_TRY(ls_net_digest(net, &b, &digests[at]));
        }
        LS_TRY(ls_loader_status(loader));
    }
    if (last == STEPS) return LS_OK;
    state.epoch = last / STEPS_PER_EPOCH; /* the next step to run */
    state.step = last % STEPS_PER_EPOCH;
    return ls_checkpoint_save(&state, "07_reproducibility");
}

/* Trains in a context of its own, as a separate process does. */
static bool run(const setting *s, int64_t first, int64_t last, ls_step_digest digests[STEPS])
{
    const ls_context_config config = { .seed = 7, .threads = s->threads };
    ls_context *ctx = ls_context_open(&config);
    const bool ok = train(ctx, s, first, last, digests) == LS_OK;
    if (!ok) fprintf(stderr, "%s\n", ls_context_message(ctx));
    ls_context_close(&ctx);
    return ok;
}

static bool same_step(const ls_step_digest *a, const ls_step_digest *b)
{
    return ls_digest_equal(a->batch, b->batch) && a->loss == b->loss &&
           ls_digest_equal(a->gradients, b->gradients) && ls_digest_equal(a->weights, b->weights);
}

/* The first step in which two runs differ, or STEPS; prints it. */
static int compare(const char *what, const ls_step_digest a[STEPS], const ls_step_digest b[STEPS])
{
    char text[LS_DIGEST_TEXT_SIZE];
    int step = 0;
    while (step < STEPS && same_step(&a[step], &b[step])) step++;
    printf("%-34s loss %.6f  weights %s  ", what, b[STEPS - 1].loss,
           ls_digest_text(b[STEPS - 1].weights, text));
    if (step < STEPS)
        printf("differs from step %d on\n", step);
    else
        printf("the same\n");
    return step;
}

int main(void)
{
    static const int workers[] = { 0, 1, 4 }, threads[] = { 1, 2, 3 };
    static ls_step_digest first[STEPS], other[STEPS];
    char what[64];
    int n_wrong = 0;
    if (!run(&(setting){ 0, 1, LS_SEED_BY_SAMPLE }, 0, STEPS, first)) return 1;
    for (int w = 0; w < 3; w++)
        for (int t = 0; t < 3; t++) {
            const setting s = { workers[w], threads[t], LS_SEED_BY_SAMPLE };
            const setting next = { workers[(w + 1) % 3], threads[(t + 1) % 3], LS_SEED_BY_SAMPLE };
            if (!run(&s, 0, STEPS, other)) return 1;
            snprintf(what, sizeof(what), "%d worker%s, %d thread%s", s.workers,
                     s.workers == 1 ? "" : "s", s.threads, s.threads == 1 ? "" : "s");
            n_wrong += compare(what, first, other) < STEPS;
            if (!run(&s, 0, STOP_AT, other) || !run(&next, STOP_AT, STEPS, other)) return 1;
            snprintf(what, sizeof(what), "  stopped, then %d and %d", next.workers, next.threads);
            n_wrong += compare(what, first, other) < STEPS;
        }

    /* Step 0 and 1 are made by the first two workers in both; step 2 by another one. */
    if (!run(&(setting){ 2, 1, LS_SEED_BY_WORKER }, 0, STEPS, first) ||
        !run(&(setting){ 4, 1, LS_SEED_BY_WORKER }, 0, STEPS, other))
        return 1;
    n_wrong += compare("seeds by worker: 4 workers, not 2", first, other) != 2;
    return n_wrong > 0;
}
