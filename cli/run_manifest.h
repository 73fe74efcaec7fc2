/* run_manifest.h: RUN/manifest.json: what the run's bits depend on (its identity), and for each
 * start or resume, with the step from which it went on, what they do not depend on (executors), and
 * by which build and where it was done (provenance):
 *
 *   { "identity": {...}, "sessions": [ { "from_step": 0, "executors": { "workers": 4, "threads": 2,
 * "fault": null
 * }, "provenance": {...}, "forced": [ { "field": "seed", "there": "0", "here": "1" } ],
 * "changed": [ { "option": "epochs", "there": 30, "here": 60 } ] } ] }
 *
 * "changed" is there only where a resume changed options of the run. */
#ifndef LS_CLI_RUN_MANIFEST_H
#define LS_CLI_RUN_MANIFEST_H

#include "run.h"

/* For an opened trainer that goes on with a run, before anything is restored: reads the manifest
 * and refuses another identity, naming the fields that differ; with --force they are warned of and
 * noted. Another build or machine is warned of. Returns EXIT_DONE, or prints why not and returns
 * the command's answer. */
int run_manifest_check(cli_run *t);

/* Adds a session, from the step that the trainer is at, to the manifest, which is made where there
 * is none, and writes it. */
ls_status run_manifest_begin(cli_run *t);

/* Writes it again, with the kernels that the run has used by now. */
ls_status run_manifest_save(cli_run *t);

/* The identity of an opened trainer; NULL with the context's error. */
json_t *run_manifest_identity(const cli_run *t);

/* The manifest in `dir`, its path in `path`; NULL after printing why it cannot be had. */
json_t *run_manifest_read(const cli_verb *verb, const char *dir, char path[RUN_PATH_SIZE]);

#endif
