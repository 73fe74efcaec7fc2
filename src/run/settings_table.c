/* settings_table.c: the table of the settings of a run. */
#include "run/settings.h"
#include <stdio.h>

_Static_assert(LS_DEFAULT_MAX_PIXELS == 89478485, "the note of max-pixels gives the default");

/* For the help text: the models with dropout, each with its default. */
static void list_dropouts(char *out, size_t size)
{
    const ls_model *model;
    size_t n = 0;
    for (int i = 0; (model = ls_model_at(i)) && n < size; i++)
        if (model->dropout >= 0)
            n += (size_t)snprintf(out + n, size - n, "%s%s: %g", n ? ", " : "", model->name,
                                  model->dropout);
}

#define AT(member) offsetof(ls__run_settings, member)

const ls_setting ls__run_settings_table[] = {
    { LS_SETTING_HEADING, .help = "Recipe:" },
    { LS_SETTING_CHOICE, 0, "recipe", AT(preset),
      "values for options that are not given: cifar = small images, imagenet = torchvision's "
      "reference, finetune = photographs from --weights, small = few photographs",
      "none|cifar|imagenet|finetune|small", .fallback = "none", .images = true, .usual = true },

    { LS_SETTING_HEADING, .help = "Data:" },
    { LS_SETTING_TEXT, 0, "data-dir", AT(data_dir),
      "dataset: a pack, or a folder with train/ and val/ (or validation/, test/) that hold "
      "one folder per class, or a folder with MNIST's four idx files, or a "
      "CSV file of paths and labels or numbers",
      "DIR", .note = "required", .execution = true, .images = true, .usual = true },
    { LS_SETTING_TEXT, 0, "csv-columns", AT(data.csv_columns),
      "columns of CSV lists by name or number: path=NAME,label=NAME,split=NAME,group=NAME; those "
      "that are left out are recognized",
      "COLUMNS", .note = "recognized", .images = true },
    { LS_SETTING_TEXT, 0, "image-root", AT(data.image_root),
      "folder that the relative paths of CSV lists begin in", "DIR", .note = "that of the list",
      .execution = true, .images = true },
    { LS_SETTING_TEXT, 0, "label-pattern", AT(data.label_pattern),
      "the class of an image is what the group of this POSIX extended regular expression "
      "matches in its path below the folder: '([a-z]+)[.][0-9]+' for cat.12.jpg",
      "REGEX", .note = "none: class folders", .images = true },
    { LS_SETTING_TEXT, 0, "group-column", AT(data.group_column),
      "column of a CSV list, such as 'patient': images with the same field stay together in "
      "--val-split; given validation images are checked for it",
      "NAME", .note = "none", .images = true },
    { LS_SETTING_TEXT, 0, "group-pattern", AT(data.group_pattern),
      "images stay together if the group of this regular expression matches the same text "
      "in their paths: '(patient[0-9]+)_'; as --group-column",
      "REGEX", .note = "none", .images = true },
    { LS_SETTING_SWITCH, 0, "no-val", AT(no_val),
      "train without validation; DIR may also hold the class folders themselves", .usual = true },
    { LS_SETTING_NUMBER, 0, "val-split", AT(val_split),
      "validate on this fraction of each class's training images, and train on the others; DIR "
      "holds "
      "train/ without val/, or the class folders themselves",
      "X", 0.001, 0.999, .note = "off", .images = true, .usual = true },
    { LS_SETTING_INTEGER, 0, "val-split-seed", AT(val_split_seed),
      "seed of --val-split, independent of --seed", "S", 0, 9e18, .fallback = "0", .images = true },
    { LS_SETTING_SIZE, 0, "image-size", AT(image_size),
      "height and width of the model's input in pixels; N = a square", "HxW", LS__MIN_IMAGE_SIZE,
      LS__MAX_IMAGE_SIZE, .note = "28, 32 or 224, depending on the model", .images = true,
      .usual = true },
    { LS_SETTING_CHOICE, 0, "resize", AT(resize_mode),
      "images of other shapes than --image-size: crop = the sides are cut off; pad = the whole "
      "image, with borders of the mean colour; stretch = the whole image, distorted",
      "crop|pad|stretch", .fallback = "crop", .images = true, .usual = true },
    { LS_SETTING_INTEGER, 'j', "workers", AT(workers),
      "data-loader threads (PyTorch: num_workers); 0 = the training thread loads the images", "N",
      0, 256, .note = "one per processor, at most 8", .execution = true, .images = true,
      .usual = true },
    { LS_SETTING_CHOICE, 0, "on-bad-image", AT(on_bad_image),
      "unreadable images: fail = stop, skip = replace each by another image", "fail|skip",
      .fallback = "fail", .lasting = true, .images = true, .usual = true },
    { LS_SETTING_INTEGER, 0, "max-pixels", AT(max_pixels),
      "maximum number of pixels of an image; larger images are treated as unreadable", "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = "89478485", .implied = LS_DEFAULT_MAX_PIXELS, .images = true },
    { LS_SETTING_SWITCH, 0, "exif", AT(exif), "apply the EXIF orientation", .images = true,
      .usual = true },
    { LS_SETTING_SWITCH, 0, "grey", AT(grey),
      "convert images to grey, for a model with one input channel", .images = true },
    { LS_SETTING_CHOICE, 0, "alpha", AT(alpha),
      "transparent pixels: white, black = composed on that colour; ignore = the stored colour",
      "white|black|ignore", .fallback = "white", .images = true },
    { LS_SETTING_INTEGER, 0, "depth", AT(depth),
      "bits that the samples of PNG and PNM files of 16 bits use, such as 12 for X-rays; larger "
      "samples are white",
      "BITS", 9, 16, .note = "16", .implied = 16, .images = true },
    { LS_SETTING_CHOICE, 0, "decode", AT(decode),
      "JPEG decoding: exact = full size; fast = large images at 1/2, 1/4 or 1/8, with different "
      "pixels",
      "exact|fast", .fallback = "exact", .images = true },
    { LS_SETTING_SWITCH, 0, "digest-contents", AT(digest_contents),
      "include the bytes of all files in the dataset's digest, not only their names and sizes",
      .whole_run = true },

    { LS_SETTING_CHOICE, 0, "sampler", AT(sampler),
      "images of an epoch: all = each once; balanced = each class equally often", "all|balanced",
      .fallback = "all", .images = true },

    { LS_SETTING_HEADING, .help = "Augmentation:" },
    { LS_SETTING_NUMBER, 0, "flip", AT(flip), "probability of a horizontal flip", "P", 0, 1,
      .fallback = "0.5", .images = true },
    { LS_SETTING_NUMBER, 0, "vertical-flip", AT(vertical_flip), "probability of a vertical flip",
      "P", 0, 1, .fallback = "0", .images = true },
    { LS_SETTING_INTEGER, 0, "crop-padding", AT(crop_padding),
      "zero padding in pixels before the random crop (--image-size below 64)", "N", 0, 64,
      .note = "4; --resize pad: 0", .images = true },
    { LS_SETTING_NUMBER, 0, "scale-min", AT(scale_min),
      "minimum area of the random resized crop, as a fraction of the image (--image-size of 64 or "
      "more)",
      "X", 0.01, 1, .note = "0.35; --resize pad: 1", .images = true },
    { LS_SETTING_CHOICE, 0, "auto-augment", AT(auto_augment),
      "random ops: trivial = TrivialAugmentWide; rand = RandAugment, two ops at magnitude 9",
      "none|trivial|rand", .fallback = "none", .images = true, .usual = true },
    { LS_SETTING_NUMBER, 0, "brightness", AT(brightness),
      "random brightness factor from 1 - X to 1 + X", "X", 0, 255, .fallback = "0",
      .images = true },
    { LS_SETTING_NUMBER, 0, "contrast", AT(contrast), "random contrast factor from 1 - X to 1 + X",
      "X", 0, 255, .fallback = "0", .images = true },
    { LS_SETTING_NUMBER, 0, "saturation", AT(saturation),
      "random saturation factor from 1 - X to 1 + X", "X", 0, 255, .fallback = "0",
      .images = true },
    { LS_SETTING_NUMBER, 0, "hue", AT(hue),
      "random rotation of the hue by up to X of a full circle", "X", 0, 0.5, .fallback = "0",
      .images = true },
    { LS_SETTING_NUMBER, 0, "random-erase", AT(random_erase),
      "probability that a random box is replaced by the mean colour", "P", 0, 1, .fallback = "0",
      .images = true },
    { LS_SETTING_NUMBER, 0, "mixup-alpha", AT(mixup_alpha),
      "blend each image and its class with another one of the batch, with a weight from Beta(A, "
      "A); with --cutmix-alpha too, each batch uses one of the two; 0 = off",
      "A", 0, 1000, .fallback = "0", .images = true, .usual = true },
    { LS_SETTING_NUMBER, 0, "cutmix-alpha", AT(cutmix_alpha),
      "replace a box of each image by that of another one of the batch, with an area from Beta(A, "
      "A), and mix their classes by area; 0 = off",
      "A", 0, 1000, .fallback = "0", .images = true },
    { LS_SETTING_CHOICE, 0, "seeding", AT(seeding),
      "seeding of the random augmentation: sample = by sample; worker = by worker, as in "
      "PyTorch, so that the result depends on --workers",
      "sample|worker", .fallback = "sample", .images = true },

    { LS_SETTING_HEADING, .help = "Model:" },
    { LS_SETTING_TEXT, 0, "model", AT(model), "model", "NAME", .fallback = "resnet20",
      .list = ls_model_list, .images = true, .usual = true },
    { LS_SETTING_CHOICE, 0, "stem", AT(stem),
      "first layer: small = 3x3 convolution, large = 7x7 convolution and max pooling, auto = by "
      "model and image size",
      "auto|small|large", .fallback = "auto" },
    { LS_SETTING_SWITCH, 0, "parameter-free-shortcuts", AT(parameter_free_shortcuts),
      "zero-padded shortcuts in place of 1x1 convolutions where the shape changes" },
    { LS_SETTING_SWITCH, 0, "zero-init-residual", AT(zero_init_residual),
      "initialize the weight of the last batch norm in each block with 0" },
    { LS_SETTING_NUMBER, 0, "dropout", AT(dropout), "probability of the model's dropout layers",
      "P", 0, 0.9999, .list = list_dropouts, .note = "that of the model" },
    { LS_SETTING_TEXT, 0, "weights", AT(weights),
      "begin with these weights: a checkpoint, a safetensors file or a PyTorch file (.pt, .pth) "
      "with torchvision's or timm's names",
      "FILE", .note = "random", .usual = true },
    { LS_SETTING_TEXT, 0, "weights-key", AT(weights_key),
      "with --weights: where the file has the weights: a key, such as model_ema, or a prefix of "
      "the names",
      "KEY", .note = "found" },
    { LS_SETTING_SWITCH, 0, "new-head", AT(new_head),
      "with --weights: begin with a random last layer, for other classes than those of the file",
      .usual = true },
    { LS_SETTING_TEXT, 0, "freeze", AT(freeze),
      "do not train parameters whose names match a pattern, such as 'conv1.*,bn1.*,layer[12].*'; "
      "batch norms whose weight and bias are frozen use their running statistics",
      "PATTERN,...", .note = "none" },

    { LS_SETTING_HEADING, .help = "Optimization:" },
    { LS_SETTING_INTEGER, 0, "epochs", AT(epochs), "passes over the training images", "N", 1, 1e5,
      .fallback = "30", .lasting = true, .usual = true, .whole_run = true },
    { LS_SETTING_INTEGER, 'b', "batch-size", AT(batch), "images per step", "N", 1, 1e5,
      .fallback = "128", .usual = true },
    { LS_SETTING_INTEGER, 0, "shards", AT(shards),
      "cut each batch into N parts, each with its own batch norm statistics, whose gradients are "
      "added in a fixed order; the batch size must be a multiple of N; 'mpirun -n R lockstep train "
      "--shards N' trains with R processes",
      "N", 1, 65536, .fallback = "1", .usual = true },
    { LS_SETTING_SWITCH, 0, "sync-batch-norm", AT(sync_batch_norm),
      "with --shards: batch norms use the statistics of the whole batch; requires the memory of "
      "all shards" },
    { LS_SETTING_INTEGER, 0, "accumulate", AT(accumulate),
      "gradient accumulation: update after every N steps, and at the end of an epoch, with the "
      "mean of their gradients",
      "N", 1, 1e5, .fallback = "1" },
    { LS_SETTING_CHOICE, 0, "opt", AT(optimizer), "optimizer", "sgd|adam|adamw|rmsprop",
      .fallback = "sgd", .usual = true },
    { LS_SETTING_NUMBER, 0, "lr", AT(lr), "maximum learning rate of the schedule", "X", 1e-12, 1e3,
      .note = "sgd: 0.1 x images per update / 128; others: 0.001", .usual = true, .whole_run = true,
      .excludes = "lr-per-256" },
    { LS_SETTING_NUMBER, 0, "lr-per-256", AT(lr_per_256),
      "instead of --lr: the maximum learning rate is X x images per update / 256, which are batch "
      "size x --accumulate",
      "X", 1e-12, 1e3, .note = "none", .whole_run = true, .excludes = "lr" },
    { LS_SETTING_NUMBER, 0, "momentum", AT(momentum), "momentum of sgd and rmsprop", "X", 0, 0.9999,
      .note = "sgd: 0.9; rmsprop: 0" },
    { LS_SETTING_SWITCH, 0, "nesterov", AT(nesterov), "use Nesterov momentum" },
    { LS_SETTING_NUMBER, 0, "weight-decay", AT(weight_decay),
      "weight decay (not applied to biases and batch norms)", "X", 0, 10,
      .note = "sgd: 0.0005; adam, rmsprop: 0; adamw: 0.01", .usual = true },
    { LS_SETTING_TEXT, 0, "param-groups", AT(groups),
      "parameters with their own learning rate or weight decay: PATTERN:lr-scale=X,weight-decay=X, "
      "separated by spaces; a parameter belongs to the last group whose pattern (* ? [..]) matches "
      "its name",
      "GROUPS", .note = "none" },
    { LS_SETTING_CHOICE, 0, "loss", AT(loss),
      "loss: cross-entropy = one class per image; bce = binary cross-entropy, for CSV files with "
      "the column 'labels'; mse = mean squared error, for CSV files with columns 'target'",
      "cross-entropy|bce|mse", .fallback = "cross-entropy" },
    { LS_SETTING_NUMBER, 0, "label-smoothing", AT(label_smoothing),
      "label smoothing; 0 with bce and mse", "X", 0, 0.99, .fallback = "0.1", .usual = true },
    { LS_SETTING_CHOICE, 0, "class-weights", AT(class_weights),
      "weights of the classes in the loss: none = 1 for each; balanced = by the inverse number of "
      "their training images",
      "none|balanced", .fallback = "none", .usual = true },
    { LS_SETTING_NUMBER, 0, "clip-grad-norm", AT(clip_norm),
      "maximum norm of the gradients; 0 = no limit", "X", 0, 1e9, .fallback = "0" },
    { LS_SETTING_NUMBER, 0, "clip-value", AT(clip_value),
      "maximum absolute value of each gradient element, after --clip-grad-norm; 0 = no limit", "X",
      0, 1e9, .fallback = "0" },
    { LS_SETTING_NUMBER, 0, "model-ema", AT(ema_decay),
      "decay of exponential moving averages of the weights, which are validated and saved as the "
      "best weights; 0 = none",
      "D", 0, 0.9999999, .fallback = "0", .usual = true, .whole_run = true },
    { LS_SETTING_CHOICE, 0, "metric", AT(metric),
      "validation metric that decides which epoch has the best weights, also for --patience and "
      "plateau: macro_recall and macro_f1 are means over the classes, for unequal numbers of "
      "images; auc = mean area under the ROC curves; cross_entropy = the loss without label "
      "smoothing and class weights; bce and mse have the loss",
      LS__METRIC_NAMES, .fallback = "top1", .usual = true, .whole_run = true },
    { LS_SETTING_INTEGER, 0, "patience", AT(patience),
      "stop after N epochs without a better --metric, or an equal one with a lower loss", "N", 1,
      1e5, .note = "off", .usual = true, .whole_run = true },

    { LS_SETTING_HEADING, .help = "Learning rate schedule:" },
    { LS_SETTING_CHOICE, 0, "lr-scheduler", AT(schedule), "learning rate schedule",
      "cosine|constant|step|exponential|polynomial|onecycle|plateau|multistep|cosine-restarts",
      .fallback = "cosine", .usual = true, .whole_run = true },
    { LS_SETTING_INTEGER, 0, "lr-warmup-epochs", AT(warmup_epochs),
      "warm-up epochs, in which the learning rate increases to its maximum", "N", 0, 1e5,
      .note = "epochs / 10, at least 1; 0 with one epoch or onecycle", .whole_run = true },
    { LS_SETTING_NUMBER, 0, "lr-min", AT(min_lr),
      "minimum learning rate (cosine, cosine-restarts, polynomial, plateau)", "X", 0, 1e3,
      .note = "0", .whole_run = true },
    { LS_SETTING_INTEGER, 0, "lr-step-size", AT(step_size), "epochs between two decays (step)", "N",
      1, 1e5, .note = "30", .whole_run = true },
    { LS_SETTING_TEXT, 0, "lr-milestones", AT(milestones),
      "epochs before which the learning rate decays, counted from the end of the warm-up "
      "(multistep)",
      "N,N,...", .note = "required by multistep", .whole_run = true },
    { LS_SETTING_INTEGER, 0, "lr-restart-epochs", AT(restart_epochs),
      "length of the first cosine (cosine-restarts); PyTorch: T_0", "N", 1, 1e5, .note = "10",
      .whole_run = true },
    { LS_SETTING_INTEGER, 0, "lr-restart-mult", AT(restart_mult),
      "length of each cosine relative to the one before it (cosine-restarts); PyTorch: T_mult", "N",
      1, 1e5, .note = "2", .whole_run = true },
    { LS_SETTING_NUMBER, 0, "lr-gamma", AT(gamma),
      "decay factor (step, multistep, exponential, plateau)", "X", 1e-6, 1,
      .note = "0.1; exponential: 0.95", .whole_run = true },
    { LS_SETTING_CHOICE, 0, "plateau-metric", AT(plateau_loss),
      "metric that must improve: validation top-1 or loss, or without validation that of training "
      "(plateau); --metric where that is another one",
      "top1|loss", .fallback = "top1", .whole_run = true },
    { LS_SETTING_NUMBER, 0, "lr-power", AT(power), "exponent (polynomial)", "X", 0.01, 100,
      .note = "1", .whole_run = true },

    { LS_SETTING_HEADING, .help = "Execution:" },
    { LS_SETTING_TEXT, 0, "device", AT(device), "device: cpu, cuda, cuda:1, ..., or auto", "NAME",
      .fallback = "cpu", .usual = true },
    { LS_SETTING_CHOICE, 0, "precision", AT(precision),
      "data type of matrix multiplications and convolutions; bf16 and f16 also store activations "
      "in that type; tf32 requires CUDA",
      "f32|tf32|bf16|f16", .fallback = "f32", .usual = true },
    { LS_SETTING_INTEGER, 0, "threads", AT(threads), "number of compute threads", "N", 0, 1024,
      .note = "one per processor", .execution = true, .usual = true },
    { LS_SETTING_NUMBER, 0, "rank-timeout", AT(rank_timeout),
      "seconds after which a rank that waits for another one fails, if mpirun or srun started "
      "several",
      "S", 0.1, 1e6, .fallback = "600", .execution = true, .whole_run = true },
    { LS_SETTING_SWITCH, 0, "partition-optimizer", AT(partition_optimizer),
      "with several ranks: each holds the optimizer's states of its part of the parameters only: "
      "less memory, more bytes between ranks",
      .execution = true, .whole_run = true },
    { LS_SETTING_INTEGER, 0, "audit-every", AT(audit_every),
      "with several ranks: in every N-th step of an epoch each recomputes a shard of another rank, "
      "and stops if a bit differs: finds faulty processors and memory; 0 = never",
      "N", 0, 1e9, .fallback = "0", .execution = true, .whole_run = true },
    { LS_SETTING_CHOICE, 0, "deterministic", AT(deterministic),
      "kernels: strict = deterministic only; warn = a warning where an op has none; off = any "
      "kernel",
      "strict|warn|off", .fallback = "strict" },
    { LS_SETTING_CHOICE, 0, "arithmetic", AT(arithmetic),
      "kernels on the CPU: portable = the same results on every processor; native = in bf16 also "
      "those of oneDNN, which are faster where the processor multiplies bf16",
      "portable|native", .fallback = "portable", .lasting = true },
    { LS_SETTING_SWITCH, 0, "benchmark", AT(benchmark),
      "select kernels by timing them before the first step (on a GPU, or with --arithmetic "
      "native)" },
    { LS_SETTING_TEXT, 0, "algorithm-cache", AT(algorithm_cache),
      "algorithm cache file of a new run: read if it exists; with --benchmark, written after "
      "timing",
      "FILE", .note = "none" },
    { LS_SETTING_SWITCH, 0, "nvtx", AT(nvtx),
      "run op by op with a named NVTX range for each, for NVIDIA's profilers; CUDA only",
      .execution = true, .whole_run = true },

    { LS_SETTING_HEADING, .help = "Run:" },
    { LS_SETTING_INTEGER, 0, "seed", AT(seed), "random seed", "S", 0, 9e18, .fallback = "0",
      .images = true, .usual = true },
    { LS_SETTING_INTEGER, 0, "steps", AT(steps),
      "complete the run after N steps; the learning rate schedule still covers --epochs", "N", 1,
      1e12, .note = "all epochs", .execution = true, .whole_run = true },
    { LS_SETTING_INTEGER, 0, "stop-at", AT(stop_at),
      "save and interrupt the run after N steps, as a signal would; --resume RUN continues it", "N",
      1, 1e12, .note = "none", .execution = true, .session = true, .whole_run = true },
    { LS_SETTING_TEXT, 0, "inject-fault", AT(fault),
      "add one ulp to one element of one op's output in one step, to test 'lockstep compare'; "
      "OP is KIND@NAME, such as linear@fc, or a number",
      "STEP:OP:ELEMENT", .note = "none", .execution = true, .session = true, .whole_run = true },

    { LS_SETTING_HEADING, .help = "Output and checkpoints:" },
    { LS_SETTING_TEXT, 0, "out", AT(out), "new folder for the run", "RUN",
      .note = "run, or run-2, run-3, ...", .execution = true, .session = true, .usual = true,
      .whole_run = true },
    { LS_SETTING_INTEGER, 0, "checkpoint-every", AT(checkpoint_every),
      "save every N steps, and after each epoch", "N", 1, 1e12, .note = "after each epoch",
      .execution = true, .whole_run = true },
    { LS_SETTING_SWITCH, 0, "keep-checkpoints", AT(keep_checkpoints),
      "keep each checkpoint as checkpoint-STEP.safetensors", .execution = true, .whole_run = true },
    { LS_SETTING_CHOICE, 0, "tensorboard", AT(tensorboard),
      "event files for TensorBoard in RUN: scalars = losses, accuracies, learning rate, images/s; "
      "all = also images of the first batch, and after each epoch histograms of the weights and "
      "gradients; none = no event files",
      "scalars|all|none", .fallback = "scalars", .execution = true, .whole_run = true },
    { LS_SETTING_INTEGER, 0, "log-every", AT(log_every), "steps between two steps in event files",
      "N", 1, 1e12, .fallback = "50", .execution = true, .whole_run = true },
    { LS_SETTING_SWITCH, 0, "no-report", AT(no_report),
      "do not write report.html, first_batch.jpg and evaluation.json", .execution = true,
      .whole_run = true },
    { LS_SETTING_TEXT, 0, "resume", AT(resume), "resume the run in this folder", "RUN",
      .note = "none", .execution = true, .session = true, .usual = true, .whole_run = true },
    { LS_SETTING_SWITCH, 0, "force", AT(force),
      "resume although dataset, kernels, libraries or processor differ", .execution = true,
      .session = true, .whole_run = true },
    { .kind = LS_SETTING_END },
};
