/* advice.h: warnings and notes, in the log, about a new run that is possible but hardly intended,
 * each with what to do. */
#ifndef LS_RUN_ADVICE_H
#define LS_RUN_ADVICE_H

#include "run/run_state.h"

/* About an opened run, also those of ls__run_advise_images. */
void ls__run_advise(const ls_run *t);
/* Those about the images alone. Of the run only settings, ctx and train_data must be set. In
 * advice_images.c. */
void ls__run_advise_images(const ls_run *t);

#endif
