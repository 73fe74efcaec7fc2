/* evaluation_json.c: an evaluation as JSON; see evaluation.h. */
#include "train/evaluation.h"

#include "base/alloc.h"
#include "base/error.h"
#include "data/dataset/thumbnail.h"
#include "io/data_uri.h"
#include "io/json.h"
#include <string.h>

enum { MAX_MISTAKES = 24, THUMBNAIL_SIDE = 128 };

static void put_scores(ls__json_builder *out, const ls_scores *scores)
{
    ls__json_put(out, "precision", ls__json_number(scores->precision));
    ls__json_put(out, "recall", ls__json_number(scores->recall));
    ls__json_put(out, "f1", ls__json_number(scores->f1));
}

static json_t *describe_scores(const ls_scores *scores)
{
    ls__json_builder out = { json_object(), false };
    put_scores(&out, scores);
    return ls__json_finish(&out);
}

static json_t *describe_classes(const ls_evaluation *e)
{
    ls__json_builder out = { json_array(), false };
    for (int i = 0; i < e->n_classes; i++) {
        const ls_class_result c = ls_evaluation_class_at(e, i);
        ls__json_builder one = { json_object(), false };
        ls__json_put(&one, "class", ls__json_text(e->owned.ctx, e->classes[i]));
        ls__json_put(&one, "images", json_integer(c.n_images));
        ls__json_put(&one, "predicted", json_integer(c.n_predicted));
        ls__json_put(&one, "correct", json_integer(c.n_correct));
        put_scores(&one, &c.scores);
        ls__json_append(&out, ls__json_finish(&one));
    }
    return ls__json_finish(&out);
}

static json_t *describe_confusion(const ls_evaluation *e)
{
    ls__json_builder out = { json_array(), false };
    for (int64_t i = 0; i < e->n_confusion; i++) {
        const ls_confusion *c = &e->confusion[i];
        ls__json_append(
            &out, json_pack("[i,i,I]", (int)c->label, (int)c->predicted, (json_int_t)c->n_images));
    }
    return ls__json_finish(&out);
}

static json_t *describe_bins(const ls_evaluation *e)
{
    ls__json_builder out = { json_array(), false };
    for (int i = 0; i < LS_CALIBRATION_BINS; i++)
        ls__json_append(&out, json_pack("{s:I, s:f, s:f}", "images",
                                        (json_int_t)e->bins[i].n_images, "confidence",
                                        e->bins[i].confidence, "accuracy", e->bins[i].accuracy));
    return ls__json_finish(&out);
}

static void put_image(const ls_dataset *dataset, int64_t sample, const ls_loader_config *loading,
                      ls__json_builder *out)
{
    ls_context *ctx = dataset->owned.ctx;
    uint8_t *jpeg;
    size_t size;
    if (ls__dataset_thumbnail(dataset, sample, loading, THUMBNAIL_SIDE, &jpeg, &size) != LS_OK)
        out->failed = true;
    if (!jpeg) return;
    char *uri = ls__data_uri(ctx, "image/jpeg", jpeg, size);
    ls__json_put(out, "image", uri ? json_string(uri) : NULL);
    ls__free(ctx, uri);
    ls__free(ctx, jpeg);
}

static json_t *describe_mistakes(const ls_evaluation *e, const ls_dataset *dataset,
                                 const ls_loader_config *loading)
{
    ls_context *ctx = e->owned.ctx;
    ls__json_builder out = { json_array(), false };
    for (int64_t i = 0; i < e->n_mistakes && i < MAX_MISTAKES; i++) {
        const ls_mistake *m = &e->mistakes[i];
        ls__json_builder one = { json_object(), false };
        ls__json_put(&one, "sample", json_integer(m->sample));
        ls__json_put(&one, "label", json_integer(m->label));
        ls__json_put(&one, "predicted", json_integer(m->predicted));
        ls__json_put(&one, "confidence", json_real((double)m->confidence));
        if (dataset && ls_dataset_sample_path(dataset, m->sample))
            ls__json_put(&one, "path", ls__json_text(ctx, ls__dataset_name(dataset, m->sample)));
        if (dataset && loading) put_image(dataset, m->sample, loading, &one);
        ls__json_append(&out, ls__json_finish(&one));
    }
    return ls__json_finish(&out);
}

json_t *ls__evaluation_describe(const ls_evaluation *e, const ls_dataset *dataset,
                                const ls_loader_config *loading)
{
    const ls_evaluation_result *r = &e->result;
    ls__json_builder out = { json_object(), false };
    ls__json_put(&out, "images", json_integer(r->n_images));
    ls__json_put(&out, "top1", json_real(r->top1));
    if (e->n_classes > 5) ls__json_put(&out, "top5", json_real(r->top5));
    ls__json_put(&out, "calibration_error", json_real(r->calibration_error));
    if (e->has_auc) ls__json_put(&out, "auc", ls__json_number(r->auc));
    ls__json_put(&out, "macro", describe_scores(&r->macro));
    ls__json_put(&out, "weighted", describe_scores(&r->weighted));
    ls__json_put(&out, "classes", describe_classes(e));
    ls__json_put(&out, "confusion", describe_confusion(e));
    ls__json_put(&out, "calibration", describe_bins(e));
    ls__json_put(&out, "mistakes", describe_mistakes(e, dataset, loading));
    return ls__json_finish(&out);
}

const char *ls_evaluation_json(ls_evaluation *e, const ls_dataset *dataset)
{
    if (!e) return NULL;
    ls_context *ctx = e->owned.ctx;
    LS__ENTER_NULL(ctx);
    ls__free(ctx, e->json);
    e->json = NULL;
    json_t *json = e->results ? ls__evaluation_describe(e, dataset, NULL) : json_object();
    char *text;
    size_t size;
    if (ls__json_dump(ctx, json, ls__json_exact(json), &text, &size)) {
        e->json = ls__format(ctx, "%.*s", (int)size, text);
        ls__free(ctx, text);
    }
    json_decref(json);
    if (!e->json) ls__fail_memory(ctx, "ls_evaluation_json", 0);
    return e->json;
}
