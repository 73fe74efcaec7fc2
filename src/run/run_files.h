/* run_files.h: config.json and manifest.json of a run's folder. */
#ifndef LS_RUN_RUN_FILES_H
#define LS_RUN_RUN_FILES_H

#include "run/run_state.h"

/* ---- config.json: the settings and the dataset of a run ---- */

/* Writes the config of an opened run into its folder. */
ls_status ls__run_config_write(const ls_run *t);

/* Writes t->stored again with the values of t->changed. */
ls_status ls__run_config_change(const ls_run *t);

/* Whether the name is "auto". */
bool ls__is_device_auto(const char *device);

/* Whether two names are one device's: "cuda" is "cuda:0". */
bool ls__is_same_device(const char *a, const char *b);

/* Puts the device that the run used in place of the setting's `auto`, and returns its name, such as
 * "cuda:0"; NULL where the stored setting is not `auto`. */
const char *ls__run_config_settle_device(json_t *stored);

/* The number of completed steps in a checkpoint, from its metadata and the number of steps in an
 * epoch; -1 if it can't be read. file may be NULL. */
int64_t ls__run_steps_done(const ls_tensor_file *file, int64_t steps_per_epoch);

/* Whether the run in `dir` has a checkpoint but no step. Such a run may be replaced. */
bool ls__run_has_no_step(const char *dir);

/* Reads the config of the run in `dir`, and writes its path to `path`; NULL with the error. Its
 * member "options" is for ls__settings_resume. */
json_t *ls__run_config_read(ls_context *ctx, const char *dir, char path[LS__RUN_PATH_SIZE]);

/* ---- manifest.json: what the run's bits depend on (its identity), and for each start or resume,
 * with the step from which it continued, what they do not depend on (execution), and by which build
 * and where it ran (provenance):
 *
 *   { "identity": {...}, "sessions": [ {
 *       "from_step": 0, "execution": { "workers": 4, "threads": 2, "fault": null },
 *       "provenance": {...}, "forced": [ { "field": "seed", "there": "0", "here": "1" } ],
 *       "changed": [ { "option": "epochs", "there": 30, "here": 60 } ] } ] }
 *
 * "changed" is present only if a resume changed settings of the run. ---- */

/* For a resumed run, before its state is restored: reads the manifest and compares the identities.
 * LS_ERR_MISMATCH names the fields that differ; with --force they are warnings, and saved in the
 * session. Another build or machine is a warning. */
ls_status ls__run_manifest_check(ls_run *t);

/* Adds a session that begins at the trainer's step to the manifest, and writes it. */
ls_status ls__run_manifest_begin(ls_run *t);

/* Writes it again, with the kernels that the run has used by now. */
ls_status ls__run_manifest_save(ls_run *t);

/* The identity of an opened trainer; NULL with the context's error. */
json_t *ls__run_manifest_identity(const ls_run *t);

/* Reads the manifest in `dir`, as ls__run_config_read does the config. */
json_t *ls__run_manifest_read(ls_context *ctx, const char *dir, char path[LS__RUN_PATH_SIZE]);

/* ---- The build, machine and time of a run ---- */

/* {"lockstep", "commit", "compiler", "flags", "jpeg", "webp", "host", "system", "instructions",
 * "begun", "driver"}, texts. jpeg and webp are the versions of the decoders; the identity holds
 * digests of their pixels, of WebP's only if a file has its extension. instructions is the CPU's
 * instruction set in use, begun the time in UTC, driver the device's, left out if it has none. NULL
 * if memory is short. */
json_t *ls__provenance_make(const ls_context *ctx);

#endif
