/* checkpoint_support.c: see checkpoint_support.h. */
#include "checkpoint_support.h"
#include "../reference_kernels/reference_kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const options usual = {
    .threads = 1, .n_classes = 4, .seed = 5, .momentum = 0.9f, .lr = 0.05, .batch = BATCH
};

ls_node *model(ls_graph *g, ls_node *x, const void *classes)
{
    const int n_classes = *(const int *)classes;
    x = ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_conv2d(g, "conv2", x, 6,
                  &(ls_conv2d_config){ .kernel = 3, .kernel_w = 1, .bias = true });
    x = ls_dropout(g, ls_relu(g, x), 0.2f);
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), n_classes, NULL);
}

static ls_optimizer *open_optimizer(ls_net *net, const options *o)
{
    switch (o->kind) {
    case SGD:
        return ls_sgd(net, &(ls_sgd_config){ .momentum = o->momentum,
                                             .weight_decay = 5e-4f,
                                             .weight_decay_scope = LS_WEIGHT_DECAY_WEIGHTS,
                                             .clip_norm = 1,
                                             .accumulate = o->accumulate });
    case ADAM: return ls_adam(net, &(ls_adam_config){ .weight_decay = 1e-3f });
    case ADAMW: return ls_adamw(net, NULL);
    default: return ls_sgd(net, NULL);
    }
}

char short_op[OP_TEXT];

static void note_op(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    (void)level;
    const char *op = strstr(message, " for conv2d x=4x8x8x3");
    if (op) snprintf(short_op, sizeof short_op, "%s", op + strlen(" for "));
}

run open_run(const options *o)
{
    run r = { 0 };
    r.ctx = ls_context_open(&(ls_context_config){ .seed = o->seed,
                                                  .threads = o->threads,
                                                  .shards = o->shards,
                                                  .benchmark = o->benchmark,
                                                  .arithmetic = o->arithmetic,
                                                  .log = note_op,
                                                  .allocator = o->allocator });
    if (o->reference) offer_reference_kernels(r.ctx);
    if (o->algorithm_cache) ls_algorithm_cache_load(r.ctx, o->algorithm_cache);
    static uint8_t pixels[N_SAMPLES * SIDE * SIDE * 3];
    static int32_t labels[N_SAMPLES];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 21);
    for (int i = 0; i < N_SAMPLES; i++) labels[i] = i % o->n_classes;
    ls_dataset *data = ls_dataset_from_memory(r.ctx, pixels, LS_SHAPE(N_SAMPLES, SIDE, SIDE, 3),
                                              labels, o->n_classes);
    r.state.loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = o->batch,
                                                               .shuffle = true,
                                                               .crop = SIDE,
                                                               .crop_padding = 1,
                                                               .flip_probability = 0.5f });
    r.state.net = ls_net_build(r.ctx, model, &o->n_classes,
                               &(ls_net_config){ .input = ls_loader_input_spec(r.state.loader),
                                                 .loss = { LS_LOSS_CROSS_ENTROPY },
                                                 .precision = o->precision,
                                                 .loss_scale = { .initial = o->loss_scale } });
    r.state.optimizer = open_optimizer(r.state.net, o);
    r.state.schedule =
        ls_schedule_open(r.ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU,
                                                       .lr = o->lr,
                                                       .gamma = 0.3,
                                                       .patience = LS_ZERO_INT,
                                                       .maximize = true });
    return r;
}

run open_good_run(const options *o)
{
    run r = open_run(o);
    expect_ok(r.ctx);
    return r;
}

void train(run *r, int64_t until)
{
    ls_training_state *s = &r->state;
    while (s->epoch * STEPS + s->step < until) {
        ls_batch batch;
        ls_loader_start_at(s->loader, s->epoch, s->step);
        while (s->epoch * STEPS + s->step < until && ls_loader_next(s->loader, &batch)) {
            ls_net_step(s->net, s->optimizer, &batch,
                        ls_schedule_lr(s->schedule, s->epoch, s->step));
            s->step++;
        }
        if (s->step < STEPS) break;
        s->best = 0.1 * (double)++s->epoch;
        s->step = 0;
        ls_schedule_report(s->schedule, s->best);
    }
    expect_ok(r->ctx);
}

void portray(const run *r, char out[PORTRAIT])
{
    const ls_training_state *s = &r->state;
    char *at = out, *const end = out + PORTRAIT, hex[LS_DIGEST_TEXT_SIZE];
    double state[LS_SCHEDULE_STATE_SIZE];
    ls_digest digest;
    ls_schedule_get_state(s->schedule, state);
    at += snprintf(at, (size_t)(end - at), "%lld.%lld %a, %lld updates, %a %a %a %a\n",
                   (long long)s->epoch, (long long)s->step, s->best,
                   (long long)ls_optimizer_step_count(s->optimizer), state[0], state[1], state[2],
                   state[3]);
    for (int64_t i = 0; i < ls_net_parameter_count(s->net); i++) {
        const ls_parameter_info entry = ls_net_parameter_at(s->net, i);
        ck_assert_int_eq(ls_tensor_digest(entry.value, &digest), LS_OK);
        at += snprintf(at, (size_t)(end - at), "%s %s\n", entry.name, ls_digest_text(digest, hex));
        if (entry.kind == LS_PARAMETER_BUFFER) continue;
        for (int j = 0; j < ls_optimizer_state_count(s->optimizer); j++) {
            ls_tensor_digest(ls_optimizer_state(s->optimizer, j, entry.name), &digest);
            at += snprintf(at, (size_t)(end - at), "  %s\n", ls_digest_text(digest, hex));
        }
    }
    ck_assert(at < end);
}

/* ---- Files ---- */

static char *folder;

const char *path_of(const char *name)
{
    return path_in(folder, "%s", name);
}

void begin_runs(void)
{
    folder = new_folder();
}

int end_runs(int status)
{
    remove_folder(folder);
    return status;
}
