/* test_report.c: reports of run folders: texts are escaped, the page is well formed and refers to
 * nothing outside of it, damaged files are errors, and what is missing or out of range is left
 * out. */
#include "html_check.h"
#include "../log/own_folder.h"
#include <lockstep/report.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JPEG    "\xff\xd8\xff"
#define HOSTILE "<b>&\\\"\\u0001"

static const char metrics[] =
    "{\"epoch\": 1, \"lr\": 0.1, \"train_loss\": 2.5, \"train_top1\": 0.2, \"val_loss\": 2.25, "
    "\"val_top1\": 0.25, \"images_per_second\": 100.0, \"data_wait\": 0.5, \"seconds\": 3.0}\n"
    "{\"epoch\": 2, \"lr\": 0.05, \"train_loss\": 1.5, \"train_top1\": 0.6, \"val_loss\": 1.25, "
    "\"val_top1\": 0.75, \"images_per_second\": 200.0, \"data_wait\": 0.25, \"seconds\": 62.0}\n";

static const char evaluation[] =
    "{\"epoch\": 2, \"images\": 4, \"top1\": 0.75, \"calibration_error\": 0.125, "
    "\"macro\": {\"precision\": 0.5, \"recall\": 0.5, \"f1\": 0.5}, \"classes\": ["
    "{\"class\": \"" HOSTILE "\", \"images\": 2, \"precision\": 0.75, \"recall\": null, "
    "\"f1\": 0.5}, {\"class\": \"\\\\xFFdog\", \"images\": 2, \"precision\": 1, \"recall\": 1, "
    "\"f1\": 1}], \"confusion\": [[0, 0, 1], [0, 1, 1], [1, 1, 2], [2, 0, 9], [0, -1, 9], 7], "
    "\"calibration\": [{\"images\": 4, \"confidence\": 0.625, \"accuracy\": 0.75}], "
    "\"mistakes\": [{\"sample\": 3, \"label\": 0, \"predicted\": 1, \"confidence\": 0.875, "
    "\"path\": \"a/" HOSTILE ".jpg\", \"image\": \"data:image/jpeg;base64,/9j/AAAA\"}, "
    "{\"sample\": 5, \"label\": 9, \"predicted\": 1, \"confidence\": 0.5, "
    "\"image\": \"https://example.org/x.jpg\"}]}";

static const char config[] =
    "{\"parameters\": 1234, \"options\": {\"model\": \"" HOSTILE "\", \"lr\": %s, \"epochs\": 2, "
    "\"exif\": false, \"weights\": null, \"data-dir\": \"" HOSTILE "\"}, \"data\": {\"classes\": "
    "[\"" HOSTILE "\", \"dog\"], \"class_images\": [12000, 3]}}";

/* Lines that no run writes are left out, and repeated ones. */
static const char log_text[] =
    "2026-11-28T11:40:02Z command: lockstep train --data-dir '<b>' --lr 0.1\n"
    "2026-11-28T11:40:03Z data    2 classes\n"
    "2026-11-28T11:40:03Z warning: a\xe2\x80\xae<b>\n"
    "warning: short\nno time at all warning: x\n"
    "2026-11-28T11:50:00Z command: lockstep train --resume run\n"
    "2026-11-28T11:50:01Z warning: a\xe2\x80\xae<b>\n"
    "2026-11-28T11:50:02Z warning: another\n"
    "2026-11-28T11:50:03Z warning: incomplete";

static const char first_batch[] =
    "{\"columns\": 2, \"height\": 24, \"width\": 32, \"gap\": 2, \"labels\": [\"" HOSTILE
    "\", \"dog\", 7]}";

static const char manifest[] =
    "{\"identity\": {\"device\": \"cpu\", \"seed\": \"0\"}, \"sessions\": [{\"execution\": "
    "{\"threads\": 3}, \"provenance\": {\"host\": \"" HOSTILE "\"}}]}";

/* The folder of a run below `dir`. */
static const char *make_run(const char *name, const char *lr)
{
    char text[1024];
    const char *run = path(name);
    make_folder(run);
    snprintf(text, sizeof text, config, lr);
    write_text(path_in(run, "metrics.jsonl"), metrics);
    write_text(path_in(run, "evaluation.json"), evaluation);
    write_text(path_in(run, "config.json"), text);
    write_text(path_in(run, "manifest.json"), manifest);
    write_text(path_in(run, "first_batch.jpg"), JPEG "abcd");
    write_text(path_in(run, "first_batch.json"), first_batch);
    write_text(path_in(run, "log.txt"), log_text);
    return run;
}

static char *read_text(const char *name)
{
    size_t size;
    return read_file(name, &size);
}

/* In the folder of the runs, whose names are then the same wherever it is. */
static void enter(void)
{
    begin();
    ck_assert_int_eq(chdir(dir), 0);
}

static void leave(void)
{
    ck_assert_int_eq(chdir("/"), 0);
    end();
}

START_TEST(a_page_of_one_run)
{
    enter();
    const char *run = "a&b";
    make_run(run, "0.1");
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
    char *html = read_text(path("a&b/report.html"));
    expect_page_text(html, NULL, "report_of_a_run.txt");
    ck_assert_int_eq(count_parts(html, "<img"), 1); /* not the one of another server */
    ck_assert_ptr_nonnull(strstr(html, "src=\"data:image/jpeg;base64,/9j/AAAA\""));
    ck_assert_int_eq(count_parts(html, "data:image/jpeg;base64,/9j/YWJjZA=="), 1);
    ck_assert_ptr_nonnull(strstr(html, "aspect-ratio:32/24;background-size:206.250% 208.333%;"
                                       "background-position:100.000% 0.000%"));
    /* the same again */
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, "other.html"), LS_OK);
    char *again = read_text(path("other.html"));
    ck_assert_str_eq(html, again);
    free(html);
    free(again);
    leave();
}
END_TEST

START_TEST(a_page_of_several_runs)
{
    enter();
    const char *const runs[] = { "one", "two" };
    make_run("one", "0.1");
    make_run("two", "0.2");
    ck_assert_int_eq(remove("two/evaluation.json"), 0);
    ck_assert_int_eq(ls_report_write(ctx, 2, runs, "both.html"), LS_OK);
    char *html = read_text(path("both.html"));
    expect_page_text(html, NULL, "report_of_runs.txt");
    free(html);
    leave();
}
END_TEST

/* The page says which epoch the evaluation is of; the metric that decides may be in it. */
START_TEST(evaluations_of_the_last_epoch)
{
    static const char rows[] =
        "{\"epoch\": 1, \"val_loss\": 1.0, \"val_top1\": 0.5, \"val_own\": 0.75, "
        "\"val_auc\": 0.5, \"best_epoch\": 1}\n"
        "{\"epoch\": 2, \"val_loss\": 1.0, \"val_top1\": 0.6, \"val_own\": 0.25, "
        "\"val_auc\": 0.5, \"best_epoch\": 1}\n";
    begin();
    const char *run = dir;
    write_text(path("metrics.jsonl"), rows);
    write_text(path("evaluation.json"), "{\"epoch\": 2, \"metric\": \"own\", \"classes\": [{}]}");
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
    char *html = read_text(path("report.html")), *seen = page_text(html);
    expect_page(html);
    expect_part(seen, "These results are those of the last epoch. The best epoch is 1; lockstep "
                      "eval --per-class ");
    expect_part(seen, "deciding metric own 0.7500");
    free(seen);
    free(html);
    end();
}
END_TEST

START_TEST(metrics_alone_are_enough)
{
    begin();
    const char *run = dir;
    write_text(path("metrics.jsonl"), "{\"epoch\": 1, \"train_loss\": 2.5}\n");
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
    char *html = read_text(path("report.html"));
    expect_page(html);
    ck_assert_ptr_null(strstr(html, "nan"));
    free(html);
    end();
}
END_TEST

/* The page of a run with a damaged file says why a part is left out. */
static void expect_left_out(const char *name, const char *text, const char *reason)
{
    const char *run = dir;
    write_text(path(name), text);
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
    char *html = read_text(path("report.html"));
    expect_page(html);
    const char *said = strstr(html, reason);
    ck_assert_msg(said != NULL, "%s: %s", name, reason);
    ck_assert_ptr_nonnull(strstr(html, "<p>Left out: "));
    ck_assert_ptr_null(strstr(html, "nan"));
    free(html);
}

START_TEST(damaged_folders)
{
    begin();
    const char *run = dir;
    expect_failure(ls_report_write(ctx, 0, NULL, NULL), ctx, LS_ERR_INVALID, "no run folder");
    expect_failure(ls_report_write(ctx, 1, &run, NULL), ctx, LS_ERR_DATA,
                   ": contains no run: config.json is missing, and ");
    write_text(path("metrics.jsonl"), metrics);
    expect_left_out("evaluation.json", "{\"classes\": [", "/evaluation.json: line 1: ");
    expect_left_out("evaluation.json", "[]", "/evaluation.json: not a JSON object.");
    expect_left_out("config.json", "{", "/config.json: line ");
    expect_left_out("manifest.json", "{", "/manifest.json: line ");
    expect_left_out("first_batch.json", "[", "/first_batch.json: line ");
    ck_assert_int_eq(mkdir(path("log.txt"), 0777), 0);
    expect_left_out("first_batch.json", "[", "/log.txt");
    ck_assert_int_eq(rmdir(path("log.txt")), 0);
    static const char *const grids[] = {
        "{}", "{\"labels\": [\"a\"]}", "{\"labels\": [\"a\"], \"columns\": 0, \"height\": 1}",
        "{\"labels\": [\"a\"], \"columns\": 99999999, \"height\": 1, \"width\": 1, \"gap\": -1}"
    };
    write_text(path("first_batch.jpg"), JPEG "abcd");
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        write_text(path("first_batch.json"), grids[i]);
        ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
        char *html = read_text(path("report.html"));
        expect_page(html);
        ck_assert_int_eq(count_parts(html, "<img"), 1); /* the grid, without labels */
        free(html);
    }
    ck_assert_int_eq(remove(path("first_batch.jpg")), 0);
    expect_left_out("metrics.jsonl", "{\"epoch\": 1}\n{\n", "/metrics.jsonl: line 2 is damaged.");
    expect_left_out("metrics.jsonl", "{\"epoch\": 1}\n{\"epoch\": [], \"train_loss\": 2}\n",
                    "/metrics.jsonl: line 2 is damaged.");
    expect_left_out("metrics.jsonl", "", "/metrics.jsonl: no epoch is complete");
    write_text(path("metrics.jsonl"), metrics);
    write_text(path("evaluation.json"),
               "{\"classes\": [1, {\"class\": 2}], \"confusion\": 3, \"calibration\": [4], "
               "\"mistakes\": [5, {}]}");
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
    expect_failure(ls_report_write(ctx, 1, &run, path("none/report.html")), ctx, LS_ERR_NOT_FOUND,
                   "none/report.html");
    end();
}
END_TEST

static const char *const own_files[] = { "metrics.jsonl",   "config.json",      "manifest.json",
                                         "evaluation.json", "first_batch.json", "first_batch.jpg",
                                         "log.txt" };

/* A link in the folder shows nothing of what it leads to, nor does a file that is no image. */
START_TEST(links_are_not_followed)
{
    begin();
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", make_run("run", "1"));
    const char *run = folder;
    make_folder(path("elsewhere"));
    for (size_t i = 0; i < sizeof own_files / sizeof own_files[0]; i++) {
        char own[4096], other[4096], text[128];
        snprintf(own, sizeof own, "%s", path_in(run, "%s", own_files[i]));
        snprintf(other, sizeof other, "%s", path_in(path("elsewhere"), "%s", own_files[i]));
        ck_assert_int_eq(rename(own, other), 0);
        ck_assert_int_eq(symlink(other, own), 0);
        ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
        char *html = read_text(path_in(run, "report.html"));
        expect_page(html);
        snprintf(text, sizeof text, "%s: a symbolic link; expected a regular file", own_files[i]);
        const char *also = strstr(html, "a symbolic link; expected a regular file");
        ck_assert_msg(also != NULL, "%s", text);
        free(html);
        ck_assert_int_eq(remove(own), 0);
        ck_assert_int_eq(rename(other, own), 0);
    }
    write_text(path_in(run, "first_batch.jpg"), "root:x:0:0");
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
    char *html = read_text(path_in(run, "report.html"));
    ck_assert_ptr_nonnull(strstr(html, "first_batch.jpg: not a JPEG file"));
    ck_assert_ptr_null(strstr(html, "cm9vd"));
    free(html);
    end();
}
END_TEST

/* Writes n copies of the item between `before` and `after`. */
static void write_many(const char *name, const char *before, const char *item, int64_t n,
                       const char *after)
{
    FILE *file = fopen(name, "w");
    fputs(before, file);
    for (int64_t i = 0; i < n; i++) fprintf(file, "%s%s", i > 0 ? "," : "", item);
    fputs(after, file);
    ck_assert_int_eq(fclose(file), 0);
}

/* Files that would give a page of 100 MB and more give a small one, which says what it leaves out.
 */
START_TEST(large_files)
{
    enum { MAX_PAGE_BYTES = 24 << 20, LONG = 1 << 20 };
    static const struct {
        const char *name, *before, *item;
        int64_t n;
        const char *after, *said;
    } cases[] = {
        { "first_batch.json",
          "{\"columns\": 64, \"height\": 1, \"width\": 1, \"gap\": 0, \"labels\": [", "\"a\"",
          300000, "]}", "Left out: 299,936 of 300,000 labels." },
        { "evaluation.json", "{\"classes\": [", "{\"class\": \"\\\"\\\"\"}", 400000, "]}",
          "of 400,000 classes." },
        { "evaluation.json", "{\"classes\": [{}], \"calibration\": [", "{\"images\": 1}", 100000,
          "]}", "Left out: 100,000 of 100,000 bins." },
        { "evaluation.json", "{\"classes\": [{}], \"mistakes\": [", "{\"label\": 0}", 200000, "]}",
          "Left out: 199,900 of 200,000 mistakes." },
        { "evaluation.json", "{\"classes\": [", "{\"class\": \"01234567890123456789\"}", 1200000,
          "]}", "bytes, at most 33554432 are allowed" },
    };
    begin();
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", make_run("run", "1"));
    const char *run = folder;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_many(path_in(run, "%s", cases[i].name), cases[i].before, cases[i].item, cases[i].n,
                   cases[i].after);
        ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
        char *html = read_text(path_in(run, "report.html"));
        ck_assert_msg(strstr(html, cases[i].said) != NULL, "%s", cases[i].said);
        ck_assert_msg(strlen(html) < MAX_PAGE_BYTES, "%s: %zu", cases[i].said, strlen(html));
        free(html);
    }
    write_text(path_in(run, "evaluation.json"), evaluation);
    char *text = malloc(LONG + 64);
    memset(text, '"', LONG);
    strcpy(text + LONG, "\n");
    memcpy(text, "2026-11-28T11:40:02Z command: lockstep train --a ", 49);
    write_text(path_in(run, "log.txt"), text);
    free(text);
    FILE *file = fopen(path_in(run, "metrics.jsonl"), "w");
    for (int i = 1; i <= 20000; i++)
        fprintf(file, "{\"epoch\": %d, \"train_loss\": 1.5, \"val_loss\": 2.5}\n", i);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(ls_report_write(ctx, 1, &run, NULL), LS_OK);
    char *html = read_text(path_in(run, "report.html"));
    ck_assert_ptr_nonnull(strstr(html, "Left out: 15,000 of 20,000 epochs in the charts."));
    ck_assert_uint_lt(strlen(html), 1 << 20);
    free(html);
    end();
}
END_TEST

static bool work(ls_context *context, void *run)
{
    const char *one = run;
    return ls_report_write(context, 1, &one, NULL) == LS_OK;
}

START_TEST(every_allocation_failing)
{
    begin();
    char run[4096];
    snprintf(run, sizeof run, "%s", make_run("run", "1"));
    fail_each_allocation(work, run);
    end();
}
END_TEST

TEST_PROGRAM(report)
{
    return RUN_SUITE("report", a_page_of_one_run, a_page_of_several_runs, metrics_alone_are_enough,
                     evaluations_of_the_last_epoch, damaged_folders, links_are_not_followed,
                     large_files, every_allocation_failing);
}
