/* run_files.h: config.json and manifest.json of a run's folder. */
#ifndef LS_CLI_RUNS_RUN_FILES_H
#define LS_CLI_RUNS_RUN_FILES_H

#include "runs/run.h"

/* ---- config.json: the options and the dataset of a run ---- */

/* Writes the config of an opened run into its folder. */
ls_status run_config_write(const cli_run *t);

/* Writes the stored config again with the values of t->changed. */
ls_status run_config_change(const cli_run *t, json_t *stored);

/* Whether the name is "auto". */
bool is_device_auto(const char *device);

/* Whether two names are one device's: "cuda" is "cuda:0". */
bool is_same_device(const char *a, const char *b);

/* Puts the device that the run used in place of the option's `auto`, and returns its name, such as
 * "cuda:0"; NULL where the stored option is not `auto`. */
const char *run_config_settle_device(json_t *stored);

/* The number of completed steps in a checkpoint, from its metadata and the number of steps in an
 * epoch; -1 if it can't be read. file may be NULL. */
int64_t run_steps_done(const ls_tensor_file *file, int64_t steps_per_epoch);

/* Whether the run in `dir` has a checkpoint but no step. Such a run may be replaced. */
bool run_has_no_step(const char *dir);

/* Reads the config of the run in `dir`, and writes its path to `path`. On failure prints the reason
 * and returns NULL. Its member "options" is for options_resume. */
json_t *run_config_read(const char *dir, char path[RUN_PATH_SIZE]);

/* ---- manifest.json: what the run's bits depend on (its identity), and for each start or resume,
 * with the step from which it continued, what they do not depend on (execution), and by which build
 * and where it ran (provenance):
 *
 *   { "identity": {...}, "sessions": [ {
 *       "from_step": 0, "execution": { "workers": 4, "threads": 2, "fault": null },
 *       "provenance": {...}, "forced": [ { "field": "seed", "there": "0", "here": "1" } ],
 *       "changed": [ { "option": "epochs", "there": 30, "here": 60 } ] } ] }
 *
 * "changed" is present only if a resume changed options of the run. ---- */

/* For a resumed run, before its state is restored: reads the manifest and compares the identities.
 * A difference is an error that names the fields; with --force it is a warning and saved in the
 * session. Another build or machine is a warning. Returns the exit status. */
int run_manifest_check(cli_run *t);

/* Adds a session that begins at the trainer's step to the manifest, and writes it. */
ls_status run_manifest_begin(cli_run *t);

/* Writes it again, with the kernels that the run has used by now. */
ls_status run_manifest_save(cli_run *t);

/* The identity of an opened trainer; NULL with the context's error. */
json_t *run_manifest_identity(const cli_run *t);

/* Reads the manifest in `dir`, as run_config_read does the config. */
json_t *run_manifest_read(const char *dir, char path[RUN_PATH_SIZE]);

#endif
