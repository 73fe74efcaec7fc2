/* child.c: child processes that train; see child.h. */
#include "experiment/child.h"

#include "base/signals.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- One process ---- */

/* Runs the program in the new process. The process has a process group of its own, so that Ctrl-C
 * reaches it through its parent only: a second signal would end it before it has saved. The
 * system sends it SIGTERM if its parent dies. Its output is appended to the log. On failure writes
 * errno to `report`. */
static _Noreturn void become(char **argv, const char *log, pid_t parent, int report)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGINT, SIG_DFL); /* but not SIGHUP, which nohup ignores */
    signal(SIGTERM, SIG_DFL);
    signal(SIGQUIT, SIG_DFL);
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
    if (in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0 && setpgid(0, 0) == 0 &&
        prctl(PR_SET_PDEATHSIG, SIGTERM) == 0) {
        if (getppid() != parent) _exit(1); /* gone already */
        if (in > STDERR_FILENO) close(in);
        if (out > STDERR_FILENO) close(out);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execvp(argv[0], argv);
    }
    const int error = errno;
    const ssize_t told = write(report, &error, sizeof(error));
    (void)told; /* there is no other way to report it */
    _exit(1);
}

/* Returns 0 or an errno. */
static int spawn(char **argv, const char *log, pid_t *pid)
{
    int ends[2], error = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    const pid_t parent = getpid();
    sigset_t before;
    ls__block_signals(&before); /* so that no handler of this process runs in the new one */
    *pid = fork();
    if (*pid == 0) become(argv, log, parent, ends[1]);
    if (*pid < 0) error = errno;
    ls__restore_signals(&before);
    close(ends[1]);
    ssize_t n = 0; /* 0 bytes: exec has closed it */
    while (!error && (n = read(ends[0], &error, sizeof(error))) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    if (n > 0) waitpid(*pid, NULL, 0);
    if (error) *pid = 0;
    return error;
}

int ls__child_start(ls__children *children, char **argv, const char *log, int *child)
{
    *child = 0;
    while (*child < LS__MAX_CHILDREN && children->pids[*child] > 0) ++*child;
    if (*child == LS__MAX_CHILDREN) return EAGAIN;
    if (children->stop && *children->stop) return EINTR;
    return spawn(argv, log, &children->pids[*child]);
}

void ls__children_stop(const ls__children *children)
{
    for (int i = 0; i < LS__MAX_CHILDREN; i++)
        if (children->pids[i] > 0) kill(children->pids[i], SIGTERM);
}

static void pass_stop(ls__children *children)
{
    const sig_atomic_t stop = children->stop ? *children->stop : 0;
    if (stop && stop != children->passed) ls__children_stop(children);
    children->passed = stop;
}

int ls__child_wait(ls__children *children, int *child, int *status)
{
    const struct timespec pause = { .tv_nsec = 5000000 };
    for (;; nanosleep(&pause, NULL)) {
        bool has_child = false;
        pass_stop(children);
        for (int i = 0; i < LS__MAX_CHILDREN; i++) {
            if (children->pids[i] <= 0) continue;
            has_child = true;
            const pid_t ended = waitpid(children->pids[i], status, WNOHANG);
            if (ended == 0 || (ended < 0 && errno == EINTR)) continue;
            *child = i;
            children->pids[i] = 0;
            return ended > 0 ? 0 : errno;
        }
        if (!has_child) return ECHILD;
    }
}

/* ---- The output of a failed process ---- */

static void read_tail(const char *path, char text[LS__CHILD_TAIL_SIZE])
{
    enum { MAX_LINES = 6, MAX_BYTES = LS__CHILD_TAIL_SIZE - 1 };
    *text = '\0';
    FILE *file = fopen(path, "rb");
    if (!file) return;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fseek(file, size > MAX_BYTES ? size - MAX_BYTES : 0, SEEK_SET);
    const size_t n = fread(text, 1, MAX_BYTES, file);
    fclose(file);
    text[n] = '\0';
    size_t at = n;
    for (int lines = 0; at > 0; at--)
        if (text[at - 1] == '\n' && at < n && ++lines == MAX_LINES) break;
    memmove(text, text + at, n - at + 1);
}

void ls__child_read_failure(const char *log, int status, ls__child_failure *out)
{
    enum { OF_SIGNAL = 128 }; /* as shells do */
    const bool by_signal = WIFSIGNALED(status);
    const int number = by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    snprintf(out->how, sizeof(out->how),
             by_signal ? "was ended by signal %d" : "failed with status %d", number);
    out->exit_status = by_signal ? OF_SIGNAL + number : number;
    read_tail(log, out->tail);
}

void ls__child_read_error(const char *log, int64_t from, char out[LS__CHILD_ERROR_SIZE])
{
    static const char name[] = "lockstep train: ";
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen(log, "rb");
    *out = '\0';
    if (!file) return;
    fseek(file, (long)from, SEEK_SET);
    while (!*out && getline(&line, &size, file) >= 0) {
        const char *message = line + sizeof(name) - 1;
        if (strncmp(line, name, sizeof(name) - 1) != 0 || strncmp(message, "warning: ", 9) == 0 ||
            strncmp(message, "note: ", 6) == 0)
            continue;
        ls__snprintf(out, LS__CHILD_ERROR_SIZE, "%.*s", (int)strcspn(message, "\n"), message);
    }
    free(line);
    fclose(file);
}
