/* check_parts.h: the lists and named files that 'lockstep check' examines. */
#ifndef LS_CLI_COMMANDS_CHECK_PARTS_H
#define LS_CLI_COMMANDS_CHECK_PARTS_H

#include "run/data_settings.h"
#include <lockstep/dataset_check.h>

/* Whether DIR is a list, or has lists for training or validation, or --label-pattern reads it;
 * else it is checked as a folder of class folders. */
bool check_has_parts(const char *dir, const ls__data_settings *o);

/* Opens the parts, each with its own classes. */
ls_status check_open_parts(ls_context *ctx, const char *dir, const ls__data_settings *o,
                           ls_check_part out[LS_N_SPLITS], int *n);

#endif
