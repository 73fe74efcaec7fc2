/* random.c: tensors of random numbers. One draw per element, named by its index, so that its value
 * does not depend on the shape. */
#include "base/random.h"
#include "base/error.h"
#include "base/floats.h"
#include "tensor/tensor.h"
#include <math.h>

/* The distribution of the elements. */
typedef struct distribution {
    bool normal;
    float low, high; /* uniform */
    float mean, std; /* normal */
} distribution;

static float element_value(const distribution *d, const uint32_t words[4])
{
    if (d->normal) return d->mean + d->std * ls__random_normal(words[0], words[1]);
    const float value = d->low + (d->high - d->low) * ls_random_uniform(words[0]);
    return value < d->high ? value : nextafterf(d->high, d->low); /* because the sum may round up */
}

static ls_status fill_random(ls_tensor *tensor, const char *call, uint64_t draw_number,
                             const distribution *d)
{
    ls_context *ctx = tensor->owned.ctx;
    if (tensor->dtype != LS_F32)
        return ls__fail(ctx, LS_ERR_TYPE, "%s: got a tensor of %s, expected F32", call,
                        ls_dtype_name(tensor->dtype));
    /* Three unused fields hold the 64 bits of `draw_number`. */
    ls_draw element = { .stream = LS_RANDOM_TENSOR,
                        .step = draw_number & 0xfffffffffu,
                        .epoch = (uint32_t)(draw_number >> 36 & 0xfffffu),
                        .layer = (uint32_t)(draw_number >> 56) };
    enum { CHUNK = 2048 };
    float values[CHUNK];
    float *data = tensor->data;
    for (int64_t done = 0; done < tensor->count; done += CHUNK) {
        const int64_t rest = tensor->count - done, n = rest < CHUNK ? rest : CHUNK;
        for (int64_t i = 0; i < n; i++) {
            uint32_t words[4];
            element.sample = (uint64_t)(done + i);
            ls_random_words(ctx->config.seed, &element, words);
            values[i] = element_value(d, words);
        }
        LS_TRY(ls__table(tensor)->write(ctx->device, data + done, values,
                                        (size_t)n * sizeof(*values)));
    }
    return LS_OK;
}

ls_status ls_tensor_random_uniform(ls_tensor *tensor, uint64_t draw_number, float low, float high)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER(tensor ? tensor->owned.ctx : NULL);
    if (!(low < high) || !isfinite(high - low))
        return ls__fail(tensor->owned.ctx, LS_ERR_INVALID,
                        "ls_tensor_random_uniform: got low %g, high %g, expected low < high, and a "
                        "finite difference",
                        (double)low, (double)high);
    const distribution d = { .low = low, .high = high };
    return fill_random(tensor, "ls_tensor_random_uniform", draw_number, &d);
}

ls_status ls_tensor_random_normal(ls_tensor *tensor, uint64_t draw_number, float mean, float std)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER(tensor ? tensor->owned.ctx : NULL);
    if (!isfinite(mean) || !isfinite(std) || std < 0.0f)
        return ls__fail(tensor->owned.ctx, LS_ERR_INVALID,
                        "ls_tensor_random_normal: got mean %g, std %g, expected finite numbers "
                        "and no negative std",
                        (double)mean, (double)std);
    const distribution d = { .normal = true, .mean = mean, .std = std };
    return fill_random(tensor, "ls_tensor_random_normal", draw_number, &d);
}
