/* export.c: 'lockstep export': a checkpoint's weights for other programs. */
#include "cli.h"
#include "runs/model_file.h"
#include <limits.h>
#include <lockstep/run.h>
#include <sys/stat.h>

typedef struct export_values {
    const char *checkpoint, *out;
    int format;
} export_values;

#define AT(member) offsetof(export_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_TEXT, 0, "checkpoint", AT(checkpoint), "checkpoint: best.safetensors of a run",
      "FILE", .note = "required" },
    { LS_SETTING_CHOICE, 0, "format", AT(format),
      "torch = safetensors with torchvision's names and layouts", "torch", .fallback = "torch" },
    { LS_SETTING_TEXT, 0, "out", AT(out), "file to write", "FILE", .note = "required" },
    { .kind = LS_SETTING_END },
};

static bool is_same_file(const char *a, const char *b)
{
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

static int run(const cli_parsed *parsed, void *values)
{
    export_values *v = values;
    (void)parsed;
    if (!v->checkpoint || !v->out)
        return fail_with(LS_EXIT_USAGE, "--%s FILE is required",
                         v->checkpoint ? "out" : "checkpoint");
    char weights[PATH_MAX];
    if (ls_run_find_weights(v->checkpoint, weights, sizeof(weights))) v->checkpoint = weights;
    if (!check_output_name("out", v->out, ".safetensors")) return LS_EXIT_USAGE;
    if (ls_run_names_file(v->out))
        return fail_with(LS_EXIT_USAGE, "--out %s: a file of a run; expected another file", v->out);
    if (is_same_file(v->checkpoint, v->out))
        return fail_with(LS_EXIT_USAGE,
                         "--out %s is the file of --checkpoint, which it would replace", v->out);
    int64_t n;
    if (ls_checkpoint_export(command_context(), v->checkpoint, v->out, &n) != LS_OK)
        return print_error(command_context(), LS_EXIT_RUNTIME);
    print_text(stdout, "%s: %lld tensors\n", v->out, (long long)n);
    return LS_EXIT_DONE;
}

const cli_command command_export = {
    .name = "export",
    .summary = "write a checkpoint's weights for PyTorch",
    .arguments = "",
    .details =
        "In Python: model.load_state_dict(safetensors.torch.load_file(FILE)) with torchvision's "
        "model of the same name and number of classes: those of docs/training.md that have 1000 "
        "classes, with three channels and, for ResNets, a large stem.",
    .values_bytes = sizeof(export_values),
    .options = options,
    .run = run,
};
