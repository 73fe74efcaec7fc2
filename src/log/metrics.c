/* metrics.c: a run's metrics; see metrics.h. */
#include "log/metrics.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/write.h"
#include "io/bytes.h"
#include "io/json.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_METRICS_BYTES = 256 << 20, UNKNOWN = -1 };

typedef enum kind { JSONL, CSV, N_KINDS } kind;

struct ls__metrics {
    ls_context *ctx;
    char *paths[N_KINDS];
    int64_t sizes[N_KINDS]; /* bytes that this process has written; UNKNOWN = none yet */
    json_t *rows;           /* of epochs 1, 2, 3, ... */
};

static const json_t *last_row(const ls__metrics *m)
{
    return json_array_get(m->rows, json_array_size(m->rows) - 1);
}

/* ---- Rows as text ---- */

static ls_status put(ls__metrics *m, ls__bytes *t, const char *bytes, size_t size)
{
    ls__bytes_put(t, bytes, size);
    return t->failed ? ls__fail_memory(m->ctx, m->paths[JSONL], size) : LS_OK;
}

static ls_status put_json(ls__metrics *m, ls__bytes *t, const json_t *json)
{
    char *bytes;
    size_t size;
    if (!ls__json_dump(m->ctx, json, ls__json_exact(json), &bytes, &size))
        return ls__fail_memory(m->ctx, m->paths[JSONL], size);
    const ls_status status = put(m, t, bytes, size);
    ls__free(m->ctx, bytes);
    return status;
}

/* Names of a net's own metrics may hold any characters; see RFC 4180. */
static ls_status put_csv_name(ls__metrics *m, ls__bytes *t, const char *name)
{
    if (!strpbrk(name, ",\"\r\n")) return put(m, t, name, strlen(name));
    LS_TRY(put(m, t, "\"", 1));
    for (; *name; name++) LS_TRY(put(m, t, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1));
    return put(m, t, "\"", 1);
}

/* The columns' names, or with a row its cells. The columns are the last row's keys. */
static ls_status put_csv_line(ls__metrics *m, ls__bytes *t, const json_t *row)
{
    const char *key, *separator = "";
    json_t *value;
    json_object_foreach((json_t *)last_row(m), key, value)
    {
        const json_t *cell = json_object_get(row, key);
        LS_TRY(put(m, t, separator, strlen(separator)));
        if (!row) LS_TRY(put_csv_name(m, t, key));
        if (cell && !json_is_null(cell)) LS_TRY(put_json(m, t, cell));
        separator = ",";
    }
    return put(m, t, "\n", 1);
}

static ls_status put_row(ls__metrics *m, kind k, ls__bytes *t, const json_t *row)
{
    const char *key, *separator = "{";
    json_t *value;
    if (k == CSV) return put_csv_line(m, t, row);
    /* Value by value, because the digits of one must not depend on the others. */
    json_object_foreach((json_t *)row, key, value)
    {
        LS_TRY(put(m, t, separator, strlen(separator)));
        json_t *name = json_string(key);
        const ls_status status = put_json(m, t, name);
        json_decref(name);
        LS_TRY(status);
        LS_TRY(put(m, t, ": ", 2));
        LS_TRY(put_json(m, t, value));
        separator = ", ";
    }
    return put(m, t, "}\n", 2);
}

static ls_status put_all(ls__metrics *m, kind k, ls__bytes *t)
{
    size_t i;
    const json_t *row;
    if (k == CSV && last_row(m)) LS_TRY(put_csv_line(m, t, NULL));
    json_array_foreach(m->rows, i, row) LS_TRY(put_row(m, k, t, row));
    return LS_OK;
}

/* ---- Writing ---- */

static ls_status write_whole(ls__metrics *m, kind k)
{
    ls__bytes t = { .ctx = m->ctx };
    m->sizes[k] = UNKNOWN;
    ls_status status = put_all(m, k, &t);
    if (status == LS_OK) status = ls__file_replace(m->ctx, m->paths[k], t.data, t.size);
    if (status == LS_OK) m->sizes[k] = (int64_t)t.size;
    ls__bytes_free(&t);
    return status;
}

/* Appends the text and flushes it. Removes an incomplete write. */
static ls_status write_end(ls__metrics *m, kind k, int fd, const ls__bytes *t)
{
    const off_t begin = (off_t)m->sizes[k];
    int error = ls__write(fd, t->data, t->size, begin);
    if (error == 0 && fsync(fd) != 0) error = errno;
    if (error == 0) {
        m->sizes[k] += (int64_t)t->size;
        return LS_OK;
    }
    m->sizes[k] = UNKNOWN;
    const ls_status status = ls__fail_errno(m->ctx, error, "writing '%s'", m->paths[k]);
    if (ftruncate(fd, begin) != 0) return status; /* a resumed run truncates it */
    return status;
}

/* Appends the last row. Rewrites a file that is missing or that was changed by others. */
static ls_status write_row(ls__metrics *m, kind k)
{
    int fd;
    int64_t size;
    char reason[LS__ERRNO_TEXT_SIZE];
    if (m->sizes[k] == UNKNOWN ||
        ls__open_regular(m->paths[k], O_WRONLY, &fd, &size, reason) != LS_OK)
        return write_whole(m, k);
    ls__bytes t = { .ctx = m->ctx };
    ls_status status = LS_OK;
    if (size != m->sizes[k]) {
        status = write_whole(m, k);
    } else {
        status = put_row(m, k, &t, last_row(m));
        if (status == LS_OK) status = write_end(m, k, fd, &t);
    }
    ls__bytes_free(&t);
    close(fd);
    return status;
}

static bool same_columns(const json_t *a, const json_t *b)
{
    void *i = json_object_iter((json_t *)a), *j = json_object_iter((json_t *)b);
    while (i && j && strcmp(json_object_iter_key(i), json_object_iter_key(j)) == 0) {
        i = json_object_iter_next((json_t *)a, i);
        j = json_object_iter_next((json_t *)b, j);
    }
    return !i && !j;
}

/* The JSON lines are written first: they show the next process that the CSV file may be incomplete.
 */
ls_status ls__metrics_append(ls__metrics *m, json_t *row)
{
    if (!row || !same_columns(row, last_row(m))) m->sizes[CSV] = UNKNOWN;
    if (json_array_append_new(m->rows, row) != 0)
        return ls__fail_memory(m->ctx, m->paths[JSONL], 0);
    LS_TRY(write_row(m, JSONL));
    return write_row(m, CSV);
}

/* ---- Opening ---- */

/* is_longer: other bytes follow the rows that are kept, for example an incomplete line. */
static ls_status parse_rows(ls__metrics *m, const char *at, const char *end, int64_t last_epoch,
                            bool *is_longer)
{
    LS__IN_C_LOCALE;
    int64_t n = 0;
    for (; at < end && n < last_epoch; n++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        json_error_t error;
        json_t *row = json_loadb(at, length, 0, &error);
        if (!row)
            return ls__fail(m->ctx, LS_ERR_FORMAT, "%s: line %" PRId64 ": not JSON: %s",
                            m->paths[JSONL], n + 1, error.text);
        const bool is_next = ls__json_get_integer(row, "epoch") == n + 1;
        if (json_array_append_new(m->rows, row) != 0)
            return ls__fail_memory(m->ctx, m->paths[JSONL], 0);
        if (!is_next)
            return ls__fail(m->ctx, LS_ERR_FORMAT,
                            "%s: line %" PRId64 " is not that of epoch %" PRId64, m->paths[JSONL],
                            n + 1, n + 1);
        at += length + 1;
    }
    *is_longer = at != end;
    if (n == last_epoch) return LS_OK;
    return ls__fail(m->ctx, LS_ERR_DATA,
                    "%s: has %" PRId64 " rows of the %" PRId64 " epochs that are done",
                    m->paths[JSONL], n, last_epoch);
}

static ls_status load_rows(ls__metrics *m, int64_t last_epoch)
{
    unsigned char *bytes;
    size_t size;
    char message[512];
    bool is_longer = false;
    ls_status status = ls__read_file(m->ctx, m->paths[JSONL], MAX_METRICS_BYTES, &bytes, &size,
                                     message, sizeof(message));
    if (status == LS_ERR_NOT_FOUND && last_epoch == 0) return LS_OK;
    if (status != LS_OK) return ls__fail(m->ctx, status, "%s", message);
    const char *begin = (const char *)bytes;
    status = parse_rows(m, begin, begin + size, last_epoch, &is_longer);
    ls__free(m->ctx, bytes);
    if (status != LS_OK || !is_longer) return status;
    LS_TRY(write_whole(m, CSV)); /* CSV last; see ls__metrics_append */
    return write_whole(m, JSONL);
}

ls_status ls__metrics_open(ls_context *ctx, const char *dir, int64_t last_epoch, ls__metrics **out)
{
    *out = NULL;
    ls__metrics *m = ls__zalloc(ctx, sizeof(*m));
    if (!m) return ls__fail_memory(ctx, dir, sizeof(*m));
    *m = (ls__metrics){ .ctx = ctx, .sizes = { UNKNOWN, UNKNOWN }, .rows = json_array() };
    m->paths[JSONL] = ls__format(ctx, "%s/metrics.jsonl", dir);
    m->paths[CSV] = ls__format(ctx, "%s/metrics.csv", dir);
    const bool good = m->rows && m->paths[JSONL] && m->paths[CSV];
    const ls_status status =
        good ? load_rows(m, last_epoch) : ls__fail_memory(ctx, dir, strlen(dir));
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
    for (int k = 0; k < N_KINDS; k++) ls__free(m->ctx, m->paths[k]);
    ls__free(m->ctx, m);
}

/* Reads at most max_rows rows, up to an incomplete last line, which a run may be writing. */
static ls_status read_rows(const ls_context *ctx, const char *dir, int64_t max_rows, json_t **out,
                           char message[512])
{
    unsigned char *bytes = NULL;
    size_t size;
    *out = NULL;
    snprintf(message, 512, "%s: out of memory", dir);
    char *path = ls__format(ctx, "%s/metrics.jsonl", dir);
    ls_status status =
        path ? ls__read_own_file(ctx, path, MAX_METRICS_BYTES, &bytes, &size, message, 512)
             : LS_ERR_MEMORY;
    ls__free(ctx, path);
    if (status != LS_OK && status != LS_ERR_NOT_FOUND) return status;
    LS__IN_C_LOCALE;
    *out = json_array();
    const char *line = bytes ? (const char *)bytes : "", *end;
    status = *out ? LS_OK : LS_ERR_MEMORY;
    for (int64_t epoch = 1; status == LS_OK && epoch <= max_rows && (end = strchr(line, '\n'));
         epoch++, line = end + 1) {
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        const bool is_next = ls__json_get_integer(row, "epoch") == epoch;
        if (is_next && json_array_append(*out, row) == 0) {
            json_decref(row);
            continue;
        }
        json_decref(row);
        status = LS_ERR_DATA;
        snprintf(message, 512, "%.*s/metrics.jsonl: line %" PRId64 " is damaged", LS__CUT(dir, 400),
                 epoch);
    }
    ls__free(ctx, bytes);
    if (status != LS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    return status;
}

ls_status ls__metrics_read(ls_context *ctx, const char *dir, json_t **rows)
{
    char message[512];
    const ls_status status = read_rows(ctx, dir, INT64_MAX, rows, message);
    return status == LS_OK ? LS_OK : ls__fail(ctx, status, "%s", message);
}

bool ls__metrics_column(const json_t *rows, const char *key, double *column)
{
    bool is_there = false;
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const json_t *cell = json_object_get(row, key);
        column[i] = json_is_number(cell) ? json_number_value(cell) : NAN;
        is_there = is_there || json_is_number(cell);
    }
    return is_there;
}

int64_t ls__metrics_thin(int64_t n, int64_t most, double *column)
{
    if (n <= most) return n;
    for (int64_t i = 0; i < most; i++) column[i] = column[i * (n - 1) / (most - 1)];
    return most;
}

ls_status ls__metrics_read_row(ls_context *ctx, const char *dir, int64_t epoch, json_t **row)
{
    char message[512];
    json_t *rows;
    *row = NULL;
    const ls_status status = read_rows(ctx, dir, epoch, &rows, message);
    if (status != LS_OK) return ls__fail(ctx, status, "%s", message);
    *row = json_incref(json_array_get(rows, (size_t)(epoch - 1)));
    json_decref(rows);
    return LS_OK;
}
