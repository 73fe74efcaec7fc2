/* open_run.c: see open_run.h. */
#include "runs/open_run.h"
#include "runs/ranks.h"

int open_run(ls_run *t, bool resumed, bool has_ranks)
{
    const ls__run_settings *r = t->settings;
    ls_context_config config = ls__run_context_config(r);
    config.log = print_log;
    if (has_ranks) {
        config.communicator = "auto";
        ranks_connect(r->rank_timeout);
    }
    t->ctx = ls_context_open(&config);
    if (has_ranks) ranks_connected();
    if (ls_context_status(t->ctx) == LS_OK && has_ranks) ls__run_check_ranks(t->ctx, r);
    const ls_status status = ls__run_open_objects(t, resumed);
    if (status == LS_OK) return EXIT_DONE;
    return print_error(t->ctx, t->failed_in_data ? EXIT_DATA : EXIT_RUNTIME);
}
