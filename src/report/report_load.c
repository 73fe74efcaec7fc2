/* report_load.c: reads the files of a run folder for its report; see report.h. */
#include "report/report.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "io/data_uri.h"
#include "io/json.h"
#include "log/metrics.h"
#include <stdio.h>
#include <string.h>

enum { MAX_LOG_BYTES = 64 << 20, MAX_JPEG_BYTES = 4 << 20 };

#define JPEG_MAGIC "\xff\xd8\xff"

/* A file of the run folder; NULL for a missing one. */
static ls_status read_bytes(ls_context *ctx, const char *dir, const char *name, size_t max_bytes,
                            unsigned char **bytes, size_t *size)
{
    char message[512];
    *bytes = NULL;
    char *path = ls__format(ctx, "%s/%s", dir, name);
    if (!path) return ls__fail_memory(ctx, dir, 0);
    const ls_status status =
        ls__read_own_file(ctx, path, max_bytes, bytes, size, message, sizeof message);
    ls__free(ctx, path);
    if (status == LS_ERR_NOT_FOUND) return LS_OK;
    return status == LS_OK ? LS_OK : ls__fail(ctx, status, "%s", message);
}

/* A file of the run folder; NULL for a missing one. */
static ls_status read_object(ls_context *ctx, const char *dir, const char *name, json_t **out)
{
    char reason[LS__JSON_REASON_SIZE];
    char *path = ls__format(ctx, "%s/%s", dir, name);
    if (!path) return ls__fail_memory(ctx, dir, 0);
    ls_status status = ls__json_read_own(path, out, reason);
    if (status == LS_OK && !json_is_object(*out)) {
        snprintf(reason, sizeof(reason), "not a JSON object");
        json_decref(*out);
        *out = NULL;
        status = LS_ERR_FORMAT;
    }
    if (status == LS_ERR_NOT_FOUND) status = LS_OK;
    if (status != LS_OK) ls__fail(ctx, status, "%s: %s", path, reason);
    ls__free(ctx, path);
    return status;
}

/* Names of classes and paths may hold any bytes, which JSON stores escaped. They are the items of
 * the list, or with a key members of these. */
static ls_status restore_texts(ls_context *ctx, const char *dir, json_t *list, const char *key)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        json_t *text = key ? json_object_get(item, key) : item;
        if (json_is_string(text) && !ls__json_restore(ctx, text))
            return ls__fail_memory(ctx, dir, 0);
    }
    return LS_OK;
}

static ls_status read_first_batch(ls_context *ctx, const char *dir, char **out)
{
    unsigned char *bytes;
    size_t size;
    LS_TRY(read_bytes(ctx, dir, "first_batch.jpg", MAX_JPEG_BYTES, &bytes, &size));
    if (!bytes) return LS_OK;
    if (size < sizeof(JPEG_MAGIC) - 1 || memcmp(bytes, JPEG_MAGIC, sizeof(JPEG_MAGIC) - 1) != 0) {
        ls__free(ctx, bytes);
        return ls__fail(ctx, LS_ERR_DATA, "%s/first_batch.jpg: not a JPEG file", dir);
    }
    *out = ls__data_uri(ctx, "image/jpeg", bytes, size);
    ls__free(ctx, bytes);
    return *out ? LS_OK : ls__fail_memory(ctx, "first_batch.jpg", size);
}

static ls_status read_part(ls_context *ctx, ls__report_part part, ls__report_run *out)
{
    const char *dir = out->dir;
    size_t size;
    switch (part) {
    case LS__REPORT_METRICS:
        LS_TRY(ls__metrics_read(ctx, dir, &out->metrics));
        if (json_array_size(out->metrics) > 0) return LS_OK;
        return ls__fail(ctx, LS_ERR_DATA,
                        "%s/metrics.jsonl: no epoch is complete, or the file is missing", dir);
    case LS__REPORT_CONFIG:
        LS_TRY(read_object(ctx, dir, "config.json", &out->config));
        return restore_texts(
            ctx, dir, json_object_get(json_object_get(out->config, "data"), "classes"), NULL);
    case LS__REPORT_MANIFEST: return read_object(ctx, dir, "manifest.json", &out->manifest);
    case LS__REPORT_EVALUATION:
        LS_TRY(read_object(ctx, dir, "evaluation.json", &out->evaluation));
        LS_TRY(restore_texts(ctx, dir, json_object_get(out->evaluation, "classes"), "class"));
        return restore_texts(ctx, dir, json_object_get(out->evaluation, "mistakes"), "path");
    case LS__REPORT_FIRST_BATCH:
        LS_TRY(read_first_batch(ctx, dir, &out->first_batch));
        LS_TRY(read_object(ctx, dir, "first_batch.json", &out->first_samples));
        return restore_texts(ctx, dir, json_object_get(out->first_samples, "labels"), NULL);
    case LS__REPORT_LOG:
        return read_bytes(ctx, dir, "log.txt", MAX_LOG_BYTES, (unsigned char **)&out->log, &size);
    }
    return LS_OK;
}

ls_status ls__report_load(ls_context *ctx, const char *dir, ls__report_run *out)
{
    *out = (ls__report_run){ .dir = dir };
    for (int part = 0; part < LS__REPORT_PART_COUNT; part++) {
        const ls_status status = read_part(ctx, (ls__report_part)part, out);
        if (status == LS_ERR_MEMORY) return status;
        if (status == LS_OK) continue;
        out->problems[part] = ls__strdup(ctx, ls_context_message(ctx));
        if (!out->problems[part]) return status;
        ls_context_clear_error(ctx);
    }
    const bool is_damaged = out->problems[LS__REPORT_CONFIG] != NULL;
    if (json_array_size(out->metrics) == 0 && !out->config && !is_damaged)
        return ls__fail(ctx, LS_ERR_DATA, "%s: contains no run: config.json is missing, and %s",
                        dir, out->problems[LS__REPORT_METRICS]);
    for (int part = 0; part < LS__REPORT_PART_COUNT; part++)
        if (out->problems[part]) ls__warn(ctx, LS_LOG_RUN, "%s", out->problems[part]);
    return LS_OK;
}

void ls__report_put_problems(ls__html *html, int n, const ls__report_run *runs,
                             ls__report_part part)
{
    for (int i = 0; i < n; i++)
        if (runs[i].problems[part])
            ls__html_wrap(html, "<p>Left out: ", runs[i].problems[part], ".</p>\n");
}

void ls__report_free(const ls_context *ctx, ls__report_run *run)
{
    for (int part = 0; part < LS__REPORT_PART_COUNT; part++) ls__free(ctx, run->problems[part]);
    json_decref(run->metrics);
    json_decref(run->config);
    json_decref(run->manifest);
    json_decref(run->evaluation);
    json_decref(run->first_samples);
    ls__free(ctx, run->first_batch);
    ls__free(ctx, run->log);
}
