/* autotune.h: times kernels within a program's time budget, see autotune.c. */
#ifndef LS_NN_SELECT_AUTOTUNE_H
#define LS_NN_SELECT_AUTOTUNE_H

#include "nn/plan/program.h"

/* A later candidate replaces the best one if it needs less than this share of its time, because
 * smaller differences are noise. */
#define LS__CLEARLY_FASTER 0.97

/* Times kernels for these instructions' ops without a selection and puts the fastest into the
 * algorithm cache. The instructions are filled. */
ls_status ls__autotune(ls__program *program, const ls__instruction *list, int n);
/* The rest of the program's time budget; the caller subtracts the time that it takes. */
double *ls__autotune_left_ms(ls__program *program);
/* The estimated time to time an op of estimated cost `cost_ms`. */
double ls__autotune_price_ms(const ls__program *program, double cost_ms);
/* Puts a selection into the algorithm cache, unless it has no kernel. */
ls_status ls__autotune_put(ls_context *ctx, const ls__selection *selection, bool timed);

#endif
