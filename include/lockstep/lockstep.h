/* lockstep.h: the whole API. The calls of a training program, in order:
 *
 *   ls_context_open          seed, threads, determinism                    context.h
 *   ls_image_folder_open     a folder of images, one sub-folder a class    data.h
 *                            (or a pack: such a folder in one file         pack.h)
 *   ls_loader_open           batches: crop, flip, shuffle, workers         data.h
 *   ls_net_build             compiles a model function                     nn.h, net.h
 *                            (the bundled ResNets are in                   models.h)
 *   ls_sgd                   optimizer                                     optim.h
 *   ls_schedule_cosine       learning-rate schedule                        optim.h
 *   ls_context_status        the first error of the calls above, or LS_OK
 *   ls_context_warning       probable mistakes in it, such as a wrong folder
 *   ls_trainer_open, _run    epochs, validation, metrics, checkpoints      trainer.h
 *   ls_evaluate              the averages of a net over a loader
 *   ls_context_close         frees everything
 *
 * The training loop can also be written by hand:
 *
 *   ls_loader_start, _next   for each epoch, for each batch:
 *   ls_net_step              forward, backward, update
 *   ls_net_results           its loss and metrics
 *   ls_run_log_step          digests of the step's inputs and results      run_log.h
 *   ls_net_evaluate          validation
 *   ls_checkpoint_save       weights, optimizer, position                  checkpoint.h
 *
 * Calls that create an object return a pointer, or NULL on failure or if a required object is NULL;
 * actions return ls_status. The library never prints, exits or aborts: the first error is kept in
 * the context with its text until it is cleared. Warnings are kept in the context, too. */
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <lockstep/checkpoint.h>
#include <lockstep/context.h>
#include <lockstep/data.h>
#include <lockstep/models.h>
#include <lockstep/net.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <lockstep/pack.h>
#include <lockstep/algorithm_cache.h>
#include <lockstep/random.h>
#include <lockstep/run_log.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>
#include <lockstep/trainer.h>

#endif
