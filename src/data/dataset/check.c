/* check.c: ls_dataset_check; see dataset_check.h. */
#include "data/dataset/check.h"

#include "base/error.h"
#include "data/decode/image.h"
#include <stdlib.h>
#include <string.h>

static const char what[] = "ls_dataset_check";

enum { MAX_WORKERS = 1024, DEFAULT_MIN_SIDE = 16 };

static ls_status check_config(ls_context *ctx, const char *dir, const ls_dataset_check_config *c)
{
    if (!dir) return ls__fail(ctx, LS_ERR_INVALID, "%s: no folder given", what);
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
    const ls_finding *x = &((const ls__check_finding *)a)->finding;
    const ls_finding *y = &((const ls__check_finding *)b)->finding;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    const int order = strcmp(x->path, y->path);
    return order ? order : strcmp(x->reason, y->reason);
}

static ls_status check(ls_dataset_report *r, const ls_dataset_check_config *config)
{
    LS_TRY(ls__check_list(r));
    LS_TRY(ls__check_count_folders(r));
    LS_TRY(ls__check_layout(r));
    LS_TRY(ls__check_decode(r, config));
    LS_TRY(ls__check_files(r, config->min_side > 0 ? config->min_side : DEFAULT_MIN_SIDE));
    LS_TRY(ls__check_samples(r));
    LS_TRY(ls__check_near(r));
    LS_TRY(ls__check_shares(r));
    if (r->findings.n > 0)
        qsort(r->findings.items, (size_t)r->findings.n, sizeof(ls__check_finding),
              compare_findings);
    ls__check_free_files(r);
    return LS_OK;
}

ls_dataset_report *ls_dataset_check(ls_context *ctx, const char *dir,
                                    const ls_dataset_check_config *config)
{
    static const ls_dataset_check_config defaults = { 0 };
    LS__ENTER_NULL(ctx);
    if (!config) config = &defaults;
    if (check_config(ctx, dir, config) != LS_OK) return NULL;
    ls_dataset_report *report = ls__check_open_report(ctx, dir);
    if (report && check(report, config) != LS_OK) ls_dataset_report_close(&report);
    return report;
}
