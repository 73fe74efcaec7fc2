/* event_log.h: a run's curves, images and histograms as event files for TensorBoard, one per
 * process that trains: DIR/events.out.tfevents.SECONDS.N. A step of an event is the number of steps
 * that are done. */
#ifndef LS_TRAIN_EVENT_LOG_H
#define LS_TRAIN_EVENT_LOG_H

#include <jansson.h>
#include <lockstep/trainer.h>

typedef struct ls__event_log ls__event_log;

/* A run at its start or, with steps_done > 0, resumed: TensorBoard then drops later steps of the
 * run's older files. The file is created by the first event. */
ls_status ls__event_log_open(ls_context *ctx, const char *dir, const ls_trainer_config *config,
                             int64_t steps_done, ls__event_log **out);
void ls__event_log_close(ls__event_log **log);

/* After each step, its results. Every log_every steps writes the tags step/loss, step/top1 and the
 * net's other metrics, step/lr, and step/images_per_second since the last of these events. */
ls_status ls__event_log_step(ls__event_log *log, int64_t steps_done, const ls_results *results,
                             double lr);
/* Before the first step of a run: the first images of the batch. */
ls_status ls__event_log_batch(ls__event_log *log, const ls_batch *batch);
/* After an epoch, the numbers of its row of metrics: epoch/train_loss and so on; and histograms of
 * the weights and of the gradients of the last step. */
ls_status ls__event_log_epoch(ls__event_log *log, int64_t steps_done, const json_t *row,
                              const ls_net *net);

#endif
