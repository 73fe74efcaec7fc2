/* metrics.c: a run's numbers; see metrics.h. */
#include "run/metrics.h"

#include "base/alloc.h"
#include "base/bump.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/file.h"
#include "run/json.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { MAX_METRICS_BYTES = 256 << 20, UNKNOWN = -1 };

typedef enum kind { JSONL, CSV, N_KINDS } kind;

struct ls__metrics {
    ls_context *ctx;
    char *paths[N_KINDS];
    int64_t sizes[N_KINDS]; /* bytes that this process has written; UNKNOWN: not yet */
    json_t *rows;           /* array of objects */
};

/* ---- Rows as text ---- */

typedef struct text {
    ls__bump bump;
    char *bytes;
    size_t size, capacity;
} text;

static ls_status put(ls__metrics *m, text *t, const char *bytes, size_t size)
{
    char *room = ls__bump_room(&t->bump, t->bytes, t->size, size, &t->capacity, 1);
    if (!room) return ls__fail_memory(m->ctx, m->paths[JSONL], size);
    t->bytes = room;
    memcpy(t->bytes + t->size, bytes, size);
    t->size += size;
    return LS_OK;
}

static ls_status put_json(ls__metrics *m, text *t, const json_t *json)
{
    char *bytes;
    size_t size;
    LS_TRY(ls__json_format(m->ctx, m->paths[JSONL], json, 0, &bytes, &size));
    const ls_status status = put(m, t, bytes, size);
    ls__free(m->ctx, bytes);
    return status;
}

/* The columns' names, or with a row its cells. */
static ls_status put_csv_line(ls__metrics *m, text *t, json_t *columns, const json_t *row)
{
    const char *key, *separator = "";
    json_t *value;
    json_object_foreach(columns, key, value)
    {
        const json_t *cell = json_object_get(row, key);
        LS_TRY(put(m, t, separator, strlen(separator)));
        if (!row) LS_TRY(put(m, t, key, strlen(key)));
        if (cell && !json_is_null(cell)) LS_TRY(put_json(m, t, cell));
        separator = ",";
    }
    return put(m, t, "\n", 1);
}

static json_t *last_row(const ls__metrics *m)
{
    return json_array_get(m->rows, json_array_size(m->rows) - 1);
}

/* The CSV file's columns are the last row's keys. */
static ls_status put_row(ls__metrics *m, kind k, text *t, const json_t *row)
{
    if (k == CSV) return put_csv_line(m, t, last_row(m), row);
    LS_TRY(put_json(m, t, row));
    return put(m, t, "\n", 1);
}

static ls_status put_all(ls__metrics *m, kind k, text *t)
{
    const size_t n = json_array_size(m->rows);
    if (k == CSV && n > 0) LS_TRY(put_csv_line(m, t, last_row(m), NULL));
    for (size_t i = 0; i < n; i++) LS_TRY(put_row(m, k, t, json_array_get(m->rows, i)));
    return LS_OK;
}

/* ---- Writing ---- */

static ls_status write_whole(ls__metrics *m, kind k)
{
    text t = { .bump.ctx = m->ctx };
    ls__atomic_file *file = NULL;
    m->sizes[k] = UNKNOWN;
    ls_status status = put_all(m, k, &t);
    if (status == LS_OK) status = ls__atomic_file_replace(m->ctx, m->paths[k], &file);
    if (status == LS_OK) status = ls__atomic_file_write(file, t.bytes, t.size);
    if (status == LS_OK)
        status = ls__atomic_file_commit(&file);
    else
        ls__atomic_file_abandon(&file);
    if (status == LS_OK) m->sizes[k] = (int64_t)t.size;
    ls__bump_close(&t.bump);
    return status;
}

/* Adds the text and flushes it. What could not be written whole is cut off again. */
static ls_status write_end(ls__metrics *m, kind k, int fd, const text *t)
{
    const off_t begin = (off_t)m->sizes[k];
    int error = 0;
    for (size_t done = 0; done < t->size && error == 0;) {
        const ssize_t n = pwrite(fd, t->bytes + done, t->size - done, begin + (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n == 0 ? EIO : errno;
    }
    if (error == 0 && fsync(fd) != 0) error = errno;
    if (error == 0) {
        m->sizes[k] += (int64_t)t->size;
        return LS_OK;
    }
    m->sizes[k] = UNKNOWN;
    const ls_status status = ls__fail_errno(m->ctx, error, "writing '%s'", m->paths[k]);
    if (ftruncate(fd, begin) != 0) return status; /* a resumed run cuts it */
    return status;
}

/* The last row. A file that is not what this process wrote, or has gone, is written anew. */
static ls_status write_row(ls__metrics *m, kind k)
{
    int fd;
    int64_t size;
    char reason[LS__ERRNO_TEXT_SIZE];
    if (m->sizes[k] == UNKNOWN ||
        ls__open_regular(m->paths[k], O_WRONLY, &fd, &size, reason) != LS_OK)
        return write_whole(m, k);
    text t = { .bump.ctx = m->ctx };
    ls_status status = LS_OK;
    if (size != m->sizes[k]) {
        status = write_whole(m, k);
    } else {
        status = put_row(m, k, &t, last_row(m));
        if (status == LS_OK) status = write_end(m, k, fd, &t);
    }
    ls__bump_close(&t.bump);
    close(fd);
    return status;
}

static bool same_columns(json_t *a, json_t *b)
{
    void *i = json_object_iter(a), *j = json_object_iter(b);
    while (i && j && strcmp(json_object_iter_key(i), json_object_iter_key(j)) == 0) {
        i = json_object_iter_next(a, i);
        j = json_object_iter_next(b, j);
    }
    return !i && !j;
}

/* The JSON lines first, by which the next process sees that the CSV file may be torn. */
ls_status ls__metrics_append(ls__metrics *m, json_t *row)
{
    if (!row || !same_columns(row, last_row(m))) m->sizes[CSV] = UNKNOWN;
    if (!row || json_array_append_new(m->rows, row) != 0)
        return ls__fail_memory(m->ctx, m->paths[JSONL], 0);
    LS_TRY(write_row(m, JSONL));
    return write_row(m, CSV);
}

/* ---- Opening ---- */

/* Rows are those of epochs 1, 2, 3, ... */
static ls_status keep_row(ls__metrics *m, json_t *row, int line)
{
    const int64_t epoch = json_integer_value(json_object_get(row, "epoch"));
    if (epoch != (int64_t)json_array_size(m->rows) + 1) {
        json_decref(row);
        return ls__fail(m->ctx, LS_ERR_FORMAT, "%s: line %d is not that of epoch %zu",
                        m->paths[JSONL], line, json_array_size(m->rows) + 1);
    }
    return json_array_append_new(m->rows, row) == 0 ? LS_OK
                                                    : ls__fail_memory(m->ctx, m->paths[JSONL], 0);
}

/* is_longer: something follows the rows that are kept. It may be anything: what a run that was
 * killed had begun to write. */
static ls_status parse_rows(ls__metrics *m, const char *at, const char *end, int64_t last_epoch,
                            bool *is_longer)
{
    LS__IN_C_LOCALE;
    for (int line = 1; at < end && (int64_t)json_array_size(m->rows) < last_epoch; line++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((newline ? newline : end) - at);
        json_error_t error;
        json_t *row = json_loadb(at, length, 0, &error);
        if (!row)
            return ls__fail(m->ctx, LS_ERR_FORMAT, "%s: line %d: not JSON: %s", m->paths[JSONL],
                            line, error.text);
        LS_TRY(keep_row(m, row, line));
        at += length + 1;
    }
    *is_longer = at != end;
    if ((int64_t)json_array_size(m->rows) == last_epoch) return LS_OK;
    return ls__fail(m->ctx, LS_ERR_DATA, "%s: has %zu rows of the %" PRId64 " epochs that are done",
                    m->paths[JSONL], json_array_size(m->rows), last_epoch);
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
    LS_TRY(write_whole(m, CSV)); /* last, the file that shows whether it was done */
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
    const bool good = m->paths[JSONL] && m->paths[CSV] && m->rows;
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

json_t *ls__metrics_read_row(ls_context *ctx, const char *dir, int64_t epoch)
{
    unsigned char *bytes;
    size_t size;
    char message[512];
    char *path = ls__format(ctx, "%s/metrics.jsonl", dir);
    const ls_status status =
        path ? ls__read_file(ctx, path, MAX_METRICS_BYTES, &bytes, &size, message, sizeof(message))
             : LS_ERR_MEMORY;
    ls__free(ctx, path);
    if (status != LS_OK) return NULL;
    const char *line = (const char *)bytes;
    for (int64_t row = 1; line && row < epoch; row++) {
        line = strchr(line, '\n');
        if (line) line++;
    }
    LS__IN_C_LOCALE;
    json_t *json = line ? json_loads(line, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    ls__free(ctx, bytes);
    return json;
}
