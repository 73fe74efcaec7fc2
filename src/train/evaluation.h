/* evaluation.h: the predictions of a pass, and the values computed from them. */
#ifndef LS_TRAIN_EVALUATION_H
#define LS_TRAIN_EVALUATION_H

#include "base/bump.h"
#include "base/context.h"
#include <jansson.h>
#include <lockstep/evaluation.h>
#include <lockstep/loader.h>

/* One image. */
typedef struct ls__outcome {
    int64_t sample;
    int32_t label, predicted;
    float confidence; /* probability of the predicted class */
    float label_probability;
    int32_t before_label; /* number of classes that are more probable than the label */
} ls__outcome;

struct ls_evaluation {
    ls__owned owned;
    int n_classes;
    char **classes;
    ls__bump names; /* of the classes */
    double zero_division;

    bool has_auc;
    ls__outcome *outcomes;
    int32_t *labels; /* with has_auc: [n], */
    float *rows;     /* and [n][n_classes] probabilities, in the order in which they were added */
    int64_t n, capacity;

    /* What ls_evaluation_finish computes. */
    ls_evaluation_result result;
    ls_calibration_bin bins[LS_CALIBRATION_BINS];
    ls_class_result *results; /* n_classes; NULL before */
    ls_confusion *confusion;  /* by label */
    ls_confusion *confused;   /* off the diagonal, by number of images */
    ls_mistake *mistakes;
    int64_t n_confusion, n_confused, n_mistakes;

    char *json; /* the last text of ls_evaluation_json */
};

/* Removes all predictions. */
void ls__evaluation_clear(ls_evaluation *evaluation);
/* Adds the predictions of the other ranks. All ranks call it. */
ls_status ls__evaluation_gather(ls_evaluation *evaluation);
/* The object of ls_evaluation_json; NULL if memory is short. Where `dataset` is not NULL, each
 * mistake has the "path" of its sample below the dataset's folder, and with `loading`, whose alpha
 * and depth are read, its "image", a JPEG as a data URI; an unreadable image has none. */
json_t *ls__evaluation_describe(const ls_evaluation *evaluation, const ls_dataset *dataset,
                                const ls_loader_config *loading);

#endif
