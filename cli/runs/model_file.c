/* model_file.c: see model_file.h. */
#include "runs/model_file.h"
#include "run/folders.h"

const ls_model *find_model(const char *name)
{
    enum { MAX_MODELS = 64 };
    const ls_model *model = ls_model_find(name);
    const char *names[MAX_MODELS];
    char hint[LS_HINT_SIZE];
    int n = 0;
    if (model) return model;
    for (; n < MAX_MODELS && (model = ls_model_at(n)); n++) names[n] = model->name;
    print_message("unknown model '%s'%s", name, ls_closest_hint(name, n, names, "", "", hint));
    if (*hint) return NULL;
    print_text(stderr, "lockstep %s: the models are ", command_name);
    for (int i = 0; i < n; i++) print_text(stderr, "%s%s", i ? ", " : "", names[i]);
    print_text(stderr, "\n");
    return NULL;
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

/* The model that a checkpoint stores. */
static const ls_saved_model *open_checkpoint(ls_context *ctx, const char *path)
{
    const ls_saved_model *model = ls_saved_model_open(ctx, path);
    if (model) return model;
    print_error(ctx, EXIT_RUNTIME);
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    if (file && ls_tensor_file_metadata(file, "identity") &&
        !ls_tensor_file_metadata(file, "model"))
        print_message("the checkpoint is of another program, which did not store how to build its "
                      "net, so that only that program can use it (docs/training.md, 'Runs of "
                      "programs')");
    else if (file && !ls_tensor_file_metadata(file, "model"))
        print_message("--model NAME reads weights that do not store their model");
    ls_context_clear_error(ctx);
    return NULL;
}

const ls_saved_model *model_file_open(ls_context *ctx, const model_file *file, int n_classes,
                                      const char *const *classes)
{
    if (ls_context_status(ctx) != LS_OK) {
        print_error(ctx, EXIT_RUNTIME);
        return NULL;
    }
    char buffer[LS__PATH_SIZE];
    const char *path = ls__weights_of(file->path, buffer);
    if (is_folder(path)) {
        print_message("--checkpoint %s: a folder without best.safetensors and last.safetensors; "
                      "expected a checkpoint, or a run's folder",
                      path);
        return NULL;
    }
    if (!file->model) return open_checkpoint(ctx, path);
    ls__run_settings r = { .model = file->model,
                           .stem = file->stem,
                           .parameter_free_shortcuts = file->parameter_free_shortcuts,
                           .image_size = file->image_size,
                           .resize_mode = file->resize_mode,
                           .alpha = file->alpha,
                           .depth = file->depth };
    const int64_t usual = ls_model_find(file->model)->image_size;
    if (!r.image_size.height) r.image_size = (ls_size){ usual, usual };
    ls_model_info info = ls__run_model_info(&r, ls_model_find(file->model));
    info.options.n_classes = n_classes;
    info.classes = classes;
    info.weights_key = file->key;
    if (file->grey) { /* as a loader's */
        info.channels = 1;
        info.mean[0] = 0.449f;
        info.std[0] = 0.226f;
    }
    const ls_saved_model *model = ls_saved_model_from_weights(ctx, path, &info);
    if (!model) print_error(ctx, EXIT_RUNTIME);
    return model;
}
