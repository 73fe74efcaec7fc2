/* check_samples.c: findings about samples that training changes or learns nothing from: transparent
 * pixels, 16 bits, and images of one colour. */
#include "data/dataset/check/check.h"

#include "base/error.h"

static ls_status check_alpha(ls_dataset_report *r)
{
    for (int64_t i = 0; i < r->n_images; i++) {
        const ls__checked_file *f = &r->files[i];
        if (f->status != LS_OK || !f->is_transparent) continue;
        LS_TRY(ls__check_add(r, LS_FINDING_ALPHA,
                             ls__strdup(r->owned.ctx, ls__check_name(r, f->path)), "",
                             ls__format(r->owned.ctx, "mean opacity %d %%", f->opacity)));
    }
    return LS_OK;
}

/* One finding for all images, because one depth applies to all. None if an image uses the whole
 * range. Transparent images are left out, because they are composed on white here. */
static ls_status check_depth(ls_dataset_report *r, bool *found)
{
    int32_t min = UINT16_MAX, max = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < r->n_images; i++) {
        const ls__checked_file *f = &r->files[i];
        if (f->status != LS_OK || f->is_transparent || f->max_sample == 0) continue;
        if (f->min_sample < min) min = f->min_sample;
        if (f->max_sample > max) max = f->max_sample;
        if (!ls__check_is_dark(f)) return LS_OK;
        n++;
    }
    *found = n > 0;
    if (n == 0) return LS_OK;
    return ls__check_add(r, LS_FINDING_DEPTH, ls__strdup(r->owned.ctx, ""), "",
                         ls__format(r->owned.ctx,
                                    "%lld image%s of 16 bits with samples from %d to %d, which are "
                                    "%d bits",
                                    (long long)n, n == 1 ? "" : "s", min, max,
                                    ls__check_bits(max)));
}

/* The reason states whether another --alpha or --depth shows what is in the image. has_depth: a
 * finding of check_depth stands for the images that are dark. */
static ls_status check_uniform(ls_dataset_report *r, bool has_depth)
{
    ls_context *ctx = r->owned.ctx;
    for (int64_t i = 0; i < r->n_images; i++) {
        const ls__checked_file *f = &r->files[i];
        if (f->status != LS_OK || !f->is_uniform) continue;
        if (has_depth && !f->is_uniform_again && !f->is_transparent) continue;
        char *reason = f->is_uniform_again ? ls__strdup(ctx, "one colour")
                       : f->is_transparent ? ls__strdup(ctx, "one colour on white, not on black")
                                           : ls__format(ctx, "one colour with 16 bits, not with %d",
                                                        ls__check_bits(f->max_sample));
        LS_TRY(ls__check_add(r, LS_FINDING_UNIFORM, ls__strdup(ctx, ls__check_name(r, f->path)), "",
                             reason));
    }
    return LS_OK;
}

ls_status ls__check_samples(ls_dataset_report *r)
{
    LS_TRY(check_alpha(r));
    bool has_depth = false;
    LS_TRY(check_depth(r, &has_depth));
    return check_uniform(r, has_depth);
}
