/* fuzz_record.c: run logs (run_log.txt). What is read can be continued; lines that are not those of
 * their steps are refused. */
#include "fuzz.h"

#include "log/step_digest.h"
#include <string.h>

static const char NAME[] = "run_log.txt";
enum { MAX_STEPS = 8 };

static const ls_step_digest digest = {
    .batch = { { 1, 2 } }, .loss = 0.5, .gradients = { { 3, 4 } }, .weights = { { 5, 6 } }
};

static const char *write_sound(int64_t n_steps)
{
    char lines[MAX_STEPS * LS__LINE_SIZE + 1];
    for (int64_t i = 0; i < n_steps; i++) ls__run_log_format(i, &digest, lines + i * LS__LINE_SIZE);
    return fuzz_file("sound.txt", lines, (size_t)n_steps * LS__LINE_SIZE);
}

static void resume(const char *path, int64_t n_steps, int64_t n_sound)
{
    ls_context *ctx = fuzz_context();
    ls_run_log *record = ls_run_log_open(ctx, path, n_steps);
    fuzz_error(NAME);
    FUZZ_CHECK((record != NULL) == (n_steps <= n_sound));
    if (!record) return;
    FUZZ_CHECK(ls_run_log_append(record, &digest) == LS_OK);
    ls_run_log_close(&record);
    int64_t n = 0;
    ls_step_digest last;
    FUZZ_CHECK(ls_run_log_step_count(ctx, path, &n) == LS_OK && n == n_steps + 1);
    FUZZ_CHECK(ls_run_log_read(ctx, path, n_steps, &last) == LS_OK);
    FUZZ_CHECK(ls_digest_equal(last.weights, digest.weights) && last.loss == digest.loss);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ls_context *ctx = fuzz_context();
    const char *path = fuzz_file(NAME, data, size), *sound = write_sound(3);
    int64_t n = 0, n_sound = 0;
    ls_step_digest step;
    FUZZ_CHECK(ls_run_log_step_count(ctx, path, &n) == LS_OK && n == (int64_t)size / LS__LINE_SIZE);
    if (n > MAX_STEPS) n = MAX_STEPS;
    while (n_sound < n && ls_run_log_read(ctx, path, n_sound, &step) == LS_OK) n_sound++;
    fuzz_error(NAME);

    ls_run_log_difference difference;
    ls_run_log_compare(ctx, path, path, &difference);
    fuzz_error(NAME);
    ls_run_log_compare(ctx, path, sound, &difference);
    fuzz_error(NAME);
    ls_run_log_compare(ctx, sound, path, &difference);
    fuzz_error("");
    for (int64_t i = n; i >= 0; i--) resume(path, i, n_sound);
    return 0;
}
