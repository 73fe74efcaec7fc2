/* identity.c: see identity.h. */
#include "run/identity.h"

#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "data/loader/loader.h"
#include "nn/net.h"
#include "base/text.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "run/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

/* ---- Making: each returns NULL if memory is short ---- */

/* An object under construction. */
typedef struct settings {
    json_t *json;
    bool failed;
} settings;

static void put(settings *s, const char *name, json_t *value)
{
    s->failed |= json_object_set_new(s->json, name, value) != 0;
}

static void put_text(settings *s, const char *name, const char *value)
{
    put(s, name, json_string(value));
}

/* JSON has no numbers for infinities and NaN. */
static void put_setting(void *user, const char *name, double value)
{
    const bool whole = value == floor(value) && fabs(value) < 1e15;
    if (isfinite(value))
        put(user, name, whole ? json_integer((json_int_t)value) : json_real(value));
    else
        put_text(user, name, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static json_t *finish(settings *s)
{
    if (s->failed) json_decref(s->json);
    return s->failed ? NULL : s->json;
}

static json_t *optimizer_json(const ls_optimizer *opt)
{
    settings s = { json_object(), false };
    put_text(&s, "name", ls_optimizer_name(opt));
    ls__optimizer_settings(opt, put_setting, &s);
    return finish(&s);
}

static json_t *schedule_json(const ls_schedule *schedule)
{
    settings s = { json_object(), false };
    put_text(&s, "name", ls__schedule_name(schedule));
    ls__schedule_settings(schedule, put_setting, &s);
    return finish(&s);
}

/* All settings that change batches, except on_bad_image: a run may have to skip bad images to
 * resume. */
static json_t *loader_json(const ls_loader *loader)
{
    const ls__transform *t = &loader->transform;
    const bool random_size = t->random_resized_crop;
    const bool by_worker = loader->config.seeding == LS_SEED_BY_WORKER;
    const int64_t max_pixels = loader->config.max_pixels;
    const struct {
        const char *name;
        double value;
    } all[] = { { "batch", (double)loader->config.batch },
                { "shuffle", loader->config.shuffle },
                { "drop_last", loader->config.drop_last },
                { "honour_exif", loader->config.honour_exif },
                { "decode_fast", t->decode == LS_DECODE_FAST },
                { "max_pixels", max_pixels == LS_DEFAULT_MAX_PIXELS ? 0 : (double)max_pixels },
                { "seeding_by_worker", by_worker },
                { "workers", by_worker ? loader->config.workers : 0 },
                { "resize", (double)t->resize },
                { "height", (double)t->height },
                { "width", (double)t->width },
                { "crop_padding", (double)t->padding },
                { "random_resized_crop", random_size },
                { "scale_min", random_size ? ls__shortest((float)t->scale_min) : 0 },
                { "scale_max", random_size ? ls__shortest((float)t->scale_max) : 0 },
                { "ratio_min", random_size ? ls__shortest((float)t->ratio_min) : 0 },
                { "ratio_max", random_size ? ls__shortest((float)t->ratio_max) : 0 },
                { "flip", ls__shortest(t->flip) } };
    settings s = { json_object(), false };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        ls__put_setting(put_setting, &s, all[i].name, all[i].value);
    const ls_input_spec spec = ls_loader_spec(loader);
    const int64_t channels = spec.image.shape.dims[3];
    put(&s, "mean", ls__json_floats(spec.mean, channels, 0));
    put(&s, "std", ls__json_floats(spec.std, channels, 1));
    return finish(&s);
}

static json_t *data_json(ls_context *ctx, ls_dataset *dataset)
{
    ls_digest digest;
    char text[LS_DIGEST_TEXT_SIZE];
    if (ls_dataset_digest(dataset, false, &digest) != LS_OK) return NULL;
    settings s = { json_object(), false };
    put(&s, "samples", json_integer(ls_dataset_count(dataset)));
    put(&s, "classes", ls__json_classes(ctx, dataset));
    put_text(&s, "digest", ls_digest_text(digest, text));
    put_text(&s, "digest_of", dataset->digest_of_contents ? "contents" : "paths and sizes");
    if (dataset->pack && dataset->pack->resize > 0)
        put(&s, "resized_in_pack", json_integer(dataset->pack->resize));
    /* of a pack whose pixels another version decoded */
    if (strcmp(ls__dataset_decoders(dataset), ls__decoders()) != 0)
        put_text(&s, "decoders", ls__dataset_decoders(dataset));
    return finish(&s);
}

static json_t *validation_json(ls_context *ctx, ls_loader *loader)
{
    settings s = { json_object(), false };
    put(&s, "data", data_json(ctx, loader->dataset));
    put(&s, "loader", loader_json(loader));
    return finish(&s);
}

/* Names of the frozen parameters. */
static json_t *frozen_json(const ls_net *net)
{
    json_t *out = json_array();
    for (int64_t i = 0; out && i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info parameter = ls_net_parameter_at(net, i);
        if (!parameter.frozen || json_array_append_new(out, json_string(parameter.name)) == 0)
            continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}

static json_t *model_json(ls_net *net)
{
    char text[LS_DIGEST_TEXT_SIZE];
    settings s = { json_object(), false };
    put_text(&s, "digest", ls_digest_text(ls__net_model_digest(net), text));
    put(&s, "parameters", json_integer(ls_net_parameter_elements(net)));
    json_t *frozen = frozen_json(net);
    if (frozen && json_array_size(frozen) == 0)
        json_decref(frozen);
    else
        put(&s, "frozen", frozen);
    return finish(&s);
}

static json_t *kernels_json(const ls_net *net)
{
    const ls__selections *selections = ls__net_selections(net);
    settings s = { json_object(), false };
    for (int i = 0; i < selections->n; i++)
        if (!ls__is_weight_gradients(selections->items[i]->op)) /* no bit depends on it */
            put_text(&s, selections->items[i]->op, selections->items[i]->kernel);
    return finish(&s);
}

/* Schedules and some kernels call libc's pow, cos, exp and log, whose last bits differ by version.
 */
static const char *libc_version(void)
{
#ifdef __GLIBC__
    return gnu_get_libc_version();
#else
    return "unknown";
#endif
}

json_t *ls__identity_make(ls_context *ctx, const ls_training_state *state)
{
    const ls__backend *backend = ctx->device->backend;
    settings s = { json_object(), false };
    char seed[24];
    snprintf(seed, sizeof(seed), "%" PRIu64, ctx->config.seed);
    put_text(&s, "seed", seed); /* JSON's integers are signed */
    put_text(&s, "device", backend->name);
    put_text(&s, "libraries", backend->libraries(ctx->device));
    put_text(&s, "libc", libc_version());
    put_text(&s, "processor", backend->processor(ctx->device));
    put_text(&s, "precision", state->net ? ls__net_precision(state->net) : "f32");
    if (state->loader) {
        put(&s, "data", data_json(ctx, state->loader->dataset));
        put_text(&s, "decoders", ls__decoders());
        put(&s, "loader", loader_json(state->loader));
    }
    if (state->validation) put(&s, "validation", validation_json(ctx, state->validation));
    if (state->net) put(&s, "model", model_json(state->net));
    if (state->optimizer) put(&s, "optimizer", optimizer_json(state->optimizer));
    if (state->schedule) put(&s, "schedule", schedule_json(state->schedule));
    if (state->net) put(&s, "kernels", kernels_json(state->net));
    json_t *out = finish(&s);
    if (!out) ls__fail_memory(ctx, "identity of the run", 0);
    return out;
}

/* ---- Comparing ---- */

static bool add_difference(json_t *out, const char *field, const json_t *there, const json_t *here)
{
    json_t *none = json_null(); /* never freed */
    return json_array_append_new(out,
                                 json_pack("{s:s, s:O, s:O}", "field", field, "there",
                                           there ? there : none, "here", here ? here : none)) == 0;
}

/* False if memory is short. `prefix`: "optimizer.", for example. */
static bool compare(json_t *out, const char *prefix, const json_t *there, const json_t *here,
                    bool whole)
{
    enum { FIELD_SIZE = 2048 }; /* the text of an op is shorter */
    char field[FIELD_SIZE];
    const char *key;
    json_t *value;
    const bool kernels = strcmp(prefix, "kernels.") == 0;
    json_object_foreach((json_t *)here, key, value)
    {
        const json_t *other = json_object_get(there, key);
        snprintf(field, sizeof(field), "%s%s", prefix, key);
        if (kernels && !other) continue;
        if (json_is_object(value) && json_is_object(other)) {
            snprintf(field, sizeof(field), "%s%s.", prefix, key);
            if (!compare(out, field, other, value, true)) return false;
        } else if (!json_equal(other, value) && !add_difference(out, field, other, value)) {
            return false;
        }
    }
    if (!whole || kernels) return true;
    json_object_foreach((json_t *)there, key, value)
    {
        snprintf(field, sizeof(field), "%s%s", prefix, key);
        if (!json_object_get(here, key) && !add_difference(out, field, value, NULL)) return false;
    }
    return true;
}

json_t *ls__identity_differences(const json_t *there, const json_t *here, bool whole)
{
    json_t *out = json_array();
    if (out && compare(out, "", there, here, whole)) return out;
    json_decref(out);
    return NULL;
}

/* A value as JSON text, cut to the buffer. */
static void put_value(ls__text *text, const json_t *value)
{
    enum { VALUE_SIZE = 128 };
    char piece[VALUE_SIZE + 1];
    LS__IN_C_LOCALE;
    const size_t flags = JSON_ENCODE_ANY | JSON_REAL_PRECISION(ls__json_digits(value));
    const size_t n = json_dumpb(value, piece, VALUE_SIZE, flags);
    if (json_is_null(value))
        ls__text_put(text, "missing");
    else
        ls__text_put(text, "%.*s%s", (int)(n < VALUE_SIZE ? n : VALUE_SIZE), piece,
                     n > VALUE_SIZE ? "..." : "");
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
    return buffer;
}

ls_status ls__identity_fail(ls_context *ctx, const char *what, const json_t *differences)
{
    char first[LS__MESSAGE_SIZE], more[64] = "";
    const size_t n = json_array_size(differences);
    if (n > 1) snprintf(more, sizeof(more), ", and %zu more differ", n - 1);
    return ls__fail(
        ctx, LS_ERR_MISMATCH, "'%s' was saved by another run: %.800s%s", what,
        ls__identity_text(json_array_get(differences, 0), "there", "here", first, sizeof(first)),
        more);
}
