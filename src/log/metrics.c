/* metrics.c: a run's metrics; see metrics.h. */
#include "log/metrics.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
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

static void put(ls__bytes *t, const char *text)
{
    ls__bytes_put(t, text, strlen(text));
}

static void put_json(ls__bytes *t, const json_t *json)
{
    char *bytes;
    size_t size;
    if (!ls__json_dump(t->ctx, json, ls__json_exact(json), &bytes, &size)) {
        t->failed = true;
        return;
    }
    ls__bytes_put(t, bytes, size);
    ls__free(t->ctx, bytes);
}

/* Names of a net's own metrics may hold any characters; see RFC 4180. */
static void put_csv_name(ls__bytes *t, const char *name)
{
    if (!strpbrk(name, ",\"\r\n")) {
        put(t, name);
        return;
    }
    put(t, "\"");
    for (; *name; name++) ls__bytes_put(t, *name == '"' ? "\"\"" : name, *name == '"' ? 2 : 1);
    put(t, "\"");
}

/* The columns' names, or with a row its cells. The columns are the last row's keys. */
static void put_csv_line(const ls__metrics *m, ls__bytes *t, const json_t *row)
{
    const char *key, *separator = "";
    json_t *value;
    json_object_foreach((json_t *)last_row(m), key, value)
    {
        const json_t *cell = json_object_get(row, key);
        put(t, separator);
        if (!row) put_csv_name(t, key);
        if (cell && !json_is_null(cell)) put_json(t, cell);
        separator = ",";
    }
    put(t, "\n");
}

/* Value by value, because the digits of one must not depend on the others. */
static void put_json_line(ls__bytes *t, const json_t *row)
{
    const char *key, *separator = "{";
    json_t *value;
    json_object_foreach((json_t *)row, key, value)
    {
        put(t, separator);
        json_t *name = json_string(key);
        put_json(t, name);
        json_decref(name);
        put(t, ": ");
        put_json(t, value);
        separator = ", ";
    }
    put(t, "}\n");
}

static void put_row(const ls__metrics *m, kind k, ls__bytes *t, const json_t *row)
{
    if (k == CSV)
        put_csv_line(m, t, row);
    else
        put_json_line(t, row);
}

/* ---- Writing ---- */

static ls_status write_whole(ls__metrics *m, kind k)
{
    ls__bytes t = { .ctx = m->ctx };
    size_t i;
    const json_t *row;
    m->sizes[k] = UNKNOWN;
    if (k == CSV && last_row(m)) put_csv_line(m, &t, NULL);
    json_array_foreach(m->rows, i, row) put_row(m, k, &t, row);
    const ls_status status = t.failed ? ls__fail_memory(m->ctx, m->paths[JSONL], t.size)
                                      : ls__file_replace(m->ctx, m->paths[k], t.data, t.size);
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
        put_row(m, k, &t, last_row(m));
        status =
            t.failed ? ls__fail_memory(m->ctx, m->paths[JSONL], t.size) : write_end(m, k, fd, &t);
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
    const bool ok = m->rows && m->paths[JSONL] && m->paths[CSV];
    const ls_status status = ok ? load_rows(m, last_epoch) : ls__fail_memory(ctx, dir, strlen(dir));
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
static ls_status read_rows(ls_context *ctx, const char *dir, int64_t max_rows, json_t **out)
{
    char message[512];
    unsigned char *bytes = NULL;
    size_t size;
    *out = NULL;
    char *path = ls__format(ctx, "%s/metrics.jsonl", dir);
    if (!path) return ls__fail_memory(ctx, dir, 0);
    ls_status status =
        ls__read_own_file(ctx, path, MAX_METRICS_BYTES, &bytes, &size, message, sizeof(message));
    ls__free(ctx, path);
    if (status != LS_OK && status != LS_ERR_NOT_FOUND) return ls__fail(ctx, status, "%s", message);
    LS__IN_C_LOCALE;
    json_t *rows = json_array();
    const char *line = bytes ? (const char *)bytes : "", *end;
    status = rows ? LS_OK : ls__fail_memory(ctx, dir, 0);
    for (int64_t epoch = 1; status == LS_OK && epoch <= max_rows && (end = strchr(line, '\n'));
         epoch++, line = end + 1) {
        json_t *row = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (ls__json_get_integer(row, "epoch") != epoch || json_array_append(rows, row) != 0)
            status = ls__fail(ctx, LS_ERR_DATA, "%s/metrics.jsonl: line %" PRId64 " is damaged",
                              dir, epoch);
        json_decref(row);
    }
    ls__free(ctx, bytes);
    if (status == LS_OK)
        *out = rows;
    else
        json_decref(rows);
    return status;
}

ls_status ls__metrics_read(ls_context *ctx, const char *dir, json_t **rows)
{
    return read_rows(ctx, dir, INT64_MAX, rows);
}

ls_status ls__metrics_read_row(ls_context *ctx, const char *dir, int64_t epoch, json_t **row)
{
    json_t *rows;
    const ls_status status = read_rows(ctx, dir, epoch, &rows);
    *row = json_incref(json_array_get(rows, (size_t)(epoch - 1)));
    json_decref(rows);
    return status;
}

/* False if no row has the number. */
static bool read_column(const json_t *rows, const char *key, int64_t n, double *column)
{
    const size_t n_rows = json_array_size(rows);
    bool is_there = false;
    for (size_t i = 0; i < n_rows; i++) {
        const json_t *cell = json_object_get(json_array_get(rows, i), key);
        is_there = is_there || json_is_number(cell);
        column[i] = json_is_number(cell) ? json_number_value(cell) : NAN;
    }
    for (size_t i = 0; (size_t)n < n_rows && i < (size_t)n; i++)
        column[i] = column[i * (n_rows - 1) / (size_t)(n - 1)];
    return is_there;
}

bool ls__metrics_curve(const json_t *rows, const char *key, int64_t max, double *columns,
                       int64_t *n)
{
    const int64_t n_rows = (int64_t)json_array_size(rows);
    *n = n_rows < max ? n_rows : max;
    const bool has_epochs = read_column(rows, "epoch", *n, columns);
    return read_column(rows, key, *n, columns + n_rows) && has_epochs;
}
