/* metrics.c: a run's numbers; see metrics.h. */
#include "run/metrics.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "run/json.h"
#include <inttypes.h>
#include <string.h>

enum { MAX_METRICS_BYTES = 256 << 20 };

struct ls__metrics {
    ls_context *ctx;
    char *jsonl, *csv; /* paths */
    json_t *rows;      /* array of objects */
};

/* Rows are those of epochs 1, 2, 3, ... */
static ls_status keep_row(ls__metrics *m, json_t *row, int64_t last_epoch, int line)
{
    const int64_t epoch = json_integer_value(json_object_get(row, "epoch"));
    if (epoch > last_epoch || epoch != (int64_t)json_array_size(m->rows) + 1) {
        json_decref(row);
        if (epoch > last_epoch) return LS_OK;
        return ls__fail(m->ctx, LS_ERR_FORMAT, "%s: line %d is not that of epoch %zu", m->jsonl,
                        line, json_array_size(m->rows) + 1);
    }
    return json_array_append_new(m->rows, row) == 0 ? LS_OK : ls__fail_memory(m->ctx, m->jsonl, 0);
}

static ls_status load_rows(ls__metrics *m, int64_t last_epoch)
{
    unsigned char *text;
    size_t size;
    char message[512];
    ls_status status =
        ls__read_file(m->ctx, m->jsonl, MAX_METRICS_BYTES, &text, &size, message, sizeof(message));
    if (status == LS_ERR_NOT_FOUND && last_epoch == 0) return LS_OK;
    if (status != LS_OK) return ls__fail(m->ctx, status, "%s", message);

    LS__IN_C_LOCALE;
    const char *at = (const char *)text, *end = at + size;
    for (int line = 1; status == LS_OK && at < end; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        json_error_t error;
        json_t *row = json_loadb(at, length, 0, &error);
        status = row ? keep_row(m, row, last_epoch, line)
                     : ls__fail(m->ctx, LS_ERR_FORMAT, "%s: line %d: not JSON: %s", m->jsonl, line,
                                error.text);
        at += length + 1;
    }
    ls__free(m->ctx, text);
    if (status != LS_OK || (int64_t)json_array_size(m->rows) == last_epoch) return status;
    return ls__fail(m->ctx, LS_ERR_DATA, "%s: has %zu rows of the %" PRId64 " epochs that are done",
                    m->jsonl, json_array_size(m->rows), last_epoch);
}

ls_status ls__metrics_open(ls_context *ctx, const char *dir, int64_t last_epoch, ls__metrics **out)
{
    *out = NULL;
    ls__metrics *m = ls__zalloc(ctx, sizeof(*m));
    if (!m) return ls__fail_memory(ctx, dir, sizeof(*m));
    m->ctx = ctx;
    m->jsonl = ls__format(ctx, "%s/metrics.jsonl", dir);
    m->csv = ls__format(ctx, "%s/metrics.csv", dir);
    m->rows = json_array();
    ls_status status = m->jsonl && m->csv && m->rows ? load_rows(m, last_epoch)
                                                     : ls__fail_memory(ctx, dir, strlen(dir));
    if (status == LS_OK)
        *out = m;
    else
        ls__metrics_close(&m);
    return status;
}

void ls__metrics_close(ls__metrics **metrics)
{
    ls__metrics *m = *metrics;
    *metrics = NULL;
    if (!m) return;
    json_decref(m->rows);
    ls__free(m->ctx, m->jsonl);
    ls__free(m->ctx, m->csv);
    ls__free(m->ctx, m);
}

static ls_status write_jsonl(ls__metrics *m, ls__atomic_file *file)
{
    for (size_t i = 0; i < json_array_size(m->rows); i++) {
        LS_TRY(ls__json_put(m->ctx, m->jsonl, file, json_array_get(m->rows, i), 0));
        LS_TRY(ls__atomic_file_write(file, "\n", 1));
    }
    return LS_OK;
}

/* The columns are the last row's keys. */
static ls_status write_csv(ls__metrics *m, ls__atomic_file *file)
{
    json_t *last = json_array_get(m->rows, json_array_size(m->rows) - 1);
    const char *key;
    json_t *value;
    const char *separator = "";
    json_object_foreach(last, key, value)
    {
        LS_TRY(ls__atomic_file_write(file, separator, strlen(separator)));
        LS_TRY(ls__atomic_file_write(file, key, strlen(key)));
        separator = ",";
    }
    LS_TRY(ls__atomic_file_write(file, "\n", 1));
    for (size_t i = 0; i < json_array_size(m->rows); i++) {
        const json_t *row = json_array_get(m->rows, i);
        separator = "";
        json_object_foreach(last, key, value)
        {
            const json_t *cell = json_object_get(row, key);
            LS_TRY(ls__atomic_file_write(file, separator, strlen(separator)));
            if (cell && !json_is_null(cell)) LS_TRY(ls__json_put(m->ctx, m->csv, file, cell, 0));
            separator = ",";
        }
        LS_TRY(ls__atomic_file_write(file, "\n", 1));
    }
    return LS_OK;
}

static ls_status write_file(ls__metrics *m, const char *path,
                            ls_status (*write)(ls__metrics *m, ls__atomic_file *file))
{
    ls__atomic_file *file;
    LS_TRY(ls__atomic_file_open(m->ctx, path, &file));
    const ls_status status = write(m, file);
    if (status == LS_OK) return ls__atomic_file_commit(&file);
    ls__atomic_file_abandon(&file);
    return status;
}

ls_status ls__metrics_append(ls__metrics *m, json_t *row)
{
    if (!row || json_array_append_new(m->rows, row) != 0)
        return ls__fail_memory(m->ctx, m->jsonl, 0);
    LS_TRY(write_file(m, m->jsonl, write_jsonl));
    return write_file(m, m->csv, write_csv);
}
