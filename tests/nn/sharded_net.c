/* sharded_net.c: see sharded_net.h. */
#include "sharded_net.h"
#include "base/context.h"

#include <string.h>

const setting settings[N_SETTINGS] = {
    { .name = "plain" },
    { .name = "class weights", .label_smoothing = 0.1f, .class_weights = true },
    { .name = "soft targets", .label_smoothing = 0.1f, .soft = true },
    { .name = "clipped, accumulated", .clip_norm = 0.1f, .accumulate = 2 },
    { .name = "bf16, a frozen norm", .precision = LS_PRECISION_BF16, .frozen = true },
    { .name = "f16", .precision = LS_PRECISION_F16, .class_weights = true },
    { .name = "two optimizers", .clip_norm = 0.1f, .two_optimizers = true },
    { .name = "synchronised", .synced = true },
    { .name = "synchronised, class weights, clipped, accumulated",
      .label_smoothing = 0.1f,
      .class_weights = true,
      .clip_norm = 0.1f,
      .accumulate = 2,
      .synced = true },
    { .name = "synchronised, soft targets, a frozen norm",
      .soft = true,
      .frozen = true,
      .synced = true },
    { .name = "synchronised, f16", .precision = LS_PRECISION_F16, .synced = true },
};

const int64_t batch_sizes[STEPS] = { BATCH, BATCH, 13, 5, 1 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_conv2d(g, "conv2", x, 16, &(ls_conv2d_config){ .kernel = 3, .stride = 2 });
    x = ls_relu(g, ls_batch_norm(g, "bn2", x, &(ls_batch_norm_config){ .momentum = 0.3f }));
    ls_node *skip = x;
    x = ls_conv2d(g, "conv3", x, 16, &(ls_conv2d_config){ .kernel = 1 });
    x = ls_relu(g, ls_add(g, ls_batch_norm(g, "bn3", x, NULL), skip));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

float class_weight(const setting *s, int label)
{
    return label < 0 ? 0 : s->class_weights ? 0.5f + (float)label / 7 : 1;
}

trained build_net(const setting *s, ls_context *ctx, int64_t batch)
{
    float weights[CLASSES];
    for (int i = 0; i < CLASSES; i++) weights[i] = class_weight(s, i);
    trained t = { .ctx = ctx };
    ls_net_config config = small_config(batch);
    config.loss.label_smoothing = s->label_smoothing;
    config.loss.class_weights = s->class_weights ? weights : NULL;
    config.loss.soft_targets = s->soft;
    config.precision = s->precision;
    config.recompute = s->recompute;
    t.net = ls_net_build(t.ctx, model, NULL, &config);
    expect_ok(t.ctx);
    if (s->frozen) ck_assert_int_eq(ls_net_freeze(t.net, "bn2.*"), LS_OK);
    t.opt = ls_sgd(t.net, &(ls_sgd_config){ .momentum = 0.9f,
                                            .weight_decay = 1e-3f,
                                            .clip_norm = s->clip_norm,
                                            .ema_decay = s->two_optimizers ? 0 : 0.9f,
                                            .accumulate = s->accumulate,
                                            .parameters = s->two_optimizers ? "*.weight" : NULL });
    if (s->two_optimizers)
        t.of_biases =
            ls_adam(t.net, &(ls_adam_config){ .clip_norm = 0.2f, .parameters = "*.bias" });
    expect_ok(t.ctx);
    return t;
}

trained open_net(const setting *s, int shards, int64_t batch, int threads)
{
    const ls_context_config config = {
        .seed = 5, .shards = shards, .sync_batch_norm = s->synced, .threads = threads
    };
    return build_net(s, ls_context_open(&config), batch);
}

ls_batch part_of(ls_context *ctx, const setting *s, int step, int64_t begin, int64_t end)
{
    uint8_t pixels[BATCH * SIZE * SIZE * 3];
    float targets[BATCH * CLASSES];
    int32_t labels[BATCH];
    const int64_t n = end - begin, image = SIZE * SIZE * 3;
    for (int64_t i = 0; i < n * image; i++)
        pixels[i] = (uint8_t)((uint32_t)(begin * image + i + step) * 2654435761u >> 13);
    for (int64_t i = 0; i < n; i++) {
        const int64_t sample = begin + i;
        const bool ignored = !s->soft && (sample % 8 == 5 || (step == 1 && sample < 6));
        labels[i] = ignored ? -1 : (int32_t)((sample * 7 + step) % CLASSES);
        for (int k = 0; k < CLASSES; k++)
            targets[i * CLASSES + k] = k == labels[i] ? 0.75f : 0.25f / (CLASSES - 1);
    }
    return (ls_batch){
        .images = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(n, SIZE, SIZE, 3), pixels),
        .labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(n), labels),
        .targets = s->soft ? ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(n, CLASSES), targets) : NULL,
        .n = n,
        .step = step
    };
}

void close_batch(ls_batch *b)
{
    ls_tensor *tensors[3] = { (ls_tensor *)b->images, (ls_tensor *)b->labels,
                              (ls_tensor *)b->targets };
    for (int i = 0; i < 3; i++) ls_tensor_close(&tensors[i]);
}

/* ---- Everything that a step changes ---- */

void put(step_values *v, const float *from, int64_t n)
{
    ck_assert_int_le(v->n + n, MAX_VALUES);
    memcpy(v->of + v->n, from, (size_t)n * sizeof *from);
    v->n += n;
}

void put_tensor(step_values *v, const ls_tensor *tensor)
{
    ck_assert_int_le(v->n + ls_tensor_element_count(tensor), MAX_VALUES);
    ck_assert_int_eq(ls_tensor_read(tensor, v->of + v->n, ls_tensor_bytes(tensor)), LS_OK);
    v->n += ls_tensor_element_count(tensor);
}

void put_net(step_values *v, const trained *t, double loss, double top1)
{
    put(v, (const float[]){ (float)loss, (float)top1 }, 2);
    for (int64_t i = 0; i < ls_net_parameter_count(t->net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(t->net, i);
        put_tensor(v, p.value);
        if (!p.gradient) continue;
        put_tensor(v, p.gradient);
        const bool is_bias = t->of_biases && strstr(p.name, ".bias");
        if (!t->ctx->config.partition_optimizer)
            put_tensor(v, ls_optimizer_state(is_bias ? t->of_biases : t->opt, 0, p.name));
    }
}

void expect_same(const step_values *got, const step_values *wanted, const char *what)
{
    ck_assert_int_eq(got->n, wanted->n);
    for (int64_t i = 0; i < got->n; i++)
        if (memcmp(&got->of[i], &wanted->of[i], sizeof(float)) != 0)
            ck_abort_msg("%s: value %lld of %lld is %.9g, expected %.9g", what, (long long)i,
                         (long long)got->n, (double)got->of[i], (double)wanted->of[i]);
}

void step_over(trained *t, const ls_batch *b, step_values *out)
{
    ls_results results;
    double loss, top1;
    ck_assert_int_eq(ls_net_step(t->net, t->opt, b, LR), LS_OK);
    if (t->of_biases) ck_assert_int_eq(ls_optimizer_step(t->of_biases, LR), LS_OK);
    ck_assert_int_eq(ls_net_last_results(t->net, &results), LS_OK);
    ck_assert_int_eq(ls_net_loss(t->net, &loss), LS_OK);
    ck_assert_int_eq(ls_net_metric(t->net, "top1", &top1), LS_OK);
    ck_assert_int_eq(results.n, b->n);
    ck_assert(results.loss == loss && ls_results_metric(&results, "top1") == top1);
    put_net(out, t, loss, top1);
}

void step_with_shards(const setting *s, trained *t, int step, step_values *out)
{
    ls_batch b = part_of(t->ctx, s, step, 0, batch_sizes[step]);
    step_over(t, &b, out);
    close_batch(&b);
}
