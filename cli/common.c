/* common.c: what the commands share; see cli.h. */
#include "cli.h"
#include <errno.h>
#include <lockstep/text.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), n = strlen(end);
    return length >= n && strcmp(text + length - n, end) == 0;
}

const char *limit_hint(const char *message)
{
    static const struct {
        int error;
        const char *hint;
    } limits[] = { { EMFILE, " (limit of open files: ulimit -n)" },
                   { ENFILE, " (the system's limit of open files)" },
                   { EAGAIN, " (limit of threads or memory: ulimit -u, ulimit -v)" },
                   { EFBIG, " (file size limit: ulimit -f)" } };
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (ends_with(message, strerror(limits[i].error))) return limits[i].hint;
    return "";
}

int fail_errno(const char *name)
{
    const char *reason = strerror(errno);
    return fail_with(LS_EXIT_RUNTIME, "%s: %s%s", name, reason, limit_hint(reason));
}

bool close_output(FILE *file, const char *name)
{
    const int error = ferror(file) ? errno : 0;
    const bool failed = ferror(file);
    if (fclose(file) == 0 && !failed) return true;
    if (error) errno = error;
    fail_errno(name);
    return false;
}

void print_pixels_hint(const char *message)
{
    if (!ends_with(message, "(max_pixels)")) return; /* as the decoders' messages about the limit */
    print_message("to accept larger images, %s --max-pixels N",
                  strcmp(command_name, "train") == 0 ? "start a new run with" : "use");
}

/* The library counts epochs and steps from 0. */
static void print_counted(const char *message, const char *hint)
{
    long long epoch, step;
    int n = 0;
    const char *at = strstr(message, "epoch ");
    if (at && sscanf(at, "epoch %lld, step %lld%n", &epoch, &step, &n) == 2)
        print_message("%.*sepoch %lld, step %lld%s%s", (int)(at - message), message, epoch + 1,
                      step + 1, at + n, hint);
    else
        print_message("%s%s", message, hint);
}

/* Messages about lists name members of ls_csv_config. This prints the options in their places. */
static void print_list_error(const char *message, const char *hint)
{
    static const struct {
        const char *member, *option;
    } names[] = { { "(path_column, label_column)", "(--csv-columns path=,label=)" },
                  { "(path_column)", "(--csv-columns path=)" },
                  { "(label_column)", "(--csv-columns label=)" },
                  { "(split_column)", "(--csv-columns split=)" },
                  { "(group_column)", "(--group-column)" } };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *at = strstr(message, names[i].member);
        if (!at) continue;
        print_message("%.*s%s%s%s", (int)(at - message), message, names[i].option,
                      at + strlen(names[i].member), hint);
        return;
    }
    print_message("%s%s", message, hint);
}

int print_loader_error(ls_context *ctx, const char *pass)
{
    const ls_status status = ls_context_status(ctx);
    const char *message = ctx ? ls_plain_message(ls_context_message(ctx)) : "out of memory";
    const char *hint = limit_hint(message);
    char where[32] = "";
    long long epoch, step;
    int rank = ls_context_rank(ctx), n_rank = 0, n = 0;
    sscanf(message, "rank %d: %n", &rank, &n_rank);
    if (ls_context_rank_count(ctx) > 1) snprintf(where, sizeof(where), "rank %d: ", rank);
    if (pass &&
        sscanf(message + n_rank, "loader: epoch %lld, step %lld: %n", &epoch, &step, &n) == 2 && n)
        print_message("%s%s %lld: %s%s", where, pass, step + 1, message + n_rank + n, hint);
    else if (strncmp(message, "csv file", strlen("csv file")) == 0)
        print_list_error(message, hint);
    else
        print_counted(message, hint);
    print_pixels_hint(message);
    if (*ls_context_hint(ctx)) print_message("%s", ls_context_hint(ctx));
    ls_context_clear_error(ctx);
    const bool by_process =
        status == LS_ERR_MEMORY || status == LS_ERR_DEVICE || status == LS_ERR_TIMEOUT || *hint;
    return by_process ? LS_EXIT_RUNTIME : LS_EXIT_DATA;
}

int print_error(ls_context *ctx, int exit_status)
{
    const bool is_setting = ls_context_status(ctx) == LS_ERR_SETTING;
    const int of_data = print_loader_error(ctx, NULL);
    return is_setting ? LS_EXIT_USAGE : exit_status == LS_EXIT_DATA ? of_data : exit_status;
}

/* Installs a handler, during which all n signals are blocked. A signal that the process inherited
 * as ignored stays ignored: shells ignore SIGINT for background processes, nohup ignores SIGHUP. */
static void handle_signals(int n, const int *numbers, void (*handler)(int number))
{
    struct sigaction before, action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < n; i++) sigaddset(&action.sa_mask, numbers[i]);
    for (int i = 0; i < n; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

volatile sig_atomic_t caught_signal;

/* Time of the first signal. Only the handler accesses it. */
static struct timespec caught_at;

/* A signal that comes within one second of the first one belongs to it: `timeout`, make and
 * terminals send theirs to the process and to its group. A later one ends the process. */
static void note_signal(int number)
{
    const int saved = errno;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!caught_signal) {
        caught_at = now;
        caught_signal = number;
    } else {
        const long long seconds = (long long)(now.tv_sec - caught_at.tv_sec);
        if (seconds > 1 || (seconds == 1 && now.tv_nsec >= caught_at.tv_nsec)) {
            signal(number, SIG_DFL);
            raise(number); /* delivered when the handler returns */
        }
    }
    errno = saved;
}

void catch_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    handle_signals(3, numbers, note_signal);
    signal(SIGPIPE, SIG_IGN);
}

volatile sig_atomic_t caught_count;

static void count_signal(int number)
{
    caught_signal = number;
    caught_count++;
}

void catch_signals_for_children(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP };
    handle_signals(4, numbers, count_signal);
    signal(SIGCHLD, SIG_DFL); /* a parent that ignores it has passed that on */
}

static void print_word(FILE *out, const char *word)
{
    char *text = ls_shell_word(word);
    if (text) fputs(text, out);
    free(text);
}

/* How this process was started, if that was in several ranks. */
static void print_launch(FILE *out)
{
    const ls_launch launch = ls_launch_find();
    if (!launch.variable || launch.n_ranks <= 1) return;
    const bool slurm = strncmp(launch.variable, "SLURM", 5) == 0;
    print_text(out, "%s -n %ld ", slurm ? "srun --mpi=pmix" : "mpirun", launch.n_ranks);
}

void print_command_line(FILE *out, const char *const *words)
{
    if (strcmp(words[0], "train") == 0) print_launch(out);
    print_word(out, program_invocation_name);
    for (; *words; words++) {
        fputc(' ', out);
        print_word(out, *words);
    }
}

void print_command_words(FILE *out, const char *label, const char *const *words)
{
    if (print_is_muted(out) || (out == stdout && print_is_quiet())) return;
    print_text(out, "%s: ", label);
    print_command_line(out, words);
    fputc('\n', out);
}

void print_command(FILE *out, const char *label, ...)
{
    enum { MAX_WORDS = 32 };
    const char *list[MAX_WORDS + 1] = { NULL };
    va_list words;
    va_start(words, label);
    for (int n = 0; n < MAX_WORDS && (list[n] = va_arg(words, const char *)); n++) {
    }
    va_end(words);
    print_command_words(out, label, list);
}

bool path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool is_folder(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

bool is_file(const char *path)
{
    struct stat there;
    return path && stat(path, &there) == 0 && S_ISREG(there.st_mode);
}

const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

bool check_output_name(const char *option, const char *path, const char *ending)
{
    if (ends_with(path, ending) && strcmp(path, ending) != 0) return true;
    if (path_exists(path) && !is_file(path)) return true;
    return fail_with(false, "--%s %s: expected a name that ends in %s", option, path, ending);
}

/* ---- The context ---- */

static ls_context *context;

static void close_context(void)
{
    ls_context_close(&context);
}

ls_context *command_context(void)
{
    if (!context) {
        context = ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log });
        if (context) atexit(close_context);
    }
    return context;
}

/* ---- The list of commands ---- */

static const cli_command *const *all_commands;

void set_commands(const cli_command *const *list)
{
    all_commands = list;
}

const cli_command *command_at(int i)
{
    return all_commands[i];
}
