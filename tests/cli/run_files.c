/* run_files.c: see run_files.h. */
#include "run_files.h"

#include "command.h"
#include <lockstep/lockstep.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

long count_steps(const char *run)
{
    enum { LINE_BYTES = 129 }; /* of run_log.txt, record.h */
    char path[64];
    struct stat there;
    snprintf(path, sizeof(path), "%s/run_log.txt", run);
    return stat(path, &there) == 0 ? (long)there.st_size / LINE_BYTES : 0;
}

json_t *read_row(const char *path, int line)
{
    size_t size;
    char *text = read_file(path, &size), *at = text;
    for (int i = 0; i < line && at; i++) {
        at = strchr(at, '\n');
        if (at) at++;
    }
    json_t *row = at && *at ? json_loads(at, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    free(text);
    return row;
}

double number(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    ck_assert_msg(json_is_number(value), "no number '%s'", key);
    return json_number_value(value);
}

void expect_same_metrics(const char *a, const char *b, int n_rows)
{
    static const char *const keys[] = { "epoch",    "lr",       "train_loss", "train_top1",
                                        "val_loss", "val_top1", "val_top5",   "bad_images" };
    for (int i = 0; i <= n_rows; i++) {
        json_t *row_a = read_row(a, i), *row_b = read_row(b, i);
        ck_assert_int_eq(row_a != NULL, i < n_rows);
        ck_assert_int_eq(row_b != NULL, i < n_rows);
        for (size_t k = 0; row_a && k < sizeof(keys) / sizeof(keys[0]); k++)
            ck_assert_msg(number(row_a, keys[k]) == number(row_b, keys[k]), "row %d: %s", i,
                          keys[k]);
        json_decref(row_a);
        json_decref(row_b);
    }
}

json_t *read_identity(const char *manifest)
{
    json_t *json = json_load_file(manifest, 0, NULL);
    json_t *identity = json_incref(json_object_get(json, "identity"));
    json_decref(json);
    return identity;
}

void expect_same_tensors(const char *a, const char *b)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_tensor_file *file_a = ls_tensor_file_open(ctx, a), *file_b = ls_tensor_file_open(ctx, b);
    const int64_t n = ls_tensor_file_tensor_count(file_a);
    ck_assert_int_eq(n, ls_tensor_file_tensor_count(file_b));
    for (int64_t i = 0; i < n; i++) {
        const char *name = ls_tensor_file_name(file_a, i);
        ls_digest digest_a, digest_b;
        ls_tensor_digest(ls_tensor_file_load(file_a, name), &digest_a);
        ls_tensor_digest(ls_tensor_file_load(file_b, name), &digest_b);
        ck_assert_msg(ls_digest_equal(digest_a, digest_b), "%s differs", name);
    }
    ck_assert_msg(n > 0 && ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
    ls_context_close(&ctx);
}
