/* cli.h: what the verbs share. */
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include "options.h"
#include "print.h"
#include <lockstep/lockstep.h>
#include <lockstep/models.h>
#include <signal.h>
#include <stdio.h>

/* Exit statuses; that of a signal is 128 + its number. */
enum {
    EXIT_DONE = 0,
    EXIT_RUNTIME = 1,   /* anything but the following */
    EXIT_USAGE = 2,     /* the command line */
    EXIT_DATA = 3,      /* the images */
    EXIT_NONFINITE = 4, /* the loss became infinite or not a number */
    EXIT_SIGNAL = 128
};

/* Square images up to this side. */
enum { MAX_IMAGE_SIZE = 4096 };

/* LS_DEFAULT_MAX_PIXELS, for help texts. */
#define MAX_PIXELS      89478485
#define TEXT_OF_(x)     #x
#define TEXT_OF(x)      TEXT_OF_(x)
#define MAX_PIXELS_NOTE TEXT_OF(MAX_PIXELS)
_Static_assert(MAX_PIXELS == LS_DEFAULT_MAX_PIXELS, "help texts name the library's default");

/* In the order of ls_precision. */
#define PRECISION_NAMES "f32|tf32|bf16|f16"
#define MODEL_NAMES     "resnet20, 32, 44, 56, 110 or resnet18, 34, 50, 101, 152"

/* Help of options that several verbs have. */
#define BENCHMARK_HELP     "select kernels by timing them before the first step"
#define DETERMINISTIC_HELP "refuse, warn about or allow kernels whose results vary between runs"
#define DEVICE_HELP        "device: cpu, cuda, cuda:1, ..., or auto"
#define MAX_PIXELS_HELP    "most pixels of an image; a larger image counts as unreadable"
#define ON_BAD_IMAGE_HELP  "stop at an unreadable image, or replace it with another image"
#define PRECISION_HELP                                                                             \
    "number type of products, with bf16 and f16 also of activations; tf32 on CUDA devices only"
#define SHORTCUTS_HELP "zero-padded shortcuts in place of 1x1 convolutions where the shape changes"
#define STEM_HELP      "first layer: small = 3x3 convolution, large = 7x7 and max pooling"
#define THREADS_HELP   "CPU threads that compute"

/* A message of the library without the name of the call that it may begin with, "ls_net_build:
 * ". */
const char *plain_message(const char *message);

/* The limit of the process or system that an error's text ends with, " (file size limit: ulimit
 * -f)" after "File too large", or "". */
const char *limit_hint(const char *message);

/* If the message is about an image with more pixels than the limit, prints the option that raises
 * it. */
void print_pixels_hint(const cli_verb *verb, const char *message);

/* Prints the context's error (ctx NULL: no memory), clears it and returns `answer`. Returns
 * EXIT_RUNTIME in place of EXIT_DATA when memory, threads, file handles or the device failed, not
 * the images. */
int print_error(const cli_verb *verb, ls_context *ctx, int answer);
/* As print_error for EXIT_DATA. A loader's error gives its place counted from 0; this prints `pass`
 * and the step counted from 1 instead: "epoch 3, step" gives "epoch 3, step 8". pass NULL: the
 * message as it is. */
int print_loader_error(const cli_verb *verb, ls_context *ctx, const char *pass);

/* For ls_context_config.log: to stderr. */
void print_log(void *user, ls_log_level level, const char *message);

/* A bundled model. If there is none of that name, prints the most similar name and returns NULL. */
const ls_model *find_model(const cli_verb *verb, const char *name);

/* Opens the model of the option --checkpoint. On failure, also where ctx has an error, prints the
 * reason and returns NULL. */
const ls_saved_model *open_saved_model(const cli_verb *verb, ls_context *ctx, const char *path);

/* Sets the action of a signal, unless the process inherited it as ignored: shells ignore SIGINT for
 * background processes, nohup ignores SIGHUP. */
void handle_unless_ignored(int number, const struct sigaction *action);

/* Catches SIGINT, SIGTERM and SIGHUP. The first one sets caught_signal, on which the verb saves and
 * ends. Further ones are ignored for one second; after that the next one ends the process. Signals
 * that the process inherited as ignored stay ignored. SIGPIPE is ignored: if the reader of the
 * output ends, the work continues, and main reports the lost output. */
void catch_signals(void);
extern volatile sig_atomic_t caught_signal; /* 0: none */

/* argv[0], "build/lockstep". */
extern const char *command_name;
/* Prints a command line for the user: "LABEL: build/lockstep WORD...". The words end with NULL, and
 * are quoted for a shell. */
void print_command(FILE *out, const char *label, ...) __attribute__((sentinel));

/* The end of a plural: "1 step", "2 steps". */
const char *plural(int64_t n);

bool file_exists(const char *path);
bool is_folder(const char *path);
/* A regular one. */
bool is_file(const char *path);

/* CPUs that this process may use. */
int processors(void);

extern const cli_verb verb_train, verb_eval, verb_predict, verb_describe, verb_compare, verb_repro,
    verb_plot, verb_pack, verb_demo_data;

#endif
