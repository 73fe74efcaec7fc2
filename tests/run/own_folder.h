/* own_folder.h: a folder and a context for one test, in `dir` and `ctx`. */
#ifndef LS_TESTS_RUN_OWN_FOLDER_H
#define LS_TESTS_RUN_OWN_FOLDER_H

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

static char dir[64]; /* of one test: Check runs each in a process of its own */
static ls_context *ctx;

static void begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/lockstep-record-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ctx = ls_context_open(NULL);
}

static void end(void)
{
    char command[128];
    ls_context_close(&ctx);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

#endif
