/* config.h: checking and filling in config structs; what a thing was configured as, for
 * checkpoints. */
#ifndef LS_OPTIM_CONFIG_H
#define LS_OPTIM_CONFIG_H

#include "base/strict_math.h"
#include <lockstep/context.h>

/* What a field may hold. */
typedef enum ls__range {
    LS__NOT_NEGATIVE,
    LS__POSITIVE,
    LS__BELOW_ONE,     /* [0, 1) */
    LS__INSIDE_UNIT,   /* (0, 1) */
    LS__UNIT,          /* [0, 1] */
    LS__SHARE,         /* (0, 1] */
    LS__COUNT,         /* 0 to 2^40 */
    LS__SOME,          /* 1 to 2^40 */
    LS__EPOCHS,        /* 0 to 2^20: the most that random draws tell apart */
    LS__SOME_EPOCHS,   /* 1 to 2^20 */
    LS__SELECTION_OF_2 /* an enum of two */
} ls__range;

typedef struct ls__field {
    const char *name;
    double value;
    ls__range range;
} ls__field;

/* Never for NaN. */
bool ls__in_range(double value, ls__range range);
/* false, and an error that names the call, the first wrong field, its value and what was wanted. */
bool ls__check_fields(ls_context *ctx, const char *call, const ls__field *fields, int n);

/* The value of a field whose 0 stands for `fallback`, and whose LS_ZERO for 0. */
float ls__or_default(float value, float fallback);

/* Called once for each setting that is not 0. A float comes as the shortest decimal that gives it:
 * 0.9, not 0.899999976. */
typedef void (*ls__setting_fn)(void *user, const char *name, double value);
void ls__put_setting(ls__setting_fn put, void *user, const char *name, double value);
double ls__shortest(float value);

#endif
