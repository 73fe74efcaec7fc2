/* lr_find.h: the points of a learning rate range test. */
#ifndef LS_TRAIN_LR_FIND_H
#define LS_TRAIN_LR_FIND_H

#include "base/context.h"
#include <lockstep/lr_find.h>

/* The test ends when the smoothed loss exceeds its minimum by this factor. */
#define LS__LR_FIND_DIVERGED 4

struct ls_lr_curve {
    ls__owned owned;
    ls_lr_find_end end;
    int64_t n;
    double average; /* m of the last point, without bias correction */
    double lowest;  /* smoothed loss */
    ls_lr_point *points;
};

/* Adds a point, for which there must be room. Returns true if the test ends there, which sets end;
 * a loss that is not finite is not added. */
bool ls__lr_curve_add(ls_lr_curve *curve, double lr, double loss, double smoothing);

#endif
