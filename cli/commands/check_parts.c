/* check_parts.c: see check_parts.h. */
#include "run/settings.h"
#include "run/paths.h"
#include "cli.h"
#include "commands/check_parts.h"
#include "run/folders.h"
#include <stdio.h>
#include <string.h>

static const char *const split_names[LS_N_SPLITS] = { "train", "val", "test" };

/* The path of a part in DIR that training reads: with --label-pattern a folder, else the first
 * place. */
static bool find_part(const char *dir, const ls__data_settings *o, ls_split split,
                      char path[LS__PATH_SIZE], ls_split_kind *kind)
{
    char name[LS__FOLDER_NAME_SIZE];
    for (int i = 0; ls_split_find(dir, split, i, name, sizeof(name), kind) == LS_OK; i++)
        if (!o->label_pattern || *kind != LS_SPLIT_LIST)
            return snprintf(path, LS__PATH_SIZE, "%s/%s", dir, name) < LS__PATH_SIZE;
    return false;
}

bool check_has_parts(const char *dir, const ls__data_settings *o)
{
    char path[LS__PATH_SIZE];
    ls_split_kind kind;
    bool found = ls__is_csv(dir) || o->label_pattern;
    for (int s = 0; s < LS_N_SPLITS && !found; s++)
        found = find_part(dir, o, (ls_split)s, path, &kind) && kind == LS_SPLIT_LIST;
    return found;
}

static ls_status add_part(ls_context *ctx, const char *path, const ls__data_opening *how,
                          const char *name, ls_check_part *out, int *n)
{
    ls_dataset *dataset = ls__data_open(ctx, path, how);
    if (dataset)
        out[(*n)++] = (ls_check_part){ name, dataset };
    else
        ls__folders_explain(ctx, path);
    return ls_context_status(ctx);
}

/* The parts that a list's column of splits makes; without one, the list. */
static ls_status open_list(ls_context *ctx, const char *path, const ls__data_settings *o,
                           ls_check_part *out, int *n)
{
    int64_t counts[LS_N_SPLITS];
    ls__data_opening how = { .settings = o, .in_groups = true };
    if (!ls__data_count_splits(path, o, counts)) return add_part(ctx, path, &how, "", out, n);
    for (int s = 0; s < LS_N_SPLITS; s++) {
        how.rows = (ls_csv_rows)(LS_CSV_ROWS_TRAIN + s);
        if (counts[s] > 0) LS_TRY(add_part(ctx, path, &how, split_names[s], out, n));
    }
    return LS_OK;
}

/* Whether the columns of labels of a list are found. */
static bool is_labelled(const char *list, const ls__data_settings *o)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls_dataset *dataset = ls__data_open(ctx, list, &(ls__data_opening){ .settings = o });
    const bool found = dataset || !strstr(ls_context_message(ctx), "label_column)");
    ls_context_close(&ctx);
    return found;
}

ls_status check_open_parts(ls_context *ctx, const char *dir, const ls__data_settings *o,
                           ls_check_part out[LS_N_SPLITS], int *n)
{
    const ls__data_opening how = { .settings = o, .in_groups = true };
    *n = 0;
    if (ls__is_csv(dir)) return open_list(ctx, dir, o, out, n);
    for (int s = 0; s < LS_N_SPLITS; s++) {
        char path[LS__PATH_SIZE];
        ls_split_kind kind;
        if (!find_part(dir, o, (ls_split)s, path, &kind)) continue;
        if (kind == LS_SPLIT_FLAT_FOLDER && !o->label_pattern)
            print_note("%s: not checked, because its images have no classes", path);
        else if (s == LS_SPLIT_TEST && kind == LS_SPLIT_LIST && !is_labelled(path, o))
            print_note("%s: not checked, because it has no labels", path);
        else
            LS_TRY(add_part(ctx, path, &how, split_names[s], out, n));
    }
    return *n > 0 ? LS_OK : add_part(ctx, dir, &how, "", out, n);
}
