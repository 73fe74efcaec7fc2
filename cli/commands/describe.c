/* describe.c: 'lockstep describe': a model's layers, shapes, parameters, kernels and memory. */
#include "runs/model_file.h"
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>

enum { LONG_TRAINING = 1000000 }; /* steps, so that --benchmark times what a training would */

typedef struct describe_values {
    const char *model, *device;
    ls_size image_size;
    int64_t batch, n_classes, threads;
    int stem, deterministic, arithmetic, precision;
    bool grey, parameter_free_shortcuts, inference, benchmark;
} describe_values;

#define AT(member) offsetof(describe_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "model", AT(model), "model", "NAME", .fallback = "resnet20",
      .list = ls_model_list },
    LIKE_RUN("image-size", AT(image_size), NULL),
    { LS_SETTING_INTEGER, 'b', "batch-size", AT(batch), "images per batch", "N", 1, 1e5,
      .fallback = "128" },
    { LS_SETTING_INTEGER, 0, "classes", AT(n_classes), "number of classes", "N", 2, 1e6,
      .note = "10 or 1000, depending on the model" },
    { LS_SETTING_SWITCH, 0, "grey", AT(grey),
      "one input channel: for grey images, or 'lockstep train --grey'" },
    LIKE_RUN("stem", AT(stem), NULL),
    LIKE_RUN("parameter-free-shortcuts", AT(parameter_free_shortcuts), NULL),
    { LS_SETTING_SWITCH, 0, "inference", AT(inference), "describe the forward pass only" },
    LIKE_RUN("device", AT(device), NULL),
    LIKE_RUN("precision", AT(precision), NULL),
    LIKE_RUN("threads", AT(threads), NULL),
    LIKE_RUN("deterministic", AT(deterministic), NULL),
    LIKE_RUN("arithmetic", AT(arithmetic), NULL),
    LIKE_RUN("benchmark", AT(benchmark), NULL),
    { .kind = LS_SETTING_END },
};

static int run(const cli_parsed *parsed, void *values)
{
    describe_values *v = values;
    const ls_model *model = find_model(v->model);
    if (!model || !check_resnet_options(parsed, model)) return LS_EXIT_USAGE;
    if (!v->image_size.height) v->image_size = (ls_size){ model->image_size, model->image_size };

    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = v->device,
                              .threads = (int)v->threads,
                              .deterministic = (ls_deterministic)v->deterministic,
                              .arithmetic = (ls_arithmetic)v->arithmetic,
                              .benchmark = v->benchmark ? LS_BENCHMARK_ON : LS_BENCHMARK_OFF,
                              .log = print_log });
    const ls_model_options model_options = {
        .n_classes = v->n_classes ? v->n_classes : model->n_classes,
        .stem = (ls_stem)v->stem,
        .parameter_free_shortcuts = v->parameter_free_shortcuts,
    };
    const ls_net_config config = {
        .input = { .image = { LS_U8, LS_SHAPE(v->batch, v->image_size.height, v->image_size.width,
                                              v->grey ? 1 : 3) },
                   .n_classes = (int)model_options.n_classes },
        .loss = { LS_LOSS_CROSS_ENTROPY },
        .precision = (ls_precision)v->precision,
        .steps = LONG_TRAINING,
        .inference = v->inference
    };
    ls_net *net = ls_net_build(ctx, model->function, &model_options, &config);
    const int length = ls_net_describe(net, NULL, 0);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text) {
        ls_net_describe(net, text, (size_t)length + 1);
        print_text(stdout, "%s, %s\n", model->name, ls_context_device(ctx));
        fputs(text, stdout);
        print_finish();
    }
    const int exit_status = text ? LS_EXIT_DONE : print_error(ctx, LS_EXIT_RUNTIME);
    free(text);
    ls_context_close(&ctx);
    return exit_status;
}

const cli_command command_describe = {
    .name = "describe",
    .summary = "show a model's layers, parameters, kernels and memory",
    .arguments = "",
    .values_bytes = sizeof(describe_values),
    .options = options,
    .run = run,
};
