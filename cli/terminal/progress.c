/* progress.c: see progress.h. */
#include "terminal/progress.h"
#include "terminal/print.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- The line ---- */

/* What a line shows in addition to speed and time left. */
enum {
    TITLE = 1,
    BAR = 2,
    PERCENT = 4,
    STEP = 8,
    LOSS = 16,
    TOP1 = 32,
    DATA_WAIT = 64,
    LONG_SPEED = 128 /* "images/s", else "img/s" */
};

/* In descending length. The first layout that fits is shown. */
static const unsigned layouts[] = {
    TITLE | BAR | PERCENT | STEP | LOSS | TOP1 | DATA_WAIT | LONG_SPEED,
    TITLE | PERCENT | STEP | LOSS | TOP1 | DATA_WAIT | LONG_SPEED,
    TITLE | BAR | PERCENT | LOSS | TOP1 | LONG_SPEED,
    TITLE | BAR | PERCENT | LOSS | TOP1,
    TITLE | PERCENT | LOSS | TOP1,
    TITLE | PERCENT | LOSS,
    TITLE | PERCENT,
    TITLE,
    0,
};
enum { N_LAYOUTS = sizeof(layouts) / sizeof(layouts[0]), LEAST_BAR = 6, MOST_BAR = 20 };

void duration(double seconds, char out[DURATION_SIZE])
{
    const long s = seconds < 1e8 ? lround(seconds) : 100000000;
    if (s >= 3600)
        snprintf(out, DURATION_SIZE, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, DURATION_SIZE, "%ld:%02ld", s / 60, s % 60);
}

typedef struct buffer {
    char *text;
    int length;
} buffer;

__attribute__((format(printf, 2, 3))) static void put(buffer *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t size = PROGRESS_LINE_SIZE - (size_t)l->length;
    const int n = vsnprintf(l->text + l->length, size, format, args);
    va_end(args);
    l->length += n < (int)size ? n : (int)size - 1;
}

static void put_numbers(buffer *l, const progress_numbers *p, unsigned shown)
{
    char left[DURATION_SIZE] = "-", loss[LOSS_SIZE];
    if (p->seconds_left >= 0) duration(p->seconds_left, left);
    if (shown & STEP) put(l, "  step %lld/%lld", (long long)p->step, (long long)p->n_steps);
    if (shown & LOSS) put(l, "  loss %s", loss_text(p->loss, p->top1 < 0, loss));
    if (shown & TOP1 && p->top1 >= 0) put(l, "  top-1 %.4f", p->top1);
    const double speed = p->images_per_second;
    put(l, "%s%.*f %s", l->length > 0 ? "  " : "", speed < 10 ? 1 : 0, speed,
        shown & LONG_SPEED ? "images/s" : "img/s");
    if (shown & DATA_WAIT) put(l, "  data wait %.0f%%", 100 * p->data_wait);
    put(l, "  ETA %s", left);
}

/* The line's length, with `bar` columns between the brackets of its bar. */
static int put_layout(const progress_numbers *p, unsigned shown, int bar,
                      char out[PROGRESS_LINE_SIZE])
{
    static const char filled[] = "########################################";
    const double done = p->n_steps > 0 ? (double)p->step / (double)p->n_steps : 0;
    const int n_filled = (int)(bar * done);
    buffer l = { out, 0 };
    out[0] = '\0';
    if (shown & TITLE) put(&l, "%s", p->title);
    if (shown & BAR) put(&l, " [%.*s%*s]", n_filled, filled, bar - n_filled, "");
    if (shown & PERCENT) put(&l, " %3.0f%%", 100 * done);
    put_numbers(&l, p, shown);
    return l.length;
}

void progress_bar(const progress_numbers *p, int columns, char out[PROGRESS_LINE_SIZE])
{
    const int room = columns - 1 < PROGRESS_LINE_SIZE - 1 ? columns - 1 : PROGRESS_LINE_SIZE - 1;
    for (int i = 0; i < N_LAYOUTS; i++) {
        const int spare = room - put_layout(p, layouts[i], LEAST_BAR, out);
        if (spare < 0) continue;
        const int bar = LEAST_BAR + spare;
        put_layout(p, layouts[i], bar < MOST_BAR ? bar : MOST_BAR, out);
        return;
    }
    out[room > 0 ? room : 0] = '\0';
}

void progress_log(const progress_numbers *p, char out[PROGRESS_LINE_SIZE])
{
    put_layout(p, TITLE | STEP | LOSS | TOP1 | DATA_WAIT | LONG_SPEED, 0, out);
}

/* ---- The run ---- */

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

/* On a terminal the line replaces the previous one. */
static void show_line(const progress *p, const char *line)
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
    show_line(p, line);
}

/* Whether the display is due for an update, which restarts the interval; *now is the clock. */
static bool is_due(progress *p, double *now)
{
    *now = clock_seconds();
    if (print_is_quiet()) return false;
    if (*now - p->shown < (p->terminal ? BAR_SECONDS : LINE_SECONDS)) return false;
    p->shown = *now;
    return true;
}

void progress_count(progress *p, int64_t n_done, int64_t n)
{
    double now;
    char line[PROGRESS_LINE_SIZE];
    if (!is_due(p, &now)) return;
    snprintf(line, sizeof(line), "%s  %lld/%lld  %.0f images/s", p->title, (long long)n_done,
             (long long)n, (double)n_done / (now - p->begun));
    show_line(p, line);
}

void progress_step(progress *p, int64_t n_images, double wait_seconds, double loss, double top1)
{
    double now;
    p->step++;
    p->n_images += n_images;
    p->works[p->work].done++;
    p->works[p->work].left--;
    if (is_due(p, &now)) show(p, now, wait_seconds, loss, top1);
}

void progress_clear(const progress *p)
{
    if (p->terminal) progress_erase();
}

void progress_erase(void)
{
    fputs("\r\033[K", stderr);
}
