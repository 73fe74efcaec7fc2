/* autotune.h: timing kernels within a program's share of time, see tune.c. */
#ifndef LS_NN_SELECT_AUTOTUNE_H
#define LS_NN_SELECT_AUTOTUNE_H

#include "nn/plan/program.h"

/* What is tried after another is taken if it needs less than this share of its time: smaller
 * differences are noise. */
#define LS__CLEARLY_FASTER 0.97

/* Times kernels for those of the instructions that no table has, and puts the fastest into the
 * context's. The instructions are filled. */
ls_status ls__tune(ls__program *program, const ls__instruction *list, int n);
/* What timing may still take in this program; the caller subtracts what it has taken. */
double *ls__tune_left_ms(ls__program *program);
/* Of timing what costs so much, both by the estimates. */
double ls__tune_price_ms(const ls__program *program, double cost_ms);
/* Puts a choice into the context's table, unless it has no kernel. */
ls_status ls__tune_settle(ls_context *ctx, const ls__selection *selection, bool timed);

#endif
