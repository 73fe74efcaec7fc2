/* json.c: JSON files; see json.h. */
#include "run/json.h"

#include "base/error.h"
#include "base/file.h"

/* Decimal digits that always survive text -> double -> text. */
enum { REAL_DIGITS = 15 };

typedef struct output {
    ls__atomic_file *file;
    ls_status status;
} output;

static int write_piece(const char *bytes, size_t size, void *user)
{
    output *out = user;
    out->status = ls__atomic_file_write(out->file, bytes, size);
    return out->status == LS_OK ? 0 : -1;
}

ls_status ls__json_save(ls_context *ctx, const char *path, const json_t *json)
{
    if (!json) return ls__fail_memory(ctx, path, 0);
    output out = { .status = LS_OK };
    LS_TRY(ls__atomic_file_open(ctx, path, &out.file));
    const size_t flags = JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS);
    if (json_dump_callback(json, write_piece, &out, flags) == 0)
        write_piece("\n", 1, &out);
    else if (out.status == LS_OK)
        out.status = ls__fail_memory(ctx, path, 0);

    if (out.status == LS_OK) return ls__atomic_file_commit(&out.file);
    ls__atomic_file_abandon(&out.file);
    return out.status;
}
