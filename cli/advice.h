/* advice.h: warnings about a run that is possible but hardly intended. */
#ifndef LS_CLI_ADVICE_H
#define LS_CLI_ADVICE_H

#include "run.h"

/* For an opened trainer, before a new run trains: on stderr, each warning with what to do. */
void advise(const cli_run *t);

#endif
