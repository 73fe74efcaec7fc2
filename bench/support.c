/* support.c: functions of all bench programs. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Options ---- */

static bool set_option(const bench_option *option, const char *text)
{
    switch (option->kind) {
    case BENCH_FLAG: *(bool *)option->value = true; return true;
    case BENCH_TEXT: *(const char **)option->value = text; return true;
    case BENCH_MODEL:
        *(const ls_model **)option->value = ls_model_find(text);
        return *(const ls_model **)option->value != NULL;
    case BENCH_NUMBER:
    case BENCH_COUNT: break;
    }
    char *end;
    const long long number = strtoll(text, &end, 10);
    *(int64_t *)option->value = number;
    return end != text && *end == '\0' && number >= (option->kind == BENCH_NUMBER) &&
           number <= 1000000;
}

static void print_default(const bench_option *option)
{
    const ls_model *const *model = option->value;
    const char *const *text = option->value;
    const int64_t *number = option->value;
    const bool is_number = option->kind == BENCH_NUMBER || option->kind == BENCH_COUNT;
    if (is_number && *number) printf(" (default %lld)", (long long)*number);
    if (option->kind == BENCH_MODEL && *model) printf(" (default %s)", (*model)->name);
    if (option->kind == BENCH_TEXT && *text) printf(" (default %s)", *text);
}

static void print_help(const char *program, const bench_option *table)
{
    static const char *const kinds[] = {
        [BENCH_FLAG] = "",       [BENCH_NUMBER] = " NUMBER", [BENCH_COUNT] = " NUMBER",
        [BENCH_MODEL] = " NAME", [BENCH_TEXT] = " TEXT",
    };
    enum { WIDTH = 24 };
    printf("usage: %s [option...]\n\n", program);
    for (; table->name; table++) {
        const int used = printf("  %s%s", table->name, kinds[table->kind]);
        printf("%*s%s", used < WIDTH ? WIDTH - used : 1, "", table->help);
        print_default(table);
        printf("\n");
    }
}

static bool usage(const char *program, const char *argument)
{
    fprintf(stderr,
            "%s: not understood, or without a proper value: '%s'; --help lists the options\n",
            program, argument);
    return false;
}

bool bench_options(int argc, char **argv, const bench_option *table)
{
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--help") == 0) {
            print_help(argv[0], table);
            exit(EXIT_SUCCESS);
        }
        const bench_option *option = table;
        while (option->name && strcmp(option->name, argument) != 0) option++;
        if (!option->name) return usage(argv[0], argument);
        const bool takes_value = option->kind != BENCH_FLAG;
        if (takes_value && ++i == argc) return usage(argv[0], argument);
        if (!set_option(option, argv[i])) return usage(argv[0], argument);
    }
    return true;
}

/* ---- Times ---- */

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, int64_t n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
}

double bench_quantile(const double *sorted, int64_t n, double share)
{
    const double place = share * (double)(n - 1);
    const int64_t below = (int64_t)place;
    if (below + 1 >= n) return sorted[n - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* ---- Work ---- */

static ls_status open_images(ls_context *ctx, ls_shape shape, int64_t classes, ls_batch *out)
{
    const int64_t batch = shape.dims[0], n_pixels = ls_shape_element_count(&shape);
    uint8_t *pixels = malloc((size_t)n_pixels);
    int32_t *label = malloc((size_t)batch * sizeof(*label));
    uint32_t words[4];
    for (int64_t i = 0; pixels && i < n_pixels; i++) {
        if (i % 16 == 0)
            ls_random_words(1, &(ls_draw){ LS_RANDOM_USER, .sample = (uint64_t)(i / 16) }, words);
        pixels[i] = (uint8_t)(words[i % 16 / 4] >> (i % 4 * 8));
    }
    for (int64_t i = 0; label && i < batch; i++) label[i] = (int32_t)(i % classes);
    if (pixels && label)
        *out = (ls_batch){ .images = ls_tensor_from_data(ctx, LS_U8, shape, pixels),
                           .labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(batch), label),
                           .n = batch };
    const bool made = pixels && label;
    free(pixels);
    free(label);
    return made ? ls_context_status(ctx) : LS_ERR_MEMORY;
}

ls_status bench_open_batch(ls_context *ctx, int64_t batch, int64_t image_size, int64_t classes,
                           ls_batch *out)
{
    return open_images(ctx, LS_SHAPE(batch, image_size, image_size, 3), classes, out);
}

ls_status bench_open_net(bench_work *work, ls_model_fn function, ls_shape images, int64_t classes)
{
    LS_TRY(ls_context_status(work->ctx));
    work->net = ls_net_build(work->ctx, function, &(ls_model_options){ .n_classes = classes },
                             &(ls_net_config){ .input = { .image = { LS_U8, images },
                                                          .mean = { 0.485f, 0.456f, 0.406f },
                                                          .std = { 0.229f, 0.224f, 0.225f },
                                                          .n_classes = (int)classes },
                                               .loss = { LS_LOSS_CROSS_ENTROPY },
                                               .precision = work->precision,
                                               .recompute = work->recompute,
                                               .steps = work->steps,
                                               .inference = work->inference });
    if (!work->inference)
        work->opt = ls_sgd(work->net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 5e-4f });
    return open_images(work->ctx, images, classes, &work->batch);
}

ls_status bench_open_work(bench_work *work, const ls_model *model, int64_t batch,
                          int64_t image_size, int64_t classes)
{
    return bench_open_net(work, model->function, LS_SHAPE(batch, image_size, image_size, 3),
                          classes);
}

void bench_report(const char *program, ls_context *ctx)
{
    const char *message = ls_context_message(ctx);
    if (!ctx) message = ls_status_text(LS_ERR_MEMORY);
    if (*message) fprintf(stderr, "%s: %s\n", program, message);
}
