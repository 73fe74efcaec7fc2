/* config.h: checks and defaults of config structs; settings as numbers, for checkpoints. */
#ifndef LS_OPTIM_CONFIG_H
#define LS_OPTIM_CONFIG_H

#include "base/strict_math.h"
#include "base/text.h"
#include <lockstep/context.h>

/* The range of a field. */
typedef enum ls__range {
    LS__NOT_NEGATIVE,
    LS__POSITIVE,
    LS__BELOW_ONE,     /* [0, 1) */
    LS__INSIDE_UNIT,   /* (0, 1) */
    LS__UNIT,          /* [0, 1] */
    LS__SHARE,         /* (0, 1] */
    LS__COUNT,         /* 0 to 2^40 */
    LS__EPOCHS,        /* 0 to 2^20, the range of epochs in random draws */
    LS__SOME_EPOCHS,   /* 1 to 2^20 */
    LS__SELECTION_OF_2 /* an enum of two */
} ls__range;

typedef struct ls__field {
    const char *name;
    double value;
    ls__range range;
} ls__field;

/* LS_ERR_INVALID with the call, the first wrong field, its value and its range. */
ls_status ls__check_fields(ls_context *ctx, const char *call, const ls__field *fields, int n);

/* The value of a field: `fallback` for 0, 0 for LS_ZERO. */
float ls__or_default(float value, float fallback);

/* A callback is called once for each setting that is not 0. A float is passed as its shortest exact
 * decimal: 0.9, not 0.899999976. */
typedef void (*ls__setting_fn)(void *user, const char *name, double value);
void ls__put_setting(ls__setting_fn put, void *user, const char *name, double value);

#endif
