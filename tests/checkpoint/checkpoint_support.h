/* checkpoint_support.h: a small run to save and to go on with, and a folder for its files. */
#ifndef LS_TESTS_CHECKPOINT_CHECKPOINT_SUPPORT_H
#define LS_TESTS_CHECKPOINT_CHECKPOINT_SUPPORT_H

#include "../suite.h"
#include <lockstep/lockstep.h>

enum { N_SAMPLES = 44, SIDE = 8, BATCH = 8, STEPS = 6, MAX_CLASSES = 6 };

/* With batch norm and dropout. classes: the number of classes, an int. */
ls_node *model(ls_graph *g, ls_node *x, const void *classes);

typedef enum kind { SGD, ADAM, ADAMW, PLAIN_SGD, N_KINDS } kind;

typedef struct options {
    kind kind;
    int threads, shards, n_classes;
    ls_precision precision;
    float loss_scale;
    ls_benchmark benchmark;
    ls_arithmetic arithmetic;
    bool reference; /* offers the reference kernels */
    const char *algorithm_cache;
    uint64_t seed;
    float momentum;
    double lr;
    int64_t batch, accumulate;
    const ls_allocator *allocator;
} options;
extern const options usual;

typedef struct run {
    ls_context *ctx;
    ls_training_state state;
} run;

/* Parts are NULL where something failed. */
run open_run(const options *o);
/* Fails the test where something failed. */
run open_good_run(const options *o);

/* From the state's step up to, and without, step `until` of the whole run. A worsening metric is
 * reported after each epoch. */
void train(run *r, int64_t until);

/* Everything that a run is made of, bit by bit, as text. */
enum { PORTRAIT = 16384 };
void portray(const run *r, char out[PORTRAIT]);

/* The op of conv1 over a short last batch, from the log of whoever comes to it; "" before. */
enum { OP_TEXT = 512 };
extern char short_op[OP_TEXT];

/* ---- Files ---- */

/* A folder of the whole program, around all tests. end_runs returns the status. */
void begin_runs(void);
int end_runs(int status);
/* As path_in. */
const char *path_of(const char *name);

#endif
