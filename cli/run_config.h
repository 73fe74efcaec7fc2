/* run_config.h: RUN/config.json, the options and the data that a run was begun with. */
#ifndef LS_CLI_RUN_CONFIG_H
#define LS_CLI_RUN_CONFIG_H

#include "trainer.h"

/* Of an opened trainer, into its folder. */
ls_status run_config_write(const trainer *t);

/* The config of the run in `dir`, its path in `path`; NULL after printing why it cannot be had. Its
 * member "options" is for options_resume. */
json_t *run_config_read(const cli_verb *verb, const char *dir, char path[RUN_PATH_SIZE]);

/* The object in the run's file `name`, its path in `path`; NULL after printing why it cannot be
 * had, or that it is another thing than it should be: usable says so, else `lacks` what. */
json_t *run_json_read(const cli_verb *verb, const char *dir, const char *name,
                      bool (*usable)(const json_t *json), const char *lacks,
                      char path[RUN_PATH_SIZE]);

#endif
