/* cli.h: what the commands share. */
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include "options/options.h"
#include "terminal/print.h"
#include <lockstep/lockstep.h>
#include <lockstep/models.h>
#include <signal.h>
#include <stdio.h>

/* The sides of --image-size. */
enum { MIN_IMAGE_SIZE = 8, MAX_IMAGE_SIZE = 4096 };

/* The default of --max-pixels, for help texts. */
#define MAX_PIXELS_NOTE "89478485"
_Static_assert(LS_DEFAULT_MAX_PIXELS == 89478485, "help texts give the library's default");

/* In the order of ls_precision. */
#define PRECISION_NAMES "f32|tf32|bf16|f16"

/* Help of options that several commands have. */
#define ALPHA_HELP                                                                                 \
    "transparent pixels: white, black = composed on that colour; ignore = the stored colour"
#define BENCHMARK_HELP "select kernels by timing them before the first step"
#define DEPTH_HELP                                                                                 \
    "bits that the samples of PNG and PNM files of 16 bits use, such as 12 for X-rays; larger "    \
    "samples are white"
#define DETERMINISTIC_HELP                                                                         \
    "kernels: strict = deterministic only; warn = a warning where an op has none; off = any "      \
    "kernel"
#define DEVICE_HELP     "device: cpu, cuda, cuda:1, ..., or auto"
#define IMAGE_SIZE_HELP "height and width of the model's input in pixels; N = a square"
#define MAX_PIXELS_HELP                                                                            \
    "maximum number of pixels of an image; larger images are treated as unreadable"
#define ON_BAD_IMAGE_HELP "unreadable images: fail = stop, skip = replace each by another image"
#define TEST_TIME_FLIP_HELP                                                                        \
    "average the class probabilities of each image and its mirror image; takes twice the time"
#define PRECISION_HELP                                                                             \
    "data type of matrix multiplications and convolutions; bf16 and f16 also store activations "   \
    "in that type; tf32 requires CUDA"
#define RESIZE_HELP                                                                                \
    "images of other shapes than --image-size: crop = the sides are cut off; pad = the whole "     \
    "image, with borders of the mean colour; stretch = the whole image, distorted"
#define SHORTCUTS_HELP "zero-padded shortcuts in place of 1x1 convolutions where the shape changes"
#define STEM_HELP                                                                                  \
    "first layer: small = 3x3 convolution, large = 7x7 convolution and max pooling, auto = by "    \
    "model and image size"
#define WEIGHTS_KEY_HELP                                                                           \
    "where the file has the weights: a key, such as model_ema, or a prefix of the names"
#define THREADS_HELP "number of compute threads"

/* The column that the library's message about a list takes for that of the classes, if it names
 * one. */
enum { COLUMN_SIZE = 128 };
bool guessed_column(const char *message, char column[COLUMN_SIZE]);

/* A message of the library without the name of the call that it may begin with, "ls_net_build:
 * ". */
const char *plain_message(const char *message);

/* The limit of the process or system that an error's text ends with, " (file size limit: ulimit
 * -f)" after "File too large", or "". */
const char *limit_hint(const char *message);
/* Closes a file that was written. If some of it was not, prints why, after `name`, and returns
 * false. */
bool close_output(FILE *file, const char *name);

/* If the message is about an image with more pixels than the limit, prints the option that raises
 * it. */
void print_pixels_hint(const char *message);

/* Prints the context's error (ctx NULL: no memory), clears it and returns `answer`. Returns
 * EXIT_RUNTIME in place of EXIT_DATA when memory, threads, file handles or the device failed, not
 * the images. */
int print_error(ls_context *ctx, int answer);
/* As print_error for EXIT_DATA. A loader's error gives its place counted from 0; this prints `pass`
 * and the step counted from 1 instead: "epoch 3, step" gives "epoch 3, step 8", of several ranks
 * "rank 1: epoch 3, step 8". pass NULL: the message as it is. */
int print_loader_error(ls_context *ctx, const char *pass);

/* Reads the value of LOCKSTEP_LOG: levels of messages, "error", "warn" or "info", for all
 * categories or for one, with commas between: "warn,net=info". NULL is "warn". On failure prints
 * the reason and returns false. */
bool log_levels_read(const char *text);
/* For ls_context_config.log: to stderr, unless the category's level is lower. */
void print_log(void *user, ls_log_level level, ls_log_category category, const char *message);

/* A bundled model. If there is none of that name, prints the most similar name and returns NULL. */
const ls_model *find_model(const char *name);
/* Both write a list for the help of options: the bundled models, and those with dropout, each with
 * its default. */
void list_models(char *out, size_t size);
void list_dropouts(char *out, size_t size);
/* Prints an error and returns false if an option of ResNets alone is given for another model. */
bool check_resnet_options(const cli_parsed *parsed, const ls_model *model);

/* Installs a handler, during which all n signals are blocked. A signal that the process inherited
 * as ignored stays ignored: shells ignore SIGINT for background processes, nohup ignores SIGHUP. */
void handle_signals(int n, const int *numbers, void (*handler)(int number));

/* Catches SIGINT, SIGTERM and SIGHUP. The first one sets caught_signal, on which the command saves
 * and ends. Further ones are ignored for one second; after that the next one ends the process.
 * Signals that the process inherited as ignored stay ignored. SIGPIPE is ignored: if the reader of
 * the output ends, the work continues, and main reports the lost output. */
void catch_signals(void);
extern volatile sig_atomic_t caught_signal; /* 0: none */

/* False after printing an error, unless the name of an output file ends in `ending` (".html"): so a
 * wrong name does not replace a checkpoint. A path that is no regular file, such as /dev/stdout,
 * may have any name. */
/* The weights of a run's folder: its best.safetensors, else last.safetensors, as a path in
 * `buffer`. Other paths are returned as they are. */
enum { WEIGHTS_PATH_SIZE = 4096 };
const char *weights_of(const char *path, char buffer[WEIGHTS_PATH_SIZE]);
bool check_output_name(const char *option, const char *path, const char *ending);

/* Prints a command line for the user: "LABEL: build/lockstep COMMAND WORD...", with the launcher of
 * this process before it if the command is "train". The words end with NULL, and are quoted for a
 * shell. With --quiet prints nothing on stdout. */
void print_command(FILE *out, const char *label, ...) __attribute__((sentinel));
/* The same with the words in an array that ends with NULL. */
void print_command_words(FILE *out, const char *label, const char *const *words);
/* The same without label and newline, for files. */
void print_command_line(FILE *out, const char *const *words);

/* The names of what differs, of "batch", "loss", "gradients" and "weights". Returns how many. */
enum { N_DIGESTS = 4 };
int differing_digests(const ls_run_log_difference *d, const char *names[N_DIGESTS]);

/* The end of a plural: "1 step", "2 steps". */
const char *plural(int64_t n);

bool file_exists(const char *path);
bool is_folder(const char *path);
/* A regular one; false for NULL. */
bool is_file(const char *path);

/* CPUs that this process may use. */
int processor_count(void);

/* Data-loader workers without --workers: one per CPU that this process may use, at most 8. */
int default_workers(void);

extern const cli_command command_train, command_sweep, command_eval, command_predict,
    command_describe, command_compare, command_repro, command_plot, command_pack, command_export,
    command_demo_data, command_augment, command_check, command_lr_find, command_report,
    command_completion, command_man;
/* The list of all commands, for those that describe them; NULL ends it. */
void set_commands(const cli_command *const *list);
const cli_command *command_at(int i);

#endif
