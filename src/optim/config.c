/* config.c: checking and filling in config structs; see config.h. */
#include "optim/config.h"

#include "base/error.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LARGEST    1e30 /* products of such floats do not overflow */
#define MAX_COUNT  (double)(INT64_C(1) << 40)
#define MAX_EPOCHS (double)(1 << 20)

static const struct {
    double low, high;
    bool above, below; /* excludes the bound itself */
    const char *text;
} ranges[] = {
    [LS__NOT_NEGATIVE] = { 0, LARGEST, false, false, "a number of at least 0" },
    [LS__POSITIVE] = { 0, LARGEST, true, false, "a number above 0" },
    [LS__BELOW_ONE] = { 0, 1, false, true, "at least 0 and below 1" },
    [LS__INSIDE_UNIT] = { 0, 1, true, true, "above 0 and below 1" },
    [LS__UNIT] = { 0, 1, false, false, "0 to 1" },
    [LS__SHARE] = { 0, 1, true, false, "above 0 and at most 1" },
    [LS__COUNT] = { 0, MAX_COUNT, false, false, "0 to 2^40" },
    [LS__EPOCHS] = { 0, MAX_EPOCHS, false, false, "0 to 2^20" },
    [LS__SOME_EPOCHS] = { 1, MAX_EPOCHS, false, false, "1 to 2^20" },
    [LS__SELECTION_OF_2] = { 0, 1, false, false, "one of the enum's two values" },
};

/* False for NaN. */
static bool is_in_range(double value, ls__range range)
{
    const double low = ranges[range].low, high = ranges[range].high;
    return (ranges[range].above ? value > low : value >= low) &&
           (ranges[range].below ? value < high : value <= high);
}

ls_status ls__check_fields(ls_context *ctx, const char *call, const ls__field *fields, int n)
{
    for (int i = 0; i < n; i++) {
        if (is_in_range(fields[i].value, fields[i].range)) continue;
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is %.9g, expected %s", call, fields[i].name,
                        fields[i].value, ranges[fields[i].range].text);
    }
    return LS_OK;
}

float ls__or_default(float value, float fallback)
{
    if (value != 0) return value;
    return signbit(value) ? 0.0f : fallback;
}

void ls__put_setting(ls__setting_fn put, void *user, const char *name, double value)
{
    if (value != 0) put(user, name, value);
}
