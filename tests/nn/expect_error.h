/* expect_error.h: the error that a context must have. */
#ifndef LS_TESTS_NN_EXPECT_ERROR_H
#define LS_TESTS_NN_EXPECT_ERROR_H

#include <lockstep/context.h>
#include <check.h>
#include <string.h>

/* Reads the context's error: its status, and a part of its message. */
static inline void expect_error(ls_context *ctx, ls_status status, const char *part)
{
    const ls_status got = ls_context_status(ctx);
    ck_assert_msg(got == status, "status '%s': %s", ls_status_text(got), ls_context_message(ctx));
    ck_assert_msg(strstr(ls_context_message(ctx), part) != NULL, "'%s' lacks '%s'",
                  ls_context_message(ctx), part);
}

#endif
