/* check_shares.c: findings about shares of the images: those that a centre crop cuts, and the
 * classes of the training images. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

enum {
    /* 3/8: more than the crop drops of the usual 3:2 of cameras, 1/3, and less than of 16:9, 7/16
     */
    CROP_NUMERATOR = 3,
    CROP_DENOMINATOR = 8,
    /* Single images do not matter: 2 %. */
    MIN_CUT_SHARE = 50
};

/* ---- Centre crop ---- */

static int64_t longer_side(const ls__checked_file *f)
{
    return f->height > f->width ? f->height : f->width;
}

/* The pixels of the longer side that the crop drops, which is a square of the shorter side. */
static int64_t dropped(const ls__checked_file *f)
{
    return llabs(f->height - f->width);
}

static bool is_cut(const ls__checked_file *f)
{
    return f->status == LS_OK && CROP_DENOMINATOR * dropped(f) > CROP_NUMERATOR * longer_side(f);
}

static ls_status add_cut(ls_dataset_report *r, const ls__checked_file *f)
{
    return ls__check_add(
        r, LS_FINDING_ASPECT, ls__strdup(r->owned.ctx, ls__check_name(r, f->path)), "",
        ls__format(r->owned.ctx, "%lld x %lld pixels: the crop drops %lld %%", (long long)f->width,
                   (long long)f->height, (long long)(100 * dropped(f) / longer_side(f))));
}

static ls_status check_crop(ls_dataset_report *r)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n_images; i++) n += is_cut(&r->files[i]);
    if (MIN_CUT_SHARE * n <= r->summary.n_readable) return LS_OK;
    for (int64_t i = 0; i < r->n_images; i++)
        if (is_cut(&r->files[i])) LS_TRY(add_cut(r, &r->files[i]));
    return LS_OK;
}

/* ---- Classes ---- */

static ls_status check_balance(ls_dataset_report *r)
{
    const ls_class_summary *most = NULL, *least = NULL;
    for (int64_t i = 0; i < r->groups.n; i++) {
        const ls_class_summary *c = &ls__check_group_at(r, i)->count;
        if (!c->name || c->n_readable == 0 || strcmp(c->split, r->splits[0]) != 0) continue;
        if (!most || c->n_readable > most->n_readable) most = c;
        if (!least || c->n_readable < least->n_readable) least = c;
    }
    if (!most || most->n_readable < LS_IMBALANCE_RATIO * least->n_readable) return LS_OK;
    return ls__check_add(r, LS_FINDING_IMBALANCE, ls__strdup(r->owned.ctx, r->splits[0]), "",
                         ls__format(r->owned.ctx,
                                    "class '%s' has %lld images, '%s' %lld: %lld times as many",
                                    most->name, (long long)most->n_readable, least->name,
                                    (long long)least->n_readable,
                                    (long long)(most->n_readable / least->n_readable)));
}

ls_status ls__check_shares(ls_dataset_report *r)
{
    LS_TRY(check_crop(r));
    return check_balance(r);
}
