/* progress_line.h: the layout of the line that shows how far a run is, and of an epoch's summary:
 * numbers and a width in, text out. */
#ifndef LS_CLI_PROGRESS_LINE_H
#define LS_CLI_PROGRESS_LINE_H

#include <stddef.h>
#include <stdint.h>

enum { PROGRESS_LINE_SIZE = 512, DURATION_SIZE = 32 };

typedef struct progress_numbers {
    const char *title;     /* "epoch 3/30" */
    int64_t step, n_steps; /* of the part */
    double loss, top1;
    double images_per_second, data_wait; /* data_wait: share of the time spent waiting for data */
    double seconds_left;                 /* until the end of the run; below 0: not known */
} progress_numbers;

/* A line for a terminal of so many columns, of which it leaves the last one free. From 120 columns
 * on it has all numbers, from 60 on always those of `images_per_second` and `seconds_left`. */
void progress_bar(const progress_numbers *p, int columns, char out[PROGRESS_LINE_SIZE]);

/* A whole line for a log, without a bar. */
void progress_log(const progress_numbers *p, char out[PROGRESS_LINE_SIZE]);

/* "2:03" or "1:02:03". */
void duration(double seconds, char out[DURATION_SIZE]);

#endif
