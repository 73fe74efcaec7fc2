/* trainer_open.c: opens and restores a run's folder; see lockstep/trainer.h. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "comm/agree.h"
#include "comm/merges.h"
#include "data/loader/loader.h"
#include "nn/net/net.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/identity.h"
#include "io/json.h"
#include "log/run_folder.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char call[] = "ls_trainer_open";

/* ---- The configuration ---- */

static ls_status check_config(ls_context *ctx, const ls_trainer_config *c)
{
    enum { MAX_EPOCHS = 1 << 20 };
    const struct {
        const char *name;
        int64_t value;
    } counts[] = { { "max_steps", c->max_steps },
                   { "patience", c->patience },
                   { "checkpoint_every", c->checkpoint_every },
                   { "log_every", c->log_every } };
    if (c->epochs < 1 || c->epochs > MAX_EPOCHS)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: epochs is %" PRId64 ", expected 1 to %d", call,
                        c->epochs, (int)MAX_EPOCHS);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i].value < 0)
            return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is %" PRId64 ", expected 0 or more", call,
                            counts[i].name, counts[i].value);
    const char *idle = c->resume                              ? "resume"
                       : c->checkpoint_every                  ? "checkpoint_every"
                       : c->keep_checkpoints                  ? "keep_checkpoints"
                       : c->no_report                         ? "no_report"
                       : c->model                             ? "model"
                       : c->tensorboard == LS_TENSORBOARD_ALL ? "tensorboard"
                       : c->log_every                         ? "log_every"
                                                              : NULL;
    if (!c->dir && idle)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s has no effect without dir", call, idle);
    if (c->tensorboard < LS_TENSORBOARD_SCALARS || c->tensorboard > LS_TENSORBOARD_NONE)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: tensorboard is %d, expected an ls_tensorboard",
                        call, (int)c->tensorboard);
    if (c->force && !c->resume)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: force has no effect without resume", call);
    if (c->dir && !*c->dir) return ls__fail(ctx, LS_ERR_INVALID, "%s: dir is empty", call);
    return c->model ? ls__model_info_check(ctx, call, c->model) : LS_OK;
}

/* Ranks with other settings would wait for each other at other steps. */
static ls_status check_ranks(ls_context *ctx, const ls_trainer_config *c)
{
    const ls__rank_setting settings[] = { ls__rank_number("epochs", c->epochs),
                                          ls__rank_number("max_steps", c->max_steps),
                                          ls__rank_number("patience", c->patience),
                                          ls__rank_number("validation", c->validation != NULL),
                                          ls__rank_number("dir", c->dir != NULL),
                                          ls__rank_number("resume", c->resume),
                                          ls__rank_number("force", c->force),
                                          ls__rank_number("checkpoint_every", c->checkpoint_every),
                                          ls__rank_number("keep_checkpoints", c->keep_checkpoints),
                                          ls__rank_number("no_report", c->no_report),
                                          ls__rank_number("tensorboard", c->tensorboard),
                                          ls__rank_number("log_every", c->log_every) };
    return ls__ranks_check_settings(ctx, settings, sizeof(settings) / sizeof(settings[0]));
}

/* A class or target of one number has one name. Datasets whose program gave no names have none. */
static ls_status check_names(ls_context *ctx, const ls_dataset *training,
                             const ls_dataset *validation)
{
    const bool targets = ls_dataset_target_count(training) > 0;
    const int n = targets ? ls_dataset_target_count(training) : ls_dataset_class_count(training);
    const char *(*name)(const ls_dataset *, int) =
        targets ? ls_dataset_target_name : ls_dataset_class_name;
    if (!ls__dataset_whole(training)->has_names || !ls__dataset_whole(validation)->has_names)
        return LS_OK;
    for (int i = 0; i < n; i++)
        if (strcmp(name(training, i), name(validation, i)) != 0)
            return ls__fail(ctx, LS_ERR_MISMATCH,
                            "%s: %s %d is '%.*s' in validation, '%.*s' in training; "
                            "ls_image_folder_open_classes and ls_csv_open read validation data "
                            "with the names of the training data",
                            call, targets ? "target" : "class", i,
                            LS__CUT(name(validation, i), 200), LS__CUT(name(training, i), 200));
    return LS_OK;
}

/* Puts the classes of `data`, or those that `other` lacks. Returns how many these are. */
static int put_classes(ls__text *text, const ls_dataset *data, const ls_dataset *other)
{
    enum { MAX_LISTED = 10, MAX_NAME = 40 };
    const int n = ls_dataset_class_count(data), n_other = ls_dataset_class_count(other);
    int n_put = 0;
    for (int i = 0; i < n; i++) {
        const char *name = ls_dataset_class_name(data, i);
        int k = 0;
        while (k < n_other && strcmp(name, ls_dataset_class_name(other, k)) != 0) k++;
        if (other && k < n_other) continue;
        if (n_put < MAX_LISTED)
            ls__text_put(text, "%s%.*s%s", n_put ? ", " : "", LS__CUT(name, MAX_NAME),
                         strlen(name) > MAX_NAME ? "..." : "");
        n_put++;
    }
    if (n_put > MAX_LISTED) ls__text_put(text, " and %d more", n_put - MAX_LISTED);
    return n_put;
}

/* Names the classes that one of the two datasets lacks, where both were given names. */
static ls_status fail_classes(ls_context *ctx, const ls_dataset *training,
                              const ls_dataset *validation)
{
    char buffer[LS__MESSAGE_SIZE];
    ls__text text = { buffer, sizeof(buffer), 0 };
    const int n = ls_dataset_class_count(validation);
    ls__text_put(&text, "%s: validation has %d class%s", call, n, n == 1 ? "" : "es");
    if (!ls__dataset_whole(training)->has_names || !ls__dataset_whole(validation)->has_names) {
        ls__text_put(&text, ", training %d", ls_dataset_class_count(training));
        return ls__fail(ctx, LS_ERR_SHAPE, "%s", buffer);
    }
    ls__text_put(&text, " (");
    put_classes(&text, validation, NULL);
    ls__text_put(&text, "), training %d; ", ls_dataset_class_count(training));
    const size_t before = text.length;
    ls__text_put(&text, "not in training: ");
    if (put_classes(&text, validation, training) > 0) {
        ls__text_put(&text, "; both need the same classes");
        return ls__fail(ctx, LS_ERR_SHAPE, "%s", buffer);
    }
    text.length = before;
    ls__text_put(&text, "missing: ");
    put_classes(&text, training, validation);
    ls__text_put(&text, validation->in_class_folders
                            ? "; open it with ls_image_folder_open_classes"
                            : "; open it with the names of the training data");
    return ls__fail(ctx, LS_ERR_SHAPE, "%s", buffer);
}

/* The validation batches go to the net that is trained. */
static ls_status check_objects(ls_context *ctx, const ls_trainer *t)
{
    if (!t->config.validation) return LS_OK;
    ls_input_spec specs[2] = { ls_loader_input_spec(t->loader),
                               ls_loader_input_spec(t->config.validation) };
    const ls_dataset *training = t->loader->dataset, *validation = t->config.validation->dataset;
    char texts[2][LS_SHAPE_TEXT_SIZE];
    for (int i = 0; i < 2; i++) specs[i].image.shape.dims[0] = 0;
    if (!ls_shape_equal(&specs[0].image.shape, &specs[1].image.shape))
        return ls__fail(ctx, LS_ERR_SHAPE, "%s: validation has images %s, training %s", call,
                        ls_shape_text(&specs[1].image.shape, texts[1], sizeof(texts[1])),
                        ls_shape_text(&specs[0].image.shape, texts[0], sizeof(texts[0])));
    if (specs[0].n_targets != specs[1].n_targets)
        return ls__fail(ctx, LS_ERR_SHAPE, "%s: validation has %d targets, training %d", call,
                        specs[1].n_targets, specs[0].n_targets);
    if (specs[0].n_classes != specs[1].n_classes) return fail_classes(ctx, training, validation);
    return check_names(ctx, training, validation);
}

/* A schedule that counts batches would not reach its end; one that reads top-1 needs it. */
static ls_status check_schedule(ls_context *ctx, const ls_trainer *t)
{
    if (!t->has_top1 && t->schedule->config.maximize && t->metric.minimize)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: the schedule has maximize, but the net has no metric 'top1'", call);
    const int64_t steps = ls_loader_step_count(t->loader);
    const int64_t updates = ls__optimizer_updates_per_epoch(t->optimizer, steps);
    const int64_t got = t->schedule->config.steps_per_epoch;
    if (updates == steps || got == 0 || got == updates) return LS_OK;
    return ls__fail(ctx, LS_ERR_INVALID,
                    "%s: the schedule has %" PRId64 " steps per epoch, expected %" PRId64
                    ": with accumulate %" PRId64 " a schedule counts updates, not batches",
                    call, got, updates, t->optimizer->options.accumulate);
}

/* ---- The folder ---- */

static bool has_bytes(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISREG(there.st_mode) && there.st_size > 0;
}

/* A last.safetensors of step 0 is of a run that was killed while it began, so the folder is unused.
 * The files of another run are never overwritten, even if its last.safetensors is lost. */
static ls_status check_unused(ls_trainer *t)
{
    ls_context *ctx = t->owned.ctx;
    int64_t epoch = 0, step = 0;
    bool is_new = !has_bytes(t->best_path);
    if (is_new && has_bytes(t->last_path)) {
        ls_tensor_file *file = ls_tensor_file_open(ctx, t->last_path);
        if (!file) return ctx->error;
        is_new = ls__metadata_count(file, "epoch", &epoch) &&
                 ls__metadata_count(file, "step", &step) && epoch == 0 && step == 0;
        ls_tensor_file_close(&file);
    }
    if (is_new) return LS_OK;
    return ls__fail(ctx, LS_ERR_INVALID,
                    "run folder '%s': holds a run already; set resume, or choose another folder",
                    t->dir);
}

/* A folder that lacks last.safetensors alone is damaged, which restore() reports. */
static ls_status check_begun(const ls_trainer *t)
{
    const bool is_missing = !ls__path_exists(t->last_path) && (errno == ENOENT || errno == ENOTDIR);
    if (!is_missing || ls__path_exists(t->best_path)) return LS_OK;
    return ls__fail(t->owned.ctx, LS_ERR_NOT_FOUND,
                    "%s: no run to resume in '%s'; open the trainer without resume", call, t->dir);
}

/* The objects that a trainer keeps. */
enum { N_USED = 5 };

static void close_trainer(ls__owned *owned)
{
    ls_trainer *t = (ls_trainer *)owned;
    const ls_context *ctx = owned->ctx;
    ls__metrics_close(&t->metrics);
    ls__event_log_close(&t->events);
    ls_evaluation_close(&t->evaluation);
    ls_run_log_close(&t->log);
    if (t->lock) ls__disown_and_close(t->lock);
    ls__free(ctx, t->dir);
    ls__free(ctx, t->last_path);
    ls__free(ctx, t->best_path);
    void *const used[] = { t->net, t->optimizer, t->schedule, t->loader, t->config.validation };
    for (int i = 0; i < N_USED; i++) ls__release(used[i]);
    ls__free(ctx, t);
}

/* The lock of a folder is the context's, so it does not exclude a second trainer. */
static ls_status check_single(const ls_trainer *t)
{
    struct stat mine, other;
    if (stat(t->dir, &mine) != 0) return LS_OK;
    for (const ls__owned *o = t->owned.ctx->last_owned; o; o = o->previous) {
        const char *dir = o->close == close_trainer ? ((const ls_trainer *)o)->dir : NULL;
        if (dir && stat(dir, &other) == 0 && other.st_dev == mine.st_dev &&
            other.st_ino == mine.st_ino)
            return ls__fail(t->owned.ctx, LS_ERR_INVALID,
                            "run folder '%s': another trainer of this context is open there", dir);
    }
    return LS_OK;
}

/* Fails before training if best.safetensors is a folder. */
static ls_status check_best_name(const ls_trainer *t)
{
    struct stat there;
    if (stat(t->best_path, &there) != 0 || !S_ISDIR(there.st_mode)) return LS_OK;
    return ls__fail(t->owned.ctx, LS_ERR_INVALID,
                    "%s: a folder; the best weights are written to that name", t->best_path);
}

/* Damaged or missing best weights can't be restored, so they do not stop a run. */
static ls_status check_best(ls_trainer *t)
{
    ls_context *ctx = t->owned.ctx;
    if (t->progress.best_epoch == 0) return LS_OK;
    const ls_status status = ls__checkpoint_check(ctx, t->best_path);
    if (status == LS_OK || status == LS_ERR_MEMORY || status == LS_ERR_DEVICE) return status;
    ls_context_clear_error(ctx);
    t->best_is_lost = true;
    const bool is_missing = status == LS_ERR_NOT_FOUND;
    return ls__notify(&t->listener, &(ls_event){ .kind = LS_EVENT_BEST_LOST,
                                                 .epoch = t->epoch,
                                                 .step = t->step,
                                                 .best_epoch = t->progress.best_epoch,
                                                 .message = is_missing ? NULL : ctx->message });
}

/* Checkpoints have the best metric, but not its loss. Each rank reads it; ls__metrics_open fails if
 * the row is missing. */
static ls_status restore_best_loss(ls_trainer *t)
{
    const int64_t epoch = t->progress.best_epoch;
    json_t *row = NULL;
    if (epoch > 0) LS_TRY(ls__metrics_read_row(t->owned.ctx, t->dir, epoch, &row));
    const json_t *loss = json_object_get(row, t->config.validation ? "val_loss" : "train_loss");
    t->best_loss = json_is_number(loss) ? json_number_value(loss) : INFINITY;
    json_decref(row);
    return LS_OK;
}

static ls_status restore(ls_trainer *t)
{
    ls_training_state state = ls__trainer_training_state(t);
    LS_TRY(ls__progress_load(t->last_path, &state, &t->progress));
    t->epoch = state.epoch;
    t->step = state.step;
    t->best = state.best;
    LS_TRY(restore_best_loss(t));
    LS_TRY(ls__trainer_keep(t, false));
    /* With force this is a new run, which is saved when it begins. */
    t->is_saved = !t->config.force;
    return LS_OK;
}

static ls_status open_folder(ls_trainer *t)
{
    ls_context *ctx = t->owned.ctx;
    const bool resume = t->config.resume;
    t->dir = ls__strdup(ctx, t->config.dir);
    t->last_path = ls__format(ctx, "%s/last.safetensors", t->config.dir);
    t->best_path = ls__format(ctx, "%s/best.safetensors", t->config.dir);
    char *log_path = ls__format(ctx, "%s/run_log.txt", t->config.dir);
    ls_status status = t->dir && t->last_path && t->best_path && log_path
                           ? LS_OK
                           : ls__fail_memory(ctx, t->config.dir, strlen(t->config.dir));
    t->config.dir = t->dir;
    const bool writes = ls__is_first_rank(ctx);
    if (status == LS_OK && resume) status = check_begun(t);
    if (status == LS_OK && writes && !resume) status = ls__run_folder_create(ctx, t->dir);
    if (status == LS_OK && writes) status = check_single(t);
    if (status == LS_OK && writes) status = ls__run_folder_lock(ctx, t->dir, &t->lock);
    if (status == LS_OK && writes && !resume) status = check_unused(t);
    if (status == LS_OK && writes) status = check_best_name(t);
    if (status == LS_OK && resume) status = restore(t);
    if (status == LS_OK) status = check_best(t);
    if (status == LS_OK && writes) status = ls__metrics_open(ctx, t->dir, t->epoch, &t->metrics);
    if (status == LS_OK && writes)
        status = ls__event_log_open(ctx, t->dir, &t->config, ls__trainer_steps(t), &t->events);
    if (status == LS_OK) {
        t->log = ls_run_log_open(ctx, log_path, ls__trainer_steps(t));
        status = ctx->error;
    }
    ls__free(ctx, log_path);
    return status;
}

/* ---- The identity of the run, which is the same in all ranks ---- */

/* Rank 0's text, which the caller frees. */
static ls_status get_first_text(ls_context *ctx, const char *own, char **out)
{
    static const char what[] = "identities of ranks";
    const int64_t length = (int64_t)strlen(own);
    int64_t lengths[LS__MAX_RANK_SHARDS], n = 0;
    LS_TRY(ls__comm_gather(ctx->comm, &length, sizeof length, lengths, what));
    for (int r = 0; r < ctx->comm->n_ranks; r++) n += lengths[r];
    *out = ls__alloc(ctx, (size_t)n + 1);
    if (!*out) return ls__fail_memory(ctx, what, (size_t)n + 1);
    const ls_status status = ls__ranks_gather(ctx, own, lengths, 1, *out, what);
    (*out)[lengths[0]] = '\0';
    return status;
}

static ls_status compare_identities(ls_context *ctx, const json_t *first, const json_t *own)
{
    json_t *differences = first && own ? ls__identity_differences(first, own, true) : NULL;
    if (!first && ctx->error == LS_OK)
        return ls__fail(ctx, LS_ERR_DATA, "the identity of rank 0 can't be read");
    if (!differences) return ls__fail_memory(ctx, "identities of ranks", 0);
    char buffer[LS__MESSAGE_SIZE], here[32];
    snprintf(here, sizeof here, "in rank %d", ctx->comm->rank);
    if (json_array_size(differences) > 0) {
        const char *text = ls__identity_text(json_array_get(differences, 0), "in rank 0", here,
                                             buffer, sizeof buffer);
        ls__fail(ctx, LS_ERR_MISMATCH, "the ranks are not of one run: %.*s", LS__CUT(text, 800));
    }
    json_decref(differences);
    return ctx->error;
}

/* All ranks call it, and all fail with LS_ERR_MISMATCH, which names the first setting, library or
 * kernel, if a rank has another identity than rank 0. With one rank, nothing. */
static ls_status check_identity_of_ranks(ls_context *ctx, const ls_training_state *state)
{
    if (!ctx->comm) return LS_OK;
    LS__IN_C_LOCALE;
    json_t *own = ls__identity_make(ctx, state);
    char *own_text = own ? json_dumps(own, ls__json_exact(own) | JSON_COMPACT) : NULL, *text = NULL;
    ls_status status = get_first_text(ctx, own_text ? own_text : "", &text);
    json_t *first = status == LS_OK ? json_loads(text, 0, NULL) : NULL;
    if (status == LS_OK) {
        (void)compare_identities(ctx, first, own);
        status = ls__ranks_agree(ctx, NULL);
    }
    json_decref(first);
    json_decref(own);
    ls__free(ctx, text);
    free(own_text);
    return status;
}

/* ---- Opening ---- */

ls_trainer *ls_trainer_open(ls_net *net, ls_optimizer *optimizer, ls_schedule *schedule,
                            ls_loader *loader, const ls_trainer_config *config)
{
    static const ls_trainer_config none = { 0 };
    const ls_trainer_config *c = config ? config : &none;
    ls_context *ctx;
    const ls_training_state state = { .net = net,
                                      .optimizer = optimizer,
                                      .schedule = schedule,
                                      .loader = loader,
                                      .validation = c->validation };
    if (ls__state_context(call, &state, &ctx) != LS_OK) return NULL;
    const char *missing = !net         ? "net"
                          : !optimizer ? "optimizer"
                          : !schedule  ? "schedule"
                          : !loader    ? "loader"
                                       : NULL;
    if (missing) return ls__fail_null(ctx, call, missing), NULL;
    if (check_config(ctx, c) != LS_OK || check_ranks(ctx, c) != LS_OK) return NULL;
    ls_trainer *t = ls__zalloc(ctx, sizeof(*t));
    if (!t) return ls__fail_memory(ctx, call, sizeof(*t)), NULL;
    *t = (ls_trainer){ .owned = { .ctx = ctx },
                       .net = net,
                       .optimizer = optimizer,
                       .schedule = schedule,
                       .loader = loader,
                       .config = *c,
                       .listener = { ctx, c->on_event, c->user },
                       .has_top1 = ls__net_has_metric(net, "top1"),
                       .best = -1 };
    void *const used[N_USED] = { net, optimizer, schedule, loader, c->validation };
    for (int i = 0; i < N_USED; i++) ls__use(used[i]);
    if (c->model) t->model = *c->model;
    if (ls__net_config(net)->loss.kind != LS_LOSS_NONE)
        t->model.loss = ls__net_config(net)->loss.kind;
    ls_status status = check_objects(ctx, t);
    if (status == LS_OK) status = ls__deciding_metric_find(net, c, &t->metric);
    if (status == LS_OK) status = check_schedule(ctx, t);
    if (status == LS_OK && c->dir) status = open_folder(t);
    if (status == LS_OK) status = ls__trainer_open_evaluation(t);
    status = ls__ranks_agree(ctx, NULL);
    const ls_training_state whole = ls__trainer_training_state(t);
    if (status == LS_OK) status = check_identity_of_ranks(ctx, &whole);
    if (status == LS_OK)
        ls__own(ctx, &t->owned, close_trainer); /* last, so that it is closed before its run log */
    else
        close_trainer(&t->owned);
    return status == LS_OK ? t : NULL;
}

void ls_trainer_close(ls_trainer **trainer)
{
    if (!trainer || !*trainer) return;
    ls__disown_and_close(&(*trainer)->owned);
    *trainer = NULL;
}

ls_trainer_state ls_trainer_get_state(const ls_trainer *t)
{
    if (!t) return (ls_trainer_state){ 0 };
    return (ls_trainer_state){ .epoch = t->epoch,
                               .step = t->step,
                               .n_steps = ls__trainer_steps(t),
                               .best = t->best,
                               .best_epoch = t->progress.best_epoch,
                               .best_is_lost = t->best_is_lost,
                               .averages = ls__averages(t->net, &t->progress.sums) };
}
