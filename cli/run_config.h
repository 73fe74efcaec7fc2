/* run_config.h: RUN/config.json, the options and the data that a run was begun with. */
#ifndef LS_CLI_RUN_CONFIG_H
#define LS_CLI_RUN_CONFIG_H

#include "run.h"

/* Of an opened trainer, into its folder. */
ls_status run_config_write(const cli_run *t);

/* Writes the stored config again with the values of t->changed. */
ls_status run_config_change(const cli_run *t, json_t *stored);

/* Whether it leaves the choice of the device to the library: "auto". */
bool is_device_auto(const char *device);

/* Whether two names are one device's: "cuda" is "cuda:0". */
bool is_same_device(const char *a, const char *b);

/* Puts the device that the run used in place of the option's `auto`, and returns its name, such as
 * "cuda:0"; NULL where another device was asked for. */
const char *run_config_settle_device(json_t *stored);

/* Whether the run in `dir` has a checkpoint but has done no step, so that it may be begun again:
 * nothing is lost. */
bool run_has_no_step(const char *dir);

/* The config of the run in `dir`, its path in `path`; NULL after printing why it cannot be had. Its
 * member "options" is for options_resume. */
json_t *run_config_read(const cli_verb *verb, const char *dir, char path[RUN_PATH_SIZE]);

/* The object in the run's file `name`, its path in `path`; NULL after printing why it cannot be
 * had, or that it is another thing than it should be: usable says so, else `lacks` what. */
json_t *run_json_read(const cli_verb *verb, const char *dir, const char *name,
                      bool (*usable)(const json_t *json), const char *lacks,
                      char path[RUN_PATH_SIZE]);

#endif
