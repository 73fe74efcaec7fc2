/* run_settings.h: the settings of a run as options of commands. */
#ifndef LS_CLI_OPTIONS_RUN_SETTINGS_H
#define LS_CLI_OPTIONS_RUN_SETTINGS_H

#include "cli.h"
#include "run/settings.h"

/* The table of another command: its own options, then the settings of a run for which `selects` is
 * true, below their headings. */
void select_run_settings(const ls__setting *own, bool (*selects)(const ls__setting *setting),
                         ls__setting out[LS__MAX_SETTINGS + 1]);

/* ls__run_settings_resolve; prints the error, else what --recipe has set. Returns the exit status.
 */
int resolve_run_settings(cli_parsed *parsed, ls__run_settings *r);

/* A context for the errors of a call that has no other. */
ls_context *open_error_context(void);
/* Prints its error, if there is one, and closes it. Returns the exit status. */
int close_error_context(ls_context *ctx);

/* A bundled model; on failure prints the reason and returns NULL. */
const ls_model *find_model(const char *name);
/* Prints an error and returns false if an option of ResNets alone is given for another model. */
bool check_resnet_options(const cli_parsed *parsed, const ls_model *model);

#endif
