/* checkpoint_metadata.c: the metadata of a checkpoint. Keys and values are texts:
 *
 *   lockstep         version of the writer
 *   epoch, step      the next step to run
 *   best             the best metric so far
 *   identity         {"seed": "5", ...}; see identity.h
 *   classes          ["cat", "dog"]: the classes, or the targets where the loss or the data have
 *                    no classes
 *   mean, std, crop  image preparation: [0.485, ...], [0.229, ...], side or [height, width]
 *   kernels          {"format": "lockstep algorithm cache 1", ...}; see algorithm_cache_file.h
 *   flattened        {"fc1.weight": 16, ...}: C of linear weights in the order H,W,C
 *   bad_images       {"loader": [[7, "no image"], ...], "validation": []}
 *   optimizer_steps  number of updates; "optimizer_steps 2" of the second optimizer
 *   schedule_state   four numbers
 *   skipped_before   with loss scaling: updates skipped before the optimizer was opened
 *   accumulated      with gradient accumulation: batches since the last update
 *   frozen           ["fc.bias", ...]: the frozen parameters, if others than when training began
 *   lockstep digest  digest of the rest of the file (checkpoint_save.c)
 *
 * A resumed run must have the identity in the file. */
#include "checkpoint/checkpoint.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/text.h"
#include "data/loader/loader.h"
#include "nn/net/net.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "checkpoint/identity.h"
#include "io/json.h"
#include "checkpoint/algorithm_cache_file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const long long MAX_COUNT = 1LL << 40; /* of epochs, steps */

/* ---- Text ---- */

/* Releases json. Numbers are read back exactly. NULL if memory is short or json is NULL. */
static const char *dump(ls__bump *bump, json_t *json)
{
    LS__IN_C_LOCALE;
    const size_t flags = ls__json_exact(json), size = json ? json_dumpb(json, NULL, 0, flags) : 0;
    char *out = size > 0 ? ls__bump_alloc(bump, size + 1) : NULL;
    const bool ok = out && json_dumpb(json, out, size, flags) == size;
    json_decref(json);
    return ok ? out : NULL;
}

/* Exact in any locale; "inf", "-inf", "nan". */
static const char *number_text(ls__bump *bump, double value)
{
    if (isnan(value)) return "nan";
    if (isinf(value)) return value > 0 ? "inf" : "-inf";
    return dump(bump, json_real(value));
}

static bool parse_number(const char *text, double *out)
{
    LS__IN_C_LOCALE;
    char *end = NULL;
    errno = 0;
    *out = text ? strtod(text, &end) : 0;
    const bool overflows = isinf(*out) && errno == ERANGE;
    return end && end != text && *end == '\0' && !overflows;
}

static bool parse_count(const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long value = text && *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
    *out = value;
    return end && *end == '\0' && errno == 0 && value <= MAX_COUNT;
}

/* ---- Making: each returns NULL if memory is short ---- */

/* A growing list of pairs; `failed` = memory was short. */
typedef struct pairs {
    ls__bump *bump;
    const char **items;
    size_t n, capacity;
    bool failed;
} pairs;

static void add(pairs *p, const char *key, const char *value)
{
    const char **items = ls__bump_room(p->bump, p->items, p->n, 2, &p->capacity, sizeof *items);
    if (items) p->items = items;
    p->failed |= !items || !value;
    if (p->failed) return;
    p->items[p->n++] = key;
    p->items[p->n++] = value;
}

static void add_count(pairs *p, const char *key, int64_t value)
{
    p->failed |= !key;
    add(p, key, ls__bump_format(p->bump, "%" PRId64, value));
}

/* The image preparation of the loader, or else of the net's input. */
static void add_input(pairs *p, const ls_training_state *state)
{
    if (!state->loader && !state->net) return;
    const ls_input_spec spec =
        state->loader ? ls_loader_input_spec(state->loader) : ls__net_config(state->net)->input;
    const int64_t *d = spec.image.shape.dims;
    if (spec.image.dtype != LS_U8 || spec.image.shape.n_dims != 4 || d[3] > 4) return;
    add(p, "mean", dump(p->bump, ls__json_floats(spec.mean, d[3], 0)));
    add(p, "std", dump(p->bump, ls__json_floats(spec.std, d[3], 1)));
    if (d[1] == d[2])
        add_count(p, "crop", d[1]);
    else
        add(p, "crop", ls__bump_format(p->bump, "[%" PRId64 ", %" PRId64 "]", d[1], d[2]));
}

/* For the export to PyTorch. */
static void add_flattened(pairs *p, const ls_net *net)
{
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    ls__json_builder out = { json_object(), false };
    for (int64_t i = 0; i < blocks.n_parameters; i++)
        if (blocks.parameters[i].flattened)
            ls__json_put(&out, blocks.parameters[i].name,
                         json_integer(blocks.parameters[i].flattened));
    json_t *all = ls__json_finish(&out);
    if (!all || json_object_size(all) > 0)
        add(p, LS__CHECKPOINT_FLATTENED, dump(p->bump, all));
    else
        json_decref(all);
}

static json_t *bad_samples_json(const ls_loader *loader)
{
    ls__json_builder out = { json_array(), false };
    /* Without replacement a bad sample stops the run; the file may be repaired before it resumes.
     */
    const bool replaces = loader && loader->config.on_bad_image == LS_BAD_IMAGE_SKIP;
    const int64_t n = replaces ? ls_loader_statistics(loader).n_bad : 0;
    for (int64_t i = 0; i < n; i++) {
        const char *reason;
        const int64_t sample = ls_loader_bad_sample(loader, i, &reason);
        json_t *text = ls__json_text(loader->owned.ctx, reason);
        ls__json_append(&out, json_pack("[I, o]", (json_int_t)sample, text));
    }
    return ls__json_finish(&out);
}

static bool has_loss_scale(const ls_training_state *state)
{
    return state->optimizer && ls__net_get_blocks(state->optimizer->net).loss_scale;
}

/* The key of a count of optimizer i: "accumulated", "accumulated 2", ...; NULL if memory is short.
 */
static const char *count_key(ls__bump *bump, const char *name, int64_t i)
{
    return i == 0 ? name : ls__bump_format(bump, "%s %" PRId64, name, i + 1);
}

/* The names of the net's outputs: those of the targets for a loss that reads these alone. */
static json_t *outputs_json(const ls_training_state *state)
{
    const ls_loss_kind loss = state->net ? ls__net_config(state->net)->loss.kind : LS_LOSS_NONE;
    const bool reads_targets = loss == LS_LOSS_BINARY_CROSS_ENTROPY || loss == LS_LOSS_MSE;
    ls_context *ctx = state->loader->owned.ctx;
    return reads_targets ? ls__json_targets(ctx, state->loader->dataset)
                         : ls__json_classes(ctx, state->loader->dataset);
}

/* How the training data were opened, for other lists and folders of the kind. Not in files whose
 * program chose nothing. */
static void add_opening(pairs *p, ls_loader *loader)
{
    const ls_dataset *dataset = ls__dataset_whole(loader->dataset);
    ls__json_builder out = { json_object(), false };
    bool chosen = false;
    for (int i = 0; i < LS__N_OPENED_BY; i++) {
        if (!dataset->opened_by[i]) continue;
        chosen = true;
        ls__json_put(&out, ls__opened_by_names[i],
                     ls__json_text(loader->owned.ctx, dataset->opened_by[i]));
    }
    json_t *json = ls__json_finish(&out);
    if (chosen)
        add(p, "opened_by", dump(p->bump, json));
    else
        json_decref(json);
}

/* Only where they differ from those with which the training began, which the identity has. */
static void add_frozen(pairs *p, const ls_net *net)
{
    json_t *began = ls__identity_frozen(net, true), *now = ls__identity_frozen(net, false);
    p->failed |= !began || !now;
    if (!p->failed && !json_equal(began, now)) add(p, "frozen", dump(p->bump, json_incref(now)));
    json_decref(began);
    json_decref(now);
}

static void add_state(pairs *p, const ls_training_state *state)
{
    if (state->net) add_frozen(p, state->net);
    if (state->loader) add_opening(p, state->loader);
    if (state->loader) add(p, "classes", dump(p->bump, outputs_json(state)));
    if (state->loader || state->validation)
        add(p, "bad_images",
            dump(p->bump, json_pack("{s:o, s:o}", "loader", bad_samples_json(state->loader),
                                    "validation", bad_samples_json(state->validation))));
    const ls__optimizers optimizers = ls__optimizers_of(state);
    for (int64_t i = 0; i < optimizers.n; i++) {
        const ls_optimizer *opt = optimizers.items[i];
        add_count(p, count_key(p->bump, "optimizer_steps", i), ls_optimizer_step_count(opt));
        if (opt->sum) add_count(p, count_key(p->bump, "accumulated", i), opt->update.n_accumulated);
    }
    if (has_loss_scale(state)) add_count(p, "skipped_before", state->optimizer->skipped_before);
    if (state->schedule) {
        double s[LS_SCHEDULE_STATE_SIZE];
        ls_schedule_get_state(state->schedule, s);
        const char *all = "";
        for (int i = 0; i < LS_SCHEDULE_STATE_SIZE && all; i++) {
            const char *number = number_text(p->bump, s[i]);
            all = number ? ls__bump_format(p->bump, "%s%s%s", all, i ? " " : "", number) : NULL;
        }
        add(p, "schedule_state", all);
    }
}

ls_status ls__metadata_make(ls__bump *bump, ls_context *ctx, const ls_training_state *state,
                            const char *const **out)
{
    pairs p = { .bump = bump };
    add(&p, "lockstep", ls_version());
    add_count(&p, "epoch", state->epoch);
    add_count(&p, "step", state->step);
    add(&p, "best", number_text(bump, state->best));
    add(&p, "identity", dump(bump, ls__identity_make(ctx, state)));
    add_input(&p, state);
    if (state->net) add_flattened(&p, state->net);
    add_state(&p, state);
    if (state->net) add(&p, "kernels", dump(bump, ls__algorithm_cache_of_net(ctx, state->net)));
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
                    "'%s' is no checkpoint of a run: its metadata %s '%s'%s%.*s", c->path,
                    text ? "has an unusable" : "has no", key, text ? ": " : "",
                    LS__CUT(text ? text : "", 100));
}

bool ls__metadata_count(const ls_tensor_file *file, const char *key, int64_t *out)
{
    return parse_count(ls_tensor_file_metadata(file, key), out);
}

static ls_status read_count(const checking *c, const char *key, int64_t *out)
{
    if (!key) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    return ls__metadata_count(c->file, key, out)
               ? LS_OK
               : fail_metadata(c, key, ls_tensor_file_metadata(c->file, key));
}

/* The JSON of a key; NULL and an error in the context. */
static json_t *parse(const checking *c, const char *key)
{
    const char *text = ls_tensor_file_metadata(c->file, key);
    json_error_t error;
    LS__IN_C_LOCALE;
    json_t *out = text ? json_loads(text, 0, &error) : NULL;
    /* jansson reports only some failed allocations; the others leave no error text */
    if (text && !out && (json_error_code(&error) == json_error_out_of_memory || !*error.text))
        ls__fail_memory(c->ctx, "ls_checkpoint_load", strlen(text));
    else if (!out)
        fail_metadata(c, key, text);
    return out;
}

/* The identity to compare: of the state's members, or with an optimizer of the whole run. NULL if
 * memory is short. */
static json_t *make_comparable(const checking *c, const ls_training_state *state)
{
    static const char *const with_optimizer[] = { "shards",    "sync_batch_norm", "device",
                                                  "libraries", "processor",       "precision",
                                                  "model",     "kernels",         "metric" };
    const int64_t n_optimizers = ls__optimizers_of(state).n;
    json_t *out = ls__identity_make(c->ctx, state);
    for (size_t i = 0; i < sizeof with_optimizer / sizeof with_optimizer[0]; i++)
        if (n_optimizers == 0) json_object_del(out, with_optimizer[i]);
    if (n_optimizers == 0 && !state->loader) json_object_del(out, "seed");
    return out;
}

/* Fails if a section of `here` is missing or differs. */
static ls_status compare_identities(const checking *c, const json_t *there, json_t *here,
                                    bool force)
{
    const char *key;
    json_t *value;
    json_object_foreach(here, key, value)
    {
        /* Portable arithmetic depends on neither. */
        if (strcmp(key, "processor") == 0 || strcmp(key, "environment") == 0) continue;
        if (!json_object_get(there, key))
            return ls__fail(c->ctx, LS_ERR_FORMAT,
                            "'%s' is no checkpoint of such a run: its identity has no '%s'",
                            c->path, key);
    }
    json_t *differences = ls__identity_differences(there, here, false);
    if (!differences) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    const size_t n = json_array_size(differences);
    if (n > 0 && !force) ls__identity_fail(c->ctx, c->path, differences);
    for (size_t i = 0; i < n && force; i++) {
        char buffer[LS__MESSAGE_SIZE];
        const char *text = ls__identity_text(json_array_get(differences, i), "there", "here",
                                             buffer, sizeof(buffer));
        ls__warn(c->ctx, LS_LOG_RUN, "'%s': resuming as another run: %.*s", c->path,
                 LS__CUT(text, 800));
    }
    json_decref(differences);
    return c->ctx->error;
}

/* Fails, also with `force`, if another metric decides which epoch is the best: the best value so
 * far could not be compared. */
static ls_status check_metric(const checking *c, const json_t *identity, const json_t *own)
{
    static const char usual[] = "the default";
    const char *other = ls__json_get_string(identity, "metric");
    const char *here = ls__json_get_string(own, "metric");
    if (other && here ? strcmp(other, here) == 0 : other == here) return LS_OK;
    return ls__fail(c->ctx, LS_ERR_MISMATCH,
                    "'%s': metric is %s there, %s here; the metric of a run can't be changed",
                    c->path, other ? other : usual, here ? here : usual);
}

/* What a version that had no such option did. */
static void add_missing(json_t *identity)
{
    if (!json_object_get(identity, "shards"))
        (void)json_object_set_new(identity, "shards", json_integer(1));
    if (!json_object_get(identity, "sync_batch_norm"))
        (void)json_object_set_new(identity, "sync_batch_norm", json_false());
}

/* The parameters that are frozen: those of the list, or those with which the training began. With
 * `force` and another beginning, those of the net as they are. */
static ls_status read_frozen(const checking *c, ls_net *net, const json_t *there,
                             const json_t *here, ls__position *out)
{
    json_t *model = json_object_get(there, "model"), *began = json_object_get(model, "frozen");
    const json_t *own = json_object_get(json_object_get(here, "model"), "frozen");
    if (began ? !json_equal(began, own) : own != NULL) return LS_OK;
    const int64_t n = ls_net_parameter_count(net);
    out->frozen = ls__bump_alloc(c->bump, (size_t)n * sizeof *out->frozen);
    if (!out->frozen) return ls__fail_memory(c->ctx, "ls_checkpoint_load", (size_t)n);
    for (int64_t i = 0; i < n; i++) out->frozen[i] = ls__net_began_frozen(net, i);
    if (!ls_tensor_file_metadata(c->file, "frozen")) return LS_OK;
    json_t *list = parse(c, "frozen");
    if (!list) return c->ctx->error;
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    bool known = json_is_array(list);
    memset(out->frozen, 0, (size_t)n * sizeof *out->frozen);
    for (size_t i = 0; known && i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        const int64_t at = name ? ls__find_parameter(n, blocks.parameters, name) : -1;
        known = at >= 0;
        if (known) out->frozen[at] = true;
    }
    json_decref(list);
    return known ? LS_OK : fail_metadata(c, "frozen", "no list of the net's parameters");
}

static ls_status check_identity(const checking *c, const ls_training_state *state,
                                ls__position *out)
{
    json_t *here = make_comparable(c, state), *there = NULL;
    if (!here) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    ls_status status = LS_OK;
    if (json_object_size(here) > 0) {
        there = parse(c, "identity");
        if (there) add_missing(there);
        const char *digest = there ? ls__identity_adopt_weights(here, there) : NULL;
        if (digest) memcpy(out->weights, digest, LS_DIGEST_TEXT_SIZE);
        status = there ? LS_OK : c->ctx->error;
        if (status == LS_OK && ls__optimizers_of(state).n > 0)
            status = check_metric(c, there, here);
        if (status == LS_OK) status = compare_identities(c, there, here, state->force);
        if (status == LS_OK && state->net && ls__optimizers_of(state).n > 0)
            status = read_frozen(c, state->net, there, here, out);
    }
    json_decref(there);
    json_decref(here);
    return status;
}

/* Pairs of a sample and a text, in ascending order. */
static ls_status read_bad_samples(const checking *c, const json_t *all, const ls_loader *loader,
                                  ls__bad_samples *out)
{
    const size_t n = json_array_size(all);
    int64_t last = -1;
    if (!json_is_array(all)) return fail_metadata(c, "bad_images", "no list");
    out->samples = ls__bump_alloc(c->bump, n * sizeof *out->samples);
    out->reasons = ls__bump_alloc(c->bump, n * sizeof *out->reasons);
    if (!out->samples || !out->reasons) return ls__fail_memory(c->ctx, "ls_checkpoint_load", n);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(all, i), *sample = json_array_get(pair, 0);
        json_t *reason = json_array_get(pair, 1);
        const int64_t at = json_is_integer(sample) ? json_integer_value(sample) : -1;
        if (at <= last || at >= ls_dataset_sample_count(loader->dataset) || !json_is_string(reason))
            return fail_metadata(c, "bad_images", "no pairs of samples and texts");
        const bool restored = ls__json_restore(c->ctx, reason);
        out->samples[i] = last = at;
        out->reasons[i] = restored ? ls__bump_strdup(c->bump, json_string_value(reason)) : NULL;
        if (!out->reasons[i]) return ls__fail_memory(c->ctx, "ls_checkpoint_load", 0);
    }
    out->n = (int64_t)n;
    return LS_OK;
}

static ls_status read_bad_images(const checking *c, const ls_training_state *state,
                                 ls__position *out)
{
    if (state->force || (!state->loader && !state->validation)) return LS_OK;
    json_t *json = parse(c, "bad_images");
    ls_status status = json ? LS_OK : c->ctx->error;
    if (status == LS_OK && state->loader)
        status =
            read_bad_samples(c, json_object_get(json, "loader"), state->loader, &out->of_loader);
    if (status == LS_OK && state->validation)
        status = read_bad_samples(c, json_object_get(json, "validation"), state->validation,
                                  &out->of_validation);
    json_decref(json);
    return status;
}

static ls_status read_schedule_state(const checking *c, double out[LS_SCHEDULE_STATE_SIZE])
{
    const char *text = ls_tensor_file_metadata(c->file, "schedule_state"), *at = text ? text : "";
    for (int i = 0; i < LS_SCHEDULE_STATE_SIZE; i++) {
        char number[32];
        int length = 0;
        if (sscanf(at, "%31s%n", number, &length) != 1 || !parse_number(number, &out[i]))
            return fail_metadata(c, "schedule_state", text);
        at += length;
    }
    if (*at || !ls__schedule_is_state(out)) return fail_metadata(c, "schedule_state", text);
    return LS_OK;
}

ls_status ls__metadata_check(ls__bump *bump, ls_context *ctx, const char *path,
                             const ls_tensor_file *file, const ls_training_state *state,
                             ls__position *out)
{
    const checking c = { bump, ctx, path, file };
    *out = (ls__position){ 0 };
    LS_TRY(read_count(&c, "epoch", &out->epoch));
    LS_TRY(read_count(&c, "step", &out->step));
    const char *best = ls_tensor_file_metadata(file, "best");
    if (!parse_number(best, &out->best)) return fail_metadata(&c, "best", best);
    LS_TRY(check_identity(&c, state, out));
    LS_TRY(read_bad_images(&c, state, out));
    const ls__optimizers optimizers = ls__optimizers_of(state);
    for (int64_t i = 0; i < optimizers.n; i++) {
        LS_TRY(read_count(&c, count_key(bump, "optimizer_steps", i), &out->n_steps[i]));
        if (optimizers.items[i]->sum)
            LS_TRY(read_count(&c, count_key(bump, "accumulated", i), &out->accumulated[i]));
    }
    if (has_loss_scale(state)) LS_TRY(read_count(&c, "skipped_before", &out->skipped_before));
    if (state->schedule) LS_TRY(read_schedule_state(&c, out->schedule));
    return LS_OK;
}
