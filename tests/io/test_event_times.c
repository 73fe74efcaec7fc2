/* test_event_times.c: names and wall times of event files never fall, whatever the clock does. */
#include "../suite.h"
#include "io/event_file.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *folder;
static ls_context *ctx;

static void enter(void)
{
    ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    folder = new_folder();
}

static void leave(void)
{
    ls_context_close(&ctx);
    remove_folder(folder);
}

START_TEST(times_of_events)
{
    ls__event_clock clock = { 0 };
    const struct {
        double wall, monotonic, expected;
    } cases[] = {
        { 1000, 5, 1000 },      { 1001, 6, 1001 },      { 900, 7, 1002 },   /* set back */
        { 902.5, 9.5, 1004.5 }, { 902.5, 9.5, 1004.5 }, { 2000, 10, 2000 }, /* corrected */
        { 2000, 9, 2000 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert(ls__event_clock_next(&clock, cases[i].wall, cases[i].monotonic) ==
                  cases[i].expected);
    /* In the process that resumes, the time since the last event is unknown. */
    clock = (ls__event_clock){ .last = 1000 };
    ck_assert(ls__event_clock_next(&clock, 400, 77) == 1000);
    ck_assert(ls__event_clock_next(&clock, 401, 78) == 1001);
}
END_TEST

static void write_events(const char *name, int n, const double *times)
{
    ls__event_file *file;
    ck_assert_int_eq(ls__event_file_create(ctx, path_in(folder, "%s", name), times[0], &file),
                     LS_OK);
    for (int i = 1; i < n; i++) {
        ls__event_begin(file, times[i], i);
        ls__event_add_scalar(file, "loss", 0.5);
        ck_assert_int_eq(ls__event_commit(file), LS_OK);
    }
    ls__event_file_close(&file);
}

static void expect_scan(double wall, int64_t number, double last)
{
    double got;
    ck_assert_int_eq(ls__event_folder_scan(folder, wall, &got), number);
    ck_assert(got == last);
}

START_TEST(the_next_file)
{
    enter();
    expect_scan(1700000000.75, 1700000000, 0);
    expect_scan(5, 5, 0);   /* a board without a clock */
    expect_scan(-60, 0, 0); /* before 1970 */
    write_events("events.out.tfevents.1700000000.0", 3,
                 (double[]){ 1700000000, 1700000001, 1700000042.5 });
    expect_scan(1700000043, 1700000043, 1700000042.5);
    expect_scan(1699999940, 1700000001, 1700000042.5);
    expect_scan(1700000000, 1700000001, 1700000042.5); /* ".10" would be sorted before ".2" */
    write_events("events.out.tfevents.1700000001.0", 2, (double[]){ 1600000000, 1600000001 });
    write_events("events.out.tfevents.1500000000.host.7", 1, (double[]){ 1700000100 });
    expect_scan(0, 1700000002, 1700000100);
    write_events("other.1900000000.0", 1, (double[]){ 1900000000 });
    ck_assert_int_eq(mkdir(path_in(folder, "events.out.tfevents.1800000000.0"), 0777), 0);
    expect_scan(0, 1800000001, 1700000100);
    leave();
}
END_TEST

/* Bytes of the record that begins a file. */
static off_t first_record(void)
{
    struct stat there;
    write_events("first", 1, (double[]){ 100 });
    ck_assert_int_eq(stat(path_in(folder, "first"), &there), 0);
    return there.st_size;
}

static void overwrite(const char *name, long at, const void *bytes, size_t size)
{
    FILE *file = fopen(path_in(folder, "%s", name), "rb+");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, at, SEEK_SET), 0);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

/* Records that a power failure or another program has left. */
START_TEST(damaged_files)
{
    enter();
    const char *name = "events.out.tfevents.0000000100.0";
    write_events(name, 3, (double[]){ 100, 101, 102 });
    struct stat there;
    ck_assert_int_eq(stat(path_in(folder, "%s", name), &there), 0);
    for (off_t size = there.st_size; size > 0; size--) {
        double last;
        ck_assert_int_eq(truncate(path_in(folder, "%s", name), size - 1), 0);
        ck_assert_int_eq(ls__event_folder_scan(folder, 0, &last), 101);
        ck_assert(last >= 0 && last < 102);
    }
    /* A wall time, and a length, that are not those of their CRC. */
    static const double huge = 1e300;
    const long record = (long)first_record();
    write_events("events.out.tfevents.0000000101.0", 3, (double[]){ 100, 101, 102 });
    overwrite("events.out.tfevents.0000000101.0", record + 12 + 1, &huge, sizeof(huge));
    expect_scan(0, 102, 102);
    overwrite("events.out.tfevents.0000000101.0", record + 8, &huge, 4);
    expect_scan(0, 102, 100);
    ck_assert_int_eq(remove(path_in(folder, "events.out.tfevents.0000000101.0")), 0);
    static const unsigned char lengths[][12] = { { 0 }, { 8 }, { [7] = 0x80 }, { [3] = 0xff } };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        FILE *file = fopen(path_in(folder, "%s", name), "wb");
        ck_assert_ptr_nonnull(file);
        fwrite(lengths[i], 1, sizeof(lengths[i]), file);
        for (int k = 0; k < 40; k++) fputc(9, file);
        fclose(file);
        double last;
        ck_assert_int_eq(ls__event_folder_scan(folder, 0, &last), 101);
        ck_assert(last == 0);
    }
    ck_assert_int_eq(ls__event_folder_scan(path_in(folder, "absent"), 7, &(double){ 0 }), 7);
    leave();
}
END_TEST

TEST_PROGRAM(event_times)
{
    return RUN_SUITE("event_times", times_of_events, the_next_file, damaged_files);
}
