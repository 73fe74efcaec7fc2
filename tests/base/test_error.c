/* Statuses, the sticky error, warnings, and the list of what a context owns. */
#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <errno.h>
#include <string.h>

START_TEST(every_status_has_a_text)
{
    for (int i = LS_OK; i <= LS_ERR_EARLIER; i++) {
        ck_assert_uint_gt(strlen(ls_status_text((ls_status)i)), 0);
        ck_assert_str_ne(ls_status_text((ls_status)i), "unknown status");
    }
    ck_assert_str_eq(ls_status_text(LS_OK), "ok");
    ck_assert_str_eq(ls_status_text(LS_ERR_EARLIER),
                     "not run: the context has an earlier error, or an object is NULL");
    ck_assert_str_eq(ls_status_text((ls_status)(LS_ERR_SETTING + 1)), "unknown status");
    ck_assert_str_eq(ls_status_text((ls_status)-1), "unknown status");
}
END_TEST

START_TEST(first_error_is_kept_until_it_is_cleared)
{
    ls_context ctx = { 0 };
    ck_assert(!ls__has_error(&ctx));
    ck_assert_int_eq(ls__fail(&ctx, LS_ERR_SHAPE, "got %d, wanted %d", 1, 2), LS_ERR_SHAPE);
    ck_assert_int_eq(ls__fail(&ctx, LS_ERR_IO, "later"), LS_ERR_IO);
    ck_assert(ls__has_error(&ctx));
    const ls_context *view = &ctx;
    for (int i = 0; i < 2; i++) { /* reading changes nothing */
        ck_assert_int_eq(ls_context_status(view), LS_ERR_SHAPE);
        ck_assert_str_eq(ls_context_message(view), "got 1, wanted 2");
        ck_assert(ls__has_error(view));
    }
    ls_context_clear_error(&ctx);
    ck_assert(!ls__has_error(&ctx));
    ck_assert_int_eq(ls_context_status(view), LS_OK);
    ck_assert_str_eq(ls_context_message(view), "");

    ck_assert_int_eq(ls__fail_memory(&ctx, "tensor", 12), LS_ERR_MEMORY);
    expect_error(&ctx, LS_ERR_MEMORY, "tensor: out of memory, 12 bytes requested");
    ls__fail_memory(&ctx, "tensor", 0);
    ck_assert_str_eq(ls_context_message(&ctx), "tensor: out of memory");
}
END_TEST

START_TEST(without_a_context)
{
    ck_assert(ls__has_error(NULL));
    ck_assert_int_eq(ls__fail(NULL, LS_ERR_IO, "x"), LS_ERR_IO);
    ck_assert_int_eq(ls_context_status(NULL), LS_ERR_MEMORY);
    ck_assert_str_ne(ls_context_message(NULL), "");
    ls_context_clear_error(NULL);
    ls__warn(NULL, LS_LOG_DATA, "x");
}
END_TEST

START_TEST(an_unusable_context_keeps_its_error)
{
    ls_context ctx = { .unusable = true };
    ls__fail(&ctx, LS_ERR_NOT_FOUND, "no such device");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ls_context_status(&ctx), LS_ERR_NOT_FOUND);
        ck_assert_str_eq(ls_context_message(&ctx), "no such device");
        ck_assert(ls__has_error(&ctx));
        ls_context_clear_error(&ctx);
    }
}
END_TEST

START_TEST(a_long_message_is_cut)
{
    ls_context ctx = { 0 };
    char text[2 * LS__MESSAGE_SIZE];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ls__fail(&ctx, LS_ERR_IO, "%s", text);
    ck_assert_uint_eq(strlen(ls_context_message(&ctx)), LS__MESSAGE_SIZE - 1);
}
END_TEST

static void copy_message(void *user, ls_log_level level, ls_log_category category,
                         const char *message)
{
    (void)level, (void)category;
    strcpy(user, message);
}

/* A message of characters of two bytes has all of its bytes or one less. */
START_TEST(a_long_message_ends_with_a_whole_character)
{
    char text[2 * LS__MESSAGE_SIZE + 2] = "x", logged[LS__MESSAGE_SIZE];
    for (int i = 0; i < LS__MESSAGE_SIZE; i++) memcpy(text + 1 + 2 * i, "\xc3\xa9", 3);
    for (int odd = 0; odd < 2; odd++) {
        const char *const all = odd ? text : text + 1;
        const size_t wanted = LS__MESSAGE_SIZE - 1 - !odd;
        ls_context ctx = { .allocator = ls__default_allocator,
                           .config = { .log = copy_message, .log_user = logged } };
        ls__fail(&ctx, LS_ERR_IO, "%s", all);
        ck_assert_uint_eq(strlen(ls_context_message(&ctx)), wanted);
        ls__error_in(&ctx, "%s", all); /* ends with a ":" if there is room */
        ck_assert_uint_eq(strlen(ls_context_message(&ctx)), LS__MESSAGE_SIZE - 1);
        ls_context_clear_error(&ctx);
        ls__fail(&ctx, LS_ERR_IO, "%s", text + 1);
        ls__error_in(&ctx, "%s", odd ? "a" : "in"); /* "a: " before the message */
        ck_assert_uint_eq(strlen(ls_context_message(&ctx)), wanted);
        ls__warn(&ctx, LS_LOG_DATA, "%s", all);
        ck_assert_uint_eq(strlen(logged), wanted);
        ls__forget_warnings(&ctx);
    }
}
END_TEST

static void log_to_buffer(void *user, ls_log_level level, ls_log_category category,
                          const char *message)
{
    ck_assert_int_eq(category, LS_LOG_DATA);
    ck_assert_int_eq(level, LS_LOG_WARNING);
    strcpy(user, message);
}

START_TEST(warnings_go_to_the_log)
{
    char buffer[LS__MESSAGE_SIZE] = "";
    ls_context ctx = { .allocator = ls__default_allocator,
                       .config = { .log = log_to_buffer, .log_user = buffer } };
    ls__warn(&ctx, LS_LOG_DATA, "only %d values", 4);
    ck_assert_str_eq(buffer, "only 4 values");
    ck_assert(!ls__has_error(&ctx));
    ctx.config.log = NULL;
    ls__warn(&ctx, LS_LOG_DATA, "not logged");
    ck_assert_str_eq(buffer, "only 4 values");
    ls__forget_warnings(&ctx);
}
END_TEST

START_TEST(warnings_are_kept)
{
    ls_context ctx = { .allocator = ls__default_allocator };
    ck_assert_int_eq(ls_context_warning_count(&ctx), 0);
    ck_assert_ptr_null(ls_context_warning(&ctx, 0));
    for (int i = 0; i < LS__KEPT_WARNINGS + 6; i++) ls__warn(&ctx, LS_LOG_DATA, "number %d", i);
    ls__inform(&ctx, LS_LOG_DATA, "no warning");
    ck_assert(!ls__has_error(&ctx));
    ck_assert_int_eq(ls_context_warning_count(&ctx), LS__KEPT_WARNINGS);
    ck_assert_int_eq(ls_context_dropped_warning_count(&ctx), 6);
    ck_assert_str_eq(ls_context_warning(&ctx, 0), "number 0");
    ck_assert_str_eq(ls_context_warning(&ctx, LS__KEPT_WARNINGS - 1), "number 63");
    ck_assert_ptr_null(ls_context_warning(&ctx, LS__KEPT_WARNINGS));
    ck_assert_ptr_null(ls_context_warning(&ctx, -1));
    ls__forget_warnings(&ctx);
    ck_assert_int_eq(ls_context_warning_count(&ctx), 0);
    ck_assert_ptr_null(ls_context_warning(NULL, 0));
    ck_assert_int_eq(ls_context_warning_count(NULL), 0);
    ck_assert_int_eq(ls_context_dropped_warning_count(NULL), 0);

    failing_allocator a;
    failing_allocator_init(&a, 1);
    ctx.allocator = a.allocator;
    ls__warn(&ctx, LS_LOG_DATA, "no memory for this one");
    ls__warn(&ctx, LS_LOG_DATA, "next");
    ck_assert(strstr(ls_context_warning(&ctx, 0), "could not be stored"));
    ck_assert_str_eq(ls_context_warning(&ctx, 1), "next");
    ls__forget_warnings(&ctx);
    ck_assert_int_eq(failing_allocator_live(&a), 0);
}
END_TEST

START_TEST(errno_has_a_reason)
{
    char buffer[LS__ERRNO_TEXT_SIZE];
    ck_assert_str_eq(ls__errno_text(ENOENT, buffer, sizeof(buffer)), "No such file or directory");
}
END_TEST

typedef struct thing {
    ls__owned owned;
    int number;
} thing;

static int closed[4], n_closed;

static void close_thing(ls__owned *self)
{
    closed[n_closed++] = ((thing *)self)->number;
}

START_TEST(owned_objects_form_a_list)
{
    ls_context ctx = { 0 };
    thing things[4];
    for (int i = 0; i < 4; i++) {
        things[i].number = i;
        ls__own(&ctx, &things[i].owned, close_thing);
        ck_assert_ptr_eq(things[i].owned.ctx, &ctx);
    }
    ls__disown_and_close(&things[1].owned); /* middle */
    ls__disown_and_close(&things[0].owned); /* first */
    ls__disown_and_close(&things[3].owned); /* last */
    ck_assert_ptr_eq(ctx.last_owned, &things[2].owned);
    while (ctx.last_owned) ls__disown_and_close(ctx.last_owned);
    static const int wanted[4] = { 1, 0, 3, 2 };
    ck_assert_int_eq(n_closed, 4);
    ck_assert_mem_eq(closed, wanted, sizeof(wanted));
}
END_TEST

START_TEST(used_objects_remain)
{
    static const int wanted[4] = { 2, 0, 1, 3 };
    ls_context ctx = { 0 };
    thing things[4];
    n_closed = 0;
    for (int i = 0; i < 4; i++) {
        things[i].number = i;
        ls__own(&ctx, &things[i].owned, close_thing);
    }
    for (int i = 0; i < 2; i++) ls__use(&things[0]);
    ls__use(&things[1]);
    ls__use(&things[3]);
    ls__use(NULL);
    ls__disown_and_close(&things[0].owned);
    ls__disown_and_close(&things[2].owned); /* nobody uses it */
    ls__release(&things[0]);
    ls__release(&things[1]); /* not closed: it stays */
    ck_assert_int_eq(n_closed, 1);
    ls__release(&things[0]);
    ls__release(NULL);
    ls__disown_and_close(&things[1].owned);
    ck_assert_int_eq(n_closed, 3);
    while (ctx.last_owned) ls__close_last_owned(&ctx); /* closes what is in use, too */
    ck_assert_int_eq(n_closed, 4);
    ck_assert_mem_eq(closed, wanted, sizeof(wanted));
}
END_TEST

TEST_PROGRAM(error)
{
    return RUN_SUITE("error", every_status_has_a_text, first_error_is_kept_until_it_is_cleared,
                     without_a_context, an_unusable_context_keeps_its_error, a_long_message_is_cut,
                     a_long_message_ends_with_a_whole_character, warnings_go_to_the_log,
                     warnings_are_kept, errno_has_a_reason, owned_objects_form_a_list,
                     used_objects_remain);
}
