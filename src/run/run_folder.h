/* run_folder.h: the folder of a run. */
#ifndef LS_RUN_RUN_FOLDER_H
#define LS_RUN_RUN_FOLDER_H

#include <lockstep/context.h>

/* Makes the folder and its parents. A folder that holds a run (a config.json) is an error. */
ls_status ls__run_folder_create(ls_context *ctx, const char *dir);

bool ls__run_folder_holds_run(const char *dir);

/* Locks the folder until the context is closed or the process ends; another process gets
 * LS_ERR_INVALID. The lock is flock's on DIR/.lock, an empty file that stays; a file system without
 * locks is not locked. Does nothing if the context already holds the lock. Then removes temporary
 * files of ls__atomic_file that a killed process left. Must precede all reading and writing of the
 * run. */
ls_status ls__run_folder_lock(ls_context *ctx, const char *dir);

/* Finds the first file or folder in `dir`, by strcmp, that no run creates. False if there is none
 * or dir can't be read. */
enum { LS__FILE_NAME_SIZE = 256 };
bool ls__run_folder_find_foreign(const char *dir, char name[LS__FILE_NAME_SIZE]);

#endif
