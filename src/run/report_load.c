/* report_load.c: reads the files of a run folder for its report; see report.h. */
#include "run/report.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "io/data_uri.h"
#include "run/json.h"
#include "run/metrics.h"

enum { MAX_FILE_BYTES = 256 << 20 };

/* A file of the run folder; NULL for a missing one. */
static ls_status read_bytes(ls_context *ctx, const char *dir, const char *name,
                            unsigned char **bytes, size_t *size)
{
    char message[512];
    *bytes = NULL;
    char *path = ls__format(ctx, "%s/%s", dir, name);
    if (!path) return ls__fail_memory(ctx, dir, 0);
    const ls_status status =
        ls__read_file(ctx, path, MAX_FILE_BYTES, bytes, size, message, sizeof message);
    ls__free(ctx, path);
    if (status == LS_ERR_NOT_FOUND) return LS_OK;
    return status == LS_OK ? LS_OK : ls__fail(ctx, status, "%s", message);
}

/* Not by ls__json_read: jansson calls read for each byte of a file, and an evaluation has many. */
static ls_status read_object(ls_context *ctx, const char *dir, const char *name, json_t **out)
{
    unsigned char *bytes;
    size_t size;
    json_error_t error;
    LS_TRY(read_bytes(ctx, dir, name, &bytes, &size));
    if (!bytes) return LS_OK;
    *out = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, &error);
    ls__free(ctx, bytes);
    if (json_is_object(*out)) return LS_OK;
    return ls__fail(ctx, LS_ERR_DATA, "%s/%s: line %d: %s", dir, name, *out ? 1 : error.line,
                    *out ? "not a JSON object" : error.text);
}

static ls_status read_first_batch(ls_context *ctx, const char *dir, char **out)
{
    unsigned char *bytes;
    size_t size;
    LS_TRY(read_bytes(ctx, dir, "first_batch.jpg", &bytes, &size));
    if (!bytes) return LS_OK;
    *out = ls__data_uri(ctx, "image/jpeg", bytes, size);
    ls__free(ctx, bytes);
    return *out ? LS_OK : ls__fail_memory(ctx, "first_batch.jpg", size);
}

/* Names of classes and paths may hold any bytes, which JSON stores escaped. */
static bool restore_texts(ls_context *ctx, json_t *list, const char *key)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        json_t *text = json_object_get(item, key);
        if (json_is_string(text) && !ls__json_restore(ctx, text)) return false;
    }
    return true;
}

ls_status ls__report_load(ls_context *ctx, const char *dir, ls__report_run *out)
{
    *out = (ls__report_run){ .dir = dir };
    LS_TRY(ls__metrics_read(ctx, dir, &out->metrics));
    if (json_array_size(out->metrics) == 0)
        return ls__fail(ctx, LS_ERR_DATA,
                        "%s/metrics.jsonl: no epoch is complete, or the file is missing", dir);
    LS_TRY(read_object(ctx, dir, "config.json", &out->config));
    LS_TRY(read_object(ctx, dir, "manifest.json", &out->manifest));
    LS_TRY(read_object(ctx, dir, "evaluation.json", &out->evaluation));
    LS_TRY(read_first_batch(ctx, dir, &out->first_batch));
    const bool restored =
        restore_texts(ctx, json_object_get(out->evaluation, "classes"), "class") &&
        restore_texts(ctx, json_object_get(out->evaluation, "mistakes"), "path");
    return restored ? LS_OK : ls__fail_memory(ctx, dir, 0);
}

void ls__report_free(const ls_context *ctx, ls__report_run *run)
{
    json_decref(run->metrics);
    json_decref(run->config);
    json_decref(run->manifest);
    json_decref(run->evaluation);
    ls__free(ctx, run->first_batch);
}
