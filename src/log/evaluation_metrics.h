/* evaluation_metrics.h: the values of an evaluation that may decide which epoch of a run is the
 * best; see ls_trainer_config.metric. A run has them as "val_NAME" in its metrics. */
#ifndef LS_LOG_EVALUATION_METRICS_H
#define LS_LOG_EVALUATION_METRICS_H

/* X(name, member of ls_evaluation_result, whether the lowest value is the best, whether it reads
 * ls_evaluation_config.auc, title and axis of its chart, the axis's end or 0) */
#define LS__EVALUATION_METRICS(X)                                                                  \
    X(macro_recall, macro.recall, false, false, "Macro recall", "macro recall", 1)                 \
    X(macro_f1, macro.f1, false, false, "Macro F1", "macro F1", 1)                                 \
    X(auc, auc, false, true, "Mean area under the ROC curves", "AUC", 1)                           \
    X(cross_entropy, cross_entropy, true, false, "Cross-entropy", "cross-entropy", 0)

#endif
