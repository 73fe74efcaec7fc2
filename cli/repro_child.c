/* repro_child.c: the processes that train; see repro.h. */
#include "repro.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Signals ---- */

static volatile sig_atomic_t passed_signal;
static volatile sig_atomic_t child; /* its process number; 0 = none runs */

static void pass_signal(int number)
{
    const int saved = errno;
    passed_signal = number;
    if (child > 0) kill((pid_t)child, SIGTERM);
    errno = saved;
}

/* The signals by which users, terminals and systems end a program. */
static const int signals[] = { SIGINT, SIGTERM, SIGQUIT, SIGHUP };
enum { N_SIGNALS = sizeof(signals) / sizeof(signals[0]) };

void repro_catch_signals(void)
{
    handle_signals(N_SIGNALS, signals, pass_signal);
    /* If the parent ignores it, this process has inherited that, and could not wait for its
     * children. */
    sigaction(SIGCHLD, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

int repro_signal(void)
{
    return passed_signal;
}

/* ---- One process ---- */

/* The new process, in a process group of its own, so that Ctrl-C reaches it
 * through pass_signal only, because a second signal would end it before it has saved. The system
 * sends it SIGTERM if its parent dies. Its output is appended to the log. On failure writes errno
 * to `report`. */
static _Noreturn void become(char **argv, const char *log, pid_t parent, int report)
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i] != SIGHUP) signal(signals[i], SIG_DFL); /* ignored, that one stays so */
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

/* Runs it to its end, unless a signal has come before. Signals are blocked until the child's
 * process number is known. Returns 0 or an errno. */
static int run_process(char **argv, const char *log, int *status)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    for (int i = 0; i < N_SIGNALS; i++) sigaddset(&blocked, signals[i]);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    pid_t pid = 0;
    const int error = passed_signal ? EINTR : spawn(argv, log, &pid);
    child = (sig_atomic_t)pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (error) return error;
    siginfo_t end; /* the process number stays taken until waitpid */
    int waited;
    do waited = waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT);
    while (waited < 0 && errno == EINTR);
    child = 0;
    if (waited < 0) return errno;
    pid_t ended;
    do ended = waitpid(pid, status, 0);
    while (ended < 0 && errno == EINTR);
    return ended < 0 ? errno : 0;
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

static int answer_of(const repro_run *run, const char *log, int status)
{
    if (repro_signal()) return EXIT_SIGNAL + repro_signal();
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE) return EXIT_DONE;
    if (WIFSIGNALED(status))
        print_message("run %s was ended by signal %d; %s ends with:", run->name, WTERMSIG(status),
                      log);
    else
        print_message("run %s failed with status %d; %s ends with:", run->name, WEXITSTATUS(status),
                      log);
    print_end(log);
    const int answer = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_NO_VERDICT;
    return answer == EXIT_RUNTIME ? EXIT_NO_VERDICT : answer;
}

/* ---- A run ---- */

enum { MAX_WORDS = 2 * MAX_OPTIONS + 24, OPTION_SIZE = 32 };

/* The words that start this program, in several ranks if there are any. Returns their number. */
static int launch_words(const repro_leg *leg, char *program, char n_ranks[OPTION_SIZE], char **argv)
{
    static char mpirun[] = "mpirun", count[] = "-n", bind_to[] = "--bind-to", none[] = "none",
                oversubscribe[] = "--oversubscribe", train[] = "train";
    int n = 0;
    if (leg->ranks > 1) {
        snprintf(n_ranks, OPTION_SIZE, "%d", leg->ranks);
        char *const words[] = { mpirun, count, n_ranks, bind_to, none, oversubscribe };
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) argv[n++] = words[i];
    }
    argv[n++] = program;
    argv[n++] = train;
    return n;
}

/* "--NAME=NUMBER" */
static char *number_option(const char *name, int64_t number, char out[OPTION_SIZE])
{
    snprintf(out, OPTION_SIZE, "--%s=%lld", name, (long long)number);
    return out;
}

int repro_train(const repro *r, const repro_run *run)
{
    char dir[REPRO_PATH_SIZE + 80], log[REPRO_PATH_SIZE + 80];
    snprintf(dir, sizeof(dir), "%s/%s", r->out, run->name);
    snprintf(log, sizeof(log), "%s/%s.log", r->out, run->name);
    int answer = EXIT_DONE;
    for (int i = 0; i < run->n_legs && answer == EXIT_DONE; i++) {
        const repro_leg *leg = &run->legs[i];
        char out[] = "--out", resume[] = "--resume";
        char steps[OPTION_SIZE], workers[OPTION_SIZE], threads[OPTION_SIZE], stop[OPTION_SIZE];
        char ranks[OPTION_SIZE], *argv[MAX_WORDS + 1] = { NULL };
        int n = launch_words(leg, r->program, ranks, argv), status = 0;
        argv[n++] = i == 0 ? out : resume;
        argv[n++] = dir;
        for (int k = 0; i == 0 && r->arguments[k]; k++) argv[n++] = r->arguments[k];
        if (i == 0) argv[n++] = number_option("steps", r->steps, steps);
        argv[n++] = number_option("workers", leg->workers, workers);
        argv[n++] = number_option("threads", leg->threads, threads);
        if (i + 1 < run->n_legs) argv[n++] = number_option("stop-at", run->stops[i], stop);
        const int error = run_process(argv, log, &status);
        if (error && !repro_signal())
            return fail_with(EXIT_NO_VERDICT, "run %s: %s could not be started or waited for: %s",
                             run->name, argv[0], strerror(error));
        answer = answer_of(run, log, status);
    }
    return answer;
}
