/* checkpoint_metadata.c: what a checkpoint says beside its tensors. Keys and values are texts:
 *
 *   lockstep         version that wrote it
 *   epoch, step      the next step to run;  best: the best metric so far
 *   seed             of the context
 *   classes          ["cat", "dog"]
 *   mean, std, crop  how pictures are prepared: [0.485, ...], [0.229, ...], side or [height, width]
 *   choices          {"format": "lockstep plan 1", ...}: the net's kernels, as plan.h says
 *   loader           {"samples": 50000, "batch": 128, "shuffle": 1, ...}: settings that are not 0
 *   optimizer        {"name": "sgd", "momentum": 0.9, ...};  optimizer_steps: updates done
 *   schedule         {"name": "cosine", "rate": 0.1, ...};  schedule_state: four numbers
 *
 * When a run goes on, what it says now must be what the file says. */
#include "run/checkpoint.h"

#include "base/error.h"
#include "data/loader.h"
#include "nn/net.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "run/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits of settings: any decimal of so many survives text -> double -> text. */
enum { SETTING_DIGITS = 15 };
/* Digits that any double survives. */
enum { EXACT_DIGITS = 17 };

static const long long MAX_COUNT = 1LL << 40; /* of epochs, steps */

/* ---- Text ---- */

static char *copy(ls__bump *bump, const char *format, ...) LS_PRINTF(2, 3);
static char *copy(ls__bump *bump, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *out = n < 0 ? NULL : ls__bump_alloc(bump, (size_t)n + 1);
    if (out) vsnprintf(out, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return out;
}

/* NULL without memory, or when json is NULL. Not json_dumps, which without memory may answer half
 * a text (jansson 2.14). */
static const char *dump(ls__bump *bump, const json_t *json, size_t digits)
{
    const size_t flags = JSON_ENCODE_ANY | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits);
    const size_t size = json ? json_dumpb(json, NULL, 0, flags) : 0;
    char *out = size > 0 ? ls__bump_alloc(bump, size + 1) : NULL;
    return out && json_dumpb(json, out, size, flags) == size ? out : NULL;
}

/* The same, for a new value, which is released. */
static const char *dump_new(ls__bump *bump, json_t *json, size_t digits)
{
    const char *out = dump(bump, json, digits);
    json_decref(json);
    return out;
}

/* Exact, whatever the locale; "inf", "-inf", "nan". */
static const char *number_text(ls__bump *bump, double value)
{
    if (isnan(value)) return "nan";
    if (isinf(value)) return value > 0 ? "inf" : "-inf";
    return dump_new(bump, json_real(value), EXACT_DIGITS);
}

static bool parse_number(const char *text, double *out)
{
    static const struct {
        const char *text;
        double value;
    } words[] = { { "nan", NAN }, { "inf", INFINITY }, { "-inf", -INFINITY } };
    for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(text, words[i].text) != 0) continue;
        *out = words[i].value;
        return true;
    }
    json_t *json = text ? json_loads(text, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL) : NULL;
    const bool good = json_is_real(json);
    if (good) *out = json_real_value(json);
    json_decref(json);
    return good;
}

static bool parse_count(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = text && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    *out = value;
    return end && *end == '\0' && errno == 0 && value <= MAX_COUNT;
}

/* ---- Making: each answers NULL without memory ---- */

/* An object of settings in the making. */
typedef struct settings {
    json_t *json;
    bool failed;
} settings;

static void put_setting(void *user, const char *name, double value)
{
    settings *s = user;
    const bool whole = value == floor(value) && fabs(value) < 1e15;
    json_t *number = whole ? json_integer((json_int_t)value) : json_real(value);
    s->failed |= json_object_set_new(s->json, name, number) != 0;
}

static json_t *finish(settings *s)
{
    if (s->failed) json_decref(s->json);
    return s->failed ? NULL : s->json;
}

static json_t *optimizer_json(const ls_optimizer *opt)
{
    settings s = { json_pack("{s:s}", "name", ls_optimizer_name(opt)), false };
    ls__optimizer_settings(opt, put_setting, &s);
    return finish(&s);
}

static json_t *schedule_json(const ls_schedule *schedule)
{
    settings s = { json_pack("{s:s}", "name", ls__schedule_name(schedule)), false };
    ls__schedule_settings(schedule, put_setting, &s);
    return finish(&s);
}

/* What decides over batches. Bad images are left out: they may have to be skipped for a run to get
 * on. */
static json_t *loader_json(const ls_loader *loader)
{
    const ls__transform *t = &loader->transform;
    const bool random_size = t->random_resized_crop;
    const bool by_worker = loader->config.seeding == LS_SEED_BY_WORKER;
    const struct {
        const char *name;
        double value;
    } all[] = { { "samples", (double)loader->dataset->n_samples },
                { "batch", (double)loader->config.batch },
                { "shuffle", loader->config.shuffle },
                { "drop_last", loader->config.drop_last },
                { "honour_exif", loader->config.honour_exif },
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
    return finish(&s);
}

/* JSON is UTF-8, names of folders can be anything: in those that are not UTF-8 bytes beyond ASCII
 * become \xE9 and the like. */
static json_t *name_json(ls__bump *bump, const char *name)
{
    json_t *out = json_string(name);
    if (out) return out;
    char *escaped = ls__bump_alloc(bump, 4 * strlen(name) + 1);
    if (!escaped) return NULL;
    for (char *at = escaped; *name; name++)
        at += sprintf(at, (unsigned char)*name < 0x80 ? "%c" : "\\x%02X", (unsigned char)*name);
    return json_string(escaped);
}

static json_t *classes_json(ls__bump *bump, const ls_dataset *dataset)
{
    json_t *out = json_array();
    for (int i = 0; out && i < ls_dataset_classes(dataset); i++) {
        if (json_array_append_new(out, name_json(bump, ls_dataset_class_name(dataset, i))) == 0)
            continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}

static json_t *floats_json(const float *values, int64_t n, float fallback)
{
    json_t *out = json_array();
    for (int64_t i = 0; out && i < n; i++) {
        const double value = ls__shortest(values[i] != 0 ? values[i] : fallback);
        if (json_array_append_new(out, json_real(value)) == 0) continue;
        json_decref(out);
        out = NULL;
    }
    return out;
}

/* A list of pairs that grows; `failed` when there was no memory for one. */
typedef struct pairs {
    ls__bump *bump;
    const char **items;
    size_t n, room;
    bool failed;
} pairs;

static void add(pairs *p, const char *key, const char *value)
{
    if (p->n + 2 > p->room) {
        const size_t room = p->room ? 2 * p->room : 64;
        const char **items = ls__bump_grow(p->bump, p->items, p->n, room, sizeof *p->items);
        if (items) p->items = items;
        if (items) p->room = room;
        p->failed |= !items;
    }
    p->failed |= !value;
    if (p->failed) return;
    p->items[p->n++] = key;
    p->items[p->n++] = value;
}

/* How pictures are prepared, by the loader or else by the net that takes them. */
static void add_input(pairs *p, const ls_state *state)
{
    if (!state->loader && !state->net) return;
    const ls_input_spec spec =
        state->loader ? ls_loader_spec(state->loader) : *ls__net_input_spec(state->net);
    const int64_t *d = spec.image.shape.dims;
    if (spec.image.dtype != LS_U8 || spec.image.shape.n_dims != 4 || d[3] > 4) return;
    add(p, "mean", dump_new(p->bump, floats_json(spec.mean, d[3], 0), SETTING_DIGITS));
    add(p, "std", dump_new(p->bump, floats_json(spec.deviation, d[3], 1), SETTING_DIGITS));
    add(p, "crop",
        d[1] == d[2] ? copy(p->bump, "%" PRId64, d[1])
                     : copy(p->bump, "[%" PRId64 ", %" PRId64 "]", d[1], d[2]));
}

static void add_state(pairs *p, const ls_state *state)
{
    if (state->loader) {
        add(p, "classes",
            dump_new(p->bump, classes_json(p->bump, state->loader->dataset), SETTING_DIGITS));
        add(p, "loader", dump_new(p->bump, loader_json(state->loader), SETTING_DIGITS));
    }
    if (state->optimizer) {
        add(p, "optimizer", dump_new(p->bump, optimizer_json(state->optimizer), SETTING_DIGITS));
        add(p, "optimizer_steps", copy(p->bump, "%" PRId64, ls_optimizer_steps(state->optimizer)));
    }
    if (state->schedule) {
        double s[LS_SCHEDULE_STATE];
        ls_schedule_get_state(state->schedule, s);
        const char *texts[LS_SCHEDULE_STATE];
        for (int i = 0; i < LS_SCHEDULE_STATE; i++) {
            texts[i] = number_text(p->bump, s[i]);
            p->failed |= !texts[i];
        }
        add(p, "schedule", dump_new(p->bump, schedule_json(state->schedule), SETTING_DIGITS));
        if (!p->failed)
            add(p, "schedule_state",
                copy(p->bump, "%s %s %s %s", texts[0], texts[1], texts[2], texts[3]));
    }
}

ls_status ls__metadata_make(ls__bump *bump, ls_context *ctx, const ls_state *state,
                            const char *const **out)
{
    pairs p = { .bump = bump };
    add(&p, "lockstep", ls_version());
    add(&p, "epoch", copy(bump, "%" PRId64, state->epoch));
    add(&p, "step", copy(bump, "%" PRId64, state->step));
    add(&p, "best", number_text(bump, state->best));
    add(&p, "seed", copy(bump, "%" PRIu64, ctx->config.seed));
    add_input(&p, state);
    add_state(&p, state);
    if (state->net) {
        json_t *choices = ls__plan_json(ctx, ls__net_choices(state->net), true);
        add(&p, "choices", dump_new(bump, choices, SETTING_DIGITS));
    }
    for (const char *const *pair = state->metadata; pair && *pair; pair += 2) {
        if (!pair[1])
            return ls__fail(ctx, LS_ERR_INVALID, "ls_checkpoint_save: metadata '%s' has no value",
                            *pair);
        add(&p, pair[0], pair[1]);
    }
    add(&p, NULL, ""); /* the end */
    *out = p.items;
    return p.failed ? ls__fail_memory(ctx, "ls_checkpoint_save", 0) : LS_OK;
}

/* ---- Checking ---- */

typedef struct checking {
    ls__bump *bump;
    ls_context *ctx;
    const char *path;
    const ls_tensor_file *file;
} checking;

static ls_status fail_metadata(const checking *c, const char *key, const char *text)
{
    return ls__fail(c->ctx, LS_ERR_FORMAT,
                    "'%s' is no checkpoint of a run: its metadata %s '%s'%s%.100s", c->path,
                    text ? "has an unusable" : "has no", key, text ? ": " : "", text ? text : "");
}

static ls_status read_count(const checking *c, const char *key, int64_t *out)
{
    const char *text = ls_tensor_file_metadata(c->file, key);
    return parse_count(text, out) ? LS_OK : fail_metadata(c, key, text);
}

static ls_status fail_setting(const checking *c, const char *what, const char *key,
                              const json_t *stored, const json_t *now)
{
    const char *a = stored ? dump(c->bump, stored, SETTING_DIGITS) : "0";
    const char *b = now ? dump(c->bump, now, SETTING_DIGITS) : "0";
    if (!a || !b) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    return ls__fail(c->ctx, LS_ERR_MISMATCH,
                    "'%s' was saved by another run: %s: %s is %.100s "
                    "there, %.100s here",
                    c->path, what, key, a, b);
}

/* The same value, to the digits that files hold. */
static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        const double x = json_number_value(a), y = json_number_value(b);
        return fabs(x - y) <= 1e-14 * fabs(y);
    }
    return json_equal(a, b);
}

/* The JSON under a key; NULL and an error kept. */
static json_t *parse(const checking *c, const char *key)
{
    const char *text = ls_tensor_file_metadata(c->file, key);
    json_error_t error;
    json_t *out = text ? json_loads(text, 0, &error) : NULL;
    /* jansson reports only some of the requests that failed; the others leave no text */
    if (text && !out && (json_error_code(&error) == json_error_out_of_memory || !*error.text))
        ls__fail_memory(c->ctx, "ls_checkpoint_load", strlen(text));
    else if (!out)
        fail_metadata(c, key, text);
    return out;
}

/* Compares an object of settings in the file with what it would be now. */
static ls_status check_settings(const checking *c, const char *what, json_t *now)
{
    if (!now) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    json_t *stored = parse(c, what);
    ls_status status = stored ? LS_OK : c->ctx->error;
    const char *key;
    json_t *value;
    json_object_foreach(now, key, value)
    {
        if (status != LS_OK) break;
        json_t *there = json_object_get(stored, key);
        if (!same(there, value)) status = fail_setting(c, what, key, there, value);
    }
    json_object_foreach(stored, key, value)
    {
        if (status != LS_OK) break;
        if (!json_object_get(now, key)) status = fail_setting(c, what, key, value, NULL);
    }
    json_decref(stored);
    return status;
}

static ls_status check_new_settings(const checking *c, const char *what, json_t *now)
{
    const ls_status status = check_settings(c, what, now);
    json_decref(now);
    return status;
}

/* The first class that differs. */
static ls_status check_classes(const checking *c, const json_t *now)
{
    if (!now) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    json_t *stored = parse(c, "classes");
    const size_t n = json_array_size(now), n_stored = json_array_size(stored);
    ls_status status = stored ? LS_OK : c->ctx->error;
    if (status == LS_OK && n != n_stored)
        status = ls__fail(c->ctx, LS_ERR_MISMATCH,
                          "'%s' was saved by another run: %zu classes there, %zu here", c->path,
                          n_stored, n);
    for (size_t i = 0; i < n && status == LS_OK; i++) {
        char key[32];
        snprintf(key, sizeof(key), "number %zu", i);
        if (!json_equal(json_array_get(stored, i), json_array_get(now, i)))
            status =
                fail_setting(c, "classes", key, json_array_get(stored, i), json_array_get(now, i));
    }
    json_decref(stored);
    return status;
}

/* One text for another. */
static ls_status check_text(const checking *c, const char *key, const char *now)
{
    const char *text = ls_tensor_file_metadata(c->file, key);
    if (!now) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    if (!text) return fail_metadata(c, key, NULL);
    if (strcmp(text, now) == 0) return LS_OK;
    return ls__fail(c->ctx, LS_ERR_MISMATCH,
                    "'%s' was saved by another run: %s is %.100s there, %.100s here", c->path, key,
                    text, now);
}

static ls_status check_loader(const checking *c, const ls_loader *loader)
{
    json_t *classes = classes_json(c->bump, loader->dataset);
    const ls_status status = check_classes(c, classes);
    json_decref(classes);
    LS_TRY(status);
    LS_TRY(check_new_settings(c, "loader", loader_json(loader)));
    pairs now = { .bump = c->bump };
    add_input(&now, &(ls_state){ .loader = (ls_loader *)loader });
    if (now.failed) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    for (size_t i = 0; i < now.n; i += 2) LS_TRY(check_text(c, now.items[i], now.items[i + 1]));
    return LS_OK;
}

static ls_status read_schedule_state(const checking *c, double out[LS_SCHEDULE_STATE])
{
    const char *text = ls_tensor_file_metadata(c->file, "schedule_state");
    char *rest = text ? ls__bump_strdup(c->bump, text) : NULL;
    if (text && !rest) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    for (int i = 0; i < LS_SCHEDULE_STATE; i++) {
        const char *number = rest;
        rest = rest ? strchr(rest, ' ') : NULL;
        if (rest) *rest++ = '\0';
        const bool last = i == LS_SCHEDULE_STATE - 1;
        if (!parse_number(number, &out[i]) || !rest != last)
            return fail_metadata(c, "schedule_state", text);
    }
    return LS_OK;
}

ls_status ls__metadata_check(ls__bump *bump, ls_context *ctx, const char *path,
                             const ls_tensor_file *file, const ls_state *state, ls__position *out)
{
    const checking c = { bump, ctx, path, file };
    *out = (ls__position){ 0 };
    LS_TRY(read_count(&c, "epoch", &out->epoch));
    LS_TRY(read_count(&c, "step", &out->step));
    const char *best = ls_tensor_file_metadata(file, "best");
    if (!parse_number(best, &out->best)) return fail_metadata(&c, "best", best);
    if (state->loader) LS_TRY(check_loader(&c, state->loader));
    if (state->loader || state->optimizer)
        LS_TRY(check_text(&c, "seed", copy(bump, "%" PRIu64, ctx->config.seed)));
    if (state->optimizer) {
        LS_TRY(check_new_settings(&c, "optimizer", optimizer_json(state->optimizer)));
        LS_TRY(read_count(&c, "optimizer_steps", &out->n_steps));
    }
    if (state->schedule) {
        LS_TRY(check_new_settings(&c, "schedule", schedule_json(state->schedule)));
        LS_TRY(read_schedule_state(&c, out->schedule));
    }
    return LS_OK;
}
