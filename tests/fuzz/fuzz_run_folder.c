/* fuzz_run_folder.c: config.json and manifest.json of a run, with a zero byte between them, as
 * train --resume and compare read them. */
#include "fuzz.h"

#include "commands/compare_side.h"
#include <string.h>

static void resume(const json_t *options)
{
    cli_parsed none = { .options = recipe_options };
    recipe r = { 0 };
    if (!options_resume(&none, options, fuzz_folder(), &r)) return;
    if (!find_model(r.model)) return;
    (void)recipe_resolve(&none, &r);
    cli_run t = { .recipe = &r, .dir = fuzz_folder(), .ctx = fuzz_context() };
    (void)run_manifest_check(&t);
    json_decref(t.manifest);
    json_decref(t.forced);
}

/* The options that the input lacks, as a command line without any leaves them. */
static void add_defaults(json_t *options)
{
    recipe r = { 0 };
    cli_parsed parsed;
    FUZZ_CHECK(options_parse(&command_train, 0, NULL, &r, &parsed) < 0);
    json_t *defaults = options_to_json(recipe_options, &r);
    FUZZ_CHECK(json_object_update_missing(options, defaults) == 0);
    json_decref(defaults);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : size, rest = zero ? size - n - 1 : 0;
    fuzz_file("config.json", data, n);
    fuzz_file("manifest.json", zero ? zero + 1 : data, rest);
    compare_side side;
    if (compare_side_read(&side, fuzz_folder())) {
        json_t *options = json_object_get(side.config, "options");
        resume(options);
        add_defaults(options);
        resume(options);
    }
    compare_side_close(&side);
    return 0;
}
