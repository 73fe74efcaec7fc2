/* evaluate.h: a net's loss and accuracy over a data set, and how such a pass can end. */
#ifndef LS_CLI_EVALUATE_H
#define LS_CLI_EVALUATE_H

#include "cli.h"
#include "progress.h"
#include <signal.h>

typedef enum outcome {
    OUTCOME_DONE,
    OUTCOME_STOPPED,   /* by a signal */
    OUTCOME_HALTED,    /* after as many steps as were asked for */
    OUTCOME_NONFINITE, /* told already */
    OUTCOME_DATA,      /* the images are to blame; the error is in the context */
    OUTCOME_ERROR      /* anything else; the error is in the context */
} outcome;

/* Sums over images, so that batches of different sizes count rightly. */
typedef struct sums {
    double loss, top1, top5; /* top5 stays 0 for 5 classes or fewer */
    int64_t n_images;
} sums;

/* Adds a net's results to sums as they come, which may be a batch late. */
enum { TALLY_BATCHES = 2, TALLY_SAMPLES = 8 };
typedef struct tally {
    ls_net *net;
    const ls_dataset *dataset;
    sums *sums;
    bool trains; /* otherwise a validation */
    /* The samples of the batches under way, in turn: some, and how many there are. */
    int64_t samples[TALLY_BATCHES][TALLY_SAMPLES], n_samples[TALLY_BATCHES];
    int64_t n_begun, n_added;
} tally;

/* After the net has run a batch. A loss that is not finite is told on stderr, with its batch's
 * files. */
outcome tally_add(tally *t, const ls_batch *batch);
/* Waits for the results that are left. */
outcome tally_finish(tally *t);

typedef struct evaluation {
    ls_net *net;
    const ls_dataset *dataset;
    ls_loader *loader;
    progress *progress;
    const char *title;                                                 /* of the progress */
    const volatile sig_atomic_t *signal;                               /* stops when it is not 0 */
    ls_status (*each)(void *user, ls_net *net, const ls_batch *batch); /* after each; may be NULL */
    void *user;
} evaluation;

/* One pass of the loader. */
outcome evaluate(const evaluation *e, sums *out);

/* The answer of the command for an outcome; prints the context's error where one is to blame. */
int outcome_answer(const cli_verb *verb, ls_context *ctx, outcome outcome, int signal);

#endif
