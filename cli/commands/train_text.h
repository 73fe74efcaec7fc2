/* train_text.h: the lines of `lockstep train` before and after the epochs. */
#ifndef LS_CLI_COMMANDS_TRAIN_TEXT_H
#define LS_CLI_COMMANDS_TRAIN_TEXT_H

#include "cli.h"

/* What the run is: data, model, loss, device, folder. */
void train_print_begin(ls_run *run, bool resumed);

/* How it ended and what to do next. data_exit_status: the exit status of an error of the images.
 * seconds: since the command started. Returns the exit status. */
int train_print_end(ls_run *run, bool resumed, ls_trainer_end end, int data_exit_status,
                    double seconds);

#endif
