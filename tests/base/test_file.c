/* Files that appear whole or not at all, and reading whole files. */
#include "base/file.h"

#include "base/alloc.h"
#include "base/context.h"
#include "base/write.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every test runs in an empty folder of its own. */
static char *folder;
static ls_context ctx;

static void enter_folder(void)
{
    ctx = (ls_context){ .allocator = ls__default_allocator };
    folder = new_folder();
    ck_assert_int_eq(chdir(folder), 0);
}

static void leave_folder(void)
{
    ck_assert_int_eq(chdir("/"), 0);
    remove_folder(folder);
}

/* The program is linked with --wrap=open: a file system without unnamed files. */
static bool refuse_unnamed;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = flags & O_CREAT || unnamed ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (unnamed && refuse_unnamed) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return __real_open(path, flags, mode);
}

static int count_files(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(dir);
    return n;
}

static void write_atomic(const char *path, const char *text)
{
    ls__atomic_file *file = NULL;
    ck_assert_int_eq(ls__atomic_file_open(&ctx, path, &file), LS_OK);
    ck_assert_int_eq(ls__atomic_file_write(file, text, strlen(text)), LS_OK);
    ck_assert_int_eq(ls__atomic_file_commit(&file), LS_OK);
    ck_assert_ptr_null(file);
}

static void check_file(const char *path, const char *wanted)
{
    unsigned char *bytes = NULL;
    size_t size = 0;
    char message[200] = "";
    const ls_status status =
        ls__read_file(&ctx, path, 1000, &bytes, &size, message, sizeof(message));
    ck_assert_msg(status == LS_OK, "%s", message);
    ck_assert_uint_eq(size, strlen(wanted));
    ck_assert_str_eq((const char *)bytes, wanted);
    ls__free(&ctx, bytes);
}

START_TEST(a_file_appears_when_it_is_committed)
{
    enter_folder();
    ls__atomic_file *file = NULL;
    ck_assert_int_eq(ls__atomic_file_open(&ctx, "a.txt", &file), LS_OK);
    ck_assert_int_eq(ls__atomic_file_write(file, "one ", 4), LS_OK);
    ck_assert_int_eq(ls__atomic_file_write(file, "two", 3), LS_OK);
    ck_assert_int_ne(access("a.txt", F_OK), 0);
    ck_assert_int_eq(ls__atomic_file_commit(&file), LS_OK);
    check_file("a.txt", "one two");

    struct stat there; /* as any new file's */
    const mode_t mask = umask(0);
    umask(mask);
    ck_assert_int_eq(stat("a.txt", &there), 0);
    ck_assert_uint_eq(there.st_mode & 07777, 0666 & ~mask);

    write_atomic("a.txt", "three");
    check_file("a.txt", "three");
    char path[100];
    snprintf(path, sizeof(path), "%s/b.txt", folder);
    write_atomic(path, "");
    check_file("b.txt", "");
    ck_assert_int_eq(count_files(), 2);
    leave_folder();
}
END_TEST

START_TEST(an_abandoned_file_leaves_nothing)
{
    enter_folder();
    write_atomic("a.txt", "old");
    ls__atomic_file *file = NULL;
    ck_assert_int_eq(ls__atomic_file_open(&ctx, "a.txt", &file), LS_OK);
    ck_assert_int_eq(ls__atomic_file_write(file, "new", 3), LS_OK);
    ls__atomic_file_abandon(&file);
    ck_assert_ptr_null(file);
    ls__atomic_file_abandon(&file);
    check_file("a.txt", "old");
    ck_assert_int_eq(count_files(), 1);
    leave_folder();
}
END_TEST

/* A process that writes a file and says so through the pipe. It waits to be killed. */
static pid_t start_writing(void)
{
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        ls__atomic_file *file = NULL;
        const bool ok = ls__atomic_file_open(&ctx, "a.txt", &file) == LS_OK &&
                        ls__atomic_file_write(file, "half", 4) == LS_OK &&
                        write(ready[1], "", 1) == 1;
        while (ok) pause();
        _exit(EXIT_FAILURE);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void kill_writing(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(a_killed_process_leaves_nothing)
{
    enter_folder();
    const int fd = open(".", O_WRONLY | O_TMPFILE, 0600);
    kill_writing(start_writing());
    if (fd >= 0) ck_assert_int_eq(count_files(), 0);
    close(fd);

    refuse_unnamed = true;
    const pid_t alive = start_writing();
    kill_writing(start_writing());
    ck_assert_int_eq(count_files(), 2);
    ck_assert_int_eq(ls__folder_sweep(""), 0); /* removes the one that nobody writes any more */
    ck_assert_int_eq(count_files(), 1);
    ls__atomic_file *file = NULL;
    ck_assert_int_eq(ls__atomic_file_open(&ctx, "b.txt", &file), LS_OK);
    ck_assert_int_eq(count_files(), 2);
    ls__atomic_file_sweep(file);
    ck_assert_int_eq(count_files(), 2);
    kill_writing(alive);
    ls__atomic_file_sweep(file);
    ck_assert_int_eq(count_files(), 1);
    ck_assert_int_eq(ls__atomic_file_write(file, "whole", 5), LS_OK);
    ck_assert_int_eq(ls__atomic_file_commit(&file), LS_OK);
    check_file("b.txt", "whole");
    ck_assert_int_eq(count_files(), 1);
    leave_folder();
}
END_TEST

START_TEST(a_failing_write_leaves_the_old_file)
{
    enter_folder();
    write_atomic("a.txt", "old");
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 1000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ls__atomic_file *file = NULL;
    char bytes[2000] = { 0 };
    ck_assert_int_eq(ls__atomic_file_open(&ctx, "a.txt", &file), LS_OK);
    ck_assert_int_eq(ls__atomic_file_write(file, bytes, sizeof(bytes)), LS_ERR_IO);
    limit.rlim_cur = before;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_str_eq(ls_context_message(&ctx), "writing 'a.txt': File too large");
    ls_context_clear_error(&ctx);
    ck_assert_int_eq(ls__atomic_file_commit(&file), LS_ERR_IO); /* refuses what is not whole */
    ck_assert_ptr_null(file);
    check_file("a.txt", "old");
    ck_assert_int_eq(count_files(), 1);
    leave_folder();
}
END_TEST

/* Writes to a pipe that nobody reads, or beyond the limit of file size. Returns the error. */
static int write_where_it_fails(int signal_number)
{
    if (signal_number == SIGPIPE) {
        int ends[2];
        ck_assert_int_eq(pipe(ends), 0);
        close(ends[0]);
        const int error = ls__write(ends[1], "x", 1, -1);
        close(ends[1]);
        return error;
    }
    struct rlimit before, none;
    getrlimit(RLIMIT_FSIZE, &before);
    none = (struct rlimit){ 0, before.rlim_max };
    const int fd = open("a.txt", O_RDWR | O_CREAT, 0600);
    setrlimit(RLIMIT_FSIZE, &none);
    const int error = ls__write(fd, "x", 1, 0);
    setrlimit(RLIMIT_FSIZE, &before);
    close(fd);
    return error;
}

static volatile sig_atomic_t n_delivered;

static void deliver(int number)
{
    (void)number;
    n_delivered++;
}

/* The default action of both signals ends the process. A program's own signal that was pending
 * before the write, and its mask, stay as they were. */
START_TEST(a_failing_write_sends_no_signal)
{
    static const struct {
        int number, error;
    } signals[] = { { SIGXFSZ, EFBIG }, { SIGPIPE, EPIPE } };
    enter_folder();
    for (int i = 0; i < 2; i++) {
        const int number = signals[i].number;
        sigset_t one, pending;
        sigemptyset(&one);
        sigaddset(&one, number);
        ck_assert_int_eq(write_where_it_fails(number), signals[i].error);
        sigpending(&pending);
        ck_assert(!sigismember(&pending, number));

        signal(number, deliver);
        n_delivered = 0;
        ck_assert_int_eq(write_where_it_fails(number), signals[i].error);
        ck_assert_int_eq(n_delivered, 0);
        sigprocmask(SIG_BLOCK, &one, NULL);
        raise(number);
        ck_assert_int_eq(write_where_it_fails(number), signals[i].error);
        ck_assert_int_eq(n_delivered, 0);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        ck_assert_int_eq(n_delivered, 1);
        signal(number, SIG_DFL);
    }
    leave_folder();
}
END_TEST

START_TEST(a_full_disk_is_an_error)
{
    enter_folder();
    ls__atomic_file *file = NULL;
    ck_assert_int_eq(ls__atomic_file_open(&ctx, "/dev/full", &file), LS_OK);
    ck_assert_int_eq(ls__atomic_file_write(file, "x", 1), LS_ERR_IO);
    ck_assert_str_eq(ls_context_message(&ctx), "writing '/dev/full': No space left on device");
    ls_context_clear_error(&ctx);
    ck_assert_int_eq(ls__atomic_file_commit(&file), LS_ERR_IO);
    struct stat there;
    ck_assert(stat("/dev/full", &there) == 0 && S_ISCHR(there.st_mode)); /* was not replaced */
    leave_folder();
}
END_TEST

START_TEST(places_that_cannot_be_written)
{
    enter_folder();
    static const struct {
        const char *path;
        ls_status status;
        const char *message;
    } cases[] = {
        { "missing/a.txt", LS_ERR_NOT_FOUND, "writing 'missing/a.txt': No such file or directory" },
        { "file/a.txt", LS_ERR_IO, "writing 'file/a.txt': Not a directory" },
        { ".", LS_ERR_IO, "writing '.': Is a directory" },
        { "new/", LS_ERR_NOT_FOUND, "writing 'new/': No such file or directory" },
        { "", LS_ERR_NOT_FOUND, "writing '': No such file or directory" },
    };
    write_atomic("file", "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls__atomic_file *file = NULL;
        ck_assert_int_eq(ls__atomic_file_open(&ctx, cases[i].path, &file), cases[i].status);
        ck_assert_ptr_null(file);
        ck_assert_str_eq(ls_context_message(&ctx), cases[i].message);
        ls_context_clear_error(&ctx);
    }
    ck_assert_int_eq(count_files(), 1);
    ls__atomic_file *none = NULL;
    ck_assert_int_eq(ls__atomic_file_commit(&none), LS_ERR_IO);
    leave_folder();
}
END_TEST

/* Root may write there, so that root becomes nobody for a while. */
START_TEST(a_locked_folder_cannot_be_written)
{
    enum { NOBODY = 65534 };
    enter_folder();
    ck_assert_int_eq(chmod(".", 0755), 0);
    ck_assert_int_eq(mkdir("locked", 0555), 0);
    const uid_t user = geteuid();
    const bool locked = user != 0 || seteuid(NOBODY) == 0;
    if (locked) {
        ls__atomic_file *file = NULL;
        const ls_status status = ls__atomic_file_open(&ctx, "locked/a.txt", &file);
        ck_assert_int_eq(seteuid(user), 0);
        ck_assert_int_eq(status, LS_ERR_IO);
        ck_assert_ptr_null(file);
        expect_error(&ctx, LS_ERR_IO, "writing 'locked/a.txt': Permission denied");
    }
    leave_folder();
    if (!locked) SKIP("root may write there, and may not become another user");
}
END_TEST

START_TEST(a_link_is_followed)
{
    enter_folder();
    ck_assert_int_eq(mkdir("real", 0700), 0);
    write_atomic("real/a.txt", "old");
    ck_assert_int_eq(symlink("real/a.txt", "link"), 0);
    write_atomic("link", "new");
    struct stat there;
    ck_assert(lstat("link", &there) == 0 && S_ISLNK(there.st_mode));
    check_file("real/a.txt", "new");

    /* a link to a link to a file that is not there yet */
    ck_assert_int_eq(symlink("b.txt", "real/link"), 0);
    ck_assert_int_eq(symlink("real/link", "far"), 0);
    write_atomic("far", "born");
    ck_assert(lstat("far", &there) == 0 && S_ISLNK(there.st_mode));
    ck_assert(lstat("real/link", &there) == 0 && S_ISLNK(there.st_mode));
    check_file("real/b.txt", "born");

    ls__atomic_file *file;
    ck_assert_int_eq(symlink("round", "round"), 0);
    ck_assert_int_eq(ls__atomic_file_open(&ctx, "round", &file), LS_ERR_IO);
    ck_assert(lstat("round", &there) == 0 && S_ISLNK(there.st_mode));
    leave_folder();
}
END_TEST

START_TEST(a_link_is_replaced)
{
    enter_folder();
    static const char *const names[] = { "dangling", "round", "real" };
    write_atomic("victim", "mine");
    ck_assert_int_eq(symlink("nowhere", "dangling"), 0);
    ck_assert_int_eq(symlink("round", "round"), 0);
    ck_assert_int_eq(symlink("victim", "real"), 0);
    ls__atomic_file *file;
    for (int i = 0; i < 3; i++) {
        struct stat there;
        ck_assert_int_eq(ls__atomic_file_replace(&ctx, names[i], &file), LS_OK);
        ck_assert_int_eq(ls__atomic_file_write(file, "new", 3), LS_OK);
        ck_assert_int_eq(ls__atomic_file_commit(&file), LS_OK);
        ck_assert(lstat(names[i], &there) == 0 && S_ISREG(there.st_mode));
        check_file(names[i], "new");
    }
    check_file("victim", "mine");
    ck_assert_int_ne(access("nowhere", F_OK), 0);

    /* what is no file is left alone */
    static const struct {
        const char *path, *message;
    } others[] = { { "pipe", "writing 'pipe': not a regular file" },
                   { "/dev/null", "writing '/dev/null': not a regular file" },
                   { ".", "writing '.': Is a directory" } };
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ls__atomic_file_replace(&ctx, others[i].path, &file), LS_ERR_IO);
        ck_assert_str_eq(ls_context_message(&ctx), others[i].message);
        expect_error(&ctx, LS_ERR_IO, "");
    }
    leave_folder();
}
END_TEST

START_TEST(the_longest_names)
{
    enter_folder();
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    write_atomic(name, "x");
    check_file(name, "x");
    leave_folder();
}
END_TEST

START_TEST(reading_misuse)
{
    enter_folder();
    write_atomic("ten", "0123456789");
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    ck_assert_int_eq(mknod("socket", S_IFSOCK | 0600, 0), 0);
    static const struct {
        const char *path;
        size_t max_bytes;
        ls_status status;
        const char *message;
    } cases[] = {
        { "missing", 100, LS_ERR_NOT_FOUND, "reading 'missing': No such file or directory" },
        { "ten/file", 100, LS_ERR_NOT_FOUND, "reading 'ten/file': Not a directory" },
        { ".", 100, LS_ERR_IO, "reading '.': not a regular file" },
        { "pipe", 100, LS_ERR_IO, "reading 'pipe': not a regular file" },
        { "socket", 100, LS_ERR_IO, "reading 'socket': not a regular file" },
        { "/dev/zero", 100, LS_ERR_IO, "reading '/dev/zero': not a regular file" },
        { "ten", 9, LS_ERR_DATA, "reading 'ten': 10 bytes, at most 9 are allowed" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char *bytes = (unsigned char *)"";
        size_t size = 1;
        char message[200] = "";
        ck_assert_int_eq(ls__read_file(&ctx, cases[i].path, cases[i].max_bytes, &bytes, &size,
                                       message, sizeof(message)),
                         cases[i].status);
        ck_assert_str_eq(message, cases[i].message);
        ck_assert(!bytes && size == 0);
    }
    ck_assert_int_eq(ls_context_status(&ctx), LS_OK); /* the context was left alone */
    leave_folder();
}
END_TEST

START_TEST(every_allocation_fails_in_turn)
{
    enter_folder();
    write_atomic("a.txt", "old");
    for (int64_t fail_at = 1;; fail_at++) {
        failing_allocator a;
        failing_allocator_init(&a, fail_at);
        ctx.allocator = a.allocator;
        ls__atomic_file *file = NULL;
        const ls_status opened = ls__atomic_file_open(&ctx, "a.txt", &file);
        expect_error(&ctx, opened, "");
        ls__atomic_file_abandon(&file);
        unsigned char *bytes = NULL;
        size_t size;
        char message[100];
        const ls_status read =
            ls__read_file(&ctx, "a.txt", 100, &bytes, &size, message, sizeof(message));
        ls__free(&ctx, bytes);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        ck_assert_int_eq(count_files(), 1);
        if (!failing_allocator_failed(&a)) {
            ck_assert(opened == LS_OK && read == LS_OK);
            break;
        }
        ck_assert((opened == LS_ERR_MEMORY) != (read == LS_ERR_MEMORY));
    }
    leave_folder();
}
END_TEST

TEST_PROGRAM(file)
{
    return RUN_SUITE("file", a_file_appears_when_it_is_committed, an_abandoned_file_leaves_nothing,
                     a_killed_process_leaves_nothing, a_failing_write_leaves_the_old_file,
                     a_failing_write_sends_no_signal, a_full_disk_is_an_error,
                     places_that_cannot_be_written, a_locked_folder_cannot_be_written,
                     a_link_is_followed, a_link_is_replaced, the_longest_names, reading_misuse,
                     every_allocation_fails_in_turn);
}
