/* check_parts.c: see check_parts.h. */
#include "commands/check_parts.h"
#include "runs/folders.h"
#include <stdio.h>
#include <string.h>

static const char *const split_names[LS_N_SPLITS] = { "train", "val", "test" };

/* The path of a part in DIR that training reads: with --label-pattern a folder, else the first
 * place. */
static bool find_part(const char *dir, const data_options *o, ls_split split, char path[PATH_SIZE],
                      ls_split_kind *kind)
{
    char name[FOLDER_NAME_SIZE];
    for (int i = 0; ls_split_find(dir, split, i, name, sizeof(name), kind) == LS_OK; i++)
        if (!o->label_pattern || *kind != LS_SPLIT_LIST)
            return snprintf(path, PATH_SIZE, "%s/%s", dir, name) < PATH_SIZE;
    return false;
}

bool check_has_parts(const char *dir, const data_options *o)
{
    char path[PATH_SIZE];
    ls_split_kind kind;
    bool found = data_is_csv(dir) || o->label_pattern;
    for (int s = 0; s < LS_N_SPLITS && !found; s++)
        found = find_part(dir, o, (ls_split)s, path, &kind) && kind == LS_SPLIT_LIST;
    return found;
}

static int add_part(ls_context *ctx, const char *path, const data_opening *how, const char *name,
                    ls_check_part *out, int *n)
{
    ls_dataset *dataset = data_open(ctx, path, how);
    if (!dataset && ls_context_status(ctx) == LS_OK) return EXIT_USAGE; /* printed */
    if (!dataset) return folders_fail(ctx, path);
    out[(*n)++] = (ls_check_part){ name, dataset };
    return EXIT_DONE;
}

/* The parts that a list's column of splits makes; without one, the list. */
static int open_list(ls_context *ctx, const char *path, const data_options *o, ls_check_part *out,
                     int *n)
{
    int64_t counts[LS_N_SPLITS];
    data_opening how = { .options = o, .in_groups = true };
    int answer = EXIT_DONE;
    if (!data_count_splits(path, o, counts)) return add_part(ctx, path, &how, "", out, n);
    for (int s = 0; s < LS_N_SPLITS && answer == EXIT_DONE; s++) {
        how.rows = (ls_csv_rows)(LS_CSV_ROWS_TRAIN + s);
        if (counts[s] > 0) answer = add_part(ctx, path, &how, split_names[s], out, n);
    }
    return answer;
}

/* Whether the columns of labels of a list are found. */
static bool is_labelled(const char *list, const data_options *o)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls_dataset *dataset = data_open(ctx, list, &(data_opening){ .options = o });
    const bool found = dataset || !strstr(ls_context_message(ctx), "label_column)");
    ls_context_close(&ctx);
    return found;
}

int check_open_parts(ls_context *ctx, const char *dir, const data_options *o,
                     ls_check_part out[LS_N_SPLITS], int *n)
{
    const data_opening how = { .options = o, .in_groups = true };
    int answer = EXIT_DONE;
    *n = 0;
    if (data_is_csv(dir)) return open_list(ctx, dir, o, out, n);
    for (int s = 0; s < LS_N_SPLITS && answer == EXIT_DONE; s++) {
        char path[PATH_SIZE];
        ls_split_kind kind;
        if (!find_part(dir, o, (ls_split)s, path, &kind)) continue;
        if (kind == LS_SPLIT_FLAT_FOLDER && !o->label_pattern)
            print_note("%s: not checked, because its images have no classes", path);
        else if (s == LS_SPLIT_TEST && kind == LS_SPLIT_LIST && !is_labelled(path, o))
            print_note("%s: not checked, because it has no labels", path);
        else
            answer = add_part(ctx, path, &how, split_names[s], out, n);
    }
    if (answer != EXIT_DONE || *n > 0) return answer;
    return add_part(ctx, dir, &how, "", out, n);
}
