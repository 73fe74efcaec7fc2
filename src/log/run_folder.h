/* run_folder.h: the folder of a run. */
#ifndef LS_LOG_RUN_FOLDER_H
#define LS_LOG_RUN_FOLDER_H

#include "base/context.h"

/* Makes the folder and its parents. A folder that holds a run (a config.json) is an error. */
ls_status ls__run_folder_create(ls_context *ctx, const char *dir);

/* Makes a new folder and its parents: NAME, or NAME-2, NAME-3 and so on where the system finds
 * something of that name. *number: which of them, from 1. Of several processes, each gets a folder
 * of its own. number NULL: NAME alone, and LS_ERR_INVALID if it exists. */
ls_status ls__run_folder_create_new(ls_context *ctx, const char *name, int *number);
/* NAME-number, or NAME for 1. */
void ls__run_folder_name(const char *name, int number, char *out, size_t size);

/* Removes the files that a run creates, and the folder if it is empty then. */
void ls__run_folder_remove(const char *dir);

bool ls__run_folder_holds_run(const char *dir);
/* Whether a trainer of a program wrote the folder, without the command: it has a run log with a
 * step, but no config.json and no manifest.json. */
bool ls__run_folder_is_of_program(const char *dir);

/* Whether the path is that of a file that a run writes, in the folder of a run. */
bool ls__run_folder_names_file(const char *path);

/* Locks the folder until the process ends or *lock, which may be NULL, or its context is closed;
 * another process gets LS_ERR_INVALID. The lock is flock's on DIR/.lock, an empty file that
 * remains; does nothing on file systems without locks, or if the context already holds the lock.
 * Then removes the temporary files of killed processes. Must precede all reading and writing of the
 * run. */
ls_status ls__run_folder_lock(ls_context *ctx, const char *dir, ls__owned **lock);

/* Finds the first file or folder in `dir`, by strcmp, that no run creates. False if there is none
 * or dir can't be read. */
enum { LS__FILE_NAME_SIZE = 256 };
bool ls__run_folder_find_foreign(const char *dir, char name[LS__FILE_NAME_SIZE]);
/* Finds the last of the copies of checkpoints, but not the one that is a link to last.safetensors.
 */
bool ls__run_folder_find_kept(const char *dir, char name[LS__FILE_NAME_SIZE]);

#endif
