/* load_weights.c: loads a file's weights into a net, and reports what became of each tensor. */
#include "checkpoint/weight_names.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/text.h"
#include "io/safetensors.h"
#include "nn/net/net.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char call[] = "ls_net_load_weights";

struct ls_weight_report {
    ls__owned owned;
    ls__bump bump;
    ls_weight_info *items;
    int64_t n;
    const char *key, *prefix;
    bool classes_reordered;
};

typedef struct loading {
    ls_context *ctx;
    ls_net *net;
    const char *path;
    ls_load_weights_config config;
    ls_tensor_file *file;
    const char *prefix; /* of the file's names, or "" */
    const int64_t *class_order;
    ls__bump bump;
    ls__saved_tensors all, loaded;       /* of the net; those to load have the file's names */
    const char **loaded_names;           /* the net's */
    bool *in_net;                        /* of each tensor of the file */
    const ls__tensor_header *mismatched; /* the first such tensor of the file */
    ls_weight_report *report;
} loading;

/* ---- Report ---- */

static void close_report(ls__owned *self)
{
    ls_weight_report *report = (ls_weight_report *)self;
    ls__bump_close(&report->bump);
    ls__free(self->ctx, report);
}

void ls_weight_report_close(ls_weight_report **report)
{
    LS__CLOSE_OWNED(report);
}

int64_t ls_weight_report_count(const ls_weight_report *report, ls_weight_state state)
{
    int64_t n = 0;
    for (int64_t i = 0; report && i < report->n; i++) n += report->items[i].state == state;
    return n;
}

ls_weight_info ls_weight_report_at(const ls_weight_report *report, ls_weight_state state,
                                   int64_t at)
{
    for (int64_t i = 0; report && i < report->n; i++)
        if (report->items[i].state == state && at-- == 0) return report->items[i];
    return (ls_weight_info){ 0 };
}

const char *ls_weight_report_key(const ls_weight_report *report)
{
    return report ? report->key : "";
}

const char *ls_weight_report_prefix(const ls_weight_report *report)
{
    return report ? report->prefix : "";
}

bool ls_weight_report_classes_reordered(const ls_weight_report *report)
{
    return report && report->classes_reordered;
}

static ls_status open_report(loading *l)
{
    ls_context *ctx = l->ctx;
    const size_t n = (size_t)(l->all.n + ls_tensor_file_tensor_count(l->file));
    ls_weight_report *report = l->report = ls__open_owned(ctx, call, sizeof(*report), close_report);
    if (!report) return LS_ERR_MEMORY;
    ls__bump_open(&report->bump, ctx);
    report->items = ls__bump_alloc(&report->bump, n * sizeof(*report->items));
    report->key = ls__bump_strdup(&report->bump, l->file->key ? l->file->key : "");
    report->prefix = ls__bump_strdup(&report->bump, l->prefix);
    if (report->items && report->key && report->prefix) return LS_OK;
    return ls__fail_memory(ctx, call, n * sizeof(*report->items));
}

/* t: the file's; net_shape NULL: not in the net. */
static ls_status add(loading *l, const char *name, ls_weight_state state,
                     const ls__tensor_header *t, const ls_shape *net_shape)
{
    ls__bump *bump = &l->report->bump;
    ls_weight_info *info = &l->report->items[l->report->n++];
    *info = (ls_weight_info){ .name = ls__bump_strdup(bump, name),
                              .state = state,
                              .head = net_shape && ls__net_is_head(l->net, name) };
    if (t) info->dtype = ls__bump_strdup(bump, t->dtype);
    if (t) info->file_shape = t->spec.shape;
    if (net_shape) info->net_shape = *net_shape;
    return info->name && (info->dtype || !t) ? LS_OK : ls__fail_memory(l->ctx, call, 0);
}

/* ---- Comparing the net with the file ---- */

static ls_status match_net(loading *l)
{
    for (int64_t i = 0; i < l->all.n; i++) {
        ls__saved_tensor tensor = l->all.items[i];
        if (!tensor.memory) continue;
        const char *name = tensor.name;
        tensor.name = ls__bump_format(&l->bump, "%s%s", l->prefix, name);
        if (!tensor.name) return ls__fail_memory(l->ctx, call, 0);
        const ls__tensor_header *t = ls__tensor_file_get(l->file, tensor.name);
        if (t) l->in_net[t - l->file->tensors] = true;
        const bool is_new = l->config.new_head && ls__net_is_head(l->net, name);
        const bool fits = t && ls__tensor_header_is_float(t) &&
                          ls_shape_equal(&t->spec.shape, &tensor.spec.shape);
        LS_TRY(add(l, name,
                   is_new ? LS_WEIGHT_NEW_HEAD
                   : !t   ? LS_WEIGHT_MISSING
                   : fits ? LS_WEIGHT_LOADED
                          : LS_WEIGHT_MISMATCHED,
                   t, &tensor.spec.shape));
        if (!is_new && !fits && !l->mismatched) l->mismatched = t;
        if (is_new || !fits) continue;
        l->loaded_names[l->loaded.n] = name;
        l->loaded.items[l->loaded.n++] = tensor;
        l->loaded.total += tensor.count;
        if (tensor.count > l->loaded.largest) l->loaded.largest = tensor.count;
    }
    return LS_OK;
}

static ls_status match_file(loading *l)
{
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(l->file); i++) {
        const ls__tensor_header *t = &l->file->tensors[i];
        const size_t n = strlen(l->prefix);
        /* What lies beside the prefix belongs to other parts of a module that holds the net. */
        const bool beside = strncmp(t->name, l->prefix, n) != 0;
        const bool ignored =
            beside || ls__is_optimizer_name(t->name + n) || ls__is_torch_counter(t->name + n);
        if (ignored || !l->in_net[i])
            LS_TRY(add(l, t->name, ignored ? LS_WEIGHT_IGNORED : LS_WEIGHT_UNEXPECTED, t, NULL));
    }
    return LS_OK;
}

/* ---- Errors ---- */

/* " 2 tensors ... ('a', 'b')" with the first names. */
static void put_names(const loading *l, ls_weight_state state, const char *what, ls__text *out)
{
    enum { MAX_NAMES = 3 };
    const int64_t n = ls_weight_report_count(l->report, state);
    if (n == 0) return;
    ls__text_put(out, "%s%" PRId64 " tensor%s %s (", out->length > 0 ? "; " : "", n,
                 n == 1 ? "" : "s", what);
    for (int64_t i = 0; i < n && i < MAX_NAMES; i++) {
        const char *name = ls_weight_report_at(l->report, state, i).name;
        ls__text_put(out, "%s'%.*s'", i > 0 ? ", " : "", LS__CUT(name, 100));
    }
    ls__text_put(out, n > MAX_NAMES ? ", ...)" : ")");
}

static ls_status fail_tensors(const loading *l)
{
    char buffer[LS__MESSAGE_SIZE];
    char shapes[2][LS_SHAPE_TEXT_SIZE];
    ls__text text = { buffer, sizeof(buffer), 0 };
    const int64_t n = ls_weight_report_count(l->report, LS_WEIGHT_MISMATCHED);
    const ls_weight_info first = ls_weight_report_at(l->report, LS_WEIGHT_MISMATCHED, 0);
    const bool other_type = n > 0 && ls_shape_equal(&first.file_shape, &first.net_shape);
    if (n > 0 && l->mismatched->obstacle && !ls__tensor_header_is_float(l->mismatched))
        ls__text_put(&text, "'%.*s' (%s) has an unsupported %s there", LS__CUT(first.name, 100),
                     first.dtype, l->mismatched->obstacle);
    else if (n > 0)
        ls__text_put(&text, "'%.*s' is %s %s there, F32 %s here", LS__CUT(first.name, 100),
                     first.dtype, ls_shape_text(&first.file_shape, shapes[0], sizeof(shapes[0])),
                     ls_shape_text(&first.net_shape, shapes[1], sizeof(shapes[1])));
    if (n > 1) ls__text_put(&text, ", and %" PRId64 " more differ", n - 1);
    if (!l->config.partial) {
        put_names(l, LS_WEIGHT_MISSING, "of the net missing", &text);
        put_names(l, LS_WEIGHT_UNEXPECTED, "not in the net", &text);
    }
    const ls_status status = other_type ? LS_ERR_TYPE : n > 0 ? LS_ERR_SHAPE : LS_ERR_MISMATCH;
    const char *key = l->file->key ? l->file->key : "";
    return ls__fail(l->ctx, status, "'%s'%s%.*s%s%s%.*s%s: %s", l->path, *key ? ", key '" : "",
                    LS__CUT(key, 100), *key ? "'" : "", *l->prefix ? ", prefix '" : "",
                    LS__CUT(l->prefix, 100), *l->prefix ? "'" : "", buffer);
}

static ls_status fail_nonfinite(const loading *l, int64_t i, int64_t n_bad)
{
    return ls__fail(l->ctx, LS_ERR_NONFINITE,
                    "'%s': %" PRId64 " of %" PRId64 " values of '%.*s' are not finite", l->path,
                    n_bad, l->loaded.items[i].count, LS__CUT(l->loaded_names[i], 100));
}

/* ---- Loading ---- */

static ls_status check_values(const loading *l, const float *values)
{
    for (int64_t i = 0; i < l->loaded.n; i++) {
        int64_t n_bad = 0;
        for (int64_t k = 0; k < l->loaded.items[i].count; k++) n_bad += !isfinite(*values++);
        if (n_bad > 0) return fail_nonfinite(l, i, n_bad);
    }
    return LS_OK;
}

/* Puts the rows of the head's weight and bias into the order of the data's classes. */
static ls_status order_classes(loading *l, float *values)
{
    for (int64_t i = 0; i < l->loaded.n; values += l->loaded.items[i++].count) {
        const ls__saved_tensor *tensor = &l->loaded.items[i];
        const int64_t rows = l->config.n_classes;
        if (!ls__net_is_head(l->net, l->loaded_names[i]) || tensor->spec.shape.dims[0] != rows)
            continue;
        const size_t count = (size_t)tensor->count, row = count / (size_t)rows;
        float *copy = ls__bump_alloc(&l->bump, count * sizeof(*copy));
        if (!copy) return ls__fail_memory(l->ctx, call, count * sizeof(*copy));
        memcpy(copy, values, count * sizeof(*copy));
        l->report->classes_reordered = true;
        for (int64_t k = 0; k < rows; k++)
            memcpy(values + (size_t)k * row, copy + (size_t)l->class_order[k] * row,
                   row * sizeof(*copy));
    }
    return LS_OK;
}

/* Adds the tensors to the digest of those that were loaded before. */
static void set_digest(loading *l, const float *values)
{
    ls__digest_sum sum = { { 0, 0 } };
    char text[LS_DIGEST_TEXT_SIZE];
    ls__tensors_digest_text(&sum, "before", ls__net_weights_digest(l->net));
    for (int64_t i = 0; i < l->loaded.n; i++) {
        const ls__saved_tensor *tensor = &l->loaded.items[i];
        ls__tensors_digest_elements(&sum, l->loaded_names[i], &tensor->spec, values,
                                    (size_t)tensor->count * sizeof(float));
        values += tensor->count;
    }
    ls__net_set_weights_digest(l->net, ls_digest_text(ls__digest_finish(&sum, 0), text));
}

static bool has_head(const loading *l)
{
    for (int64_t i = 0; i < l->all.n; i++)
        if (ls__net_is_head(l->net, l->all.items[i].name)) return true;
    return false;
}

static ls_status check_config(const loading *l)
{
    const ls_load_weights_config *c = &l->config;
    bool ok = (c->n_classes > 0) == (c->classes != NULL) && !(c->key && !*c->key);
    for (int64_t i = 0; ok && i < c->n_classes; i++) ok = c->classes[i] != NULL;
    if (!ok)
        return ls__fail(l->ctx, LS_ERR_INVALID,
                        "%s: expected n_classes names of classes, or 0 and NULL; and a key that is "
                        "not empty, or NULL",
                        call);
    if (has_head(l) || !l->config.new_head) return LS_OK;
    return ls__fail(l->ctx, LS_ERR_INVALID,
                    "%s: new_head has no effect: the net has no linear layer", call);
}

static ls_status load(loading *l)
{
    float *values;
    l->file = ls__tensor_file_open(l->ctx, l->path, l->config.key);
    if (!l->file) return l->ctx->error;
    LS_TRY(ls__checkpoint_check_digest(l->ctx, l->path, l->file, false));
    const bool torch = !ls_tensor_file_metadata(l->file, LS__CHECKPOINT_DIGEST);
    LS_TRY(ls__saved_tensors_list(&l->bump, l->ctx, l->net, NULL, torch, &l->all));
    LS_TRY(check_config(l));
    const size_t n = (size_t)l->all.n;
    LS_TRY(ls__weight_prefix(&l->bump, l->file, &l->all, l->config.key, &l->prefix));
    l->loaded.items = ls__bump_alloc(&l->bump, n * sizeof(*l->loaded.items));
    l->loaded_names = ls__bump_alloc(&l->bump, n * sizeof(*l->loaded_names));
    l->in_net = ls__bump_alloc(&l->bump, (size_t)ls_tensor_file_tensor_count(l->file));
    if (!l->loaded.items || !l->loaded_names || !l->in_net) return ls__fail_memory(l->ctx, call, n);
    LS_TRY(open_report(l));
    LS_TRY(match_net(l));
    LS_TRY(match_file(l));
    const int64_t n_other = ls_weight_report_count(l->report, LS_WEIGHT_MISSING) +
                            ls_weight_report_count(l->report, LS_WEIGHT_UNEXPECTED);
    if (ls_weight_report_count(l->report, LS_WEIGHT_MISMATCHED) > 0 ||
        (n_other > 0 && !l->config.partial))
        return fail_tensors(l);
    if (l->loaded.n == 0)
        return ls__fail(l->ctx, LS_ERR_MISMATCH, "'%s' has no tensor of the net", l->path);
    if (!l->config.new_head)
        LS_TRY(ls__weight_class_order(&l->bump, l->file, l->config.n_classes, l->config.classes,
                                      &l->class_order));
    if (l->class_order && !has_head(l))
        return ls__fail(l->ctx, LS_ERR_MISMATCH,
                        "'%s' has the classes in another order, and the net has no linear layer, "
                        "whose outputs could follow it: expected the classes in the file's order",
                        l->path);
    LS_TRY(ls__saved_tensors_read(&l->bump, l->ctx, l->file, &l->loaded, &values));
    LS_TRY(check_values(l, values));
    if (l->class_order) LS_TRY(order_classes(l, values));
    LS_TRY(ls__saved_tensors_write(l->ctx, &l->loaded, values));
    ls__net_use_gradients(l->net); /* the old gradients belong to other weights */
    set_digest(l, values);
    return LS_OK;
}

ls_status ls_net_load_weights(ls_net *net, const char *path, const ls_load_weights_config *config,
                              ls_weight_report **report)
{
    LS__DEFAULT_FLOATS;
    if (report) *report = NULL;
    if (!net) return LS_ERR_EARLIER;
    loading l = { .ctx = ls_net_context(net), .net = net, .path = path };
    LS__ENTER(l.ctx);
    if (!path) return ls__fail(l.ctx, LS_ERR_INVALID, "%s: path is NULL", call);
    if (config) l.config = *config;
    ls__bump_open(&l.bump, l.ctx);
    const ls_status status = load(&l);
    ls_tensor_file_close(&l.file);
    ls__bump_close(&l.bump);
    const bool about_tensors = status == LS_OK || status == LS_ERR_MISMATCH ||
                               status == LS_ERR_SHAPE || status == LS_ERR_TYPE;
    if (report && about_tensors)
        *report = l.report;
    else
        ls_weight_report_close(&l.report);
    return status;
}
