/* repair.c: see repair.h. */
#include "repair.h"

#include "fuzz.h"
#include <stdlib.h>
#include <string.h>

void fuzz_fill(json_t *there, const json_t *here)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)here, key, value)
    {
        json_t *old = json_object_get(there, key);
        if (json_is_string(old) && strcmp(json_string_value(old), "@") == 0)
            FUZZ_CHECK(json_object_set(there, key, value) == 0);
        else
            fuzz_fill(old, value);
    }
}

void fuzz_fill_text(json_t *object, const char *key, const json_t *here)
{
    const char *text = json_string_value(json_object_get(object, key));
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    if (!json) return;
    fuzz_fill(json, here);
    char *filled = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    FUZZ_CHECK(filled && json_object_set_new(object, key, json_string(filled)) == 0);
    free(filled);
    json_decref(json);
}
