/* test_run_folder.c: the files of a run's folder: JSON, metrics, and that nothing is written over.
 */
#include "base/alloc.h"
#include "base/file.h"
#include "io/json.h"
#include "log/metrics.h"
#include "log/run_folder.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include "own_folder.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void check_text(const char *name, const char *wanted)
{
    unsigned char *text;
    size_t size;
    char message[256];
    ck_assert_int_eq(
        ls__read_file(ctx, path(name), 1 << 20, &text, &size, message, sizeof(message)), LS_OK);
    ck_assert_str_eq((const char *)text, wanted);
    ls__free(ctx, text);
}

static json_t *row(int epoch, double loss)
{
    return json_pack("{s:i, s:f, s:n}", "epoch", epoch, "loss", loss, "val", 1);
}

START_TEST(json_is_readable)
{
    begin();
    json_t *json = json_pack("{s:f, s:s, s:[i,i]}", "rate", 0.1, "name", "x\"y", "list", 1, 2);
    ck_assert_int_eq(ls__json_save(ctx, path("a.json"), json), LS_OK);
    check_text("a.json",
               "{\n  \"rate\": 0.1,\n  \"name\": \"x\\\"y\",\n  \"list\": [\n    1,\n    2\n"
               "  ]\n}\n");
    json_decref(json);
    end();
}
END_TEST

/* Short ones stay short; none loses a bit. */
static const double awkward[] = { 0.1,    0.1 * 3, 1.0 / 3,     2.0 / 3,
                                  1e-300, 1e15,    1 - 0x1p-53, 0x1.921fb54442d18p+1 };
enum { N_AWKWARD = sizeof awkward / sizeof awkward[0] };

START_TEST(numbers_come_back_exactly)
{
    begin();
    for (int i = 0; i < N_AWKWARD; i++) {
        json_t *json = json_pack("{s:f, s:[{s:f}]}", "a", 0.5, "b", "c", awkward[i]);
        ck_assert_int_eq(ls__json_save(ctx, path("a.json"), json), LS_OK);
        json_t *read = json_load_file(path("a.json"), 0, NULL);
        ck_assert_msg(json_equal(json, read), "%.17g", awkward[i]);
        json_decref(json);
        json_decref(read);

        ls__metrics *m;
        ck_assert_int_eq(ls__metrics_open(ctx, dir, 0, &m), LS_OK);
        ck_assert_int_eq(ls__metrics_append(m, row(1, awkward[i])), LS_OK);
        ls__metrics_close(&m);
        read = json_load_file(path("metrics.jsonl"), 0, NULL);
        const double loss = json_real_value(json_object_get(read, "loss"));
        ck_assert_msg(loss == awkward[i], "%.17g, not %.17g", loss, awkward[i]);
        json_decref(read);
    }
    end();
}
END_TEST

START_TEST(json_failures)
{
    begin();
    json_t *json = json_object();
    ck_assert_int_eq(ls__json_save(ctx, path("none/a.json"), json), LS_ERR_NOT_FOUND);
    expect_error(ctx, LS_ERR_NOT_FOUND, "");
    ck_assert_int_eq(ls__json_save(ctx, "/dev/full", json), LS_ERR_IO);
    expect_error(ctx, LS_ERR_IO, "");
    ck_assert_int_eq(ls__json_save(ctx, path("a.json"), NULL), LS_ERR_MEMORY);
    expect_error(ctx, LS_ERR_MEMORY, "");
    json_decref(json);
    end();
}
END_TEST

START_TEST(metrics_grow_row_by_row)
{
    begin();
    ls__metrics *m;
    ck_assert_int_eq(ls__metrics_open(ctx, dir, 0, &m), LS_OK);
    ck_assert_int_eq(ls__metrics_append(m, row(1, 0.25)), LS_OK);
    check_text("metrics.jsonl", "{\"epoch\": 1, \"loss\": 0.25, \"val\": null}\n");
    ck_assert_int_eq(ls__metrics_append(m, row(2, 1.0 / 3)), LS_OK);
    check_text("metrics.jsonl", "{\"epoch\": 1, \"loss\": 0.25, \"val\": null}\n"
                                "{\"epoch\": 2, \"loss\": 0.3333333333333333, \"val\": null}\n");
    check_text("metrics.csv", "epoch,loss,val\n1,0.25,\n2,0.3333333333333333,\n");
    ls__metrics_close(&m);
    ck_assert_ptr_null(m);
    end();
}
END_TEST

START_TEST(resumed_metrics_keep_what_is_behind)
{
    begin();
    ls__metrics *m;
    ck_assert_int_eq(ls__metrics_open(ctx, dir, 0, &m), LS_OK);
    for (int i = 1; i <= 3; i++) ck_assert_int_eq(ls__metrics_append(m, row(i, 1.0 / i)), LS_OK);
    ls__metrics_close(&m);
    ck_assert_int_eq(ls__metrics_open(ctx, dir, 1, &m), LS_OK);
    ck_assert_int_eq(ls__metrics_append(m, row(2, 7)), LS_OK);
    check_text("metrics.jsonl", "{\"epoch\": 1, \"loss\": 1.0, \"val\": null}\n"
                                "{\"epoch\": 2, \"loss\": 7.0, \"val\": null}\n");
    ls__metrics_close(&m);
    end();
}
END_TEST

static void put_text(const char *name, const char *text)
{
    FILE *file = fopen(path(name), "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static bool is_there(const char *name)
{
    return access(path(name), F_OK) == 0;
}

static struct stat status_of(const char *name)
{
    struct stat there;
    ck_assert_int_eq(lstat(path(name), &there), 0);
    return there;
}

/* A killed process leaves half a row, or a row of an epoch that its checkpoint has not ended. */
START_TEST(what_follows_the_kept_rows_is_cut_at_once)
{
    static const char *const tails[] = { "{\"epoch\": 2, \"lo", "{\"epoch\": 2}\n", "2\n{}", "\n" };
    begin();
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        char text[256];
        ls__metrics *m;
        snprintf(text, sizeof(text), "{\"epoch\": 1, \"loss\": 0.5}\n%s", tails[i]);
        put_text("metrics.jsonl", text);
        put_text("metrics.csv", "epoch,loss\n1,0.5\n2,0.");
        ck_assert_int_eq(ls__metrics_open(ctx, dir, 1, &m), LS_OK);
        ls__metrics_close(&m);
        check_text("metrics.jsonl", "{\"epoch\": 1, \"loss\": 0.5}\n");
        check_text("metrics.csv", "epoch,loss\n1,0.5\n");

        ck_assert_int_eq(ls__metrics_open(ctx, dir, 0, &m), LS_OK); /* nothing is kept */
        ls__metrics_close(&m);
        check_text("metrics.jsonl", "");
        check_text("metrics.csv", "");
    }
    end();
}
END_TEST

START_TEST(metrics_are_written_once)
{
    begin();
    ls__metrics *m;
    ck_assert_int_eq(ls__metrics_open(ctx, dir, 0, &m), LS_OK);
    ck_assert_int_eq(ls__metrics_append(m, row(1, 0.25)), LS_OK);
    const struct stat jsonl = status_of("metrics.jsonl"), csv = status_of("metrics.csv");
    for (int i = 2; i <= 5; i++) ck_assert_int_eq(ls__metrics_append(m, row(i, 0.5)), LS_OK);
    ck_assert_int_eq(status_of("metrics.jsonl").st_ino, jsonl.st_ino);
    ck_assert_int_eq(status_of("metrics.csv").st_ino, csv.st_ino);
    for (int i = 1; i <= 6; i++) {
        json_t *there;
        ck_assert_int_eq(ls__metrics_read_row(ctx, dir, i, &there), LS_OK);
        ck_assert_int_eq(json_integer_value(json_object_get(there, "epoch")), i < 6 ? i : 0);
        json_decref(there);
    }

    put_text("metrics.csv", "mine");
    put_text("metrics.jsonl", "{\"epoch\": 1}\n{\"epoch\n");
    json_t *first;
    ck_assert_int_eq(ls__metrics_read_row(ctx, dir, 1, &first), LS_OK);
    ck_assert_ptr_nonnull(first);
    json_decref(first);
    ck_assert_int_eq(ls__metrics_read_row(ctx, dir, 2, &first), LS_ERR_DATA);
    ck_assert_ptr_null(first);
    ls_context_clear_error(ctx);

    /* one that has gone, or is another than it was, is written anew */
    remove(path("metrics.jsonl"));
    put_text("metrics.csv", "mine");
    ck_assert_int_eq(ls__metrics_append(m, row(6, 0.5)), LS_OK);
    check_text("metrics.csv", "epoch,loss,val\n1,0.25,\n2,0.5,\n3,0.5,\n4,0.5,\n5,0.5,\n6,0.5,\n");
    size_t n_lines = 0;
    FILE *file = fopen(path("metrics.jsonl"), "r");
    for (int c; (c = fgetc(file)) != EOF;) n_lines += c == '\n';
    fclose(file);
    ck_assert_uint_eq(n_lines, 6);

    /* with other columns, too */
    ck_assert_int_eq(ls__metrics_append(m, json_pack("{s:i, s:i}", "epoch", 7, "new", 1)), LS_OK);
    check_text("metrics.csv", "epoch,new\n1,\n2,\n3,\n4,\n5,\n6,\n7,1\n");
    ls__metrics_close(&m);
    end();
}
END_TEST

/* ---- Links that someone has put in the folder ---- */

START_TEST(links_are_replaced_and_not_followed)
{
    static const char *const names[] = { "metrics.jsonl", "metrics.csv", "manifest.json" };
    begin();
    put_text("victim", "mine");
    for (int i = 0; i < 3; i++) ck_assert_int_eq(symlink("victim", path(names[i])), 0);
    ls__metrics *m;
    ck_assert_int_eq(ls__metrics_open(ctx, dir, 0, &m), LS_OK);
    ck_assert_int_eq(ls__metrics_append(m, row(1, 0.5)), LS_OK);
    ck_assert_int_eq(ls__metrics_append(m, row(2, 0.5)), LS_OK);
    ls__metrics_close(&m);
    json_t *json = json_object();
    ck_assert_int_eq(ls__json_save(ctx, path("manifest.json"), json), LS_OK);
    json_decref(json);
    check_text("victim", "mine");
    for (int i = 0; i < 3; i++) ck_assert(S_ISREG(status_of(names[i]).st_mode));
    end();
}
END_TEST

START_TEST(a_lock_is_a_regular_file)
{
    static const char *const targets[] = { "nowhere", "victim", ".", "/dev/null" };
    begin();
    put_text("victim", "");
    for (int i = 0; i < 4; i++) {
        remove(path(".lock"));
        ck_assert_int_eq(symlink(targets[i], path(".lock")), 0);
        ck_assert_int_eq(ls__run_folder_lock(ctx, dir, NULL), LS_ERR_IO);
        expect_error(ctx, LS_ERR_IO, "': .lock: a symbolic link; expected a regular file");
    }
    ck_assert(!is_there("nowhere"));
    remove(path(".lock"));
    ck_assert_int_eq(mkfifo(path(".lock"), 0600), 0);
    ck_assert_int_eq(ls__run_folder_lock(ctx, dir, NULL), LS_ERR_IO);
    expect_error(ctx, LS_ERR_IO, ".lock: not a regular file");

    /* the folder itself may be a link */
    char link_path[128];
    remove(path(".lock"));
    snprintf(link_path, sizeof(link_path), "%s-link", dir);
    ck_assert_int_eq(symlink(dir, link_path), 0);
    ck_assert_int_eq(ls__run_folder_lock(ctx, link_path, NULL), LS_OK);
    remove(link_path);
    end();
}
END_TEST

START_TEST(foreign_metrics_are_refused)
{
    begin();
    FILE *file = fopen(path("metrics.jsonl"), "w");
    fputs("{\"epoch\": 1}\nnot json\n", file);
    fclose(file);
    ls__metrics *m;
    ck_assert_int_eq(ls__metrics_open(ctx, dir, 5, &m), LS_ERR_FORMAT);
    ck_assert_ptr_null(m);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "line 2"));
    ls_context_clear_error(ctx);

    /* rows of epochs that are done must all be there, each in its place */
    static const struct {
        const char *text, *said;
    } lost[] = { { "", "has 0 rows of the 2 epochs" },
                 { "{\"epoch\": 1}\n", "has 1 rows of the 2 epochs" },
                 { "{\"epoch\": 2}\n", "line 1 is not that of epoch 1" },
                 { "{\"epoch\": 1}\n{\"epoch\": 1}\n", "line 2 is not that of epoch 2" },
                 { "[1]\n", "line 1 is not that of epoch 1" } };
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
        file = fopen(path("metrics.jsonl"), "w");
        fputs(lost[i].text, file);
        fclose(file);
        ck_assert_int_ne(ls__metrics_open(ctx, dir, 2, &m), LS_OK);
        ck_assert_ptr_null(m);
        ck_assert_msg(strstr(ls_context_message(ctx), lost[i].said) != NULL, "%s",
                      ls_context_message(ctx));
        ls_context_clear_error(ctx);
    }
    remove(path("metrics.jsonl"));
    ck_assert_int_eq(ls__metrics_open(ctx, dir, 2, &m), LS_ERR_NOT_FOUND);
    end();
}
END_TEST

START_TEST(run_folders_are_made_once)
{
    begin();
    char deep[128];
    snprintf(deep, sizeof(deep), "%s/a/b/c", dir);
    ck_assert_int_eq(ls__run_folder_create(ctx, deep), LS_OK);
    ck_assert(!ls__run_folder_holds_run(deep));
    ck_assert_int_eq(ls__run_folder_create(ctx, deep), LS_OK); /* empty: nothing to lose */

    fclose(fopen(path("config.json"), "w"));
    ck_assert(ls__run_folder_holds_run(dir));
    ck_assert_int_eq(ls__run_folder_create(ctx, dir), LS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "holds a run already"));
    ls_context_clear_error(ctx);
    snprintf(deep, sizeof(deep), "%s/config.json/x", dir);
    ck_assert_int_eq(ls__run_folder_create(ctx, deep), LS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "Not a directory"));
    ls_context_clear_error(ctx);
    snprintf(deep, sizeof(deep), "%s/config.json", dir);
    ck_assert_int_eq(ls__run_folder_create(ctx, deep), LS_ERR_IO);
    expect_error(ctx, LS_ERR_IO, "config.json");
    ck_assert_int_eq(ls__run_folder_create(ctx, ""), LS_ERR_NOT_FOUND);
    end();
}
END_TEST

START_TEST(every_allocation_fails_once)
{
    begin();
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context *failing = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
        if (failing && ls_context_status(failing) == LS_OK) {
            ls__metrics *m = NULL;
            ls_status status = ls__run_folder_create(failing, path("run"));
            if (status == LS_OK) status = ls__metrics_open(failing, path("run"), 0, &m);
            if (status == LS_OK) status = ls__metrics_append(m, row((int)n, 1));
            ck_assert(status == LS_OK || status == LS_ERR_MEMORY);
            expect_error(failing, status, "");
            if (m) ls__metrics_close(&m);
        }
        ls_context_close(&failing);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failing_allocator_failed(&a)) break;
    }
    end();
}
END_TEST

START_TEST(one_process_at_a_time)
{
    begin();
    ls_context *other = ls_context_open(NULL);
    ck_assert_int_eq(ls__run_folder_lock(ctx, dir, NULL), LS_OK);
    ck_assert_int_eq(ls__run_folder_lock(other, dir, NULL), LS_ERR_INVALID);
    char wanted[256];
    snprintf(wanted, sizeof(wanted), "run folder '%s': another process is training there", dir);
    expect_error(other, LS_ERR_INVALID, wanted);
    ls_context_close(&ctx);
    ck_assert_int_eq(ls__run_folder_lock(other, dir, NULL), LS_OK);
    ck_assert_int_eq(ls__run_folder_lock(other, path("none"), NULL), LS_ERR_NOT_FOUND);
    expect_error(other, LS_ERR_NOT_FOUND, "");
    ls_context_close(&other);
    end();
}
END_TEST

START_TEST(killed_processes_leave_no_lock)
{
    begin();
    int ready[2];
    char byte;
    ck_assert_int_eq(pipe(ready), 0);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        ctx = ls_context_open(NULL); /* a child can't use its parent's */
        if (ls__run_folder_lock(ctx, dir, NULL) != LS_OK || write(ready[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(ls__run_folder_lock(ctx, dir, NULL), LS_ERR_INVALID);
    expect_error(ctx, LS_ERR_INVALID, "");
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(ls__run_folder_lock(ctx, dir, NULL), LS_OK);
    close(ready[0]);
    end();
}
END_TEST

START_TEST(leftovers_are_removed_by_who_holds_the_folder)
{
    static const char *const left[] = { ".lockstep-12-0.tmp", ".lockstep-4194304-999.tmp" };
    static const char *const kept[] = { ".lockstep-12-0.tmp2", ".lockstep-12.tmp", "lockstep.tmp",
                                        "last.safetensors" };
    begin();
    for (int i = 0; i < 2; i++) fclose(fopen(path(left[i]), "w"));
    for (int i = 0; i < 4; i++) fclose(fopen(path(kept[i]), "w"));
    ck_assert_int_eq(ls__run_folder_lock(ctx, dir, NULL), LS_OK);
    for (int i = 0; i < 2; i++) ck_assert(!is_there(left[i]));
    for (int i = 0; i < 4; i++) ck_assert(is_there(kept[i]));

    /* one that is refused touches nothing: that file may be just being written */
    ls_context *other = ls_context_open(NULL);
    fclose(fopen(path(left[0]), "w"));
    ck_assert_int_eq(ls__run_folder_lock(other, dir, NULL), LS_ERR_INVALID);
    ck_assert(is_there(left[0]));
    ls_context_close(&other);
    end();
}
END_TEST

/* Processes that start together: mkdir decides which of them gets a name. */
START_TEST(new_folders)
{
    enum { N = 8 };
    begin();
    int number = 0;
    ck_assert_int_eq(ls__run_folder_create_new(ctx, path("a/new"), NULL), LS_OK);
    ck_assert_int_eq(ls__run_folder_create_new(ctx, path("a/new"), NULL), LS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(ls_context_message(ctx), "exists already"));
    ls_context_clear_error(ctx);
    ck_assert_int_eq(ls__json_save(ctx, path("file"), json_null()), LS_OK);
    ck_assert_int_eq(ls__run_folder_create_new(ctx, path("file"), &number), LS_OK);
    ck_assert_int_eq(number, 2);
    ck_assert_int_ne(ls__run_folder_create_new(ctx, path("file/sub"), &number), LS_OK);
    char long_name[5001];
    memset(long_name, '/', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    ck_assert_int_ne(ls__run_folder_create_new(ctx, long_name, &number), LS_OK);
    ls_context_clear_error(ctx);
    pid_t pids[N];
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(ls__run_folder_create_new(ctx, path("run"), &number) == LS_OK ? number : 0);
    }
    unsigned got = 0;
    for (int i = 0; i < N; i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert(WIFEXITED(status));
        got |= 1u << WEXITSTATUS(status);
    }
    ck_assert_uint_eq(got, ((1u << N) - 1) << 1); /* the numbers 1 to 8, each once */
    char name[4096];
    ls__run_folder_name(path("run"), N, name, sizeof(name));
    struct stat there;
    ck_assert(stat(name, &there) == 0 && S_ISDIR(there.st_mode));
    end();
}
END_TEST

TEST_PROGRAM(run_folder)
{
    return RUN_SUITE("run_folder", json_is_readable, numbers_come_back_exactly, json_failures,
                     metrics_grow_row_by_row, resumed_metrics_keep_what_is_behind,
                     what_follows_the_kept_rows_is_cut_at_once, metrics_are_written_once,
                     links_are_replaced_and_not_followed, a_lock_is_a_regular_file,
                     foreign_metrics_are_refused, run_folders_are_made_once, new_folders,
                     one_process_at_a_time, killed_processes_leave_no_lock,
                     leftovers_are_removed_by_who_holds_the_folder, every_allocation_fails_once);
}
