/* select_fusion.h: selects whether a fusion of the backend is used. */
#ifndef LS_NN_SELECT_SELECT_FUSION_H
#define LS_NN_SELECT_SELECT_FUSION_H

#include "nn/plan/program.h"

/* The instructions of a fusion and those that it replaces; they may be unfilled. The op of
 * fused[0], a convolution, names the fusion in selections. */
typedef struct ls__fusion_sides {
    int n_apart, n_fused;
    ls__instruction apart[LS__MAX_FUSION_OPS], fused[LS__MAX_FUSION_OPS];
} ls__fusion_sides;

/* True if the fusion is used. Fills the instructions; errors stay in the context. */
bool ls__select_fusion(ls__program *program, ls__fusion_sides *sides);

#endif
