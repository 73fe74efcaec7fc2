/* loader_support.h: a folder of images, sound and bad, and the trace of what a loader makes of
 * it.
 */
#ifndef LS_TESTS_LOADER_SUPPORT_H
#define LS_TESTS_LOADER_SUPPORT_H

#include "support.h"

enum { N_IMAGES = 41, MAX_TRACE = 256 };

/* 41 JPEG and PNG files in three classes, of 20 to 60 pixels a side. With bad: samples 3, 4, 17 and
 * 40 are empty, cut, another kind of file and a link to nowhere. */
char *make_images(bool bad);
enum { N_BAD_KINDS = 4 };
/* One of the four. */
void write_bad_image(const char *path, int kind);
extern const int64_t bad_images[N_BAD_KINDS];

typedef struct trace_batch {
    ls_digest images, labels, samples, targets;
    int64_t count, n_bad, epoch, step;
} trace_batch;

/* What came of some epochs, batch by batch. */
typedef struct trace {
    int n;
    trace_batch batches[MAX_TRACE];
    ls_status status;
    char message[1024];
    int64_t n_images, n_bad, bads[64];
    char reasons[64][256];
} trace;

/* Runs epochs first..last of a new loader over the data, the first one from a step on, and closes
 * it. */
void run_epochs_from(ls_context *ctx, ls_dataset *data, ls_loader_config config, int first,
                     int64_t step, int last, trace *out);
/* The same from step 0. */
void run_epochs(ls_context *ctx, ls_dataset *data, ls_loader_config config, int first, int last,
                trace *out);
void expect_same_trace(const trace *a, const trace *b, const char *what);

#endif
