/* compare_sides.h: small runs to be compared: a net of every kind of layer over images in memory,
 * with augmentation, dropout, momentum and clipping. */
#ifndef LS_TESTS_RUN_COMPARE_SIDES_H
#define LS_TESTS_RUN_COMPARE_SIDES_H

#include "../reference_kernels/reference_kernels.h"
#include "base/context.h"
#include "run/compare.h"
#include <lockstep/lockstep.h>
#include <check.h>
#include <stdint.h>
#include <string.h>

enum { SIDE_SAMPLES = 27, SIDE_BATCH = 6, SIDE_SIZE = 10, SIDE_CROP = 8, SIDE_CLASSES = 5 };

/* A sequence of numbers that is the same everywhere. */
static inline uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % below;
}

static inline ls_node *side_model(ls_graph *g, ls_node *x, const void *options)
{
    const int *channels = options;
    const ls_conv2d_config conv = { .kernel = 3, .padding = 1 };
    x = ls_relu(g, ls_batch_norm(g, "bn1", ls_conv2d(g, "conv1", x, 8, &conv), NULL));
    ls_node *y = ls_batch_norm(g, "bn2", ls_conv2d(g, "conv2", x, 8, &conv), NULL);
    x = ls_max_pool(g, ls_relu(g, ls_add(g, y, x)), &(ls_pool_config){ .kernel = 2 });
    x = ls_conv2d(g, "conv3", x, channels ? *channels : 12,
                  &(ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1 });
    x = ls_dropout(g, ls_global_avg_pool(g, ls_relu(g, x)), 0.2f);
    return ls_linear(g, "fc", x, SIDE_CLASSES, NULL);
}

/* All zero = the usual side. */
typedef struct side_options {
    int threads, workers;
    ls_seeding seeding;
    double lr;    /* 0 = 0.05 */
    int channels; /* of conv3, 0 = 12 */
    ls_recompute recompute;
    bool by_reference;        /* with the reference kernels only */
    bool other_pixel;         /* the last pixel of sample 3 is another */
    const float *target;      /* set: the samples have targets, one of sample 3 is this number */
    ls__injected_fault fault; /* with has_fault */
    bool has_fault;
    float ema_decay;
    const ls_allocator *allocator;
} side_options;

typedef struct opened_side {
    ls_context *ctx;
    ls_schedule *schedule;
    ls__compare_side side;
} opened_side;

static inline ls_dataset *open_images(ls_context *ctx, bool other_pixel)
{
    enum { PIXELS = SIDE_SIZE * SIDE_SIZE * 3 };
    static uint8_t images[SIDE_SAMPLES * PIXELS];
    int32_t labels[SIDE_SAMPLES];
    uint64_t state = 11;
    for (int i = 0; i < SIDE_SAMPLES * PIXELS; i++) images[i] = (uint8_t)draw(&state, 256);
    for (int i = 0; i < SIDE_SAMPLES; i++) labels[i] = i % SIDE_CLASSES;
    if (other_pixel)
        for (int i = 0; i < PIXELS; i++) images[3 * PIXELS + i] ^= 1;
    return ls_dataset_from_memory(ctx, images, LS_SHAPE(SIDE_SAMPLES, SIDE_SIZE, SIDE_SIZE, 3),
                                  labels, SIDE_CLASSES);
}

static inline ls_status load_side(void *user, int64_t sample, ls_image_writer *out)
{
    uint8_t *pixels = ls_image_writer_reserve(out, SIDE_SIZE, SIDE_SIZE);
    (void)user;
    for (int i = 0; pixels && i < SIDE_SIZE * SIDE_SIZE * 3; i++)
        pixels[i] = (uint8_t)(sample * 31 + i % 7);
    return LS_OK;
}

static inline void side_target(void *user, int64_t sample, float *out)
{
    for (int k = 0; k < SIDE_CLASSES; k++) out[k] = (float)(sample % 4) * 0.1f;
    if (sample == 3) out[2] = *(const float *)user;
}

static inline ls_dataset *open_targets(ls_context *ctx, const float *target)
{
    const ls_dataset_callbacks callbacks = { .sample_count = SIDE_SAMPLES,
                                             .load = load_side,
                                             .target = side_target,
                                             .n_targets = SIDE_CLASSES,
                                             .user = (void *)target };
    return ls_dataset_from_callbacks(ctx, &callbacks);
}

static const ls__backend *usual_backend;

static inline int list_reference(ls__device *device, const ls__op *op, ls__candidate *out, int max)
{
    const int n = usual_backend->candidates(device, op, out, max);
    for (int i = 0; i < n; i++) {
        if (strcmp(out[i].name, "reference") != 0) continue;
        out[0] = out[i];
        return 1;
    }
    return n;
}

/* Applies to nets that are built in this context afterwards. */
static inline void leave_the_reference(ls_context *ctx)
{
    static ls__backend backend;
    offer_reference_kernels(ctx);
    usual_backend = ctx->device->backend;
    backend = *usual_backend;
    backend.candidates = list_reference;
    ctx->device->backend = &backend;
}

static inline opened_side open_side(const side_options *o)
{
    opened_side s = { .ctx = ls_context_open(&(ls_context_config){
                          .seed = 5, .threads = o->threads, .allocator = o->allocator }) };
    if (o->by_reference) leave_the_reference(s.ctx);
    ls_dataset *data =
        o->target ? open_targets(s.ctx, o->target) : open_images(s.ctx, o->other_pixel);
    ls__compare_side *side = &s.side;
    side->loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = SIDE_BATCH,
                                                             .workers = o->workers,
                                                             .shuffle = true,
                                                             .crop = SIDE_CROP,
                                                             .crop_padding = 2,
                                                             .flip_probability = 0.5f,
                                                             .seeding = o->seeding });
    const ls_net_config config = { .input = ls_loader_input_spec(side->loader),
                                   .loss = { o->target ? LS_LOSS_MSE : LS_LOSS_CROSS_ENTROPY,
                                             .label_smoothing = o->target ? 0 : 0.1f },
                                   .recompute = o->recompute };
    side->net = ls_net_build(s.ctx, side_model, o->channels ? &o->channels : NULL, &config);
    side->optimizer = ls_sgd(side->net, &(ls_sgd_config){ .momentum = 0.9f,
                                                          .weight_decay = 1e-4f,
                                                          .clip_norm = 2,
                                                          .ema_decay = o->ema_decay });
    s.schedule = ls_schedule_open(s.ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP,
                                                                .lr = o->lr > 0 ? o->lr : 0.05,
                                                                .step_size = 1 });
    side->schedule = s.schedule;
    ck_assert_msg(ls_context_status(s.ctx) == LS_OK, "%s", ls_context_message(s.ctx));
    if (o->has_fault) ls__net_set_injected_fault(side->net, &o->fault);
    return s;
}

static inline int64_t side_steps_per_epoch(void)
{
    return (SIDE_SAMPLES + SIDE_BATCH - 1) / SIDE_BATCH;
}

#endif
