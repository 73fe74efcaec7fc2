/* select_fusion.h: whether a fusion that the backend offers is taken. */
#ifndef LS_NN_SELECT_SELECT_FUSION_H
#define LS_NN_SELECT_SELECT_FUSION_H

#include "nn/plan/program.h"

/* What a fusion replaces, and by what: instructions that may be unfilled. fused[0] is the
 * convolution that stands for it among the selections. */
typedef struct ls__fusion_sides {
    int n_apart, n_fused;
    ls__instruction apart[LS__MAX_FUSION_OPS], fused[LS__MAX_FUSION_OPS];
} ls__fusion_sides;

/* True when it is taken. Fills the instructions; keeps errors in the context. */
bool ls__select_fusion(ls__program *program, ls__fusion_sides *sides);

#endif
