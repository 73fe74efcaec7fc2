/* json.h: the JSON that commands print. */
#ifndef LS_CLI_TERMINAL_JSON_H
#define LS_CLI_TERMINAL_JSON_H

#include <jansson.h>
#include <stdbool.h>

/* A text with any bytes, such as the name of a file. In a text that is not UTF-8, bytes above 0x7F
 * become \xE9 and so on. In such texts, and in texts that contain \x, each backslash becomes \x5C,
 * as in the files of runs. NULL if memory is short. */
json_t *json_of_text(const char *text);

/* Appends `item`, whose reference it takes over, to the array *list. Without memory for either, or
 * for an earlier item, *list is NULL. */
void append_json(json_t **list, json_t *item);

/* Prints a document on stdout, on one line, with as few digits, 15 to 17, as read back exactly.
 * False if memory is short. */
bool print_json_exactly(const json_t *json);

#endif
