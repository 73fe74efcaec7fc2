/* common.c: what the verbs share; see cli.h. */
#include "cli.h"
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char *plain_message(const char *message)
{
    const size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const bool names_call = strncmp(message, "ls_", 3) == 0 && strncmp(message + n, ": ", 2) == 0;
    return message + (names_call ? n + 2 : 0);
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
    const size_t length = strlen(message);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        const char *reason = strerror(limits[i].error);
        const size_t n = strlen(reason);
        if (length >= n && strcmp(message + length - n, reason) == 0) return limits[i].hint;
    }
    return "";
}

void print_pixels_hint(const cli_verb *verb, const char *message)
{
    static const char end[] = "(max_pixels)"; /* of the decoders' messages about the limit */
    const size_t length = strlen(message), n = sizeof(end) - 1;
    if (length < n || strcmp(message + length - n, end) != 0) return;
    print_message(verb, "larger images need a larger limit: %s--max-pixels N",
                  strcmp(verb->name, "train") == 0 ? "begin a new run with " : "");
}

int print_loader_error(const cli_verb *verb, ls_context *ctx, const char *pass)
{
    const ls_status status = ls_context_status(ctx);
    const char *message = ctx ? plain_message(ls_context_message(ctx)) : "out of memory";
    const char *hint = limit_hint(message);
    long long epoch, step;
    int n = 0;
    if (pass && sscanf(message, "loader: epoch %lld, step %lld: %n", &epoch, &step, &n) == 2 && n)
        print_message(verb, "%s %lld: %s%s", pass, step + 1, message + n, hint);
    else
        print_message(verb, "%s%s", message, hint);
    print_pixels_hint(verb, message);
    ls_context_clear_error(ctx);
    const bool by_process = status == LS_ERR_MEMORY || status == LS_ERR_DEVICE || *hint;
    return by_process ? EXIT_RUNTIME : EXIT_DATA;
}

int print_error(const cli_verb *verb, ls_context *ctx, int answer)
{
    const int data_answer = print_loader_error(verb, ctx, NULL);
    return answer == EXIT_DATA ? data_answer : answer;
}

void print_log(void *user, ls_log_level level, const char *message)
{
    (void)user;
    if (level != LS_LOG_WARNING) return; /* kernels are in the table of `lockstep describe` */
    if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr); /* a bar may be there */
    print_text(stderr, "lockstep: warning: %s\n", plain_message(message));
}

const ls_model *find_model(const cli_verb *verb, const char *name)
{
    const ls_model *model = ls_model_find(name);
    if (model) return model;
    enum { MAX_MODELS = 64 };
    const char *names[MAX_MODELS];
    int n = 0;
    for (; n < MAX_MODELS && (model = ls_model_at(n)); n++) names[n] = model->name;
    const char *meant = closest_word(name, n, names);
    print_text(stderr, "lockstep %s: no model is called '%s'; ", verb->name, name);
    if (meant)
        print_text(stderr, "did you mean '%s'?\n", meant);
    else
        print_text(stderr, "'lockstep %s --help' lists them\n", verb->name);
    return NULL;
}

const ls_saved_model *open_saved_model(const cli_verb *verb, ls_context *ctx, const char *path)
{
    const ls_status status = ctx ? ls_context_status(ctx) : LS_ERR_MEMORY;
    if (status == LS_OK && is_folder(path)) {
        print_message(
            verb,
            "--checkpoint %s: a folder; expected a file such as best.safetensors in a run's folder",
            path);
        return NULL;
    }
    const ls_saved_model *model = status == LS_OK ? ls_saved_model_open(ctx, path) : NULL;
    if (!model) print_error(verb, ctx, EXIT_RUNTIME);
    return model;
}

void handle_unless_ignored(int number, const struct sigaction *action)
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, action, NULL);
}

volatile sig_atomic_t caught_signal;

/* Time of the first signal. Only the handler accesses it. */
static struct timespec caught_at;

/* A signal that comes within one second of the first one belongs to it: `timeout`, make and
 * terminals send theirs to the process and to its group. A later one ends the process. */
static void note_signal(int number)
{
    const int kept = errno;
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
    errno = kept;
}

void catch_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    enum { N_NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };
    struct sigaction action = { .sa_handler = note_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < N_NUMBERS; i++) sigaddset(&action.sa_mask, numbers[i]);
    for (int i = 0; i < N_NUMBERS; i++) handle_unless_ignored(numbers[i], &action);
    signal(SIGPIPE, SIG_IGN);
}

const char *command_name = "lockstep";

static void print_word(FILE *out, const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, out);
        return;
    }
    if (has_control_characters(word)) { /* in the form that bash and POSIX 2024 read back */
        fputs("$'", out);
        print_escaped(out, word, "\\'");
    } else {
        fputc('\'', out);
        for (; *word; word++) fputs(*word == '\'' ? "'\\''" : (char[]){ *word, '\0' }, out);
    }
    fputc('\'', out);
}

void print_command(FILE *out, const char *label, ...)
{
    va_list words;
    print_text(out, "%s: ", label);
    print_word(out, command_name);
    va_start(words, label);
    for (const char *word; (word = va_arg(words, const char *));) {
        fputc(' ', out);
        print_word(out, word);
    }
    va_end(words);
    fputc('\n', out);
}

const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

bool file_exists(const char *path)
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
    return stat(path, &there) == 0 && S_ISREG(there.st_mode);
}

int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}
