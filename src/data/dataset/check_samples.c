/* check_samples.c: findings about samples that training changes: transparent pixels, and 16 bits.
 */
#include "data/dataset/check.h"

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
static ls_status check_depth(ls_dataset_report *r)
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
    if (n == 0) return LS_OK;
    return ls__check_add(r, LS_FINDING_DEPTH, ls__strdup(r->owned.ctx, ""), "",
                         ls__format(r->owned.ctx,
                                    "%lld image%s of 16 bits with samples from %d to %d, which are "
                                    "%d bits",
                                    (long long)n, n == 1 ? "" : "s", min, max,
                                    ls__check_bits(max)));
}

ls_status ls__check_samples(ls_dataset_report *r)
{
    LS_TRY(check_alpha(r));
    return check_depth(r);
}
