/* run_config.h: RUN/config.json, the options and the data that a run was begun with. */
#ifndef LS_CLI_RUN_CONFIG_H
#define LS_CLI_RUN_CONFIG_H

#include "trainer.h"

/* Of an opened trainer, into its folder. */
ls_status run_config_write(const trainer *t);

/* The config of the run in `dir`, its path in `path`; NULL after printing why it cannot be had. Its
 * member "options" is for options_resume. */
json_t *run_config_read(const cli_verb *verb, const char *dir, char path[RUN_PATH_SIZE]);

/* Prints why jansson could not read a file. */
void print_json_error(const cli_verb *verb, const char *path, const json_error_t *error);

#endif
