/* check.c: ls_dataset_check; see dataset_check.h. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include "data/dataset/dataset.h"
#include "data/decode/image.h"
#include <stdlib.h>
#include <string.h>

static const char what[] = "ls_dataset_check";

enum { MAX_WORKERS = 1024, DEFAULT_MIN_SIDE = 16 };

static ls_status check_config(ls_context *ctx, const ls_dataset_check_config *c)
{
    if (c->workers < 0 || c->workers > MAX_WORKERS)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: workers is %d, expected 0 to %d", what,
                        c->workers, MAX_WORKERS);
    if (c->max_pixels < 0 || c->max_pixels > LS__MAX_PIXELS)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: max_pixels is %lld, expected 0 to %d", what,
                        (long long)c->max_pixels, LS__MAX_PIXELS);
    if (c->min_side < 0)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: min_side is %lld, expected 0 or more", what,
                        (long long)c->min_side);
    return LS_OK;
}

static int compare_findings(const void *a, const void *b)
{
    const ls_finding *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    const int order = strcmp(x->path, y->path);
    return order ? order : strcmp(x->reason, y->reason);
}

/* The findings about the listed files. */
static ls_status check_listed(ls_dataset_report *r, const ls_dataset_check_config *config)
{
    LS_TRY(ls__check_decode(r, config));
    LS_TRY(ls__check_files(r, config->min_side > 0 ? config->min_side : DEFAULT_MIN_SIDE));
    LS_TRY(ls__check_samples(r));
    LS_TRY(ls__check_near(r));
    if (r->n_findings > 0)
        qsort(r->findings, (size_t)r->n_findings, sizeof(ls_finding), compare_findings);
    ls__check_free_files(r);
    return LS_OK;
}

static ls_status check(ls_dataset_report *r, const ls_dataset_check_config *config)
{
    LS_TRY(ls__check_list(r));
    LS_TRY(ls__check_count_folders(r));
    LS_TRY(ls__check_layout(r));
    LS_TRY(ls__check_pattern_groups(r, config->group_pattern));
    return check_listed(r, config);
}

static const ls_dataset_check_config defaults = { 0 };

ls_dataset_report *ls_dataset_check(ls_context *ctx, const char *dir,
                                    const ls_dataset_check_config *config)
{
    LS__ENTER_NULL(ctx);
    if (!config) config = &defaults;
    if (!dir) return ls__fail(ctx, LS_ERR_INVALID, "%s: no folder given", what), NULL;
    if (check_config(ctx, config) != LS_OK) return NULL;
    ls_dataset_report *report = ls__check_open_report(ctx, dir);
    if (report && check(report, config) != LS_OK) ls_dataset_report_close(&report);
    return report;
}

/* ---- Open datasets ---- */

static ls_status check_parts(ls_context *ctx, int n, const ls_check_part *parts,
                             const ls_dataset_check_config *config)
{
    static const char call[] = "ls_dataset_check_parts";
    if (config->group_pattern)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: group_pattern is for ls_dataset_check; the parts have the groups of "
                        "their datasets",
                        call);
    if (n < 1 || n > LS__MAX_SPLITS || !parts)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: n is %d, expected 1 to %d, with parts", call, n,
                        LS__MAX_SPLITS);
    for (int i = 0; i < n; i++) {
        const ls_dataset *d = parts[i].dataset;
        if (!parts[i].split || !d)
            return ls__fail(ctx, LS_ERR_INVALID, "%s: part %d: %s is NULL", call, i,
                            d ? "split" : "dataset");
        if (!d->paths || ls__dataset_whole(d)->pack)
            return ls__fail(ctx, LS_ERR_INVALID, "%s: part %d: expected image files, got %s", call,
                            i, d->paths ? "a pack" : "samples without paths");
    }
    return LS_OK;
}

ls_dataset_report *ls_dataset_check_parts(ls_context *ctx, int n, const ls_check_part *parts,
                                          const ls_dataset_check_config *config)
{
    LS__ENTER_NULL(ctx);
    if (!config) config = &defaults;
    if (check_config(ctx, config) != LS_OK || check_parts(ctx, n, parts, config) != LS_OK)
        return NULL;
    ls_dataset_report *report = ls__check_open_report(ctx, "");
    if (!report) return NULL;
    report->is_of_parts = true;
    report->root_length = 0;
    if (ls__check_list_parts(report, n, parts) != LS_OK || check_listed(report, config) != LS_OK)
        ls_dataset_report_close(&report);
    return report;
}
