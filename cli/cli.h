/* cli.h: what the commands share. */
#ifndef LS_CLI_CLI_H
#define LS_CLI_CLI_H

#include "options/options.h"
#include "terminal/print.h"
#include <lockstep/lockstep.h>
#include <lockstep/models.h>
#include <lockstep/run.h>
#include <signal.h>
#include <stdio.h>

/* The limit of the process or system that an error's text ends with, " (file size limit: ulimit
 * -f)" after "File too large", or "". */
const char *limit_hint(const char *message);
/* Prints errno's reason after `name`, and returns LS_EXIT_RUNTIME. */
int fail_errno(const char *name);
bool ends_with(const char *text, const char *end);
/* Closes a file that was written. If some of it was not, prints why, after `name`, and returns
 * false. */
bool close_output(FILE *file, const char *name);

/* If the message is about an image with more pixels than the limit, prints the option that raises
 * it. */
void print_pixels_hint(const char *message);

/* Prints the context's error (ctx NULL: no memory) with its hint, clears it and returns
 * `exit_status`; LS_EXIT_USAGE for LS_ERR_SETTING, and LS_EXIT_RUNTIME in place of LS_EXIT_DATA
 * when memory, threads, file handles or the device failed, not the images. */
int print_error(ls_context *ctx, int exit_status);
/* This is print_error for LS_EXIT_DATA. A loader's error gives its place counted from 0; this
 * prints `pass` and the step counted from 1 instead: "epoch 3, step" gives "epoch 3, step 8", of
 * several ranks "rank 1: epoch 3, step 8". pass NULL: the message as it is. */
int print_loader_error(ls_context *ctx, const char *pass);

/* Reads the value of LOCKSTEP_LOG: levels of messages, "error", "warn" or "info", for all
 * categories or for one, with commas between: "warn,net=info". NULL is "warn". On failure prints
 * the reason and returns false. */
bool log_levels_read(const char *text);
/* For ls_context_config.log: to stderr, unless the category's level is lower. */
void print_log(void *user, ls_log_level level, ls_log_category category, const char *message);

/* Catches SIGINT, SIGTERM and SIGHUP. The first one sets caught_signal, on which the command saves
 * and ends. Further ones are ignored for one second; after that the next one ends the process.
 * Signals that the process inherited as ignored stay ignored. SIGPIPE is ignored: if the reader of
 * the output ends, the work continues, and main reports the lost output. */
void catch_signals(void);
extern volatile sig_atomic_t caught_signal; /* 0: none */
/* For a command whose child processes train: catches SIGINT, SIGTERM, SIGQUIT and SIGHUP, unless
 * they are ignored. Each one sets caught_signal and adds 1 to caught_count, and none ends the
 * process. SIGCHLD gets its default action. */
void catch_signals_for_children(void);
extern volatile sig_atomic_t caught_count;

/* False after printing an error, unless the name of an output file ends in `ending` (".html"): so a
 * wrong name does not replace a checkpoint. A path that is no regular file, such as /dev/stdout,
 * may have any name. */
bool check_output_name(const char *option, const char *path, const char *ending);

/* Prints a command line for the user: "LABEL: build/lockstep COMMAND WORD...", with the launcher of
 * this process before it if the command is "train". The words end with NULL, and are quoted for a
 * shell. With --quiet prints nothing on stdout. */
void print_command(FILE *out, const char *label, ...) __attribute__((sentinel));
/* The same with the words in an array that ends with NULL. */
void print_command_words(FILE *out, const char *label, const char *const *words);
/* The same without label and newline, for files. */
void print_command_line(FILE *out, const char *const *words);

/* What is at a path; links are followed. is_file: a regular file; false for NULL. */
bool path_exists(const char *path);
bool is_folder(const char *path);
bool is_file(const char *path);

/* The context of commands that compute nothing with nets: one thread. It stays open until the
 * process ends. */
ls_context *command_context(void);

/* The end of a plural: "1 step", "2 steps". */
const char *plural(int64_t n);

extern const cli_command command_train, command_sweep, command_eval, command_predict,
    command_describe, command_compare, command_repro, command_plot, command_pack, command_export,
    command_demo_data, command_augment, command_check, command_lr_find, command_report,
    command_completion, command_man;
/* The list of all commands, for those that describe them; NULL ends it. */
void set_commands(const cli_command *const *list);
const cli_command *command_at(int i);

#endif
