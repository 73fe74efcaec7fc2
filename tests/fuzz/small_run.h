/* small_run.h: a run of a few parameters, which a checkpoint is loaded into. */
#ifndef LS_TESTS_FUZZ_SMALL_RUN_H
#define LS_TESTS_FUZZ_SMALL_RUN_H

#include <lockstep/lockstep.h>

/* Members are NULL where something failed; the context's error tells. */
ls_training_state small_run_open(ls_context *ctx);

#endif
