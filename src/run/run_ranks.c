/* run_ranks.c: how the ranks of a run are started, and which settings the ranks of a run must have
 * in common; see run_state.h. */
#include "backend/module.h"
#include "base/error.h"
#include "comm/agree.h"
#include "run/run_state.h"
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers of threads and workers, times, profiling and faults may differ. */
static bool is_of_all(const ls_setting *setting)
{
    return setting->kind != LS_SETTING_HEADING && setting->kind != LS_SETTING_NUMBER &&
           setting->whole_run && strcmp(setting->name, "nvtx") != 0 &&
           strcmp(setting->name, "inject-fault") != 0;
}

/* Ranks may have other names for a folder. */
static void describe_value(const ls_setting *setting, const json_t *value, char *out, size_t size)
{
    const bool is_unset = json_is_null(value) || json_is_false(value) ||
                          (setting->min > 0 && json_integer_value(value) == 0);
    if (json_is_integer(value) && !is_unset)
        snprintf(out, size, "%lld", (long long)json_integer_value(value));
    else if (setting->kind == LS_SETTING_CHOICE)
        snprintf(out, size, "%s", json_string_value(value));
    else
        snprintf(out, size, "%s", is_unset ? "not given" : "given");
}

/* LS_ERR_SETTING if the seeding depends on the number of ranks. */
static ls_status check_seeding(ls_context *ctx, const ls__run_settings *r, long n_ranks)
{
    if (r->seeding != LS_SEED_BY_WORKER) return LS_OK;
    return ls__fail(ctx, LS_ERR_SETTING,
                    "--seeding worker can't be used by %ld ranks: which worker loads an image "
                    "would depend on their number",
                    n_ranks);
}

ls_status ls__run_check_launch(ls_context *ctx, const ls__run_settings *r, bool resumed)
{
    const ls_launch launch = ls__launch_find();
    const long n = launch.variable ? launch.n_ranks : 1;
    const long long shards = r->shards;
    if (n <= 1) return LS_OK;
    if (n > LS_MAX_RANKS)
        return ls__fail(ctx, LS_ERR_SETTING, "%ld ranks, expected at most %d", n,
                        (int)LS_MAX_RANKS);
    if (resumed && shards < n)
        return ls__fail(ctx, LS_ERR_SETTING,
                        "%ld ranks: the run has --shards %lld, and resumes in at most as many "
                        "ranks",
                        n, shards);
    if (shards < n)
        return ls__fail(ctx, LS_ERR_SETTING,
                        "%ld ranks require --shards %ld or more; --shards is %lld", n, n, shards);
    if (shards > LS_MAX_RANKS)
        return ls__fail(ctx, LS_ERR_SETTING,
                        "--shards %lld: expected at most %d with several ranks", shards,
                        (int)LS_MAX_RANKS);
    return check_seeding(ctx, r, n);
}

ls_status ls__run_check_ranks(ls_context *ctx, const ls__run_settings *r)
{
    ls__rank_setting settings[LS__MAX_RANK_SETTINGS];
    char names[LS__MAX_RANK_SETTINGS][64];
    int n = 0;
    if (ls_context_rank_count(ctx) > 1) LS_TRY(check_seeding(ctx, r, ls_context_rank_count(ctx)));
    json_t *all = ls__settings_to_json(ls__run_settings_table, r);
    if (!all) return ls__fail_memory(ctx, "settings", 0);
    const ls_setting *o = ls__run_settings_table;
    for (; o->kind != LS_SETTING_END && n < LS__MAX_RANK_SETTINGS; o++) {
        if (!is_of_all(o)) continue;
        snprintf(names[n], sizeof(names[n]), "--%s", o->name);
        settings[n].name = names[n];
        describe_value(o, json_object_get(all, o->name), settings[n].value,
                       sizeof(settings[n].value));
        n++;
    }
    assert(o->kind == LS_SETTING_END); /* all are compared */
    json_decref(all);
    return ls__ranks_check_settings(ctx, settings, n);
}

static bool is_in_path(const char *program)
{
    char path[PATH_MAX];
    for (const char *at = getenv("PATH"); at;) {
        const int n = (int)strcspn(at, ":");
        snprintf(path, sizeof(path), "%.*s/%s", n, at, program);
        if (access(path, X_OK) == 0) return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

ls_status ls__ranks_find_launcher(ls_context *ctx)
{
    const ls__module *module;
    if (!is_in_path("mpirun"))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "several ranks require Open MPI: there is no mpirun in PATH");
    return ls__module_load(ctx, "communicator", "mpi", &module);
}

bool ls__ranks_is_first(void)
{
    const ls_launch launch = ls__launch_find();
    return !launch.variable || launch.n_ranks == 1 || launch.rank <= 0;
}
