/* progress.h: the progress of a run on stderr: a bar on a terminal, otherwise a line per
 * interval. */
#ifndef LS_CLI_TERMINAL_PROGRESS_H
#define LS_CLI_TERMINAL_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds of steps. The time of WORK_OTHER is not used to estimate that of the others. */
typedef enum progress_work { WORK_TRAIN, WORK_EVALUATE, WORK_OTHER, N_WORKS } progress_work;

typedef struct progress {
    bool terminal, colour; /* of stderr */
    struct {
        int64_t done, left; /* steps */
        double seconds;     /* of completed passes, and of saving after them */
    } works[N_WORKS];

    const char *title;     /* of the current pass, "epoch 3/30"; borrowed */
    progress_work work;    /* of its steps */
    int64_t step, n_steps; /* of the pass */
    int64_t n_images;      /* of the pass so far */
    double begun, shown;   /* clock when the pass began, and at the last update; 0: no pass yet */
} progress;

/* Seconds of the monotonic clock. */
double clock_seconds(void);

/* For a run of n_train training and n_evaluate validation steps. */
void progress_open(progress *p, int64_t n_train, int64_t n_evaluate);
/* Begins a pass of n_steps, of which first_step are completed. */
void progress_begin(progress *p, const char *title, progress_work work, int64_t first_step,
                    int64_t n_steps);
/* Adds a step, and updates the display if it is due. wait_seconds: time spent waiting for data
 * since the pass began. top1 below 0: none. */
void progress_step(progress *p, int64_t n_images, double wait_seconds, double loss, double top1);
/* Estimated seconds until the end of the run, from the steps of both kinds so far; below 0 = no
 * step is done. */
double progress_seconds_left(const progress *p, double now);
/* For work that counts images: shows "TITLE  7/10  25 images/s" if the display is due. */
void progress_count(progress *p, int64_t n_done, int64_t n);
/* Removes the bar from the terminal: at the end of a pass, and before other output. */
void progress_clear(const progress *p);
/* The same for any line of a terminal that stderr is. */
void progress_erase(void);

/* ---- The line itself: numbers and a width in, text out ---- */

enum { PROGRESS_LINE_SIZE = 512, DURATION_SIZE = 32 };

typedef struct progress_numbers {
    const char *title;                   /* "epoch 3/30" */
    int64_t step, n_steps;               /* of the pass */
    double loss, top1;                   /* top1 below 0: the model has none */
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
