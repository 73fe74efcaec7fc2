/* fuzz_algorithm_cache.c: algorithm cache files, as they are and with this machine's facts filled
 * in. A file that was loaded can be saved and loaded again. */
#include "fuzz.h"
#include "repair.h"

#include "checkpoint/algorithm_cache_file.h"
#include <stdlib.h>
#include <string.h>

static const char NAME[] = "x.json";

static void load(const void *bytes, size_t n)
{
    const char *path = fuzz_file(NAME, bytes, n);
    const ls_status status = ls_algorithm_cache_load(fuzz_context(), path);
    FUZZ_CHECK(fuzz_error(NAME) == status);
    if (status != LS_OK) return;
    const char *copy = fuzz_file("copy.json", "", 0);
    FUZZ_CHECK(ls_algorithm_cache_save(fuzz_context(), copy) == LS_OK);
    fuzz_context_close();
    FUZZ_CHECK(ls_algorithm_cache_load(fuzz_context(), copy) == LS_OK);
    fuzz_context_close();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load(data, size);
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    if (!json) return 0;
    ls__selections *none;
    FUZZ_CHECK(ls__selections_open(fuzz_context(), &none) == LS_OK);
    json_t *here = ls__algorithm_cache_json(fuzz_context(), none);
    ls__selections_close(&none);
    fuzz_fill(json, here);
    char *text = json_dumps(json, JSON_COMPACT);
    FUZZ_CHECK(here && text);
    load(text, strlen(text));
    free(text);
    json_decref(here);
    json_decref(json);
    return 0;
}
