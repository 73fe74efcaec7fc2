/* own_folder.h: a folder and a context for one test, in `dir` and `ctx`. */
#ifndef LS_TESTS_LOG_OWN_FOLDER_H
#define LS_TESTS_LOG_OWN_FOLDER_H

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

static char *dir; /* of one test: Check runs each in a process of its own */
static ls_context *ctx;

static inline void begin(void)
{
    dir = new_folder();
    ctx = ls_context_open(NULL);
}

static inline void end(void)
{
    ls_context_close(&ctx);
    remove_folder(dir);
}

static inline const char *path(const char *name)
{
    return path_in(dir, "%s", name);
}

#endif
