/* plan.c: kernel choices in files; see lockstep/plan.h. */
#include "run/plan.h"

#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "run/json.h"
#include <lockstep/plan.h>

#include <stdio.h>
#include <string.h>

static const char FORMAT[] = "lockstep plan 1";
/* LS__MAX_CHOICES of the longest lines fit. */
enum { MAX_FILE_BYTES = 8 << 20 };

/* ---- What a plan must agree on ---- */

typedef struct field {
    const char *key, *value;
} field;
enum { N_FIELDS = 5 };

static void make_fields(const ls_context *ctx, field out[N_FIELDS])
{
    const ls__backend *backend = ctx->device->backend;
    out[0] = (field){ "format", FORMAT };
    out[1] = (field){ "lockstep", ls_version() };
    out[2] = (field){ "device", backend->name };
    out[3] = (field){ "libraries", backend->libraries(ctx->device) };
    out[4] = (field){ "processor", backend->processor(ctx->device) };
}

/* ---- Writing ---- */

static bool put_text(json_t *object, const char *key, const char *value)
{
    return json_object_set_new(object, key, json_string(value)) == 0;
}

static json_t *list(const ls__choices *choices, bool derived)
{
    json_t *out = json_object();
    bool good = out != NULL;
    for (int i = 0; i < choices->n && good; i++)
        if (choices->items[i]->derived == derived)
            good = put_text(out, choices->items[i]->op, choices->items[i]->kernel);
    if (good) return out;
    json_decref(out);
    return NULL;
}

json_t *ls__plan_json(const ls_context *ctx, const ls__choices *choices, bool whole)
{
    field fields[N_FIELDS];
    make_fields(ctx, fields);
    json_t *out = json_object();
    bool good = out != NULL;
    for (int i = 0; i < N_FIELDS && good; i++) good = put_text(out, fields[i].key, fields[i].value);
    good = good && json_object_set_new(out, "choices", list(choices, false)) == 0;
    if (whole) good = good && json_object_set_new(out, "heuristic", list(choices, true)) == 0;
    if (good) return out;
    json_decref(out);
    return NULL;
}

ls_status ls_plan_save(ls_context *ctx, const char *path)
{
    LS__ENTER(ctx);
    if (!path || !*path)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_plan_save: path is %s", path ? "empty" : "NULL");
    json_t *json = ls__plan_json(ctx, ctx->choices, false);
    const ls_status status = ls__json_save(ctx, path, json);
    json_decref(json);
    return status;
}

int64_t ls_plan_timed(const ls_context *ctx)
{
    return ctx && ctx->choices ? ctx->choices->n_timed : 0;
}

/* ---- Reading ---- */

typedef struct reading {
    ls_context *ctx;
    const char *path;
} reading;

static ls_status check_fields(const reading *r, const json_t *json)
{
    field fields[N_FIELDS];
    make_fields(r->ctx, fields);
    for (int i = 0; i < N_FIELDS; i++) {
        const char *there = json_string_value(json_object_get(json, fields[i].key));
        if (!there || (i == 0 && strcmp(there, FORMAT) != 0))
            return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s': %s is %.100s, wanted \"%s\"", r->path,
                            fields[i].key, there ? there : "missing", i == 0 ? FORMAT : "a text");
        if (strcmp(there, fields[i].value) != 0)
            return ls__fail(r->ctx, LS_ERR_MISMATCH,
                            "'%s' holds kernel choices for another machine or version: %s is "
                            "'%.200s' there, '%.200s' here",
                            r->path, fields[i].key, there, fields[i].value);
    }
    return LS_OK;
}

/* Is it what ls__op_text makes? At least it begins with a kind of op. */
static bool is_op(const char *text)
{
    const size_t length = strcspn(text, " ");
    for (int kind = 0; kind < LS__N_OPS && strlen(text) < LS__OP_TEXT_SIZE; kind++) {
        const char *name = ls__op_name((ls__op_kind)kind);
        if (strlen(name) == length && strncmp(text, name, length) == 0) return true;
    }
    return false;
}

static ls_status check_list(const reading *r, const char *key, json_t *all)
{
    if (!json_is_object(all))
        return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s': %s is no object of ops and kernels", r->path,
                        key);
    const char *op;
    json_t *kernel;
    json_object_foreach(all, op, kernel)
    {
        const char *name = json_string_value(kernel);
        if (!is_op(op) || !name || !*name || strlen(name) >= LS__KERNEL_NAME_SIZE)
            return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s': %s: '%.300s' has %s%.100s", r->path, key,
                            op, is_op(op) ? "an unusable kernel: " : "no op that there is",
                            is_op(op) ? (name ? name : "not a text") : "");
    }
    return LS_OK;
}

static ls_status take(const reading *r, json_t *all, bool derived, bool checkpoint)
{
    const char *op;
    json_t *kernel;
    json_object_foreach(all, op, kernel)
    {
        ls__choice choice = { .op = op, .derived = derived, .inherited = checkpoint };
        snprintf(choice.kernel, sizeof choice.kernel, "%s", json_string_value(kernel));
        snprintf(choice.reason, sizeof choice.reason, "%s", checkpoint ? "checkpoint" : "plan");
        LS_TRY(ls__choices_put(r->ctx, r->ctx->choices, &choice));
    }
    ls__choices_keep_recent(r->ctx->choices, LS__MAX_CHOICES);
    return LS_OK;
}

static ls_status read_json(const reading *r, const json_t *json, bool checkpoint)
{
    json_t *settled = json_object_get(json, "choices");
    json_t *heuristic = json_object_get(json, "heuristic");
    if (!json_is_object(json))
        return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s' holds no plan: not a JSON object", r->path);
    LS_TRY(check_fields(r, json));
    LS_TRY(check_list(r, "choices", settled));
    if (checkpoint) LS_TRY(check_list(r, "heuristic", heuristic));
    const size_t n = json_object_size(settled);
    if (n > LS__MAX_CHOICES)
        return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s' has %zu choices; at most %d are kept", r->path,
                        n, LS__MAX_CHOICES);
    if (checkpoint) LS_TRY(take(r, heuristic, true, true));
    return take(r, settled, false, checkpoint);
}

ls_status ls__plan_read(ls_context *ctx, const char *path, const char *text, bool checkpoint)
{
    const reading r = { ctx, path };
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json && json_error_code(&error) == json_error_out_of_memory)
        return ls__fail_memory(ctx, path, strlen(text));
    if (!json)
        return ls__fail(ctx, LS_ERR_FORMAT, "'%s' holds no plan: line %d: %s", path, error.line,
                        error.text);
    const ls_status status = read_json(&r, json, checkpoint);
    json_decref(json);
    return status;
}

ls_status ls_plan_load(ls_context *ctx, const char *path)
{
    LS__ENTER(ctx);
    if (!path || !*path)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_plan_load: path is %s", path ? "empty" : "NULL");
    unsigned char *bytes;
    size_t size;
    char message[LS__MESSAGE_SIZE];
    ls_status status =
        ls__read_file(ctx, path, MAX_FILE_BYTES, &bytes, &size, message, sizeof message);
    if (status != LS_OK) return ls__fail(ctx, status, "ls_plan_load: %s", message);
    status = strlen((const char *)bytes) == size
                 ? ls__plan_read(ctx, path, (const char *)bytes, false)
                 : ls__fail(ctx, LS_ERR_FORMAT, "'%s' holds no plan: a zero byte in it", path);
    ls__free(ctx, bytes);
    return status;
}
