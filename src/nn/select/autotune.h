/* autotune.h: timing kernels within a program's share of time, see autotune.c. */
#ifndef LS_NN_SELECT_AUTOTUNE_H
#define LS_NN_SELECT_AUTOTUNE_H

#include "nn/plan/program.h"

/* What is tried after another is taken if it needs less than this share of its time: smaller
 * differences are noise. */
#define LS__CLEARLY_FASTER 0.97

/* Times kernels for the ops of a program that no table has, and puts the fastest into the algorithm
 * cache. */
ls_status ls__autotune(ls__program *program);
/* The same for these instructions, which are filled. */
ls_status ls__autotune_list(ls__program *program, const ls__instruction *list, int n);
/* What timing may still take in this program; the caller subtracts what it has taken. */
double *ls__autotune_left_ms(ls__program *program);
/* The price of timing what costs so much, both by the estimates. */
double ls__autotune_price_ms(const ls__program *program, double cost_ms);
/* Puts a selection into the algorithm cache, unless it has no kernel. */
ls_status ls__autotune_put(ls_context *ctx, const ls__selection *selection, bool timed);

#endif
