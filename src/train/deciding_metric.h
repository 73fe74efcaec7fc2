/* deciding_metric.h: the metric that decides which epoch of a run is the best; see
 * ls_trainer_config.metric. */
#ifndef LS_TRAIN_DECIDING_METRIC_H
#define LS_TRAIN_DECIDING_METRIC_H

#include <lockstep/trainer.h>

typedef enum ls__metric_source {
    LS__METRIC_OF_LOSS,
    LS__METRIC_OF_ACCURACY,  /* `index` 0: top-1, 1: top-5 */
    LS__METRIC_OF_NET,       /* ls_averages.metrics[index] */
    LS__METRIC_OF_EVALUATION /* row `index` of the table in deciding_metric.c */
} ls__metric_source;

enum { LS__METRIC_TEXT = 320 };
typedef struct ls__deciding_metric {
    const char *name; /* constant, or the net's */
    ls__metric_source source;
    int index;
    bool minimize; /* the lowest value is the best */
    bool reads_auc;
    char identity[LS__METRIC_TEXT]; /* ls_training_state.metric; "" for the default */
} ls__deciding_metric;

/* Finds config->metric, or the default. Errors are those of ls_trainer_open. */
ls_status ls__deciding_metric_find(const ls_net *net, const ls_trainer_config *config,
                                   ls__deciding_metric *out);
/* The value of an epoch. averages: of validation, or without validation of training. `evaluation`
 * is read if the metric is LS__METRIC_OF_EVALUATION. */
double ls__deciding_metric_value(const ls__deciding_metric *metric, const ls_averages *averages,
                                 const ls_evaluation *evaluation);
/* Whether a value and its loss are better than the best ones. NaN is worse than all numbers. */
bool ls__deciding_metric_is_better(const ls__deciding_metric *metric, double value, double loss,
                                   double best, double best_loss);

#endif
