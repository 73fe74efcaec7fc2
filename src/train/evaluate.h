/* evaluate.h: a net's average results over the batches of a pass. */
#ifndef LS_TRAIN_EVALUATE_H
#define LS_TRAIN_EVALUATE_H

#include "checkpoint/progress.h"
#include "data/decode/image.h"
#include <lockstep/trainer.h>

/* ---- predict.c: class probabilities, also averaged over an image and its mirror image ---- */

/* Of the last batch. Begins with all zero but net, test_time_flip and loss. */
typedef struct ls__prediction {
    ls_net *net;
    bool test_time_flip;
    ls_loss_kind loss; /* see ls_predict_config */
    int64_t n, n_classes;
    float *logits;        /* [1 or 2][n][n_classes] */
    float *probabilities; /* [n][n_classes] */
    int32_t *labels;      /* [n] */
    ls_tensor *mirrored;  /* the images' mirror images */
    ls__buffer logit_memory, label_memory, pixels;
} ls__prediction;

/* `call` begins error messages. */
ls_status ls__predict(ls__prediction *p, const char *call, const ls_batch *batch);
/* The same of the batch that the net has just run; test_time_flip must be false. */
ls_status ls__prediction_read(ls__prediction *p, const char *call);
/* The labels of the last batch, to p->labels. */
ls_status ls__prediction_read_labels(ls__prediction *p, const ls_batch *batch);
void ls__prediction_free(ls__prediction *p);

/* Cross-entropy and top-k accuracies of the last batch as ls_net_results gives them. LS_ERR_INVALID
 * where a sample has no label. */
ls_status ls__prediction_results(ls__prediction *p, const ls_batch *batch, ls_results *out);

/* ---- evaluation_gather.c: the results of validation batches, each of which one of several ranks
 * has run ---- */

/* The results of a validation batch, whose sums are those of the batch. */
typedef struct ls__batch_sums {
    ls__sums sums;
    int64_t step, first_sample;
} ls__batch_sums;

/* A growing list of a rank's batches: of a pass over n batches, rank r has the batches r, r +
 * n_ranks and so on. */
typedef struct ls__batch_list {
    ls__batch_sums *items;
    int64_t n, capacity;
} ls__batch_list;

ls_status ls__batch_list_add(ls_context *ctx, ls__batch_list *list, const ls__batch_sums *item);
/* All ranks call it with their lists; each gets those of all, in the order of batches. */
ls_status ls__batch_list_gather(ls_context *ctx, const ls__batch_list *own, int64_t n_batches,
                                ls__batch_list *all);
void ls__batch_list_free(const ls_context *ctx, ls__batch_list *list);

/* ---- evaluate.c ---- */

/* The caller's event callback. */
typedef struct ls__listener {
    ls_context *ctx;
    ls_event_fn on_event; /* may be NULL */
    void *user;
} ls__listener;
ls_status ls__notify(const ls__listener *listener, const ls_event *event);
/* In all ranks: an error in any of them is one of all. */
ls_status ls__notify_in_ranks(const ls__listener *listener, const ls_event *event);
/* Without an error of the context. */
ls_status ls__call_listener(const ls__listener *listener, const ls_event *event);

/* Adds the results of a batch; a batch without a loss adds 0. */
void ls__add_results(ls__sums *sums, const ls_results *results);
/* The names of own metrics are the net's. */
ls_averages ls__averages(const ls_net *net, const ls__sums *sums);

/* Adds up a net's results. Those of a batch may arrive after the next batch has been queued. */
enum { LS__TALLY_BATCHES = 2, LS__TALLY_SAMPLES = 8 };
typedef struct ls__tally {
    ls_net *net;
    ls_loader *loader;
    ls__sums *sums;
    ls__listener listener;
    bool validation;
    /* Called with the results of each batch; may be NULL. */
    ls_status (*on_results)(void *user, const ls_results *results);
    void *user;
    /* Of each queued batch: the first samples, as far as this rank has loaded them. */
    int64_t samples[LS__TALLY_BATCHES][LS__TALLY_SAMPLES];
    int n_known[LS__TALLY_BATCHES];
    int64_t n_begun, n_added;
    /* If each rank has whole batches: those of this one. `sums` are of them until the end of the
     * pass. */
    bool by_batch, is_ended;
    ls__batch_list own;
    int64_t n_taken;
} ls__tally;

/* Before a pass: drops unread results of earlier batches. */
ls_status ls__tally_begin(const ls__tally *tally);
/* After the net has run a batch. LS_ERR_NONFINITE names the batch whose loss is not finite. */
ls_status ls__tally_add(ls__tally *tally, const ls_batch *batch);
/* Waits for the remaining results. */
ls_status ls__tally_finish(ls__tally *tally);

/* One pass over a loader in evaluation mode. LS_TRAINER_INTERRUPTED: config->stop was set. For
 * other ends than DONE and INTERRUPTED the error is in the context. `epoch` is that of events. */
ls_trainer_end ls__evaluate(ls_net *net, ls_loader *loader, const ls_evaluate_config *config,
                            int64_t epoch, ls__sums *out);

#endif
