/* auc.c: see auc.h. With P images of the class and N others, the area is the Mann-Whitney statistic
 * divided by P N: over the pairs of an image of the class and another one, 1 where the first has
 * the higher probability, 1/2 where they are equal. Counts are integers, so that their order does
 * not matter. */
#include "train/auc.h"

#include "base/alloc.h"
#include "base/error.h"
#include <math.h>
#include <stdlib.h>

typedef struct scored {
    float probability;
    int32_t is_positive;
} scored;

static int by_probability(const void *x, const void *y)
{
    const scored *a = x, *b = y;
    return (a->probability > b->probability) - (a->probability < b->probability);
}

/* Twice the Mann-Whitney statistic of sorted images. */
static int64_t count_pairs(int64_t n, const scored *images)
{
    int64_t twice = 0, n_negative = 0;
    for (int64_t i = 0; i < n;) {
        int64_t equal[2] = { 0 }, k = i;
        for (; k < n && images[k].probability == images[i].probability; k++)
            equal[images[k].is_positive]++;
        twice += equal[1] * (2 * n_negative + equal[0]);
        n_negative += equal[0];
        i = k;
    }
    return twice;
}

ls_status ls__auc(ls_context *ctx, int64_t n, int n_classes, const int32_t *labels,
                  const float *probabilities, double *out)
{
    const size_t bytes = (size_t)n * sizeof(scored);
    scored *images = ls__alloc(ctx, bytes);
    double sum = 0;
    int n_defined = 0;
    if (!images) return ls__fail_memory(ctx, "area under the ROC curve", bytes);
    for (int k = 0; k < n_classes; k++) {
        int64_t n_positive = 0;
        for (int64_t i = 0; i < n; i++) {
            images[i] = (scored){ probabilities[i * n_classes + k], labels[i] == k };
            n_positive += labels[i] == k;
        }
        if (n_positive == 0 || n_positive == n) continue;
        qsort(images, (size_t)n, sizeof *images, by_probability);
        const double pairs = (double)n_positive * (double)(n - n_positive);
        sum += (double)count_pairs(n, images) / (2 * pairs);
        n_defined++;
    }
    ls__free(ctx, images);
    *out = n_defined > 0 ? sum / n_defined : NAN;
    return LS_OK;
}
