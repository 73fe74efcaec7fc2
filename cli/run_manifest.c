/* run_manifest.c: see run_manifest.h. */
#include "run_manifest.h"
#include "run/identity.h"
#include "run/json.h"
#include "run/provenance.h"
#include "run_config.h"
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 512 };

json_t *run_manifest_identity(const cli_run *t)
{
    const ls_training_state state = cli_run_state(t);
    return ls__identity_make(t->ctx, &state);
}

static bool is_manifest(const json_t *json)
{
    return json_is_object(json_object_get(json, "identity")) &&
           json_array_size(json_object_get(json, "sessions")) > 0;
}

json_t *run_manifest_read(const cli_verb *verb, const char *dir, char path[RUN_PATH_SIZE])
{
    return run_json_read(verb, dir, "manifest.json", is_manifest, "no identity or no sessions",
                         path);
}

static void tell_differences(const cli_run *t, const char *how, const json_t *differences)
{
    size_t i;
    json_t *difference;
    char text[TEXT_SIZE];
    json_array_foreach((json_t *)differences, i, difference)
        print_message(t->verb, "%s: %s%s", t->dir, how,
                      ls__identity_text(difference, "there", "here", text, sizeof(text)));
}

/* Builds and machines do not decide over bits, but who looks for a cause wants to know of them. */
static void tell_provenance(const cli_run *t, const json_t *manifest, const json_t *now)
{
    const json_t *sessions = json_object_get(manifest, "sessions");
    const json_t *last = json_array_get(sessions, json_array_size(sessions) - 1);
    const json_t *there = json_object_get(last, "provenance");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)now, key, value)
    {
        const char *a = json_string_value(json_object_get(there, key));
        const char *b = json_string_value(value);
        if (a && b && strcmp(key, "begun") != 0 && strcmp(a, b) != 0)
            print_warning(t->verb, "%s was last continued with another %s: %s; now %s", t->dir, key,
                          a, b);
    }
}

int run_manifest_check(cli_run *t)
{
    char path[RUN_PATH_SIZE];
    t->manifest = run_manifest_read(t->verb, t->dir, path);
    if (!t->manifest) return t->recipe->force ? EXIT_DONE : EXIT_RUNTIME; /* --force: a new one */
    json_t *identity = run_manifest_identity(t), *provenance = ls__provenance_make(t->ctx);
    if (identity)
        t->forced =
            ls__identity_differences(json_object_get(t->manifest, "identity"), identity, true);
    int answer = EXIT_DONE;
    if (!t->forced) {
        answer = print_error(t->verb, identity ? NULL : t->ctx, EXIT_RUNTIME);
    } else if (json_array_size(t->forced) > 0 && !t->recipe->force) {
        tell_differences(t, "", t->forced);
        print_message(t->verb,
                      "%s: would continue with another identity (%s); --force continues "
                      "anyway",
                      t->dir, path);
        answer = EXIT_RUNTIME;
    } else {
        tell_differences(t, "warning: continues with another identity: ", t->forced);
        tell_provenance(t, t->manifest, provenance);
    }
    json_decref(provenance);
    json_decref(identity);
    return answer;
}

ls_status run_manifest_begin(cli_run *t)
{
    if (!t->manifest) t->manifest = json_pack("{s:n, s:[]}", "identity", "sessions");
    if (!t->forced) t->forced = json_array();
    json_t *session = json_pack(
        "{s:I, s:{s:I, s:I, s:s?}, s:o, s:O}", "from_step",
        (json_int_t)ls_trainer_where(t->trainer).n_steps, "executors", "workers",
        (json_int_t)t->recipe->workers, "threads", (json_int_t)ls_context_thread_count(t->ctx),
        "fault", t->recipe->fault, "provenance", ls__provenance_make(t->ctx), "forced", t->forced);
    const bool has_changes = json_array_size(t->changed) > 0;
    if (has_changes && json_object_set(session, "changed", t->changed) != 0) {
        json_decref(session);
        session = NULL;
    }
    if (json_array_append_new(json_object_get(t->manifest, "sessions"), session) != 0) {
        json_decref(t->manifest);
        t->manifest = NULL; /* ls__json_save tells that there was no memory */
    }
    return run_manifest_save(t);
}

ls_status run_manifest_save(cli_run *t)
{
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/manifest.json", t->dir);
    json_t *identity = run_manifest_identity(t);
    LS_TRY(ls_context_status(t->ctx));
    if (t->manifest) json_object_set_new(t->manifest, "identity", identity);
    return ls__json_save(t->ctx, path, t->manifest);
}
