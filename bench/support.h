/* support.h: what the bench programs share: options, times and their medians, and a bundled model
 * with an optimizer and a random batch. */
#ifndef BENCH_SUPPORT_H
#define BENCH_SUPPORT_H

#include <lockstep/lockstep.h>
#include <lockstep/models.h>

/* ---- Options ---- */

typedef enum bench_option_kind {
    BENCH_FLAG,   /* bool */
    BENCH_NUMBER, /* int64_t, 1 to 1000000 */
    BENCH_COUNT,  /* int64_t, 0 to 1000000 */
    BENCH_MODEL,  /* const ls_model * */
    BENCH_TEXT    /* const char * */
} bench_option_kind;

typedef struct bench_option {
    const char *name; /* "--batch" */
    bench_option_kind kind;
    void
        *value; /* its initial value is the default, and printed by --help unless it is 0 or NULL */
    const char *help; /* a line: its meaning, and its default unless it is the initial value */
} bench_option;

/* If an argument is not an option, prints a line on stderr and returns false. --help prints the
 * options on stdout and ends the program. The table ends with an entry without a name. */
bool bench_options(int argc, char **argv, const bench_option *table);

/* ---- Times ---- */

double bench_now(void); /* seconds */
void bench_sort(double *values, int64_t n);
/* Returns a quantile of sorted values, interpolated; share 0.5 is the median. */
double bench_quantile(const double *sorted, int64_t n, double share);

/* ---- Work ---- */

typedef struct bench_work {
    int64_t steps;  /* how many are expected; 0 = unknown */
    bool inference; /* a net without backward, and no optimizer */
    ls_precision precision;
    ls_recompute recompute;
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_batch batch;
} bench_work;

/* Opens, in work->ctx, net and optimizer (SGD with momentum and weight decay, cross entropy) and a
 * batch of uniformly random bytes. The context owns all of it. */
ls_status bench_open_work(bench_work *work, const ls_model *model, int64_t batch,
                          int64_t image_size, int64_t classes);
/* Opens a net of any model function for u8 images [N,H,W,C]; its options are a resnet's. */
ls_status bench_open_net(bench_work *work, ls_model_fn function, ls_shape images, int64_t classes);
/* Opens a batch of such images; labels are 0, 1, 2, .. in turn. */
ls_status bench_open_batch(ls_context *ctx, int64_t batch, int64_t image_size, int64_t classes,
                           ls_batch *out);
/* Prints the context's error, if there is one, on stderr. */
void bench_report(const char *program, ls_context *ctx);

#endif
