/* scripts/gpu_check.sh on the emulated device: its verdicts, its JSON, its table. */
#include "../suite.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static char folder[64];

/* Runs the script with settings of the environment; its exit status. */
static int run_script(const char *settings)
{
    char command[1024];
    snprintf(folder, sizeof(folder), "/tmp/lockstep-gpu-check-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(command, sizeof(command), "%s %s/scripts/gpu_check.sh %s %s/out >%s/printed 2>&1",
             settings, LOCKSTEP_SOURCE_DIR, LOCKSTEP_BUILD_DIR, folder, folder);
    const int status = system(command);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void read_text(const char *name, char *out, size_t size)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "no %s", path);
    out[fread(out, 1, size - 1, file)] = '\0';
    fclose(file);
}

static json_t *read_json(void)
{
    char path[128], printed[8192];
    json_error_t error;
    snprintf(path, sizeof(path), "%s/out/gpu_check.json", folder);
    json_t *json = json_load_file(path, 0, &error);
    read_text("printed", printed, sizeof(printed));
    ck_assert_msg(json != NULL, "%s, line %d; printed: %s", error.text, error.line, printed);
    ck_assert_str_eq(json_string_value(json_object_get(json, "format")), "lockstep gpu_check 1");
    return json;
}

/* The object of a list whose `key` is `name`. */
static const json_t *find(const json_t *json, const char *list, const char *key, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(json, list), i, item)
    {
        const char *text = json_string_value(json_object_get(item, key));
        if (text && strcmp(text, name) == 0) return item;
    }
    ck_abort_msg("%s has no %s", list, name);
}

static bool is_text(const json_t *item, const char *key, const char *wanted)
{
    const char *text = json_string_value(json_object_get(item, key));
    return text && strstr(text, wanted);
}

START_TEST(all_is_well)
{
    ck_assert_int_eq(run_script("GPU_CHECK=small"), 0);
    json_t *json = read_json();
    ck_assert(is_text(json, "device", "emulated GPU"));
    ck_assert_int_eq(json_integer_value(json_object_get(json, "failed")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "cut")), 0);
    ck_assert(is_text(find(json, "checks", "check", "net"), "result", "passed"));
    ck_assert(is_text(find(json, "checks", "check", "tensors"), "result", "passed"));
    ck_assert(is_text(find(json, "checks", "check", "repro"), "result", "passed"));
    /* Speeds, and why there is none. */
    const json_t *tf32 = find(json, "measurements", "name", "resnet20_tf32");
    const json_t *line = json_object_get(tf32, "line");
    ck_assert_double_gt(json_number_value(json_object_get(line, "throughput")), 0);
    ck_assert(is_text(line, "data", "random"));
    line = json_object_get(find(json, "measurements", "name", "resnet20_tf32_folder"), "line");
    ck_assert(is_text(line, "data", "folder"));
    ck_assert(is_text(find(json, "measurements", "name", "resnet20_f64"), "not_measured",
                      "unknown precision 'f64'"));
    ck_assert(json_is_object(json_object_get(find(json, "measurements", "name", "sizes"), "line")));
    /* A goal that is met, one that is missed, one that was not measured. */
    ck_assert(json_is_false(json_object_get(find(json, "goals", "goal", "images/s"), "met")));
    ck_assert(json_is_true(
        json_object_get(find(json, "goals", "goal", "from JPEG files / random pictures"), "met")));
    const json_t *none = find(json, "goals", "goal", "times PyTorch's best");
    ck_assert(json_is_null(json_object_get(none, "met")));
    ck_assert(json_is_null(json_object_get(none, "measured")));
    char table[8192], printed[8192];
    read_text("out/gpu_check.txt", table, sizeof(table));
    read_text("printed", printed, sizeof(printed));
    ck_assert_ptr_nonnull(strstr(table, "missed\n"));
    ck_assert_ptr_nonnull(strstr(table, "0 checks failed, 0 parts had no time left"));
    ck_assert_ptr_nonnull(strstr(printed, table));
    json_decref(json);
    remove_folder();
}
END_TEST

/* All parts are told as left out, and that is not success. */
START_TEST(no_time)
{
    ck_assert_int_eq(run_script("GPU_CHECK=full GPU_CHECK_SECONDS=0"), 2);
    json_t *json = read_json();
    ck_assert_int_eq(json_integer_value(json_object_get(json, "failed")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(json, "checks")), 0);
    ck_assert_uint_gt(json_array_size(json_object_get(json, "cut")), 15);
    size_t i;
    json_t *goal;
    json_array_foreach(json_object_get(json, "goals"), i, goal)
        ck_assert(json_is_null(json_object_get(goal, "met")));
    ck_assert_uint_eq(i, 10);
    json_decref(json);
    remove_folder();
}
END_TEST

START_TEST(failing_checks_decide)
{
    ck_assert_int_eq(run_script("GPU_CHECK=small LOCKSTEP_EMULATED_LIBRARY=broken"), 1);
    json_t *json = read_json();
    ck_assert_int_eq(json_integer_value(json_object_get(json, "failed")), 2);
    ck_assert(is_text(find(json, "checks", "check", "net"), "result", "FAILED"));
    ck_assert(is_text(find(json, "measurements", "name", "resnet20_tf32"), "not_measured",
                      "it is broken"));
    json_decref(json);
    remove_folder();
}
END_TEST

START_TEST(no_gpu)
{
    char printed[8192];
    ck_assert_int_eq(run_script("GPU_CHECK=small LOCKSTEP_EMULATED_DEVICES=0"), 1);
    read_text("printed", printed, sizeof(printed));
    ck_assert_msg(strstr(printed, "no GPU: "), "%s", printed);
    remove_folder();
}
END_TEST

START_TEST(folders_of_others_are_left_alone)
{
    char command[1024];
    snprintf(folder, sizeof(folder), "/tmp/lockstep-gpu-check-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(command, sizeof(command),
             "echo mine >%s/mine; GPU_CHECK=small %s/scripts/gpu_check.sh %s %s 2>/dev/null; "
             "test $? = 1 && grep -q mine %s/mine",
             folder, LOCKSTEP_SOURCE_DIR, LOCKSTEP_BUILD_DIR, folder, folder);
    ck_assert_int_eq(system(command), 0);
    remove_folder();
}
END_TEST

int main(void)
{
    return RUN_SUITE("gpu check", all_is_well, no_time, failing_checks_decide, no_gpu,
                     folders_of_others_are_left_alone);
}
