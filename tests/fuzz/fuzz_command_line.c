/* fuzz_command_line.c: command lines, words with zero bytes between them, the first one the verb.
 * Nothing is run. Values that are accepted come back from the JSON that a run keeps of them. */
#include "fuzz.h"

#include "recipe.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64, VALUES_SIZE = 4096 };

static const cli_verb *const verbs[] = {
    &verb_train,   &verb_eval,  &verb_predict, &verb_describe,
    &verb_compare, &verb_repro, &verb_pack,    &verb_demo_data
};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

/* Of any verb: all values lie in one struct. */
typedef union values {
    recipe recipe;
    uint8_t bytes[VALUES_SIZE];
} values;

static void check_json(const cli_verb *verb, const values *parsed)
{
    static values again;
    const cli_parsed none = { 0 };
    memset(&again, 0, sizeof(again));
    json_t *json = options_to_json(verb, parsed);
    char *text = json_dumps(json, JSON_REAL_PRECISION(15));
    json_t *stored = json_loads(text, 0, NULL);
    FUZZ_CHECK(options_resume(verb, stored, "a run", &again, &none));
    json_t *json_again = options_to_json(verb, &again);
    FUZZ_CHECK(json_equal(json, json_again));
    json_decref(json_again);
    json_decref(stored);
    free(text);
    json_decref(json);
}

static void parse(const cli_verb *verb, int n, char **words)
{
    static values in;
    memset(&in, 0, sizeof(in));
    for (int i = 0; verb->options[i].kind != OPTION_END; i++)
        FUZZ_CHECK(verb->options[i].offset + sizeof(double) <= VALUES_SIZE);
    cli_parsed parsed;
    if (options_parse(verb, n, words, &in, &parsed) != PARSE_OK) return;
    check_json(verb, &in);
    if (verb == &verb_train && recipe_resolve(verb, &parsed, &in.recipe)) check_json(verb, &in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *words[MAX_WORDS];
    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = '\0';
    int n = 0;
    for (char *at = text; at < text + size && n < MAX_WORDS; at += strlen(at) + 1) words[n++] = at;
    for (int i = 0; i < N_VERBS && n > 0; i++)
        if (strcmp(words[0], verbs[i]->name) == 0) parse(verbs[i], n - 1, words + 1);
    free(text);
    return 0;
}
