/* select_fusion.h: selects whether a fusion of the backend is used. */
#ifndef LS_NN_SELECT_SELECT_FUSION_H
#define LS_NN_SELECT_SELECT_FUSION_H

#include "nn/plan/program.h"

typedef struct ls__fusion_side {
    int n;
    ls__instruction list[LS__MAX_FUSION_OPS]; /* may be unfilled */
} ls__fusion_side;

/* The instructions of a fusion and those that it replaces. The first fused op, a convolution, names
 * the fusion in selections. */
typedef struct ls__fusion_sides {
    ls__fusion_side apart, fused;
} ls__fusion_sides;

/* True if the fusion is used. Fills the instructions; errors stay in the context. */
bool ls__select_fusion(ls__program *program, ls__fusion_sides *sides);

#endif
