/* test_floats.c: the caller's rounding mode and flushing of denormals change no bit of a run, and
 * are as before after each call. */
#include "../suite.h"
#include "../checkpoint/checkpoint_support.h"
#include <fenv.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef enum mode { DEFAULT, UPWARD, DOWNWARD, FLUSH, N_MODES } mode;
enum { TEXT = 4 * PORTRAIT };

/* As -ffast-math does for a program's first thread. */
static void set_mode(mode m)
{
    fesetenv(FE_DFL_ENV);
    if (m == UPWARD) fesetround(FE_UPWARD);
    if (m == DOWNWARD) fesetround(FE_DOWNWARD);
#if defined(__x86_64__)
    if (m == FLUSH) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

static void expect_mode(mode m)
{
    static const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TONEAREST };
    ck_assert_int_eq(fegetround(), rounding[m]);
#if defined(__x86_64__)
    ck_assert_uint_eq(_mm_getcsr() & 0x8040, m == FLUSH ? 0x8040 : 0);
#endif
}

typedef struct log_text {
    char text[TEXT];
    size_t length;
} log_text;

/* Bits, so that the test's own printing does not round. */
static void put_bits(log_text *log, const char *what, const void *bytes, size_t size)
{
    log->length += (size_t)snprintf(log->text + log->length, TEXT - log->length, "\n%s ", what);
    for (size_t i = 0; i < size; i++)
        log->length += (size_t)snprintf(log->text + log->length, TEXT - log->length, "%02x",
                                        ((const unsigned char *)bytes)[i]);
    ck_assert_uint_lt(log->length, TEXT);
}

static void put_tensor(log_text *log, const char *what, const ls_tensor *tensor)
{
    ls_digest digest;
    ck_assert_int_eq(ls_tensor_digest(tensor, &digest), LS_OK);
    put_bits(log, what, &digest, sizeof digest);
}

static void use_tensors(log_text *log, ls_context *ctx)
{
    ls_tensor *a = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1000));
    ls_tensor *b = ls_tensor_open(ctx, LS_BF16, LS_SHAPE(1000));
    ls_tensor_random_uniform(a, 1, -0.3f, 0.9f);
    put_tensor(log, "uniform", a);
    ls_tensor_cast(b, a);
    put_tensor(log, "cast", b);
    ls_difference difference;
    ls_tensor_cast(a, b);
    ls_tensor *c = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1000));
    ls_tensor_random_normal(c, 2, 0.1f, 0.3f);
    put_tensor(log, "normal", c);
    ls_tensor_compare(a, c, &difference);
    put_bits(log, "difference", &difference.relative_l2, sizeof(double));
    ls_tensor_fill(b, 0.1);
    put_tensor(log, "fill", b);
    ls_tensor_fill(c, 1e-40);
    put_tensor(log, "denormal", c);
    char text[400];
    ls_tensor_format(a, text, sizeof text);
    put_bits(log, "text", text, strlen(text));
    uint8_t pixels[9 * 7 * 3];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 19);
    ls_tensor *image = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(9, 7, 3), pixels);
    put_tensor(log, "resized", ls_image_resize(image, 5, 11));
}

static void use_schedules(log_text *log, ls_context *ctx)
{
    ls_schedule *s[] = {
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                     .lr = 0.1,
                                                     .epochs = 9,
                                                     .warmup_epochs = 2,
                                                     .warmup_start = 0.03,
                                                     .steps_per_epoch = 7 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                     .lr = 0.3,
                                                     .epochs = 9,
                                                     .steps_per_epoch = 7 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL,
                                                     .lr = 0.1,
                                                     .power = 0.9,
                                                     .epochs = 9 }),
        ls_schedule_open(
            ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_STEP, .lr = 0.1, .step_size = 2 }),
    };
    for (int k = 0; k < 4; k++)
        for (int epoch = 0; epoch < 9; epoch++) {
            const double lr = ls_schedule_lr(s[k], epoch, epoch % 7);
            put_bits(log, "lr", &lr, sizeof lr);
        }
}

static void use_loader(log_text *log, run *r)
{
    static uint8_t pixels[8 * 20 * 17 * 3];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 17);
    static const int32_t labels[8];
    for (int workers = 0; workers < 2; workers++) {
        ls_dataset *data =
            ls_dataset_from_memory(r->ctx, pixels, LS_SHAPE(8, 20, 17, 3), labels, 4);
        ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 8,
                                                                      .workers = workers,
                                                                      .crop = 9,
                                                                      .random_resized_crop = true,
                                                                      .ratio_min = 0.7f,
                                                                      .ratio_max = 1.3f });
        ls_batch batch;
        ls_loader_start(loader, 0);
        ck_assert(ls_loader_next(loader, &batch));
        put_tensor(log, "batch", batch.images);
        ls_loader_close(&loader);
    }
}

/* A whole run in this mode: training, saving, going on. */
static void observe(mode m, log_text *log)
{
    static const kind kinds[] = { SGD, ADAM, ADAMW };
    set_mode(m);
    log->length = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        options o = usual;
        o.kind = kinds[k];
        o.threads = 2;
        o.lr = 0.0507;
        run first = open_good_run(&o);
        train(&first, 4);
        ls_results results;
        ls_net_last_results(first.state.net, &results);
        put_bits(log, "loss", &results.loss, sizeof results.loss);
        put_bits(log, "norm", &results.gradient_norm, sizeof results.gradient_norm);
        char name[32];
        snprintf(name, sizeof name, "floats%d-%d", (int)m, (int)k);
        ls_checkpoint_save(&first.state, path_of(name));
        expect_ok(first.ctx);
        set_mode(m == DEFAULT ? DEFAULT : DEFAULT + (mode)(1 + (int)m % (N_MODES - 1)));
        run second = open_good_run(&o);
        ls_checkpoint_load(&second.state, path_of(name));
        expect_ok(second.ctx);
        set_mode(m);
        train(&second, 8);
        for (int64_t i = 0; i < ls_net_parameter_count(second.state.net); i++)
            put_tensor(log, ls_net_parameter_at(second.state.net, i).name,
                       ls_net_parameter_at(second.state.net, i).value);
        if (k == 0) {
            use_tensors(log, first.ctx);
            use_schedules(log, first.ctx);
            use_loader(log, &first);
            expect_ok(first.ctx);
        }
        ls_context_close(&first.ctx);
        ls_context_close(&second.ctx);
    }
    expect_mode(m);
    set_mode(DEFAULT);
}

/* The line in which two logs differ. */
static const char *difference_of(char *a, char *b)
{
    char *save_a, *save_b, *x = strtok_r(a, "\n", &save_a), *y = strtok_r(b, "\n", &save_b);
    for (; x && y && strcmp(x, y) == 0; y = strtok_r(NULL, "\n", &save_b))
        x = strtok_r(NULL, "\n", &save_a);
    return x ? x : "none";
}

START_TEST(the_callers_environment_changes_no_bit)
{
    static log_text wanted, got;
    observe(DEFAULT, &wanted);
    observe((mode)_i, &got);
    ck_assert_msg(strcmp(got.text, wanted.text) == 0, "mode %d: differs in: %s", _i,
                  difference_of(got.text, wanted.text));
}
END_TEST

TEST_PROGRAM(floats)
{
    begin_runs();
    const int failed = run_loop("floats", the_callers_environment_changes_no_bit, N_MODES);
    return end_runs(failed);
}
