/* eval.c: 'lockstep eval': a checkpoint's loss and accuracy on a folder of images. */
#include "cli.h"
#include "commands/eval_report.h"
#include "runs/model_file.h"
#include "terminal/events.h"
#include <lockstep/run.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_values {
    model_file file; /* first: see model_file_options */
    const char *data_dir, *device, *csv;
    ls_dataset_config data;
    int64_t batch, workers, threads, max_pixels;
    int on_bad_image, precision; /* ls_precision */
    bool per_class, test_time_flip, json;
} eval_values;

#define AT(member) offsetof(eval_values, member)
static const ls_setting options[] = {
    { LS_SETTING_TEXT, 0, "data-dir", AT(data_dir),
      "dataset: a pack, a folder with val/ (or validation/, test/), a folder of class "
      "folders, a CSV file, or a folder with MNIST's idx files; with --model the classes are its "
      "class folders, in the order of their names",
      "DIR", .note = "required" },
    DATA_OPTIONS(eval_values, data),
    { LS_SETTING_SWITCH, 0, "per-class", AT(per_class),
      "print the table of the classes, which models of at most 20 classes get anyway; with several "
      "labels the accuracy of each, with numbers the error of each" },
    { LS_SETTING_SWITCH, 0, "json", AT(json), "print all results as one JSON object" },
    { LS_SETTING_TEXT, 0, "csv", AT(csv), "also write the table of the classes to this CSV file",
      "FILE", .note = "none" },
    { LS_SETTING_SWITCH, 0, "test-time-flip", AT(test_time_flip), TEST_TIME_FLIP_HELP },
    { LS_SETTING_INTEGER, 'b', "batch-size", AT(batch), "images per batch", "N", 1, 1e5,
      .fallback = "128" },
    { LS_SETTING_INTEGER, 'j', "workers", AT(workers),
      "data-loader threads (PyTorch: num_workers); 0 = the main thread loads the images", "N", 0,
      256, .note = "one per processor, at most 8" },
    LIKE_RUN("on-bad-image", AT(on_bad_image), NULL),
    LIKE_RUN("max-pixels", AT(max_pixels), NULL),
    LIKE_RUN("device", AT(device), NULL),
    LIKE_RUN("precision", AT(precision), NULL),
    LIKE_RUN("threads", AT(threads), NULL),
    { .kind = LS_SETTING_END },
};

static int print_failure(ls_context *ctx, const eval_values *v, const ls_loader *loader,
                         ls_status status)
{
    if (status == LS_ERR_NONFINITE) return LS_EXIT_NONFINITE; /* the report has printed it */
    if (ls_loader_status(loader) == LS_OK) return print_error(ctx, LS_EXIT_RUNTIME);
    const int exit_status = print_loader_error(ctx, "batch");
    if (exit_status == LS_EXIT_DATA && v->on_bad_image == LS_BAD_IMAGE_FAIL)
        print_message("--on-bad-image skip replaces unreadable images by other images");
    return exit_status;
}

/* Of a model whose samples have targets. */
static int evaluate_targets(ls_context *ctx, const eval_values *v, const ls_model_info *info,
                            ls_loader *loader, ls_net *net, run_report *report)
{
    ls_averages result;
    target_report t;
    int exit_status = LS_EXIT_RUNTIME;
    progress_open(&report->progress, 0, ls_loader_step_count(loader));
    if (target_report_open(&t, report, info, net, v->batch)) {
        const ls_evaluate_config config = { .on_event = target_report_event, .user = &t };
        const ls_status status = ls_evaluate(net, loader, &config, &result);
        exit_status = status == LS_OK ? LS_EXIT_DONE : print_failure(ctx, v, loader, status);
        if (status == LS_OK) target_report_print(&t, &result, v->per_class);
    }
    target_report_close(&t);
    return exit_status;
}

/* The areas under the ROC curves need all probabilities: at most 64 MiB of them. */
static bool computes_auc(const ls_model_info *info, const ls_dataset *dataset)
{
    enum { MAX_PROBABILITIES = 1 << 24 };
    return ls_dataset_sample_count(dataset) <= MAX_PROBABILITIES / info->options.n_classes;
}

static int print_result(const eval_values *v, const ls_model_info *info, const ls_dataset *dataset,
                        const ls_averages *result, ls_evaluation *evaluation)
{
    if (v->csv && !eval_write_csv(evaluation, v->csv)) return LS_EXIT_RUNTIME;
    if (v->json)
        return eval_print_json(evaluation, dataset, result->loss) ? LS_EXIT_DONE : LS_EXIT_RUNTIME;
    print_text(stdout, "%s, %lld image%s: loss %.4f without label smoothing, top-1 %.4f",
               info->model->name, (long long)result->n_images, plural(result->n_images),
               result->loss, result->top1);
    if (info->options.n_classes > 5) print_text(stdout, ", top-5 %.4f", result->top5);
    print_text(stdout, "\n");
    eval_print_classes(evaluation, info, v->per_class, computes_auc(info, dataset));
    return LS_EXIT_DONE;
}

static int evaluate_net(ls_context *ctx, const eval_values *v, const ls_model_info *info,
                        ls_loader *loader, ls_net *net, run_report *report)
{
    ls_averages result;
    ls_evaluation *evaluation = ls_evaluation_open(
        ctx, &(ls_evaluation_config){ .n_classes = (int)info->options.n_classes,
                                      .classes = info->classes,
                                      .auc = computes_auc(info, report->val_data) });
    progress_open(&report->progress, 0, ls_loader_step_count(loader));
    const ls_evaluate_config config = { .on_event = report_event,
                                        .user = report,
                                        .test_time_flip = v->test_time_flip,
                                        .evaluation = evaluation };
    const ls_status status = ls_evaluate(net, loader, &config, &result);
    return status == LS_OK ? print_result(v, info, report->val_data, &result, evaluation)
                           : print_failure(ctx, v, loader, status);
}

/* Opens the images at --data-dir; model NULL: those of weights. Returns NULL with the error. */
static ls_dataset *open_images(ls_context *ctx, const eval_values *v, const ls_saved_model *model)
{
    ls_model_images images;
    ls_dataset *dataset = ls_dataset_open_for_model(ctx, v->data_dir, &v->data, model, &images);
    if (dataset && images.is_split && !v->json)
        print_text(stdout, "%s: %lld of %lld images, the validation split of --val-split\n",
                   v->data_dir, (long long)ls_dataset_sample_count(dataset),
                   (long long)images.n_all);
    if (images.is_other)
        print_message("%s: not the dataset that training split with --val-split; evaluating all "
                      "its images%s",
                      v->data_dir,
                      ls_path_kind_of(v->data_dir) == LS_PATH_LIST
                          ? "; a list is divided as in training with the columns of the training "
                            "alone"
                          : "");
    return dataset;
}

/* False, after a message, if an option has no effect with the model's loss. */
static bool fits_loss(const eval_values *v, ls_loss_kind loss)
{
    if (loss == LS_LOSS_CROSS_ENTROPY) return true;
    if (v->test_time_flip) return fail_with(false, "--test-time-flip is for models of classes");
    if (v->json || v->csv)
        return fail_with(false, "--%s is for models of classes", v->json ? "json" : "csv");
    return true;
}

static int evaluate(ls_context *ctx, const eval_values *v, const ls_saved_model *model,
                    ls_dataset *dataset)
{
    const ls_model_info info = ls_saved_model_info(model);
    if (!fits_loss(v, info.loss)) return LS_EXIT_USAGE;
    if (ls_dataset_check_missing(ctx, v->data_dir, dataset, (ls_bad_image)v->on_bad_image) != LS_OK)
        return print_error(ctx, LS_EXIT_DATA);
    ls_loader_config config = ls_model_info_loader_config(&info, v->batch);
    config.workers = (int)v->workers;
    config.on_bad_image = (ls_bad_image)v->on_bad_image;
    config.max_pixels = v->max_pixels;
    if (info.channels > ls_dataset_channel_count(dataset))
        return fail_with(LS_EXIT_DATA,
                         "%s: grey images of one channel; the model was trained on colour images",
                         v->data_dir);
    ls_loader *loader = ls_loader_open(dataset, &config);
    if (!loader) return print_error(ctx, LS_EXIT_DATA);
    run_report report = { .ctx = ctx, .val_data = dataset };
    ls_net *net = ls_saved_model_build(model, v->batch, (ls_precision)v->precision, true);
    if (!net) return print_error(ctx, LS_EXIT_RUNTIME);
    return info.loss != LS_LOSS_CROSS_ENTROPY
               ? evaluate_targets(ctx, v, &info, loader, net, &report)
               : evaluate_net(ctx, v, &info, loader, net, &report);
}

/* A model without stored classes has those of the dataset. */
static int evaluate_unnamed(ls_context *ctx, const eval_values *v)
{
    ls_dataset *dataset = open_images(ctx, v, NULL);
    if (!dataset) return print_error(ctx, LS_EXIT_DATA);
    if (ls_dataset_target_count(dataset) > 0)
        return fail_with(LS_EXIT_USAGE,
                         "--model is for images with one class; %s has several labels or numbers "
                         "for each",
                         v->data_dir);
    const int n = ls_dataset_class_count(dataset);
    const char **names = calloc((size_t)n + 1, sizeof(*names));
    if (!names) return print_error(NULL, LS_EXIT_RUNTIME);
    for (int i = 0; i < n; i++) names[i] = ls_dataset_class_name(dataset, i);
    const ls_saved_model *model = model_file_open(ctx, &v->file, n, names);
    const int exit_status = model ? evaluate(ctx, v, model, dataset) : LS_EXIT_RUNTIME;
    free(names);
    return exit_status;
}

static int evaluate_checkpoint(ls_context *ctx, const eval_values *v)
{
    const ls_saved_model *model = model_file_open(ctx, &v->file, 0, NULL);
    if (!model) return LS_EXIT_RUNTIME;
    ls_dataset *dataset = open_images(ctx, v, model);
    return dataset ? evaluate(ctx, v, model, dataset) : print_error(ctx, LS_EXIT_DATA);
}

static int run(const cli_parsed *parsed, void *values)
{
    eval_values *v = values;
    if (!v->file.path || !v->data_dir)
        return fail_with(LS_EXIT_USAGE, "--%s is required",
                         v->file.path ? "data-dir DIR" : "checkpoint FILE");
    if (!model_file_check(parsed, &v->file, NULL)) return LS_EXIT_USAGE;
    if (v->csv && !check_output_name("csv", v->csv, ".csv")) return LS_EXIT_USAGE;
    if (v->csv && ls_run_names_file(v->csv))
        return fail_with(LS_EXIT_USAGE, "--csv %s: a file of the run; expected another file",
                         v->csv);
    if (!ls_given_has(&parsed->set, "workers")) v->workers = ls_default_worker_count();
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = v->device, .threads = (int)v->threads, .log = print_log });
    const int exit_status = v->file.model ? evaluate_unnamed(ctx, v) : evaluate_checkpoint(ctx, v);
    ls_context_close(&ctx);
    return exit_status;
}

const cli_command command_eval = {
    .name = "eval",
    .summary = "evaluate a checkpoint on images",
    .arguments = "",
    .details =
        "With --on-bad-image skip, loss and accuracy include the images that replace unreadable "
        "ones.\n"
        "The loss is the cross-entropy without label smoothing and class weights. With the "
        "training's -b it is the validation loss of a training without these to the last bit; with "
        "another one its last digits may differ.",
    .values_bytes = sizeof(eval_values),
    .options = options,
    .shared = model_file_options,
    .run = run,
};
