/* identity.c: see identity.h. */
#include "checkpoint/identity.h"

#include "checkpoint/checkpoint.h"
#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "data/loader/loader.h"
#include "nn/net/net.h"
#include "base/text.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Making: each returns NULL if memory is short ---- */

/* JSON has no numbers for infinities and NaN. */
static void put_setting(void *user, const char *name, double value)
{
    const bool whole = value == floor(value) && fabs(value) < 1e15;
    if (isfinite(value))
        ls__json_put(user, name, whole ? json_integer((json_int_t)value) : json_real(value));
    else
        ls__json_put_text(user, name, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static json_t *groups_json(const ls_optimizer *opt)
{
    ls__json_builder out = { json_array(), false };
    for (int i = 0; i < opt->groups.n; i++) {
        const ls_parameter_group *g = &opt->groups.items[i];
        ls__json_append(&out, json_pack("{s:o, s:f, s:f}", "pattern",
                                        ls__json_text(opt->owned.ctx, g->pattern), "lr_scale",
                                        ls__shortest(g->lr_scale), "weight_decay",
                                        ls__shortest(g->weight_decay)));
    }
    return ls__json_finish(&out);
}

static json_t *optimizer_json(const ls_optimizer *opt)
{
    ls__json_builder s = { json_object(), false };
    ls__json_put_text(&s, "name", ls_optimizer_name(opt));
    ls__optimizer_settings(opt, put_setting, &s);
    if (opt->parameters)
        ls__json_put(&s, "parameters", ls__json_text(opt->owned.ctx, opt->parameters));
    if (opt->groups.n > 0) ls__json_put(&s, "groups", groups_json(opt));
    return ls__json_finish(&s);
}

static json_t *schedule_json(const ls_schedule *schedule)
{
    ls__json_builder s = { json_object(), false };
    ls__json_put_text(&s, "name", ls__schedule_name(schedule));
    ls__schedule_settings(schedule, put_setting, &s);
    if (schedule->config.settings)
        ls__json_put(&s, "settings", ls__json_text(schedule->owned.ctx, schedule->config.settings));
    return ls__json_finish(&s);
}

static json_t *loader_json(const ls_loader *loader)
{
    ls__json_builder s = { json_object(), false };
    ls__loader_settings(loader, put_setting, &s);
    const ls_input_spec spec = ls_loader_input_spec(loader);
    const int64_t channels = spec.image.shape.dims[3];
    ls__json_put(&s, "mean", ls__json_floats(spec.mean, channels, 0));
    ls__json_put(&s, "std", ls__json_floats(spec.std, channels, 1));
    return ls__json_finish(&s);
}

/* Of a split of a dataset. The seed is a text, because JSON's integers are signed. */
static json_t *split_json(ls_context *ctx, const ls_dataset *split)
{
    char seed[24];
    snprintf(seed, sizeof(seed), "%" PRIu64, split->split_seed);
    ls__json_builder s = { json_pack("{s:f, s:s, s:s}", "fraction", split->split_fraction, "seed",
                                     seed, "split", split->is_validation ? "validation" : "train"),
                           false };
    if (split->grouped_by)
        ls__json_put(&s, split->grouped_by_pattern ? "group_pattern" : "group_column",
                     ls__json_text(ctx, split->grouped_by));
    return ls__json_finish(&s);
}

json_t *ls__identity_data(ls_context *ctx, ls_dataset *dataset)
{
    ls_digest digest;
    char text[LS_DIGEST_TEXT_SIZE];
    if (ls_dataset_digest(dataset, false, &digest) != LS_OK) return NULL;
    ls__json_builder s = { json_object(), false };
    ls__json_put(&s, "samples", json_integer(ls_dataset_sample_count(dataset)));
    ls__json_put(&s, "classes", ls__json_classes(ctx, dataset));
    ls__json_put_text(&s, "digest", ls_digest_text(digest, text));
    ls__json_put_text(&s, "digest_of",
                      dataset->digest_of_contents ? "contents" : "paths and sizes");
    const ls__pack *pack = ls__dataset_whole(dataset)->pack;
    if (pack && pack->resize > 0) ls__json_put(&s, "resized_in_pack", json_integer(pack->resize));
    char decoders[LS__DECODERS_SIZE];
    if (ls__dataset_whole(dataset)->paths) /* else the program or an idx file gave pixels */
        ls__json_put_text(&s, "decoders", ls__dataset_decoders(dataset, decoders));
    if (dataset->whole) ls__json_put(&s, "split", split_json(ctx, dataset));
    return ls__json_finish(&s);
}

static json_t *validation_json(ls_context *ctx, ls_loader *loader)
{
    ls__json_builder s = { json_object(), false };
    ls__json_put(&s, "data", ls__identity_data(ctx, loader->dataset));
    ls__json_put(&s, "loader", loader_json(loader));
    return ls__json_finish(&s);
}

json_t *ls__identity_frozen(const ls_net *net, bool began)
{
    ls__json_builder out = { json_array(), false };
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(net, i);
        if (began ? ls__net_began_frozen(net, i) : parameter.frozen)
            ls__json_append(&out, json_string(parameter.name));
    }
    return ls__json_finish(&out);
}

static json_t *model_json(ls_net *net)
{
    char text[LS_DIGEST_TEXT_SIZE];
    ls__json_builder s = { json_object(), false };
    ls__json_put_text(&s, "digest", ls_digest_text(ls__net_model_digest(net), text));
    ls__json_put(&s, "parameters", json_integer(ls_net_parameter_element_count(net)));
    if (*ls__net_weights_digest(net)) ls__json_put_text(&s, "weights", ls__net_weights_digest(net));
    json_t *frozen = ls__identity_frozen(net, true);
    if (frozen && json_array_size(frozen) == 0)
        json_decref(frozen);
    else
        ls__json_put(&s, "frozen", frozen);
    return ls__json_finish(&s);
}

static json_t *kernels_json(const ls_net *net)
{
    const ls__selections *selections = ls__net_selections(net);
    ls__json_builder s = { json_object(), false };
    for (int i = 0; i < selections->n; i++)
        if (!ls__is_weight_gradients(selections->items[i]->op)) /* no bit depends on it */
            ls__json_put_text(&s, selections->items[i]->op, selections->items[i]->kernel);
    return ls__json_finish(&s);
}

/* ---- Environment variables that change the kernels of libraries ---- */

/* ONEDNN_MAX_CPU_ISA is not here, because the processor's text has what it allows. */
static json_t *environment_json(ls_context *ctx)
{
    static const char *const names[] = { "ONEDNN_CPU_ISA_HINTS", "DNNL_CPU_ISA_HINTS",
                                         "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE",
                                         "NVIDIA_TF32_OVERRIDE" };
    ls__json_builder out = { json_object(), false };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value) ls__json_put(&out, names[i], ls__json_text(ctx, value));
    }
    return ls__json_finish(&out);
}

enum { OPTIMIZER_KEY_SIZE = 32 };

json_t *ls__identity_make(ls_context *ctx, const ls_training_state *state)
{
    const ls__backend *backend = ctx->device->backend;
    ls__json_builder s = { json_object(), false };
    char seed[24];
    snprintf(seed, sizeof(seed), "%" PRIu64, ctx->config.seed);
    ls__json_put_text(&s, "seed", seed); /* JSON's integers are signed */
    ls__json_put(&s, "shards", json_integer(ctx->config.shards));
    ls__json_put(&s, "sync_batch_norm", json_boolean(ctx->config.sync_batch_norm));
    ls__json_put_text(&s, "device", backend->name);
    const ls_dtype activations = state->net ? ls__net_activations(state->net) : LS_F32;
    ls__json_put_text(&s, "libraries", backend->libraries(ctx->device, activations));
    const char *processor = backend->processor(ctx->device, activations);
    if (*processor) { /* else no result depends on it */
        ls__json_put_text(&s, "processor", processor);
        ls__json_put(&s, "environment", environment_json(ctx));
    }
    ls__json_put_text(&s, "precision", state->net ? ls__net_precision(state->net) : "f32");
    if (state->loader) {
        ls__json_put(&s, "data", ls__identity_data(ctx, state->loader->dataset));
        ls__json_put(&s, "loader", loader_json(state->loader));
    }
    if (state->validation) ls__json_put(&s, "validation", validation_json(ctx, state->validation));
    if (state->net) ls__json_put(&s, "model", model_json(state->net));
    const ls__optimizers optimizers = ls__optimizers_of(state);
    for (int64_t i = 0; i < optimizers.n; i++) {
        char key[OPTIMIZER_KEY_SIZE] = "optimizer";
        if (i > 0) snprintf(key, sizeof(key), "optimizer %lld", (long long)i + 1);
        ls__json_put(&s, key, optimizer_json(optimizers.items[i]));
    }
    if (state->schedule) ls__json_put(&s, "schedule", schedule_json(state->schedule));
    if (state->metric)
        ls__json_put(&s, "metric", ls__json_text(ctx, state->metric)); /* of the best epoch */
    if (state->net) ls__json_put(&s, "kernels", kernels_json(state->net));
    json_t *out = ls__json_finish(&s);
    if (!out) ls__fail_memory(ctx, "identity of the run", 0);
    return out;
}

/* ---- Comparing ---- */

const char *ls__identity_adopt_weights(json_t *here, const json_t *there)
{
    json_t *model = json_object_get(here, "model");
    const json_t *other = json_object_get(there, "model");
    const char *digest = ls__json_get_string(other, "weights");
    const bool adopts = digest && strlen(digest) == LS_DIGEST_TEXT_SIZE - 1 && model &&
                        !json_object_get(model, "weights");
    if (!adopts) return NULL;
    return json_object_set(model, "weights", json_object_get(other, "weights")) == 0 ? digest
                                                                                     : NULL;
}

static void add_difference(ls__json_builder *out, const char *field, json_t *there, json_t *here)
{
    ls__json_append(out,
                    json_pack("{s:s, s:O?, s:O?}", "field", field, "there", there, "here", here));
}

/* `prefix`: "optimizer.", for example. */
static void compare(ls__json_builder *out, const char *prefix, const json_t *there,
                    const json_t *here, bool whole)
{
    enum { FIELD_SIZE = 2048 }; /* the text of an op is shorter; a file may hold longer keys */
    char field[FIELD_SIZE];
    const char *key;
    json_t *value;
    const bool kernels = strcmp(prefix, "kernels.") == 0;
    json_object_foreach((json_t *)here, key, value)
    {
        json_t *other = json_object_get(there, key);
        ls__snprintf(field, sizeof(field), "%s%s", prefix, key);
        if (kernels && !other) continue;
        /* Earlier versions stored no environment. */
        if (!other && json_is_object(value) && json_object_size(value) == 0) continue;
        if (json_is_object(value) && json_is_object(other)) {
            ls__snprintf(field, sizeof(field), "%s%s.", prefix, key);
            compare(out, field, other, value, true);
        } else if (!json_equal(other, value)) {
            add_difference(out, field, other, value);
        }
    }
    if (!whole || kernels) return;
    json_object_foreach((json_t *)there, key, value)
    {
        ls__snprintf(field, sizeof(field), "%s%s", prefix, key);
        if (!json_object_get(here, key)) add_difference(out, field, value, NULL);
    }
}

json_t *ls__identity_differences(const json_t *there, const json_t *here, bool whole)
{
    ls__json_builder out = { json_array(), false };
    compare(&out, "", there, here, whole);
    return ls__json_finish(&out);
}

static int put_json(const char *bytes, size_t n, void *text)
{
    ls__text_put(text, "%.*s", (int)n, bytes);
    return 0;
}

/* A value as JSON text, truncated. json_dumpb would write nothing of a piece that does not fit,
 * such as a name, and leave the rest of its buffer uninitialized. */
static void put_value(ls__text *text, const json_t *value)
{
    enum { VALUE_SIZE = 128 };
    char buffer[VALUE_SIZE] = "";
    ls__text json = { buffer, VALUE_SIZE, 0 };
    if (!value || json_is_null(value)) {
        ls__text_put(text, "missing");
        return;
    }
    LS__IN_C_LOCALE;
    const bool whole =
        json_dump_callback(value, put_json, &json, ls__json_exact(value)) == 0; /* else no memory */
    ls__text_put(text, "%s%s", buffer, whole && json.length < VALUE_SIZE ? "" : "...");
}

bool ls__identity_is_of_decoders(const json_t *difference)
{
    const char *field = ls__json_get_string(difference, "field");
    return strcmp(field, "data.decoders") == 0 || strcmp(field, "validation.data.decoders") == 0;
}

const char *ls__identity_text(const json_t *difference, const char *there, const char *here,
                              char *buffer, size_t size)
{
    ls__text text = { buffer, size, 0 };
    ls__text_put(&text, "%s is ", ls__json_get_string(difference, "field"));
    put_value(&text, json_object_get(difference, "there"));
    ls__text_put(&text, " %s, ", there);
    put_value(&text, json_object_get(difference, "here"));
    ls__text_put(&text, " %s", here);
    if (ls__identity_is_of_decoders(difference))
        ls__text_put(&text, " (versions of libjpeg or libwebp that decode the same files to "
                            "different pixels)");
    return buffer;
}

ls_status ls__identity_fail(ls_context *ctx, const char *what, const json_t *differences)
{
    char text[LS__MESSAGE_SIZE], more[64] = "";
    const size_t n = json_array_size(differences);
    const char *first =
        ls__identity_text(json_array_get(differences, 0), "there", "here", text, sizeof(text));
    if (n > 1) snprintf(more, sizeof(more), ", and %zu more differ", n - 1);
    return ls__fail(ctx, LS_ERR_MISMATCH, "'%s' was saved by another run: %.*s%s", what,
                    LS__CUT(first, 800), more);
}

json_t *ls__json_classes(ls_context *ctx, const ls_dataset *dataset)
{
    const int n_classes = ls_dataset_class_count(dataset);
    if (n_classes == 0) return ls__json_targets(ctx, dataset);
    ls__json_builder out = { json_array(), false };
    for (int i = 0; i < n_classes; i++)
        ls__json_append(&out, ls__json_text(ctx, ls_dataset_class_name(dataset, i)));
    return ls__json_finish(&out);
}

json_t *ls__json_targets(ls_context *ctx, const ls_dataset *dataset)
{
    ls__json_builder out = { json_array(), false };
    for (int i = 0; i < ls_dataset_target_count(dataset); i++)
        ls__json_append(&out, ls__json_text(ctx, ls_dataset_target_name(dataset, i)));
    return ls__json_finish(&out);
}
