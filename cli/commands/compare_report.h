/* compare_report.h: the replay of a comparison as text. */
#ifndef LS_CLI_COMMANDS_COMPARE_REPORT_H
#define LS_CLI_COMMANDS_COMPARE_REPORT_H

#include "cli.h"
#include <jansson.h>

/* Prints the member "replay" of a report of ls_run_compare to stdout. */
void compare_print(const json_t *replay);

#endif
