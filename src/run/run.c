/* run.c: runs of programs; see lockstep/run.h. */
#include <lockstep/run.h>

#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/utf8.h"
#include "log/run_folder.h"
#include "run/advice.h"
#include "run/closest.h"
#include "run/help_texts.h"
#include "run/paths.h"
#include "run/ranks.h"
#include "run/run_state.h"
#include "run/run_files.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Settings ---- */

_Static_assert(LS_SETTING_CHOICE == (int)LS__SETTING_CHOICE - (int)LS__SETTING_SWITCH,
               "the public kinds are those of the table");

/* Those of the command alone: the folder is an argument of ls_run_open and ls_run_resume. */
static bool is_of_command(const ls__setting *setting)
{
    return strcmp(setting->name, "out") == 0 || strcmp(setting->name, "resume") == 0;
}

bool ls_run_setting_at(int i, ls_setting *out)
{
    const ls__setting *s = ls__run_settings_table;
    for (; i >= 0 && s->kind != LS__SETTING_END; s++) {
        if (s->kind == LS__SETTING_HEADING || is_of_command(s) || i-- > 0) continue;
        *out = (ls_setting){ .kind = (ls_setting_kind)(s->kind - LS__SETTING_SWITCH),
                             .name = s->name,
                             .help = s->help,
                             .expected = s->value,
                             .fallback = s->fallback,
                             .note = s->note,
                             .min = s->min,
                             .max = s->max,
                             .execution = s->execution,
                             .lasting = s->lasting };
        return true;
    }
    return false;
}

static ls_status fail_unknown(ls_context *ctx, const char *text, size_t length)
{
    const char *words[LS__MAX_SETTINGS];
    char name[64], hint[LS__HINT_SIZE];
    int n = 0;
    for (const ls__setting *s = ls__run_settings_table; s->kind != LS__SETTING_END; s++)
        if (s->name && !is_of_command(s)) words[n++] = s->name;
    snprintf(name, sizeof(name), "%.*s", (int)length, text);
    return ls__fail(ctx, LS_ERR_SETTING, "unknown setting '%s'%s", name,
                    ls__closest_hint(name, n, words, "", "", hint));
}

/* Reads "name=value", which stays borrowed. */
static ls_status read_setting(ls_run *t, ls__given *given, const char *text)
{
    char expected[LS__EXPECTED_SIZE];
    const size_t length = strcspn(text, "=");
    const char *value = text[length] ? text + length + 1 : "";
    const int i = ls__setting_find(given->table, text, length);
    if (i < 0) return fail_unknown(t->ctx, text, length);
    const ls__setting *setting = &given->table[i];
    if (is_of_command(setting))
        return ls__fail(t->ctx, LS_ERR_SETTING,
                        "--%s is an option of the command: the run's folder is an argument of the "
                        "call that opens it",
                        setting->name);
    if (given->text[i])
        return ls__fail(t->ctx, LS_ERR_SETTING, "--%s is given twice", setting->name);
    ls__setting_expected(setting, expected, sizeof(expected));
    const bool is_empty_switch = setting->kind == LS__SETTING_SWITCH && text[length] && !*value;
    if (is_empty_switch || !ls__setting_read(setting, value, &t->values, expected))
        return ls__fail(t->ctx, LS_ERR_SETTING, "--%s: expected %s, got '%s'", setting->name,
                        expected, value);
    given->text[i] = value;
    return LS_OK;
}

/* Copies the texts, from which the values are borrowed, and reads them. */
static ls_status read_settings(ls_run *t, ls__given *given, const char *const *settings)
{
    int n = 0;
    *given = (ls__given){ .table = ls__run_settings_table };
    ls__settings_default(given->table, &t->values);
    while (settings && settings[n]) n++;
    t->texts = calloc((size_t)n + 1, sizeof(*t->texts));
    if (!t->texts) return ls__fail_memory(t->ctx, "settings", 0);
    for (int i = 0; i < n; i++) {
        t->texts[i] = strdup(settings[i]);
        if (!t->texts[i]) return ls__fail_memory(t->ctx, "settings", strlen(settings[i]));
        LS_TRY(read_setting(t, given, t->texts[i]));
    }
    return LS_OK;
}

static ls_status set_dir(ls_run *t, const char *dir)
{
    if (!dir) return LS_OK; /* a new name, when the folder is made */
    if (strlen(dir) >= sizeof(t->dir))
        return ls__fail(t->ctx, LS_ERR_SETTING, "the name of the run's folder is too long");
    strcpy(t->dir, dir);
    return LS_OK;
}

/* ---- Opening ---- */

/* In place of the context that has only kept errors. */
static ls_status open_context(ls_run *t, const ls_run_config *config)
{
    ls_context_config own = ls__run_context_config(&t->values);
    own.communicator = config->one_process ? NULL : "auto";
    own.log = config->log;
    own.log_user = config->log_user;
    ls_context *ctx = ls_context_open(&own);
    if (!ctx) return ls__fail_memory(t->ctx, "ls_run_open", 0);
    ls_context_close(&t->ctx);
    t->ctx = ctx;
    LS_TRY(ls_context_status(ctx));
    return ls__run_check_ranks(ctx, &t->values);
}

/* Whether this process is rank 0, which alone takes the folder, or the only one. */
static bool is_first_rank(void)
{
    const ls__launch launch = ls__launch_find();
    return !launch.variable || launch.n_ranks == 1 || launch.rank <= 0;
}

/* LS_ERR_INVALID for an unusable model of the program; LS_ERR_SETTING where the setting is given,
 * too. */
static ls_status check_model(const ls_run *t, const ls__given *given)
{
    const ls_model *m = t->model;
    if (!m) return LS_OK;
    if (!m->name || !*m->name || !ls__utf8_is_valid(m->name) || !m->function)
        return ls__fail(t->ctx, LS_ERR_INVALID, "ls_run_open: a model without %s",
                        m->function ? "a name in UTF-8" : "a function");
    if (m->image_size < LS__MIN_IMAGE_SIZE || m->image_size > LS__MAX_IMAGE_SIZE ||
        !(m->dropout < 1))
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_open: model '%s': image_size %lld, dropout %g; expected %d to %d, "
                        "and less than 1",
                        m->name, (long long)m->image_size, m->dropout, (int)LS__MIN_IMAGE_SIZE,
                        (int)LS__MAX_IMAGE_SIZE);
    if (ls_model_find(m->name))
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_open: the model's name, '%s', is that of a bundled one", m->name);
    if (!ls__given_has(given, "model")) return LS_OK;
    return ls__fail(t->ctx, LS_ERR_SETTING, "--model is given beside a model of the program");
}

static ls_status open_new(ls_run *t, const char *dir, const ls_run_config *config)
{
    ls__given given;
    LS_TRY(set_dir(t, dir));
    LS_TRY(read_settings(t, &given, config->settings));
    if (!t->values.data_dir) return ls__fail(t->ctx, LS_ERR_SETTING, "--data-dir is required");
    LS_TRY(check_model(t, &given));
    if (dir && (config->one_process || is_first_rank()))
        LS_TRY(ls__run_folder_may_take(t->ctx, dir));
    LS_TRY(ls__run_settings_resolve(t->ctx, &given, t->model, &t->values));
    if (t->model) t->values.model = t->model->name; /* a preset may have set another one */
    t->computed = ls__settings_computed(&given);
    if (!t->computed) return ls__fail_memory(t->ctx, "settings", 0);
    LS_TRY(open_context(t, config));
    return ls__run_open_objects(t, false);
}

static ls_status open_stored(ls_run *t, const char *dir, const ls_run_config *config)
{
    ls__given given;
    if (!dir) return ls__fail(t->ctx, LS_ERR_INVALID, "ls_run_resume: dir is NULL");
    LS_TRY(set_dir(t, dir));
    LS_TRY(read_settings(t, &given, config->settings));
    LS_TRY(check_model(t, &given));
    t->values.resume = t->dir;
    LS_TRY(ls__run_read_stored(t, t->ctx, &given, &t->values));
    LS_TRY(open_context(t, config));
    return ls__run_open_objects(t, true);
}

static ls_run *open_run(const char *dir, const ls_run_config *config,
                        ls_status (*open)(ls_run *t, const char *dir, const ls_run_config *config))
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    static const ls_run_config defaults = { 0 };
    if (!config) config = &defaults;
    ls_run *t = calloc(1, sizeof(*t));
    if (!t) return NULL;
    t->ctx = ls_context_open(
        &(ls_context_config){ .threads = 1, .log = config->log, .log_user = config->log_user });
    t->settings = &t->values;
    t->model = config->model;
    t->stop = config->stop;
    t->on_event = config->on_event;
    t->user = config->user;
    t->can_start = ls_context_status(t->ctx) == LS_OK && open(t, dir, config) == LS_OK;
    if (!t->ctx) ls_run_close(&t);
    return t;
}

ls_run *ls_run_open(const char *dir, const ls_run_config *config)
{
    return open_run(dir, config, open_new);
}

ls_run *ls_run_resume(const char *dir, const ls_run_config *config)
{
    return open_run(dir, config, open_stored);
}

/* A new run also warns of what is hardly intended. A start that failed can't be tried again. */
static ls_status start(ls_run *t)
{
    LS__IN_C_LOCALE;
    LS__DEFAULT_FLOATS;
    if (!t->can_start)
        return ls__fail(t->ctx, LS_ERR_INVALID,
                        "ls_run_train: the run was not opened or started; close it, and open "
                        "another one");
    t->can_start = false;
    LS_TRY(ls__run_start(t));
    if (!t->stored) ls__run_advise(t);
    return ls_context_status(t->ctx);
}

/* Saves the manifest beside the error of the training, which is kept. */
static ls_status save_after_error(ls_run *t)
{
    const ls_status status = ls_context_status(t->ctx);
    char message[LS__MESSAGE_SIZE];
    snprintf(message, sizeof(message), "%s", ls_context_message(t->ctx));
    ls_context_clear_error(t->ctx);
    (void)ls__run_manifest_save(t);
    ls_context_clear_error(t->ctx);
    return ls__fail(t->ctx, status, "%s", message);
}

ls_status ls_run_train(ls_run *run, ls_trainer_end *end)
{
    ls_trainer_end how = LS_TRAINER_ERROR;
    if (end) *end = how;
    if (!run) return LS_ERR_MEMORY;
    LS_TRY(ls_context_status(run->ctx));
    LS__ENTER(run->ctx);
    if (!run->trainer) LS_TRY(start(run));
    const ls_status status = ls_trainer_run(run->trainer, &how);
    if (end) *end = how;
    if (status == LS_OK) return ls__run_manifest_save(run);
    return how == LS_TRAINER_DATA_ERROR || how == LS_TRAINER_NONFINITE ? save_after_error(run)
                                                                       : status;
}

void ls_run_close(ls_run **run)
{
    ls_run *t = run ? *run : NULL;
    if (!t) return;
    ls__run_release(t);
    for (int i = 0; t->texts && t->texts[i]; i++) free(t->texts[i]);
    free(t->texts);
    free(t);
    *run = NULL;
}

/* ---- Parts ---- */

ls_context *ls_run_context(const ls_run *run)
{
    return run ? run->ctx : NULL;
}

const char *ls_run_dir(const ls_run *run)
{
    return run ? run->dir : "";
}

ls_net *ls_run_net(const ls_run *run)
{
    return run ? run->net : NULL;
}

ls_optimizer *ls_run_optimizer(const ls_run *run)
{
    return run ? run->optimizer : NULL;
}

ls_schedule *ls_run_schedule(const ls_run *run)
{
    return run ? run->schedule : NULL;
}

ls_loader *ls_run_train_loader(const ls_run *run)
{
    return run ? run->train : NULL;
}

ls_loader *ls_run_validation_loader(const ls_run *run)
{
    return run ? run->val : NULL;
}

ls_trainer *ls_run_trainer(const ls_run *run)
{
    return run ? run->trainer : NULL;
}

/* ---- Files ---- */

bool ls_run_find_weights(const char *path, char *out, size_t size)
{
    static const char *const names[] = { "best.safetensors", "last.safetensors" };
    const bool is_folder = ls__is_folder(path);
    for (int i = 0; i < 2 && is_folder; i++)
        if ((size_t)snprintf(out, size, "%s/%s", path, names[i]) < size && ls__is_file(out))
            return true;
    return (size_t)snprintf(out, size, "%s", path) < size && !is_folder;
}

bool ls_run_names_file(const char *path)
{
    return path && ls__run_folder_names_file(path);
}
