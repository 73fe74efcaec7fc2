/* train_folder.c: see train_folder.h. */
#include "runs/train_folder.h"
#include "run/ranks.h"
#include "log/run_folder.h"
#include "runs/run_files.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char default_name[] = "run";

/* Whether the run in `dir` may be replaced, because it has no step; else prints why not. */
static bool may_replace(const char *dir)
{
    return run_has_no_step(dir) ||
           fail_with(
               false,
               "%s already contains a run: resume it with --resume %s, or choose another --out",
               dir, dir);
}

bool train_folder_may_take(const char *dir)
{
    char name[LS__FILE_NAME_SIZE];
    if (ls__run_folder_holds_run(dir)) return may_replace(dir);
    if (ls__run_folder_is_of_program(dir))
        return fail_with(false,
                         "--out %s: contains a run of another program; choose another folder", dir);
    if (file_exists(dir) && !is_folder(dir)) return fail_with(false, "--out %s: not a folder", dir);
    if (!ls__run_folder_find_foreign(dir, name)) return true;
    return fail_with(
        false,
        "--out %s: the folder is not empty and contains no run (found '%s'); expected a "
        "new or empty folder",
        dir, name);
}

/* In rank 0. *number: of a new folder without a given name, else 0. */
static int take(const cli_run *t, bool resumed, bool *made, int *number)
{
    char dir[RUN_DIR_SIZE];
    snprintf(dir, sizeof(dir), "%s", t->dir);
    ls_status status = LS_OK;
    const bool is_new = !*dir, existed = !is_new && file_exists(dir);
    const bool again = !is_new && !resumed && ls__run_folder_holds_run(dir);
    if (is_new) {
        status = ls__run_folder_create_new(t->ctx, default_name, number);
        ls__run_folder_name(default_name, *number, dir, sizeof(dir));
    } else if (!resumed && !again) {
        status = ls__run_folder_create(t->ctx, dir);
    }
    const bool is_there = status == LS_OK;
    if (status == LS_OK) status = ls__run_folder_lock(t->ctx, dir, NULL);
    /* Another process may have locked the new folder first, so only an empty one is removed. */
    if (is_there && status != LS_OK && !existed) (void)rmdir(dir);
    if (status != LS_OK) return print_error(t->ctx, EXIT_RUNTIME);
    *made = !existed;
    if (!again) return EXIT_DONE;
    if (!may_replace(dir)) return EXIT_USAGE;
    char path[RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/log.txt", dir);
    (void)remove(path);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    if (remove(path) == 0) return EXIT_DONE; /* from here on the folder contains no run */
    return fail_with(EXIT_RUNTIME, "%s: %s", path, strerror(errno));
}

int train_folder_take(const cli_run *t, bool resumed, char dir[RUN_DIR_SIZE], bool *made)
{
    int number = 0, numbers[LS__MAX_RANKS];
    const int answer = ls_context_rank(t->ctx) == 0 ? take(t, resumed, made, &number) : EXIT_DONE;
    if (answer != EXIT_DONE || *dir) return answer;
    if (ls__ranks_gather(t->ctx, number, numbers) != LS_OK)
        return print_error(t->ctx, EXIT_RUNTIME);
    ls__run_folder_name(default_name, numbers[0], dir, RUN_DIR_SIZE);
    return EXIT_DONE;
}
