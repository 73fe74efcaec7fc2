/* fuzz_run_folder.c: config.json and manifest.json of a run, with a zero byte between them, as
 * train --resume and compare read them. */
#include "fuzz.h"

#include "run/settings.h"
#include "run/replay_side.h"
#include <string.h>

static void resume(const json_t *options)
{
    ls_context *ctx = fuzz_context();
    ls_given none = { .table = ls__run_settings_table };
    ls__run_settings r = { 0 };
    if (ls__settings_resume(ctx, &none, options, fuzz_folder(), &r) == LS_OK &&
        ls_model_require(ctx, r.model)) {
        (void)ls__run_settings_resolve(ctx, &none, NULL, &r);
        ls_context_clear_error(ctx);
        ls_run t = { .settings = &r, .ctx = ctx };
        strcpy(t.dir, fuzz_folder());
        (void)ls__run_manifest_check(&t);
        json_decref(t.manifest);
        json_decref(t.forced);
    }
    ls_context_clear_error(ctx);
}

/* The options that the input lacks, with their defaults. */
static void add_defaults(json_t *options)
{
    ls__run_settings r = { 0 };
    ls_settings_default(ls__run_settings_table, &r);
    json_t *defaults = ls__settings_to_json(ls__run_settings_table, &r);
    FUZZ_CHECK(json_object_update_missing(options, defaults) == 0);
    json_decref(defaults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size, rest = zero ? size - n - 1 : 0;
    fuzz_file("config.json", data, n);
    fuzz_file("manifest.json", zero ? zero + 1 : data, rest);
    ls__replay_side side = { 0 };
    ls_context *ctx = fuzz_context();
    if (ls__replay_side_read(ctx, &side, fuzz_folder()) == LS_OK) {
        json_t *options = json_object_get(side.config, "options");
        resume(options);
        add_defaults(options);
        resume(options);
    }
    ls_context_clear_error(ctx);
    ls__replay_side_close(&side);
    return 0;
}
