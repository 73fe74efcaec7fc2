/* sharded_net.h: a small net that trains with shards, in several settings, and everything that a
 * step changes. Thread-safe. */
#ifndef LS_TESTS_NN_SHARDED_NET_H
#define LS_TESTS_NN_SHARDED_NET_H

#include "small_net.h"

enum { BATCH = 24, SIZE = 8, CLASSES = 10, MAX_VALUES = 1 << 13, STEPS = 5 };
static const double LR = 0.05;

typedef struct setting {
    const char *name;
    ls_precision precision;
    ls_recompute recompute;
    float label_smoothing, clip_norm;
    bool class_weights, soft, frozen, synced;
    bool two_optimizers; /* one of the weights, one of the biases */
    int64_t accumulate;
} setting;
/* Settings from FIRST_SYNCED on have synchronised batch norms. */
enum { N_SETTINGS = 11, FIRST_SYNCED = 7 };
extern const setting settings[N_SETTINGS];

/* The batches of the steps: whole ones, two short ones, of which the second has fewer samples than
 * the largest number of shards, and one of 1 sample. */
extern const int64_t batch_sizes[STEPS];

float class_weight(const setting *s, int label);

typedef struct trained {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_optimizer *of_biases; /* NULL unless there are two optimizers */
} trained;

trained open_net(const setting *s, int shards, int64_t batch, int threads);
trained build_net(const setting *s, ls_context *ctx, int64_t batch);

/* Samples [begin, end) of a step's batch. One eighth of the labels is ignored, and in step 1 all of
 * the first 6. */
ls_batch part_of(ls_context *ctx, const setting *s, int step, int64_t begin, int64_t end);
void close_batch(ls_batch *b);

typedef struct step_values {
    float of[MAX_VALUES];
    int64_t n;
} step_values;

void put(step_values *v, const float *from, int64_t n);
void put_tensor(step_values *v, const ls_tensor *tensor);
void put_net(step_values *v, const trained *t, double loss, double top1);
void expect_same(const step_values *got, const step_values *wanted, const char *what);

/* A step over a batch, and all that it changes. */
void step_over(trained *t, const ls_batch *b, step_values *out);
void step_with_shards(const setting *s, trained *t, int step, step_values *out);

#endif
