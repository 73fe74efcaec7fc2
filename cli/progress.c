/* progress.c: how far a run is; see progress.h. */
#include "progress.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static const double BAR_SECONDS = 0.1, LINE_SECONDS = 10;

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_open(progress *p, int64_t n_work)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    *p = (progress){ .opened = clock_seconds(), .work_left = n_work };
    p->terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    p->colour = p->terminal && !(no_colour && *no_colour); /* no-color.org */
}

void progress_begin(progress *p, const char *title, bool is_work, int64_t first_step,
                    int64_t n_steps)
{
    p->title = title;
    p->is_work = is_work;
    p->step = first_step;
    p->n_steps = n_steps;
    p->n_images = 0;
    p->begun = p->shown = clock_seconds();
}

static int terminal_columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* "1:02:03" or "2:03". */
static void format_seconds(double seconds, char *out, size_t size)
{
    const long s = seconds < 1e8 ? lround(seconds) : 100000000;
    if (s >= 3600)
        snprintf(out, size, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%ld:%02ld", s / 60, s % 60);
}

static void show(const progress *p, double now, double wait_seconds, double loss, double top1)
{
    const double seconds = now - p->begun;
    const double done = (double)p->step / (double)p->n_steps;
    char left[32] = "-", numbers[160];
    if (p->work_done > 0)
        format_seconds((now - p->opened) / (double)p->work_done * (double)p->work_left, left,
                       sizeof(left));
    snprintf(numbers, sizeof(numbers),
             "loss %.4f  top1 %.4f  %.0f images/s  waiting for data %.0f%%  ETA %s", loss, top1,
             (double)p->n_images / seconds, 100 * wait_seconds / seconds, left);
    if (!p->terminal) {
        printf("%s  step %lld/%lld  %s\n", p->title, (long long)p->step, (long long)p->n_steps,
               numbers);
        fflush(stdout);
        return;
    }
    static const char filled[] = "########################################";
    enum { BAR = 20 };
    const int n_filled = (int)(BAR * done);
    const int columns = terminal_columns();
    char line[512];
    snprintf(line, sizeof(line), "%s [%.*s%*s] %3.0f%%  %s", p->title, n_filled, filled,
             BAR - n_filled, "", 100 * done, numbers);
    fprintf(stderr, "\r%s%.*s%s\033[K", p->colour ? "\033[36m" : "", columns - 1, line,
            p->colour ? "\033[0m" : "");
}

bool progress_is_due(progress *p, double *now)
{
    *now = clock_seconds();
    if (*now - p->shown < (p->terminal ? BAR_SECONDS : LINE_SECONDS)) return false;
    p->shown = *now;
    return true;
}

void progress_step(progress *p, int64_t n_images, double wait_seconds, double loss, double top1)
{
    double now;
    p->step++;
    p->n_images += n_images;
    if (p->is_work) {
        p->work_done++;
        p->work_left--;
    }
    if (progress_is_due(p, &now)) show(p, now, wait_seconds, loss, top1);
}

void progress_clear(const progress *p)
{
    if (p->terminal) fputs("\r\033[K", stderr);
}

void progress_end(progress *p)
{
    progress_clear(p);
}
