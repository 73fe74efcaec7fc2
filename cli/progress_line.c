/* progress_line.c: see progress_line.h. */
#include "progress_line.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* What a line shows beside speed and time left. */
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

/* From the most to the least: the first that fits is shown. */
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

typedef struct line {
    char *text;
    int length;
} line;

static void put(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t size = PROGRESS_LINE_SIZE - (size_t)l->length;
    const int n = vsnprintf(l->text + l->length, size, format, args);
    va_end(args);
    l->length += n < (int)size ? n : (int)size - 1;
}

static void put_numbers(line *l, const progress_numbers *p, unsigned shown)
{
    char left[DURATION_SIZE] = "-";
    if (p->seconds_left >= 0) duration(p->seconds_left, left);
    if (shown & STEP) put(l, "  step %lld/%lld", (long long)p->step, (long long)p->n_steps);
    if (shown & LOSS) put(l, "  loss %.4f", p->loss);
    if (shown & TOP1) put(l, "  top-1 %.4f", p->top1);
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
    line l = { out, 0 };
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
