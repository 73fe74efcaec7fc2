/* compare_report.h: the replay of a comparison as text. */
#ifndef LS_CLI_COMMANDS_COMPARE_REPORT_H
#define LS_CLI_COMMANDS_COMPARE_REPORT_H

#include "cli.h"
#include <jansson.h>

static inline long long json_integer_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static inline const char *json_text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Prints the member "replay" of a report of ls_run_compare to stdout. */
void compare_print(const json_t *replay);

#endif
