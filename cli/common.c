/* common.c: what the verbs share; see cli.h. */
#include "cli.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *plain_message(const char *message)
{
    const size_t n = strspn(message, "abcdefghijklmnopqrstuvwxyz_0123456789");
    const bool names_call = strncmp(message, "ls_", 3) == 0 && strncmp(message + n, ": ", 2) == 0;
    return message + (names_call ? n + 2 : 0);
}

int print_error(const cli_verb *verb, ls_context *ctx, int answer)
{
    const ls_status status = ls_context_status(ctx);
    const char *message = ctx ? plain_message(ls_context_message(ctx)) : "out of memory";
    print_text(stderr, "lockstep %s: %s\n", verb->name, message);
    return answer == EXIT_DATA && status == LS_ERR_MEMORY ? EXIT_RUNTIME : answer;
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

void handle_unless_ignored(int number, const struct sigaction *action)
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, action, NULL);
}

volatile sig_atomic_t caught_signal;

static void handle_signals(void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    handle_unless_ignored(SIGINT, &action);
    handle_unless_ignored(SIGTERM, &action);
}

static void note_signal(int number)
{
    caught_signal = number;
    handle_signals(SIG_DFL);
}

void catch_signals(void)
{
    handle_signals(note_signal);
}

const char *command_name = "lockstep";

static void print_word(FILE *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
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
