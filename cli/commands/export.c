/* export.c: 'lockstep export': a checkpoint's weights, or its model, for other programs. */
#include "cli.h"
#include "runs/model_file.h"
#include <limits.h>
#include <lockstep/onnx.h>
#include <lockstep/run.h>
#include <sys/stat.h>

typedef struct export_values {
    const char *checkpoint, *out;
    int format, input;
    int64_t opset;
    bool keep_batch_norm;
} export_values;

#define AT(member) offsetof(export_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "checkpoint", AT(checkpoint), "checkpoint: best.safetensors of a run",
      "FILE", .note = "required" },
    { LS_SETTING_CHOICE, 0, "format", AT(format),
      "torch = safetensors with torchvision's names and layouts; onnx = the model with its weights",
      "torch|onnx", .fallback = "torch" },
    { LS_SETTING_TEXT, 0, "out", AT(out), "file to write", "FILE", .note = "required" },
    { LS_SETTING_INTEGER, 0, "opset", AT(opset), "with --format onnx: version of the operator set",
      "N", LS_ONNX_MIN_OPSET, LS_ONNX_MAX_OPSET, .fallback = "17" },
    { LS_SETTING_SWITCH, 0, "keep-batch-norm", AT(keep_batch_norm),
      "with --format onnx: do not fold batch norms into convolutions" },
    { LS_SETTING_CHOICE, 0, "input", AT(input),
      "with --format onnx: f32 = normalised images [N,C,H,W]; bytes = images u8 [N,H,W,C], which "
      "the model normalises",
      "f32|bytes", .fallback = "f32" },
    { .kind = LS_SETTING_END },
};

static bool is_same_file(const char *a, const char *b)
{
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

enum { FORMAT_TORCH, FORMAT_ONNX };

static bool check_onnx_options(const cli_parsed *parsed, const export_values *v)
{
    static const char *const names[] = { "opset", "keep-batch-norm", "input" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && v->format != FORMAT_ONNX; i++)
        if (ls_given_has(&parsed->set, names[i]))
            return fail_with(false, "--%s has no effect here: it requires --format onnx", names[i]);
    return true;
}

/* What a checkpoint says about the preparation of images, and the loss, which tells logits of
 * classes from those of labels and from numbers. The export itself writes classes, mean and std. */
static const char *const keys[] = { "crop",   "resize", "resize_mode", "exif",
                                    "decode", "depth",  "alpha",       "loss" };
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

static int export_onnx(const export_values *v)
{
    ls_context *ctx = command_context();
    const ls_tensor_file *file = ls_tensor_file_open(ctx, v->checkpoint);
    /* of torchvision or another program; a program of Lockstep stores an identity */
    if (file && !ls_tensor_file_metadata(file, "model") &&
        !ls_tensor_file_metadata(file, "identity"))
        return fail_with(LS_EXIT_RUNTIME,
                         "%s: no 'model' in its metadata; --format onnx requires a checkpoint of "
                         "'lockstep train', and 'lockstep train --weights FILE' makes one of these "
                         "weights",
                         v->checkpoint);
    ls_saved_model *model = ls_saved_model_open(ctx, v->checkpoint);
    const char *metadata[2 * N_KEYS + 1] = { NULL };
    for (int i = 0, n = 0; i < N_KEYS && file; i++) {
        const char *value = ls_tensor_file_metadata(file, keys[i]);
        if (value) metadata[n++] = keys[i], metadata[n++] = value;
    }
    const ls_model_info info = ls_saved_model_info(model);
    ls_net *net = ls_saved_model_build(model, 1, LS_PRECISION_F32, false);
    const ls_onnx_config config = { .opset = (int)v->opset,
                                    .keep_batch_norm = v->keep_batch_norm,
                                    .input = (ls_onnx_input)v->input,
                                    .classes = info.classes,
                                    .n_classes = info.options.n_classes,
                                    .metadata = metadata };
    if (ls_onnx_export(net, &config, v->out) != LS_OK) return print_error(ctx, LS_EXIT_RUNTIME);
    print_text(stdout, "%s: %s, opset %lld\n", v->out, info.model->name, (long long)v->opset);
    return LS_EXIT_DONE;
}

static int run(const cli_parsed *parsed, void *values)
{
    export_values *v = values;
    if (!v->checkpoint || !v->out)
        return fail_with(LS_EXIT_USAGE, "--%s FILE is required",
                         v->checkpoint ? "out" : "checkpoint");
    if (!check_onnx_options(parsed, v)) return LS_EXIT_USAGE;
    char weights[PATH_MAX];
    if (ls_run_find_weights(v->checkpoint, weights, sizeof(weights))) v->checkpoint = weights;
    if (v->format == FORMAT_TORCH && ends_with(v->out, ".onnx"))
        return fail_with(LS_EXIT_USAGE,
                         "--out %s: expected a name that ends in .safetensors; for ONNX add "
                         "--format onnx",
                         v->out);
    if (!check_output_name("out", v->out, v->format == FORMAT_ONNX ? ".onnx" : ".safetensors"))
        return LS_EXIT_USAGE;
    if (ls_run_names_file(v->out))
        return fail_with(LS_EXIT_USAGE, "--out %s: a file of a run; expected another file", v->out);
    if (is_same_file(v->checkpoint, v->out))
        return fail_with(LS_EXIT_USAGE,
                         "--out %s is the file of --checkpoint, which it would replace", v->out);
    if (v->format == FORMAT_ONNX) return export_onnx(v);
    int64_t n;
    if (ls_checkpoint_export(command_context(), v->checkpoint, v->out, &n) != LS_OK)
        return print_error(command_context(), LS_EXIT_RUNTIME);
    print_text(stdout, "%s: %lld tensors\n", v->out, (long long)n);
    return LS_EXIT_DONE;
}

const cli_command command_export = {
    .name = "export",
    .summary = "write a checkpoint's weights for PyTorch, or its model as ONNX",
    .arguments = "",
    .details =
        "In Python: model.load_state_dict(safetensors.torch.load_file(FILE)) with torchvision's "
        "model of the same name and number of classes: those of docs/training.md that have 1000 "
        "classes, with three channels and, for ResNets, a large stem.",
    .values_bytes = sizeof(export_values),
    .options = options,
    .run = run,
};
