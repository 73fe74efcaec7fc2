/* command.c: runs the built command; see command.h. */
#include "command.h"

#include "../suite.h"
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char said_out[1 << 16], said_err[1 << 16];
int ignored_signal;
static char *folder;

void begin_folder(void)
{
    folder = new_folder();
    ck_assert_int_eq(chdir(folder), 0);
}

void end_folder(void)
{
    ck_assert_int_eq(chdir("/"), 0);
    remove_folder(folder);
}

/* In the child: redirects standard output and error to files, then executes the command. */
static void become_command(char *line, size_t file_limit)
{
    enum { MAX_WORDS = 64 };
    static char command[] = LOCKSTEP_PROGRAM;
    char *words[MAX_WORDS] = { command };
    int n = 1;
    for (char *word = strtok(line, " "); word && n < MAX_WORDS - 1; word = strtok(NULL, " "))
        words[n++] = word;
    if (file_limit > 0) setrlimit(RLIMIT_FSIZE, &(struct rlimit){ file_limit, file_limit });
    const int null = open("/dev/null", O_RDONLY);
    const int out = open(".said-out", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int err = open(".said-err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(command, words);
    _exit(127);
}

static pid_t start(size_t file_limit, const char *format, va_list args)
{
    char line[4096];
    vsnprintf(line, sizeof(line), format, args);
    /* Signals that a test sends at once must not meet Check's handlers, which would end the test.
     */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        if (ignored_signal) signal(ignored_signal, SIG_IGN);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    ck_assert_int_ge(pid, 0);
    if (pid == 0) become_command(line, file_limit);
    return pid;
}

pid_t start_command(size_t file_limit, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const pid_t pid = start(file_limit, format, args);
    va_end(args);
    return pid;
}

static void read_said(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    out[file ? fread(out, 1, size - 1, file) : 0] = '\0';
    if (file) fclose(file);
}

int wait_command(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    read_said(".said-out", said_out, sizeof(said_out));
    read_said(".said-err", said_err, sizeof(said_err));
    /* Messages must not contain the names of library calls. */
    ck_assert_msg(!strstr(said_err, " ls_"), "a function is named in:\n%s", said_err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_command(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const pid_t pid = start(0, format, args);
    va_end(args);
    return wait_command(pid);
}

void expect(int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const pid_t pid = start(0, format, args);
    va_end(args);
    const int got = wait_command(pid);
    ck_assert_msg(got == status, "'%s': status %d, expected %d; it said:\n%s%s", format, got,
                  status, said_out, said_err);
}

void expect_out(const char *text)
{
    ck_assert_msg(strstr(said_out, text), "'%s' is not in:\n%s", text, said_out);
}

void expect_err(const char *text)
{
    ck_assert_msg(strstr(said_err, text), "'%s' is not in:\n%s", text, said_err);
}

void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}
