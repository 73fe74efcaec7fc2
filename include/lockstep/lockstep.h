/* lockstep.h: the whole API. The calls of a training program, in order:
 *
 *   ls_context_open          seed, threads, determinism                    context.h
 *   ls_image_folder_open     images, one sub-folder per class              data.h
 *                            or a pack: such a folder in one file          pack.h
 *   ls_dataset_check         unreadable images, duplicates, wrong folders  dataset_check.h
 *   ls_loader_open           batches: crop, flip, shuffle, workers         loader.h
 *   ls_net_build             compiles a model function                     nn.h, net.h
 *                            (bundled models)                              models.h
 *   ls_sgd                   optimizer                                     optim.h
 *   ls_schedule_open         learning rate schedule                        optim.h
 *   ls_context_status        the first error of the calls above, or LS_OK  context.h
 *   ls_context_warning       probable mistakes, such as a wrong folder     context.h
 *   ls_lr_find               learning rate range test, before a run         lr_find.h
 *   ls_trainer_open, _run    epochs, validation, metrics, checkpoints      trainer.h
 *   ls_evaluate              loss and accuracy, averaged over a loader     trainer.h
 *   ls_evaluation_scores     confusion matrix, precision, calibration      evaluation.h
 *   ls_predict               probabilities of the classes for a batch      trainer.h
 *   ls_onnx_export           the net as an ONNX model, for other programs  onnx.h
 *   ls_context_close         frees everything                              context.h
 *
 * Or a run, which makes all of these from settings, as the command does:
 *
 *   ls_run_open, _train      a folder of images, a model, a folder         run.h
 *   ls_dataset_open          the images at a path, whatever is there       dataset_path.h
 *   ls_sweep_open, _run      a search over the settings of runs            sweep.h
 *   ls_repro_open, _train    runs with other threads, workers and ranks    repro.h
 *
 * The training loop can also be written by hand:
 *
 *   ls_loader_start, _next   for each epoch, for each batch:               loader.h
 *   ls_net_step              forward, backward, update                     optim.h
 *   ls_net_results           the batch's loss and metrics                  net.h
 *   ls_run_log_step          digests of the step's inputs and results      run_log.h
 *   ls_net_evaluate          validation of one batch                       net.h
 *   ls_checkpoint_save       weights, optimizer, position of the run       checkpoint.h
 *
 * Also: search.h (hyperparameter search), tensor.h (tensors, safetensors files), random.h (Philox),
 * algorithm_cache.h (kernel selections in a file), report.h (the results of runs as HTML), text.h
 * (texts that may hold any bytes).
 *
 * Calls that create an object return a pointer, or NULL on failure or if a required object is NULL;
 * actions return ls_status. The library never prints, exits or aborts, but
 * for ls_context_abort: the first error is kept in
 * the context with its text until it is cleared. Warnings are kept in the context, too. */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <lockstep/algorithm_cache.h>
#include <lockstep/checkpoint.h>
#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/dataset_check.h>
#include <lockstep/evaluation.h>
#include <lockstep/loader.h>
#include <lockstep/lr_find.h>
#include <lockstep/models.h>
#include <lockstep/net.h>
#include <lockstep/nn.h>
#include <lockstep/onnx.h>
#include <lockstep/optim.h>
#include <lockstep/pack.h>
#include <lockstep/random.h>
#include <lockstep/run_log.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>
#include <lockstep/text.h>
#include <lockstep/trainer.h>
#include <lockstep/version.h>

/* What a minimal build of the library does not have (its users get the macro from pkg-config or
 * CMake). */
#ifndef LOCKSTEP_MINIMAL
#include <lockstep/dataset_path.h>
#include <lockstep/report.h>
#include <lockstep/repro.h>
#include <lockstep/run.h>
#include <lockstep/search.h>
#include <lockstep/sweep.h>
#endif

#endif
