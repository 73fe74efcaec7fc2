/* lockstep.h: the whole API. The way of a training program:
 *
 *   ls_context_open          seed, threads, determinism                    context.h
 *   ls_image_folder_open     a folder of images, one sub-folder a class    data.h
 *                            (or such a folder in one file                 pack.h)
 *   ls_loader_open           batches: crop, flip, shuffle, workers         data.h
 *   ls_net_build             a model function becomes a planned program    nn.h, net.h
 *                            (or a bundled ResNet does                    models.h)
 *   ls_sgd, ls_schedule_cosine        optimizer and learning-rate schedule          optim.h
 *   ls_context_status        did all of the above go well?
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
 *   ls_run_log_step           digests of what went in and came out          run_log.h
 *   ls_net_evaluate          validation
 *   ls_checkpoint_save       weights, optimizer, position                  checkpoint.h
 *
 * Calls that make something return a pointer, NULL on failure, and NULL in gives NULL out; verbs
 * return ls_status. The library never prints, exits or aborts: the first error is kept in the
 * context, with its text, until it is cleared, and warnings are kept there. */
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
