/* progress.c: how far a run is; see progress.h. */
#include "progress.h"
#include "print.h"
#include "progress_line.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double BAR_SECONDS = 0.1, LINE_SECONDS = 10;

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_open(progress *p, int64_t n_train, int64_t n_evaluate)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    *p = (progress){ .works = { [WORK_TRAIN].left = n_train, [WORK_EVALUATE].left = n_evaluate } };
    p->terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    p->colour = p->terminal && !(no_colour && *no_colour); /* no-color.org */
}

void progress_begin(progress *p, const char *title, progress_work work, int64_t first_step,
                    int64_t n_steps)
{
    const double now = clock_seconds();
    if (p->begun > 0) p->works[p->work].seconds += now - p->begun;
    p->title = title;
    p->work = work;
    p->step = first_step;
    p->n_steps = n_steps;
    p->n_images = 0;
    p->begun = p->shown = now;
}

double progress_seconds_left(const progress *p, double now)
{
    /* Until one was done: the forward pass is a third of a training step's arithmetic. */
    enum { N_KNOWN = WORK_OTHER };
    static const double guess[N_KNOWN] = { [WORK_TRAIN] = 3, [WORK_EVALUATE] = 1.0 / 3 };
    double each[N_KNOWN];
    for (progress_work k = WORK_TRAIN; k < WORK_OTHER; k++) {
        const double seconds = p->works[k].seconds + (p->work == k ? now - p->begun : 0);
        each[k] = p->works[k].done > 0 ? seconds / (double)p->works[k].done : -1;
    }
    double left = 0;
    for (progress_work k = WORK_TRAIN; k < WORK_OTHER; k++) {
        const double other = each[N_KNOWN - 1 - k];
        left += (double)p->works[k].left * (each[k] >= 0 ? each[k] : guess[k] * other);
    }
    return each[WORK_TRAIN] < 0 && each[WORK_EVALUATE] < 0 ? -1 : left;
}

void progress_show(const progress *p, const char *line)
{
    if (p->terminal)
        fprintf(stderr, "\r%s%s%s\033[K", p->colour ? "\033[36m" : "", line,
                p->colour ? "\033[0m" : "");
    else
        print_text(stderr, "%s\n", line);
}

static void show(const progress *p, double now, double wait_seconds, double loss, double top1)
{
    const double seconds = now - p->begun;
    const progress_numbers numbers = { .title = p->title,
                                       .step = p->step,
                                       .n_steps = p->n_steps,
                                       .loss = loss,
                                       .top1 = top1,
                                       .images_per_second = (double)p->n_images / seconds,
                                       .data_wait = wait_seconds / seconds,
                                       .seconds_left = progress_seconds_left(p, now) };
    char line[PROGRESS_LINE_SIZE];
    if (p->terminal)
        progress_bar(&numbers, terminal_columns(STDERR_FILENO), line);
    else
        progress_log(&numbers, line);
    progress_show(p, line);
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
    p->works[p->work].done++;
    p->works[p->work].left--;
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
