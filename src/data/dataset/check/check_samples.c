/* check_samples.c: findings about samples that training changes or learns nothing from: transparent
 * pixels, 16 bits, images of one colour, those that a centre crop cuts; and about the shares of the
 * classes in the training images. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include <stdlib.h>
#include <string.h>

static ls_status check_alpha(ls_dataset_report *r)
{
    for (int64_t i = 0; i < r->n_images; i++) {
        const ls__checked_file *f = &r->files[i];
        if (f->status != LS_OK || !f->is_transparent) continue;
        LS_TRY(ls__check_add(r, LS_FINDING_ALPHA, ls__check_name(r, f->path), "",
                             "mean opacity %d %%", f->opacity));
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
    return ls__check_add(r, LS_FINDING_DEPTH, "", "",
                         "%lld image%s of 16 bits with samples from %d to %d, which are "
                         "%d bits",
                         (long long)n, n == 1 ? "" : "s", min, max, ls__check_bits(max));
}

/* The reason states whether another --alpha or --depth shows what is in the image. has_depth: a
 * finding of check_depth stands for the images that are dark. */
static ls_status check_uniform(ls_dataset_report *r, bool has_depth)
{
    for (int64_t i = 0; i < r->n_images; i++) {
        const ls__checked_file *f = &r->files[i];
        if (f->status != LS_OK || !f->is_uniform) continue;
        if (has_depth && !f->is_uniform_again && !f->is_transparent) continue;
        const char *path = ls__check_name(r, f->path);
        const char *text = f->is_uniform_again ? "one colour"
                           : f->is_transparent ? "one colour on white, not on black"
                                               : NULL;
        LS_TRY(text ? ls__check_add(r, LS_FINDING_UNIFORM, path, "", "%s", text)
                    : ls__check_add(r, LS_FINDING_UNIFORM, path, "",
                                    "one colour with 16 bits, not with %d",
                                    ls__check_bits(f->max_sample)));
    }
    return LS_OK;
}

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
    return ls__check_add(r, LS_FINDING_ASPECT, ls__check_name(r, f->path), "",
                         "%lld x %lld pixels: the crop drops %lld %%", (long long)f->width,
                         (long long)f->height, (long long)(100 * dropped(f) / longer_side(f)));
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
    const ls_class_summary *max = NULL, *min = NULL;
    for (int64_t i = 0; i < r->n_groups; i++) {
        const ls_class_summary *c = &r->groups[i].count;
        if (!c->name || c->n_readable == 0 || strcmp(c->split, r->splits[0]) != 0) continue;
        if (!max || c->n_readable > max->n_readable) max = c;
        if (!min || c->n_readable < min->n_readable) min = c;
    }
    if (!max || max->n_readable < LS_IMBALANCE_RATIO * min->n_readable) return LS_OK;
    return ls__check_add(r, LS_FINDING_IMBALANCE, r->splits[0], "",
                         "class '%s' has %lld images, '%s' %lld: %lld times as many", max->name,
                         (long long)max->n_readable, min->name, (long long)min->n_readable,
                         (long long)(max->n_readable / min->n_readable));
}

/* ---- All ---- */

ls_status ls__check_samples(ls_dataset_report *r)
{
    LS_TRY(check_alpha(r));
    bool has_depth = false;
    LS_TRY(check_depth(r, &has_depth));
    LS_TRY(check_uniform(r, has_depth));
    LS_TRY(check_crop(r));
    return check_balance(r);
}
