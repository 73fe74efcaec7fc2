/* model_file.c: see model_file.h. */
#include "runs/model_file.h"
#include <limits.h>

#define AT(member) offsetof(model_file, member)
const ls_setting model_file_options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "checkpoint", AT(path),
      "checkpoint: best.safetensors of a run; with --model a safetensors file or a PyTorch file "
      "(.pt, .pth) with torchvision's or timm's names",
      "FILE", .note = "required" },
    { LS_SETTING_TEXT, 0, "model", AT(model), "model of a file that does not store it", "NAME",
      .note = "stored in checkpoints", .list = ls_model_list },
    { LS_SETTING_TEXT, 0, "weights-key", AT(key),
      "with --model: where the file has the weights: a key, such as model_ema, or a prefix of the "
      "names",
      "KEY", .note = "found" },
    LIKE_RUN("image-size", AT(image_size), "with --model: "),
    LIKE_RUN("resize", AT(resize_mode), "with --model: "),
    LIKE_RUN("alpha", AT(alpha), "with --model: "),
    LIKE_RUN("depth", AT(depth), "with --model: "),
    LIKE_RUN("stem", AT(stem), "with --model: "),
    LIKE_RUN("parameter-free-shortcuts", AT(parameter_free_shortcuts), "with --model: "),
    { LS_SETTING_SWITCH, 0, "grey", AT(grey),
      "with --model: the model has one input channel; images are converted to grey" },
    { .kind = LS_SETTING_END },
};

const ls_model *find_model(const char *name)
{
    const ls_model *model = ls_model_require(command_context(), name);
    if (!model) print_error(command_context(), LS_EXIT_USAGE);
    return model;
}

bool check_resnet_options(const cli_parsed *parsed, const ls_model *model)
{
    static const char *const names[] = { "stem", "parameter-free-shortcuts" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !model->resnet; i++)
        if (ls_given_has(&parsed->set, names[i]))
            return fail_with(false, "--%s has no effect here: it requires a resnet", names[i]);
    return true;
}

bool model_file_check(const cli_parsed *parsed, const model_file *file, const char *more)
{
    const char *const names[] = {
        "weights-key", "image-size", "resize", "alpha", "depth", "stem", "parameter-free-shortcuts",
        "grey",        more
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !file->model; i++)
        if (names[i] && ls_given_has(&parsed->set, names[i]))
            return fail_with(false, "--%s has no effect here: it requires --model", names[i]);
    if (!file->model) return true;
    const ls_model *model = find_model(file->model);
    return model && check_resnet_options(parsed, model);
}

const ls_saved_model *model_file_open(ls_context *ctx, const model_file *file, int n_classes,
                                      const char *const *classes)
{
    char weights[PATH_MAX];
    if (ls_context_status(ctx) != LS_OK) {
        print_error(ctx, LS_EXIT_RUNTIME);
        return NULL;
    }
    const bool found = ls_run_find_weights(file->path, weights, sizeof(weights));
    const char *path = found ? weights : file->path;
    if (is_folder(path)) {
        print_message("--checkpoint %s: a folder without best.safetensors and last.safetensors; "
                      "expected a checkpoint, or a run's folder",
                      path);
        return NULL;
    }
    ls_model_info info = {
        .model = ls_model_find(file->model),
        .options = { .n_classes = n_classes,
                     .stem = (ls_stem)file->stem,
                     .parameter_free_shortcuts = file->parameter_free_shortcuts },
        .image_size = file->image_size.height,
        .image_width = file->image_size.width,
        .resize_mode = (ls_resize_mode)file->resize_mode,
        .alpha = (ls_alpha)file->alpha,
        .depth = (int)file->depth,
        .channels = file->grey ? 1 : 3,
        .classes = classes,
        .weights_key = file->key,
    };
    if (file->model) ls_model_info_complete(&info);
    const ls_saved_model *model = file->model ? ls_saved_model_from_weights(ctx, path, &info)
                                              : ls_saved_model_open(ctx, path);
    if (!model) print_error(ctx, LS_EXIT_RUNTIME);
    return model;
}
