/* predict.h: class probabilities, also averaged over an image and its mirror image. */
#ifndef LS_TRAIN_PREDICT_H
#define LS_TRAIN_PREDICT_H

#include <lockstep/trainer.h>

/* Of the last batch. Begins with all zero but net, test_time_flip and loss. */
typedef struct ls__prediction {
    ls_net *net;
    bool test_time_flip;
    ls_loss_kind loss; /* see ls_predict_config */
    int64_t n, n_classes;
    float *logits;        /* [1 or 2][n][n_classes] */
    float *probabilities; /* [n][n_classes] */
    size_t capacity;      /* of these two together, in elements */
    int32_t *labels;      /* [n] */
    int64_t label_room;   /* of these, in elements */
    ls_tensor *mirrored;  /* the images' mirror images, */
    uint8_t *pixels;      /* made here */
    size_t pixel_bytes;
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

#endif
