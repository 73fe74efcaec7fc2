/* test_net.c: building, planning, feeding and reading nets, and every way to get them wrong. */
#include "small_net.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- An allocator that counts ---- */

static int n_allocations;

static void *counting_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    __atomic_add_fetch(&n_allocations, 1, __ATOMIC_RELAXED);
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void counting_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static const ls_allocator counting = { counting_allocate, counting_release, NULL };

START_TEST(a_warm_step_allocates_nothing)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 3, .allocator = &counting });
    ls_net_config config = small_config(6);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ls_optimizer *opt =
        ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 1e-4f, .clip_norm = 1 });
    data d = make_data(ctx, 6, 8);
    double loss, top1;
    for (int step = 0; step < 5; step++) {
        if (step == 2) n_allocations = 0;
        ck_assert_int_eq(ls_net_step(net, opt, &d.batch, 0.1), LS_OK);
        ck_assert_int_eq(ls_net_evaluate(net, &d.batch), LS_OK);
        ck_assert_int_eq(ls_net_loss(net, &loss), LS_OK);
        ck_assert_int_eq(ls_net_metric(net, "top1", &top1), LS_OK);
        ck_assert_ptr_nonnull(ls_net_output(net, "output"));
    }
    ck_assert_int_eq(n_allocations, 0);
    ls_context_close(&ctx);
}
END_TEST

/* ---- Stochastic depth ---- */

enum { DEPTH_IMAGES = 64, DEPTH_SIZE = 5 };
static const float DEPTH_PROBABILITY = 0.25f;

static ls_node *depth(ls_graph *g, ls_node *x, const void *mode)
{
    x = ls_stochastic_depth(g, x, DEPTH_PROBABILITY, *(const ls_stochastic_depth_mode *)mode);
    return ls_linear(g, "fc", ls_output(g, "kept", x), 2, NULL);
}

/* The number of images that were kept. Fails the test unless each is 0 or x / (1 - p) as a whole.
 */
static int count_kept(const ls_tensor *y)
{
    const float *values = ls_tensor_data_const(y);
    int n_kept = 0;
    for (int i = 0; i < DEPTH_IMAGES; i++) {
        const float *image = values + i * DEPTH_SIZE;
        const float wanted = image[0] == 0 ? 0 : 3 / (1 - DEPTH_PROBABILITY);
        for (int j = 0; j < DEPTH_SIZE; j++) ck_assert_float_eq_tol(image[j], wanted, 1e-6f);
        n_kept += image[0] != 0;
    }
    return n_kept;
}

START_TEST(stochastic_depth_drops_images)
{
    for (int m = 0; m < 2; m++) {
        const ls_stochastic_depth_mode mode =
            m ? LS_STOCHASTIC_DEPTH_BATCH : LS_STOCHASTIC_DEPTH_ROW;
        ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 3 });
        const ls_shape shape = LS_SHAPE(DEPTH_IMAGES, DEPTH_SIZE);
        const ls_net_config config = { .input = { .image = { LS_F32, shape }, .n_classes = 2 },
                                       .loss = { LS_LOSS_CROSS_ENTROPY } };
        ls_net *net = ls_net_build(ctx, depth, &mode, &config);
        expect_ok(ctx);
        ls_tensor *x = ls_tensor_open(ctx, LS_F32, shape);
        const int32_t zeros[DEPTH_IMAGES] = { 0 };
        ls_tensor *labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(DEPTH_IMAGES), zeros);
        for (int i = 0; i < DEPTH_IMAGES * DEPTH_SIZE; i++) ((float *)ls_tensor_data(x))[i] = 3;
        ck_assert_int_eq(ls_net_feed(net, "input", x), LS_OK);
        ck_assert_int_eq(ls_net_feed(net, "label", labels), LS_OK);
        ck_assert_int_eq(ls_net_forward(net, LS_MODE_TRAIN), LS_OK);
        const int n_kept = count_kept(ls_net_output(net, "kept"));
        if (m)
            ck_assert(n_kept == 0 || n_kept == DEPTH_IMAGES);
        else
            ck_assert_int_le(abs(n_kept - 48), 12); /* std 3.5 */
        ck_assert_int_eq(ls_net_feed(net, "input", x), LS_OK);
        ck_assert_int_eq(ls_net_feed(net, "label", labels), LS_OK);
        ck_assert_int_eq(ls_net_forward(net, LS_MODE_EVAL), LS_OK);
        const float *y = ls_tensor_data_const(ls_net_output(net, "kept"));
        for (int i = 0; i < DEPTH_IMAGES * DEPTH_SIZE; i++) ck_assert(y[i] == 3);
        ls_context_close(&ctx);
    }
}
END_TEST

START_TEST(training_lowers_the_loss)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(20);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f });
    data d = make_data(ctx, 20, 8);
    double first = 0, last = 0;
    for (int step = 0; step < 60; step++) {
        ck_assert_int_eq(ls_net_step(net, opt, &d.batch, 0.1), LS_OK);
        ck_assert_int_eq(ls_net_loss(net, step ? &last : &first), LS_OK);
    }
    ck_assert_double_lt(last, 0.8 * first);
    ls_context_close(&ctx);
}
END_TEST

/* One digest over all parameters and buffers after a few steps. */
static ls_digest train(int threads, int64_t batch)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = threads, .seed = 3 });
    ls_net_config config = small_config(batch);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ls_optimizer *opt = ls_adamw(net, &(ls_adam_config){ .clip_norm = 1 });
    data d = make_data(ctx, batch, 8);
    for (int step = 0; step < 4; step++)
        ck_assert_int_eq(ls_net_step(net, opt, &d.batch, 0.01), LS_OK);
    ls_digest sum = { { 0, 0 } };
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        ls_digest one;
        ck_assert_int_eq(ls_tensor_digest(ls_net_parameter_at(net, i).value, &one), LS_OK);
        sum.words[0] = sum.words[0] * 31 + one.words[0];
        sum.words[1] = sum.words[1] * 31 + one.words[1];
    }
    ls_context_close(&ctx);
    return sum;
}

START_TEST(threads_change_no_bit)
{
    static const int threads[] = { 2, 3, 5, 16 };
    const ls_digest one = train(1, 37);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        ck_assert_msg(ls_digest_equal(one, train(threads[i], 37)), "%d threads differ from 1",
                      threads[i]);
}
END_TEST

static int count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    ck_assert_ptr_nonnull(folder);
    int n = 0;
    for (const struct dirent *parameter; (parameter = readdir(folder));)
        n += parameter->d_name[0] != '.';
    closedir(folder);
    return n;
}

/* Threads that have been joined, as those that draw initial values, are counted until the kernel
 * has buried them. */
static void wait_for_threads(int n)
{
    for (int i = 0; i < 10000 && count_threads() > n; i++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    ck_assert_int_eq(count_threads(), n);
}

/* The threads that were asked for are all that there are, whatever libraries have of their own. */
START_TEST(steps_take_no_other_threads)
{
    static const int counts[] = { 1, 3, 16 };
    const int n_before = count_threads();
    ls_context *contexts[3];
    int n_expected = n_before;
    for (int i = 0; i < 3; i++) {
        contexts[i] = ls_context_open(&(ls_context_config){ .threads = counts[i] });
        const ls_net_config config = small_config(64);
        ls_net *net = ls_net_build(contexts[i], small, NULL, &config);
        data d = make_data(contexts[i], 64, 8);
        ls_optimizer *opt = ls_sgd(net, NULL);
        ck_assert_int_eq(ls_net_step(net, opt, &d.batch, 0.1), LS_OK);
        n_expected += counts[i] - 1;
        wait_for_threads(n_expected);
    }
    for (int i = 0; i < 3; i++) ls_context_close(&contexts[i]);
}
END_TEST

START_TEST(other_batches_make_other_plans)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(8);
    config.max_execution_plans = 1; /* two programs: train and eval */
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    data large = make_data(ctx, 8, 8), rest = make_data(ctx, 3, 8), wide = make_data(ctx, 2, 12);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(ls_net_step(net, NULL, &large.batch, 0), LS_OK);
        ck_assert_int_eq(ls_net_evaluate(net, &rest.batch), LS_OK);
        ck_assert_int_eq((int)ls_tensor_shape(ls_net_output(net, "output"))->dims[0], 3);
        ck_assert_int_eq(ls_net_step(net, NULL, &rest.batch, 0), LS_OK);
        ck_assert_int_eq(ls_net_step(net, NULL, &wide.batch, 0), LS_OK);
    }
    ls_context_close(&ctx);
}
END_TEST

/* Batches without labels: the same outputs, no loss; labelled ones after them have theirs. */
START_TEST(labels_may_be_left_out_of_an_evaluation)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(6);
    config.inference = _i;
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ls_results results;
    double value, loss;
    for (int i = 0; i < 4; i++) {
        const int n = i % 2 ? 6 : 4;
        data d = make_data(ctx, n, 8);
        float wanted[6 * 10], got[6 * 10];
        const size_t bytes = (size_t)n * 10 * sizeof(float);
        ck_assert_int_eq(ls_net_evaluate(net, &d.batch), LS_OK);
        ck_assert_int_eq(ls_tensor_read(ls_net_output(net, "output"), wanted, bytes), LS_OK);
        ck_assert_int_eq(ls_net_loss(net, &loss), LS_OK);
        ck_assert_int_eq(ls_net_results(net, &results), LS_OK);
        ck_assert(results.has_loss && results.loss == loss && loss > 0);

        d.batch.labels = NULL;
        ck_assert_int_eq(ls_net_evaluate(net, &d.batch), LS_OK);
        ck_assert_int_eq(ls_tensor_read(ls_net_output(net, "output"), got, bytes), LS_OK);
        ck_assert_mem_eq(got, wanted, bytes);
        expect_failure(ls_net_loss(net, &value), ctx, LS_ERR_INVALID,
                       "ls_net_loss: the last batch had no labels or targets for the loss");
        expect_failure(ls_net_metric(net, "top1", &value), ctx, LS_ERR_INVALID,
                       "ls_net_metric: the last batch had no labels or targets for the loss");
        ck_assert_int_eq(ls_net_results(net, &results), LS_OK);
        ck_assert(!results.has_loss && results.loss == 0 && results.n == n);
        ck_assert_int_eq(results.n_metrics, 0);
        if (!config.inference)
            expect_failure(ls_net_step(net, NULL, &d.batch, 0), ctx, LS_ERR_INVALID,
                           "'label' has not been fed");
    }
    ls_context_close(&ctx);
}
END_TEST

static ls_node *with_metrics(ls_graph *g, ls_node *x, const void *n)
{
    ls_node *y = small(g, x, NULL);
    ls_node *parts = ls_input(g, "parts", (ls_spec){ LS_I32, LS_SHAPE(4) });
    char name[16];
    for (int i = 0; i < *(const int *)n; i++) {
        snprintf(name, sizeof name, "best%d", i + 2);
        ls_metric(g, name, ls_top_k_correct(g, y, parts, i + 2));
    }
    return y;
}

/* Metrics of a model's own stand before those of the config loss; each is known by its name. */
START_TEST(a_graph_declares_metrics)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(4);
    ls_net *net = ls_net_build(ctx, with_metrics, &(int){ 3 }, &config);
    expect_ok(ctx);
    data d = make_data(ctx, 4, 8);
    ls_tensor *parts =
        ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(4), (const int32_t[]){ 9, 4, 1, 0 });
    static const char *const names[] = { "best2", "best3", "best4", "top1", "top5" };
    ls_results results;
    ck_assert_int_eq(ls_net_feed(net, "parts", parts), LS_OK);
    ck_assert_int_eq(ls_net_step(net, NULL, &d.batch, 0), LS_OK);
    ck_assert_int_eq(ls_net_results(net, &results), LS_OK);
    ck_assert_int_eq(results.n_metrics, 5);
    float logits[4 * 10];
    ck_assert_int_eq(ls_tensor_read(ls_net_output(net, "output"), logits, sizeof logits), LS_OK);
    for (int i = 0; i < 5; i++) {
        double value;
        int right = 0;
        ck_assert_str_eq(results.metrics[i].name, names[i]);
        ck_assert_int_eq(ls_net_metric(net, names[i], &value), LS_OK);
        for (int n = 0; n < 4; n++) {
            const int32_t *labels = ls_tensor_data(i < 3 ? parts : d.labels);
            int before = -1;
            for (int k = 0; k < 10; k++) before += logits[n * 10 + k] >= logits[n * 10 + labels[n]];
            right += before < (i < 3 ? i + 2 : i == 3 ? 1 : 5);
        }
        ck_assert(results.metrics[i].value == value && value == right / 4.0);
        ck_assert(ls_results_metric(&results, names[i]) == value);
    }
    ck_assert(ls_results_metric(&results, "none") == 0 && ls_results_metric(NULL, "top1") == 0);
    ck_assert_ptr_null(ls_net_build(ctx, with_metrics, &(int){ 7 }, &config));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "ls_metric 'top5': a net has at most 8 metrics");
    ls_context_close(&ctx);
}
END_TEST

static ls_node *not_one(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_metric(g, "all", small(g, x, NULL));
}

START_TEST(a_metric_is_one_element)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(4);
    ck_assert_ptr_null(ls_net_build(ctx, not_one, NULL, &config));
    expect_error(ctx, LS_ERR_SHAPE, "ls_metric 'all'", "F32 [4,10]; expected one F32 element");
    ls_context_close(&ctx);
}
END_TEST

static ls_node *flat(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return ls_flatten(g, x);
}

START_TEST(a_mean_counts_without_std)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = { .input = { .image = { LS_U8, LS_SHAPE(2, 8, 8, 3) },
                                        .mean = { 0.25f, 0.5f } },
                             .inference = true };
    ls_net *net = ls_net_build(ctx, flat, NULL, &config);
    data d = make_data(ctx, 2, 8);
    float got[2 * 8 * 8 * 3];
    ck_assert_int_eq(ls_net_evaluate(net, &d.batch), LS_OK);
    ck_assert_int_eq(ls_tensor_read(ls_net_output(net, "output"), got, sizeof got), LS_OK);
    const uint8_t *pixels = ls_tensor_data(d.images);
    for (int i = 0; i < 2 * 8 * 8 * 3; i++)
        ck_assert_float_eq_tol(got[i], (float)pixels[i] / 255 - config.input.mean[i % 3], 1e-6f);
    ls_context_close(&ctx);
}
END_TEST

static ls_node *paddings(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    const ls_conv2d_config tall = {
        .kernel = 3, .kernel_w = 1, .padding = 1, .padding_w = LS_ZERO_INT
    };
    return ls_conv2d(g, "tall", x, 4, &tall);
}

START_TEST(padding_of_height_alone)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(2);
    config.loss.kind = LS_LOSS_NONE;
    config.loss.label_smoothing = 0;
    config.inference = true;
    ls_net *net = ls_net_build(ctx, paddings, NULL, &config);
    data d = make_data(ctx, 2, 8);
    ck_assert_int_eq(ls_net_evaluate(net, &d.batch), LS_OK);
    const ls_shape *shape = ls_tensor_shape(ls_net_output(net, "output"));
    ck_assert_int_eq(shape->dims[1], 8);
    ck_assert_int_eq(shape->dims[2], 8);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(outputs_do_not_depend_on_the_batch)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(8);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    data all = make_data(ctx, 8, 8),
         few = make_data(ctx, 3, 8); /* its images are the first three of all's */
    float a[80], b[30];
    ck_assert_int_eq(ls_net_evaluate(net, &all.batch), LS_OK);
    ck_assert_int_eq(ls_tensor_read(ls_net_output(net, "output"), a, sizeof a), LS_OK);
    ck_assert_int_eq(ls_net_evaluate(net, &few.batch), LS_OK);
    ck_assert_int_eq(ls_tensor_read(ls_net_output(net, "output"), b, sizeof b), LS_OK);
    for (int i = 0; i < 30; i++) ck_assert_float_eq_tol(a[i], b[i], 1e-5);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(frozen_parameters_stay)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(4);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 0.1f });
    data d = make_data(ctx, 4, 8);
    ls_digest before[2], after[2];
    ck_assert_int_eq(ls_net_freeze(net, "conv?.*"), LS_OK);
    ls_tensor *conv = ls_net_parameter(net, "conv1.weight"),
              *fc = ls_net_parameter(net, "fc.weight");
    ls_tensor_digest(conv, &before[0]);
    ls_tensor_digest(fc, &before[1]);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(ls_net_step(net, opt, &d.batch, 0.1), LS_OK);
    ls_tensor_digest(conv, &after[0]);
    ls_tensor_digest(fc, &after[1]);
    ck_assert(ls_digest_equal(before[0], after[0]));
    ck_assert(!ls_digest_equal(before[1], after[1]));
    ck_assert_int_eq(ls_net_step(net, NULL, &d.batch, 0), LS_OK);
    ck_assert_int_eq(ls_net_unfreeze(net, "*"), LS_OK);
    /* There are no gradients yet for what was frozen in the last backward pass. */
    ck_assert_int_eq(ls_optimizer_step(opt, 0.1), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "no gradients");
    ck_assert_int_eq(ls_net_step(net, opt, &d.batch, 0.1), LS_OK);
    ls_tensor_digest(conv, &after[0]);
    ck_assert(!ls_digest_equal(before[0], after[0]));
    ck_assert_int_ne(ls_net_freeze(net, "nothing*"), LS_OK);
    expect_error(ctx, LS_ERR_NOT_FOUND, "nothing*");
    ls_context_close(&ctx);
}
END_TEST

/* Times vary, but what they have chosen stays when plans are made anew. */
START_TEST(timed_choices_stay)
{
    enum { SIZE = 1 << 14 };
    static char before[SIZE], after[SIZE];
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .benchmark = LS_BENCHMARK_ON, .arithmetic = LS_ARITHMETIC_NATIVE });
    ls_net_config config = small_config(4);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ck_assert(ls_net_describe(net, before, SIZE) > 0);
    ck_assert_ptr_nonnull(strstr(before, "(timed "));
    ck_assert_int_eq(ls_net_freeze(net, "*"), LS_OK);
    ck_assert_int_eq(ls_net_unfreeze(net, "*"), LS_OK);
    data d = make_data(ctx, 4, 8);
    ck_assert_int_eq(ls_net_step(net, NULL, &d.batch, 0), LS_OK);
    ck_assert(ls_net_describe(net, after, SIZE) > 0);
    ck_assert_str_eq(before, after);
    ls_context_close(&ctx);
}
END_TEST

/* A convolution that takes some milliseconds, and nearly all of its net's time. */
static ls_node *one_large(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv", x, 64, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    return ls_global_avg_pool(g, x);
}

static ls_context *describe_large(int64_t steps, const char *plan, char *text, size_t size)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){
        .benchmark = LS_BENCHMARK_ON, .arithmetic = LS_ARITHMETIC_NATIVE, .threads = 1 });
    if (plan) ck_assert_int_eq(ls_algorithm_cache_load(ctx, plan), LS_OK);
    const ls_shape shape = LS_SHAPE(8, 64, 64, 64);
    ls_net *net = ls_net_build(ctx, one_large, NULL,
                               &(ls_net_config){ .input = { .image = { LS_F32, shape } },
                                                 .inference = true,
                                                 .steps = steps });
    ck_assert_msg(ls_net_describe(net, text, size) > 0, "%s", ls_context_message(ctx));
    return ctx;
}

/* Timing takes more than one run, so what may run a few times only is not worth it; and the plan
 * says so, too. */
START_TEST(timing_has_to_pay)
{
    enum { SIZE = 1 << 12 };
    static char text[SIZE];
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    const char plan[] = "test_net_plan.json";
    ls_context *ctx = describe_large(1, NULL, text, SIZE);
    ck_assert_ptr_nonnull(strstr(text, "no time to compare"));
    ck_assert_ptr_null(strstr(text, "conv2d (timed "));
    ck_assert_int_eq(ls_algorithm_cache_save(ctx, plan), LS_OK);
    ls_context_close(&ctx);
    ctx = describe_large(1000000, NULL, text, SIZE);
    ck_assert_ptr_null(strstr(text, "no time to compare"));
    ck_assert_int_gt(ls_algorithm_cache_timed_count(ctx), 0);
    ls_context_close(&ctx);
    ctx = describe_large(1000000, plan, text, SIZE);
    ck_assert_int_eq(ls_algorithm_cache_timed_count(ctx), 0);
    ls_context_close(&ctx);
    ck_assert_int_eq(remove(plan), 0);
}
END_TEST

static void *allocate_little(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (bytes > 3 << 20) return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void release_little(void *user, void *memory)
{
    (void)user;
    free(memory);
}

/* The limit is the context's, or one that the device does not know. */
START_TEST(out_of_memory_names_the_largest_batch)
{
    const ls_allocator little = { allocate_little, release_little, NULL };
    const ls_context_config limits[] = { { .memory_limit_bytes = 3 << 20 },
                                         { .allocator = &little } };
    ls_context *ctx = ls_context_open(&limits[_i]);
    ls_net_config config = small_config(4096);
    ck_assert_ptr_null(ls_net_build(ctx, small, NULL, &config));
    const char *advice = strstr(ls_context_message(ctx), "largest batch that fits is ");
    ck_assert_msg(advice != NULL, "%s", ls_context_message(ctx));
    const int best = atoi(advice + strlen("largest batch that fits is "));
    ck_assert_int_gt(best, 8);
    expect_error(ctx, LS_ERR_MEMORY, "");
    config = small_config(best);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    ls_net_close(&net);
    config = small_config(best + best / 4);
    ck_assert_ptr_null(ls_net_build(ctx, small, NULL, &config));
    ls_context_close(&ctx);
}
END_TEST

START_TEST(values_share_memory)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net_config config = small_config(16);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    const ls_net_memory memory = ls_net_memory_usage(net);
    ck_assert_uint_lt(memory.arena_bytes, memory.unshared_bytes * 3 / 4);
    char text[8192];
    const int length = ls_net_describe(net, text, sizeof text);
    ck_assert_int_gt(length, 0);
    ck_assert_ptr_nonnull(strstr(text, "bn1 + relu"));
    ck_assert_ptr_nonnull(strstr(text, "[16,3,3,16]"));
    char few[16];
    ck_assert_int_eq(ls_net_describe(net, few, sizeof few), length); /* cut, counted whole */
    ck_assert_int_eq(few[15], 0);
    ck_assert_int_eq((int)ls_net_parameter_element_count(net),
                     3 * 3 * 3 * 8 + 16 + 3 * 3 * 8 * 16 + 16 * 10 + 10);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(net)
{
    Suite *suite = suite_create("net");
    TCase *c = tcase_create("net");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, a_warm_step_allocates_nothing);
    tcase_add_test(c, training_lowers_the_loss);
    tcase_add_test(c, stochastic_depth_drops_images);
    tcase_add_test(c, threads_change_no_bit);
    tcase_add_test(c, steps_take_no_other_threads);
    tcase_add_test(c, other_batches_make_other_plans);
    tcase_add_test(c, padding_of_height_alone);
    tcase_add_test(c, outputs_do_not_depend_on_the_batch);
    tcase_add_test(c, frozen_parameters_stay);
    tcase_add_test(c, timed_choices_stay);
    tcase_add_test(c, timing_has_to_pay);
    tcase_add_loop_test(c, out_of_memory_names_the_largest_batch, 0, 2);
    tcase_add_test(c, values_share_memory);
    tcase_add_test(c, a_graph_declares_metrics);
    tcase_add_test(c, a_mean_counts_without_std);
    tcase_add_test(c, a_metric_is_one_element);
    tcase_add_loop_test(c, labels_may_be_left_out_of_an_evaluation, 0, 2);
    suite_add_tcase(suite, c);
    return run_and_free(suite);
}
