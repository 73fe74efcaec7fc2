/* ranks.c: see runs.h. */
#include "runs/runs.h"
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Delays of messages. After a rank has failed, Open MPI's mpirun ends the others within 1.4 s. */
enum { FIRST_DELAY_SECONDS = 2, MAX_DELAY_SECONDS = 3 };

static long rank; /* as the launcher counts; 0 is the same everywhere */

/* An error that several ranks have is printed by the first of them: it ends the others during their
 * delays. */
void ranks_begin(void)
{
    static char name[64];
    const ls_launch launch = ls_launch_find();
    rank = launch.variable && launch.n_ranks != 1 ? launch.rank : 0;
    if (rank <= 0) return;
    snprintf(name, sizeof(name), "%s, rank %ld", command_name, rank);
    command_name = name;
    set_print_mute(MUTE_ALL_BUT_ERRORS);
    const long delay = FIRST_DELAY_SECONDS + rank - 1;
    set_print_delay(delay < MAX_DELAY_SECONDS ? (int)delay : MAX_DELAY_SECONDS, &caught_signal);
    const int null = open("/dev/null", O_WRONLY);
    if (null >= 0) dup2(null, STDOUT_FILENO);
    if (null >= 0) close(null);
}

/* ---- The start ---- */

/* The thread that limits the time until the ranks are connected. */
static struct start_limit {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_running, is_connected;
    double seconds;
} start_limit = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void *limit_start(void *unused)
{
    struct start_limit *s = &start_limit;
    struct timespec end;
    int error = 0;
    (void)unused;
    clock_gettime(CLOCK_MONOTONIC, &end);
    const int64_t ns = end.tv_nsec + (int64_t)(s->seconds * 1e9);
    end.tv_sec += (time_t)(ns / 1000000000);
    end.tv_nsec = (long)(ns % 1000000000);
    pthread_mutex_lock(&s->mutex);
    while (!s->is_connected && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&s->changed, &s->mutex, &end);
    if (!s->is_connected) {
        print_message("after %g seconds (--rank-timeout) the ranks are not connected: one of them "
                      "is stopped, or ended while it started",
                      s->seconds);
        _exit(LS_EXIT_RUNTIME);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

void ranks_connect(double seconds)
{
    struct start_limit *s = &start_limit;
    pthread_condattr_t monotonic;
    sigset_t all, before;
    s->seconds = seconds;
    s->is_connected = false;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all); /* the main thread handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    s->is_running = pthread_create(&s->thread, NULL, limit_start, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ranks_connected(void)
{
    struct start_limit *s = &start_limit;
    if (!s->is_running) return;
    pthread_mutex_lock(&s->mutex);
    s->is_connected = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    s->is_running = false;
}

bool ranks_check_single(void)
{
    const ls_launch launch = ls_launch_find();
    if (!launch.variable || launch.n_ranks <= 1) return true;
    ranks_begin();
    return fail_with(false,
                     "by %s the launcher started %ld processes; only 'lockstep train' runs in "
                     "several",
                     launch.variable, launch.n_ranks);
}

bool ranks_is_first(void)
{
    return rank <= 0;
}

/* An error of another rank, which that rank prints. */
static bool is_foreign(const ls_context *ctx)
{
    return strncmp(ls_context_message(ctx), "rank ", 5) == 0;
}

static void share_signal(ls_context *ctx)
{
    int signals[LS_MAX_RANKS];
    if (ls_context_gather(ctx, caught_signal, signals) != LS_OK) return;
    for (int i = 0; !caught_signal && i < ls_context_rank_count(ctx); i++)
        caught_signal = signals[i];
}

void ranks_end(ls_context *ctx, bool together)
{
    if (together) share_signal(ctx);
    if (rank > 0 && (together || is_foreign(ctx))) set_print_mute(MUTE_ALL);
}

void ranks_wait(ls_context *ctx)
{
    int all[LS_MAX_RANKS];
    fflush(stdout);
    (void)ls_context_gather(ctx, 0, all);
}
