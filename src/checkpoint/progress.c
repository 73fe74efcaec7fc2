/* progress.c: see progress.h. */
#include "checkpoint/progress.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/text.h"
#include "nn/net/net.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void ls__progress_write(const ls__progress *p, char out[LS__PROGRESS_TEXT])
{
    LS__IN_C_LOCALE;
    snprintf(out, LS__PROGRESS_TEXT, "%" PRId64 " %a %a %a %" PRId64 " %a %a", p->best_epoch,
             p->sums.loss, p->sums.top1, p->sums.top5, p->sums.n_images, p->seconds,
             p->wait_seconds);
    if (p->sums.n_own == 0 && p->sums.loss_weight == (double)p->sums.n_images) return;
    ls__text text = { out, LS__PROGRESS_TEXT, strlen(out) };
    ls__text_put(&text, " %a", p->sums.loss_weight);
    for (int i = 0; i < p->sums.n_own; i++) ls__text_put(&text, " %a", p->sums.own[i]);
}

/* The numbers after those that every version has written. */
static bool read_more(const char *at, ls__sums *sums)
{
    double value;
    sums->loss_weight = (double)sums->n_images;
    for (int i = 0, length = 0; sscanf(at, "%la%n", &value, &length) == 1; i++, at += length) {
        if (i > LS_MAX_METRICS) return false;
        if (i == 0)
            sums->loss_weight = value;
        else
            sums->own[sums->n_own++] = value;
    }
    return *at == '\0';
}

bool ls__progress_read(const char *text, ls__progress *out)
{
    LS__IN_C_LOCALE;
    ls__progress p = { 0 };
    int length = 0;
    const bool ok = text &&
                    sscanf(text, "%" SCNd64 " %la %la %la %" SCNd64 " %la %la%n", &p.best_epoch,
                           &p.sums.loss, &p.sums.top1, &p.sums.top5, &p.sums.n_images, &p.seconds,
                           &p.wait_seconds, &length) == 7 &&
                    p.best_epoch >= 0 && p.sums.n_images >= 0 && read_more(text + length, &p.sums);
    if (ok) *out = p;
    return ok;
}

/* The averages of own metrics are NaN in an epoch whose first steps are those of a version without
 * them. */
static void add_unknown(const ls_net *net, ls__sums *sums)
{
    const char *names[LS_MAX_METRICS];
    const int n_own = ls__net_own_metrics(net, names);
    while (sums->n_images > 0 && sums->n_own < n_own) sums->own[sums->n_own++] = NAN;
}

ls_status ls__progress_load(const char *path, ls_training_state *state, ls__progress *out)
{
    LS_TRY(ls_checkpoint_load(state, path));
    ls_context *ctx = ls_net_context(state->net);
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    const bool ok = ls__progress_read(ls_tensor_file_metadata(file, "progress"), out);
    ls_tensor_file_close(&file);
    if (ok) add_unknown(state->net, &out->sums);
    if (ok) return LS_OK;
    return ls__fail(ctx, LS_ERR_FORMAT, "%s: no usable 'progress' in its metadata", path);
}
