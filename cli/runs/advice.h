/* advice.h: warnings about a new run that is possible but hardly intended, on stderr, each with
 * what to do. */
#ifndef LS_CLI_RUNS_ADVICE_H
#define LS_CLI_RUNS_ADVICE_H

#include "options/run_settings.h"
#include "run/run_state.h"

/* About an opened run, also those of advise_images. */
void advise(const ls_run *t);
/* Those about the images alone. Of the run only settings, ctx and train_data must be set. In
 * advice_images.c. */
void advise_images(const ls_run *t);

#endif
