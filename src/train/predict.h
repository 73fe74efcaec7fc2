/* predict.h: class probabilities, also averaged over an image and its mirror image. */
#ifndef LS_TRAIN_PREDICT_H
#define LS_TRAIN_PREDICT_H

#include <lockstep/trainer.h>

/* Of the last batch. Begins with all zero but net and test_time_flip. */
typedef struct ls__prediction {
    ls_net *net;
    bool test_time_flip;
    int64_t n, n_classes;
    float *logits;        /* [1 or 2][n][n_classes] */
    float *probabilities; /* [n][n_classes] */
    size_t capacity;      /* of these two together, in elements */
} ls__prediction;

/* `call` begins error messages. */
ls_status ls__predict(ls__prediction *p, const char *call, const ls_batch *batch);
void ls__prediction_free(ls__prediction *p);

/* Cross-entropy and top-k accuracies of the last batch as ls_net_results gives them. LS_ERR_INVALID
 * where a sample has no label. */
ls_status ls__prediction_results(const ls__prediction *p, const ls_batch *batch, ls_results *out);

#endif
