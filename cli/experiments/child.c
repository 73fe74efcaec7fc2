/* child.c: child processes that train; see child.h. */
#include "experiments/child.h"
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Signals ---- */

static volatile sig_atomic_t passed_signal;
static volatile sig_atomic_t children[MAX_CHILDREN]; /* process numbers; 0 = free */

void child_stop_all(void)
{
    for (int i = 0; i < MAX_CHILDREN; i++)
        if (children[i] > 0) kill((pid_t)children[i], SIGTERM);
}

static void pass_signal(int number)
{
    const int saved = errno;
    passed_signal = number;
    child_stop_all();
    errno = saved;
}

/* The signals by which users, terminals and systems end a program. */
static const int signals[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP };
enum { N_SIGNALS = sizeof(signals) / sizeof(signals[0]) };

void child_catch_signals(void)
{
    handle_signals(N_SIGNALS, signals, pass_signal);
    /* If the parent ignores it, this process has inherited that, and could not wait for its
     * children. */
    sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

int child_signal(void)
{
    return passed_signal;
}

/* ---- One process ---- */

/* Runs the program in the new process. The process has a process group of its own, so that Ctrl-C
 * reaches it through pass_signal only: a second signal would end it before it has saved. The system
 * sends it SIGTERM if its parent dies. Its output is appended to the log. On failure writes errno
 * to `report`. */
static _Noreturn void become(char **argv, const char *log, pid_t parent, int report)
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i] != SIGHUP) signal(signals[i], SIG_DFL); /* nohup ignores SIGHUP */
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0666);
    if (in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0 && setpgid(0, 0) == 0 &&
        prctl(PR_SET_PDEATHSIG, SIGTERM) == 0) {
        if (getppid() != parent) _exit(EXIT_RUNTIME); /* gone already */
        if (in > STDERR_FILENO) close(in);
        if (out > STDERR_FILENO) close(out);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execvp(argv[0], argv);
    }
    const int error = errno;
    const ssize_t told = write(report, &error, sizeof(error));
    (void)told; /* there is no other way to report it */
    _exit(EXIT_RUNTIME);
}

/* Returns 0 or an errno. */
static int spawn(char **argv, const char *log, pid_t *pid)
{
    int ends[2], error = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    const pid_t parent = getpid();
    *pid = fork();
    if (*pid == 0) become(argv, log, parent, ends[1]);
    if (*pid < 0) error = errno;
    close(ends[1]);
    ssize_t n = 0; /* 0 bytes: exec has closed it */
    while (!error && (n = read(ends[0], &error, sizeof(error))) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    if (n > 0) waitpid(*pid, NULL, 0);
    if (error) *pid = 0;
    return error;
}

static int find_child(pid_t pid)
{
    for (int i = 0; i < MAX_CHILDREN; i++)
        if (children[i] == (sig_atomic_t)pid) return i;
    return -1;
}

int child_start(char **argv, const char *log, pid_t *pid)
{
    const int i = find_child(0);
    if (i < 0) return EAGAIN;
    sigset_t blocked, before; /* until the child's process number is known */
    sigemptyset(&blocked);
    for (int k = 0; k < N_SIGNALS; k++) sigaddset(&blocked, signals[k]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    const int error = passed_signal ? EINTR : spawn(argv, log, pid);
    if (!error) children[i] = (sig_atomic_t)*pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return error;
}

int child_wait(pid_t *pid, int *status)
{
    for (;;) {
        siginfo_t end; /* the process number stays taken until waitpid */
        if (waitid(P_ALL, 0, &end, WEXITED | WNOWAIT) < 0) {
            if (errno == EINTR) continue;
            return errno;
        }
        const int i = find_child(end.si_pid); /* a process may also inherit children by exec */
        if (i >= 0) children[i] = 0;
        *pid = end.si_pid;
        pid_t ended;
        do ended = waitpid(*pid, status, 0);
        while (ended < 0 && errno == EINTR);
        if (ended < 0) return errno;
        if (i >= 0) return 0;
    }
}

/* ---- The output of a failed process ---- */

static void print_end(const char *path)
{
    enum { TAIL_SIZE = 2048, MAX_LINES = 6 };
    char text[TAIL_SIZE + 1];
    FILE *file = fopen(path, "rb");
    if (!file) return;
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    fseek(file, size > TAIL_SIZE ? size - TAIL_SIZE : 0, SEEK_SET);
    const size_t n = fread(text, 1, TAIL_SIZE, file);
    fclose(file);
    text[n] = '\0';
    size_t at = n;
    for (int lines = 0; at > 0; at--)
        if (text[at - 1] == '\n' && at < n && ++lines == MAX_LINES) break;
    fputs(text + at, stderr);
}

int child_print_failure(const char *name, const char *log, int status)
{
    const bool by_signal = WIFSIGNALED(status);
    if (by_signal)
        print_message("%s was ended by signal %d; %s ends with:", name, WTERMSIG(status), log);
    else
        print_message("%s failed with status %d; %s ends with:", name, WEXITSTATUS(status), log);
    print_end(log);
    return by_signal ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

void child_read_error(const char *log, int64_t from, char out[CHILD_ERROR_SIZE])
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
        const int length = (int)strcspn(message, "\n");
        cut_text(out, CHILD_ERROR_SIZE, snprintf(out, CHILD_ERROR_SIZE, "%.*s", length, message));
    }
    free(line);
    fclose(file);
}

char *child_number_option(const char *name, int64_t number, char out[NUMBER_OPTION_SIZE])
{
    snprintf(out, NUMBER_OPTION_SIZE, "--%s=%lld", name, (long long)number);
    return out;
}
