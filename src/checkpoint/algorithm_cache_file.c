/* algorithm_cache_file.c: see lockstep/algorithm_cache.h. */
#include "checkpoint/algorithm_cache_file.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "base/file.h"
#include "base/text.h"
#include "io/json.h"
#include <lockstep/algorithm_cache.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char FORMAT[] = "lockstep algorithm cache 1";
/* Enough for LS__MAX_SELECTIONS lines of the maximum length. */
enum { MAX_FILE_BYTES = 8 << 20 };

/* ---- Fields that must match ---- */

typedef struct field {
    const char *key, *value;
} field;
enum { LIBRARIES = 3, N_FIELDS = 5 };

/* For nets whose activations have that type. */
static void make_fields(const ls_context *ctx, ls_dtype activations, field out[N_FIELDS])
{
    const ls__backend *backend = ctx->device->backend;
    out[0] = (field){ "format", FORMAT };
    out[1] = (field){ "lockstep", ls_version() };
    out[2] = (field){ "device", backend->name };
    out[LIBRARIES] = (field){ "libraries", backend->libraries(ctx->device, activations) };
    out[4] = (field){ "processor", backend->processor(ctx->device, activations) };
}

/* ---- As JSON ---- */

/* Skips the ops of `without`, which may be NULL. */
static json_t *list(const ls__selections *selections, bool derived, const json_t *without)
{
    ls__json_builder out = { json_object(), false };
    for (int i = 0; i < selections->n; i++) {
        const ls__selection *selection = selections->items[i];
        if (selection->derived == derived && !json_object_get(without, selection->op))
            ls__json_put_text(&out, selection->op, selection->kernel);
    }
    return ls__json_finish(&out);
}

static json_t *cache_json(const ls_context *ctx, ls_dtype activations,
                          const ls__selections *selections)
{
    field fields[N_FIELDS];
    make_fields(ctx, activations, fields);
    ls__json_builder out = { json_object(), false };
    for (int i = 0; i < N_FIELDS; i++) ls__json_put_text(&out, fields[i].key, fields[i].value);
    ls__json_put(&out, "kernels", list(selections, false, NULL));
    return ls__json_finish(&out);
}

/* Whether a kernel that the file would hold is for an op in bf16. */
static bool have_bf16(const ls__selections *selections)
{
    for (int i = 0; i < selections->n; i++)
        if (!selections->items[i]->derived && strstr(selections->items[i]->op, "=BF16:"))
            return true;
    return false;
}

json_t *ls__algorithm_cache_json(const ls_context *ctx, const ls__selections *selections)
{
    return cache_json(ctx, have_bf16(selections) ? LS_BF16 : LS_F32, selections);
}

json_t *ls__algorithm_cache_of_net(const ls_context *ctx, const ls_net *net)
{
    const ls__selections *used = ls__net_selections(net);
    ls__json_builder out = { cache_json(ctx, ls__net_activations(net), used), false };
    const json_t *kernels = json_object_get(out.json, "kernels");
    ls__json_put(&out, "heuristic", list(used, true, NULL));
    ls__json_put(&out, "known", list(ls__net_known_selections(net), false, kernels));
    return ls__json_finish(&out);
}

/* ---- Reading ---- */

typedef struct reading {
    ls_context *ctx;
    ls__selections *table;
    const char *path;
} reading;

static ls_status check_fields(const reading *r, const json_t *json)
{
    field fields[N_FIELDS];
    make_fields(r->ctx, LS_F32, fields);
    const char *libraries = json_string_value(json_object_get(json, fields[LIBRARIES].key));
    if (!libraries || strcmp(libraries, fields[LIBRARIES].value) != 0)
        make_fields(r->ctx, LS_BF16, fields); /* whose kernels may come from more libraries */
    for (int i = 0; i < N_FIELDS; i++) {
        const char *there = json_string_value(json_object_get(json, fields[i].key));
        if (!there || (i == 0 && strcmp(there, FORMAT) != 0))
            return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s': %s is %.*s, expected \"%s\"", r->path,
                            fields[i].key, LS__CUT(there ? there : "missing", 100),
                            i == 0 ? FORMAT : "a text");
        if (strcmp(there, fields[i].value) != 0)
            return ls__fail(r->ctx, LS_ERR_MISMATCH,
                            "'%s' holds the kernels of another machine or version: %s is "
                            "'%.*s' there, '%.*s' here",
                            r->path, fields[i].key, LS__CUT(there, 200),
                            LS__CUT(fields[i].value, 200));
    }
    return LS_OK;
}

/* True if `text` begins with the name of an op, as ls__op_text writes it, or is the selection of
 * nn/compile/overlap.c. */
static bool is_op(const char *text)
{
    const size_t length = strcspn(text, " ");
    if (ls__is_weight_gradients(text)) return strlen(text) < LS__OP_TEXT_SIZE;
    for (int kind = 0; kind < LS__N_OPS && strlen(text) < LS__OP_TEXT_SIZE; kind++) {
        const char *name = ls__op_name((ls__op_kind)kind);
        if (strlen(name) == length && strncmp(text, name, length) == 0) return true;
    }
    return false;
}

static ls_status check_list(const reading *r, const char *key, json_t *all)
{
    if (!json_is_object(all))
        return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s': %s is not an object of ops and kernels",
                        r->path, key);
    const size_t n = json_object_size(all);
    if (n > LS__MAX_SELECTIONS)
        return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s': %s has %zu ops; at most %d are kept", r->path,
                        key, n, LS__MAX_SELECTIONS);
    const char *op;
    json_t *kernel;
    json_object_foreach(all, op, kernel)
    {
        const char *name = json_string_value(kernel);
        if (!is_op(op) || !name || !*name || strlen(name) >= LS__KERNEL_NAME_SIZE)
            return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s': %s: '%.*s' has %s%.*s", r->path, key,
                            LS__CUT(op, 300), is_op(op) ? "an unusable kernel: " : "no known op",
                            LS__CUT(is_op(op) ? (name ? name : "not a text") : "", 100));
        if (ls__is_weight_gradients(op) && strcmp(name, LS__SIDE) != 0 &&
            strcmp(name, LS__MAIN) != 0)
            return ls__fail(r->ctx, LS_ERR_FORMAT,
                            "'%s': %s: '%.*s' is '%.*s', expected '" LS__SIDE "' or '" LS__MAIN "'",
                            r->path, key, LS__CUT(op, 300), LS__CUT(name, 100));
    }
    return LS_OK;
}

static ls_status take(const reading *r, json_t *all, const ls__selection *as)
{
    const char *op;
    json_t *kernel;
    json_object_foreach(all, op, kernel)
    {
        ls__selection selection = *as;
        selection.op = op;
        snprintf(selection.kernel, sizeof selection.kernel, "%s", json_string_value(kernel));
        LS_TRY(ls__selections_put(r->ctx, r->table, &selection));
    }
    ls__selections_keep_recent(r->table, LS__MAX_SELECTIONS);
    return LS_OK;
}

static ls_status read_json(const reading *r, const json_t *json, bool checkpoint)
{
    /* A full table drops its first items: those of the heuristic, which can be computed again. */
    static const struct {
        const char *key;
        ls__selection as;
    } lists[] = {
        { "heuristic", { .reason = "checkpoint", .derived = true, .inherited = true } },
        { "known", { .reason = "checkpoint" } },
        { "kernels", { .reason = "checkpoint", .inherited = true } },
        { "kernels", { .reason = "algorithm cache" } },
    };
    enum { N_OF_CHECKPOINT = 3, N_LISTS = 4 };
    const int first = checkpoint ? 0 : N_OF_CHECKPOINT,
              end = checkpoint ? N_OF_CHECKPOINT : N_LISTS;
    if (!json_is_object(json))
        return ls__fail(r->ctx, LS_ERR_FORMAT, "'%s' is not an algorithm cache: not a JSON object",
                        r->path);
    LS_TRY(check_fields(r, json));
    for (int i = first; i < end; i++)
        LS_TRY(check_list(r, lists[i].key, json_object_get(json, lists[i].key)));
    if (checkpoint) ls__selections_keep_recent(r->table, 0);
    for (int i = first; i < end; i++)
        LS_TRY(take(r, json_object_get(json, lists[i].key), &lists[i].as));
    return LS_OK;
}

ls_status ls__algorithm_cache_read(ls_context *ctx, ls__selections *table, const char *path,
                                   const char *text, bool checkpoint)
{
    const reading r = { ctx, table, path };
    json_error_t error;
    LS__IN_C_LOCALE;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json && json_error_code(&error) == json_error_out_of_memory)
        return ls__fail_memory(ctx, path, strlen(text));
    if (!json)
        return ls__fail(ctx, LS_ERR_FORMAT, "'%s' is not an algorithm cache: line %d: %s", path,
                        error.line, error.text);
    const ls_status status = read_json(&r, json, checkpoint);
    json_decref(json);
    return status;
}

static ls_status read_file(ls_context *ctx, ls__selections *table, const char *path,
                           const char *call)
{
    unsigned char *bytes;
    size_t size;
    char message[LS__MESSAGE_SIZE];
    ls_status status =
        ls__read_file(ctx, path, MAX_FILE_BYTES, &bytes, &size, message, sizeof message);
    if (status != LS_OK) return ls__fail(ctx, status, "%s: %s", call, message);
    status = strlen((const char *)bytes) == size
                 ? ls__algorithm_cache_read(ctx, table, path, (const char *)bytes, false)
                 : ls__fail(ctx, LS_ERR_FORMAT, "'%s' is not an algorithm cache: a zero byte in it",
                            path);
    ls__free(ctx, bytes);
    return status;
}

static ls_status check_path(ls_context *ctx, const char *path, const char *call)
{
    LS__ENTER(ctx);
    if (path && *path) return LS_OK;
    return ls__fail(ctx, LS_ERR_INVALID, "%s: path is %s", call, path ? "empty" : "NULL");
}

ls_status ls_algorithm_cache_load(ls_context *ctx, const char *path)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(check_path(ctx, path, "ls_algorithm_cache_load"));
    return read_file(ctx, ctx->selections, path, "ls_algorithm_cache_load");
}

/* ---- Saving ---- */

/* Puts the file's selections into `all`, then the context's, which replace them, and writes all.
 * The heuristic's selections are skipped, because no file contains them and they must not replace
 * timed ones. */
static ls_status write_merged(ls_context *ctx, ls__selections *all, const char *path,
                              ls__atomic_file *file)
{
    struct stat there;
    LS_TRY(ls__atomic_file_lock(file));
    if (stat(path, &there) == 0 && S_ISREG(there.st_mode) && there.st_size > 0)
        LS_TRY(read_file(ctx, all, path, "ls_algorithm_cache_save"));
    for (int i = 0; i < ctx->selections->n; i++)
        if (!ctx->selections->items[i]->derived)
            LS_TRY(ls__selections_put(ctx, all, ctx->selections->items[i]));
    ls__selections_keep_recent(all, LS__MAX_SELECTIONS);
    json_t *json = ls__algorithm_cache_json(ctx, all);
    const ls_status status = ls__json_write(ctx, path, file, json);
    json_decref(json);
    return status;
}

ls_status ls_algorithm_cache_save(ls_context *ctx, const char *path)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(check_path(ctx, path, "ls_algorithm_cache_save"));
    ls__atomic_file *file;
    LS_TRY(ls__atomic_file_open(ctx, path, &file));
    ls__selections *all = NULL;
    ls_status status = ls__selections_open(ctx, &all);
    if (status == LS_OK) status = write_merged(ctx, all, path, file);
    ls__selections_close(&all);
    return ls__atomic_file_finish(&file, status);
}

ls_status ls__algorithm_cache_check_path(ls_context *ctx, const char *path)
{
    ls__atomic_file *file;
    LS_TRY(check_path(ctx, path, "ls_algorithm_cache_save"));
    LS_TRY(ls__atomic_file_open(ctx, path, &file));
    ls__atomic_file_abandon(&file);
    return LS_OK;
}

int64_t ls_algorithm_cache_timed_count(const ls_context *ctx)
{
    return ctx && ctx->selections ? ctx->selections->n_timed : 0;
}
