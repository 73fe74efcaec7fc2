/* test_reading.c: errors of the system while images are read. No result may depend on an error that
 * may pass: it is met by further attempts, or ends the epoch. The program is linked with --wrap for
 * open and read. */
#include "loader_support.h"
#include "support.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The next calls on the path that ends with `victim` fail with `error`. */
static const char *victim;
static int error, n_failures;
static bool in_read;
static int victim_fd = -1;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_read(int fd, void *bytes, size_t n);
ssize_t __wrap_read(int fd, void *bytes, size_t n);

int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    const size_t n = strlen(path), n_victim = victim ? strlen(victim) : 0;
    const bool is_victim = victim && n >= n_victim && strcmp(path + n - n_victim, victim) == 0;
    if (is_victim && !in_read && n_failures > 0) {
        n_failures--;
        errno = error;
        return -1;
    }
    const int fd = __real_open(path, flags, mode);
    if (is_victim && in_read) victim_fd = fd;
    return fd;
}

ssize_t __wrap_read(int fd, void *bytes, size_t n)
{
    if (fd >= 0 && fd == victim_fd && n_failures > 0) {
        n_failures--;
        errno = error;
        return -1;
    }
    return __real_read(fd, bytes, n);
}

static void run_with(ls_bad_image on_bad, trace *out)
{
    char *folder = make_images(false);
    ls_context *ctx = ls_context_open(NULL);
    victim = NULL;
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    victim = "/01.jpg";
    victim_fd = -1;
    run_epochs(ctx, data, (ls_loader_config){ .batch_size = 8, .crop = 8, .on_bad_image = on_bad },
               0, 0, out);
    ls_context_clear_error(ctx);
    victim = NULL;
    ls_context_close(&ctx);
    remove_folder(folder);
}

START_TEST(errors_that_may_pass)
{
    static const struct {
        bool in_read;
        int error, n_failures;
        ls_status status;
    } cases[] = {
        { false, EINTR, 3, LS_OK },
        { false, ESTALE, 1, LS_OK },
        { false, EAGAIN, 3, LS_OK },
        { false, EIO, 1, LS_OK },
        { true, EINTR, 3, LS_OK },
        { true, EIO, 2, LS_OK },
        { true, ESTALE, 1, LS_OK },
        { false, ESTALE, 1000, LS_ERR_IO },
        { false, EACCES, 1, LS_ERR_IO },
        { false, ENOENT, 1, LS_ERR_NOT_FOUND }, /* was found when the folder was opened */
        { false, EMFILE, 1, LS_ERR_DEVICE },
        { true, EIO, 1000, LS_ERR_IO },
        { true, EISDIR, 1, LS_ERR_IO },
    };
    static trace clean, t;
    n_failures = 0;
    run_with(LS_BAD_IMAGE_SKIP, &clean);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        in_read = cases[i].in_read;
        error = cases[i].error;
        n_failures = cases[i].n_failures;
        run_with(LS_BAD_IMAGE_SKIP, &t);
        ck_assert_msg(t.status == cases[i].status, "%zu: %s", i, t.message);
        ck_assert_int_eq(t.n_bad, 0);
        if (t.status == LS_OK) expect_same_trace(&clean, &t, "an error that passed");
        const bool is_named = t.status == LS_ERR_IO || t.status == LS_ERR_NOT_FOUND;
        if (is_named) ck_assert_msg(strstr(t.message, "may pass") != NULL, "%s", t.message);
        if (t.status != LS_OK) ck_assert_msg(strstr(t.message, "01.jpg") != NULL, "%s", t.message);
    }
    n_failures = 0;
}
END_TEST

/* Files that are missing when the loader is opened, and no regular files, are replaced. */
START_TEST(what_is_no_file_is_replaced)
{
    char *folder = make_images(false);
    const char *const removed = path_in(folder, "class0/01.jpg");
    ls_context *ctx = ls_context_open(NULL);
    static trace t;
    const ls_loader_config config = { .batch_size = 8,
                                      .crop = 8,
                                      .on_bad_image = LS_BAD_IMAGE_SKIP };
    ck_assert_int_eq(unlink(removed), 0);
    ck_assert_int_eq(symlink("nowhere", removed), 0);
    run_epochs(ctx, ls_image_folder_open(ctx, folder), config, 0, 1, &t);
    ck_assert_int_eq(t.status, LS_OK);
    ck_assert_int_eq(t.n_bad, 1);
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    ck_assert_int_eq(unlink(removed), 0);
    ck_assert_int_eq(mkfifo(removed, 0600), 0);
    run_epochs(ctx, data, config, 0, 1, &t);
    ck_assert_int_eq(t.status, LS_OK);
    ck_assert_int_eq(t.n_bad, 1);
    ck_assert(strstr(t.reasons[0], "not a regular file") != NULL);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(reading)
{
    return RUN_SUITE("reading", errors_that_may_pass, what_is_no_file_is_replaced);
}
