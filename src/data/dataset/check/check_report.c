/* check_report.c: the report of ls_dataset_check, and its findings. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include "base/file.h"
#include <string.h>

static const char what[] = "ls_dataset_check";

/* ---- Findings ---- */

static const struct {
    const char *name, *text;
} kinds[LS_FINDING_KIND_COUNT] = {
#define ENTRY(id, name, text) { name, text },
    LS_FINDING_LIST(ENTRY)
#undef ENTRY
};

static bool is_kind(ls_finding_kind kind)
{
    return (unsigned)kind < LS_FINDING_KIND_COUNT;
}

const char *ls_finding_name(ls_finding_kind kind)
{
    return is_kind(kind) ? kinds[kind].name : "";
}

const char *ls_finding_text(ls_finding_kind kind)
{
    return is_kind(kind) ? kinds[kind].text : "";
}

void *ls__check_grow(ls_dataset_report *r, ls__check_array *array, size_t size)
{
    if (array->n == array->capacity) {
        const int64_t capacity = 2 * array->capacity + 16;
        void *items = ls__realloc(r->owned.ctx, array->items, (size_t)array->n * size,
                                  (size_t)capacity * size);
        if (!items) {
            ls__fail_memory(r->owned.ctx, what, (size_t)capacity * size);
            return NULL;
        }
        array->items = items;
        array->capacity = capacity;
    }
    void *item = (char *)array->items + (size_t)array->n++ * size;
    return memset(item, 0, size);
}

ls_status ls__check_add(ls_dataset_report *r, ls_finding_kind kind, char *path, const char *other,
                        char *reason)
{
    ls_context *ctx = r->owned.ctx;
    ls__check_finding *f = path && reason ? ls__check_grow(r, &r->findings, sizeof(*f))
                                          : (ls__fail_memory(ctx, what, 0), NULL);
    if (f) {
        *f = (ls__check_finding){ { kind, path, other, reason }, path, reason };
        return LS_OK;
    }
    ls__free(ctx, path);
    ls__free(ctx, reason);
    return LS_ERR_MEMORY;
}

/* ---- The report ---- */

void ls__check_free_files(ls_dataset_report *r)
{
    for (int64_t i = 0; r->files && i < r->n_files; i++) ls__free(r->owned.ctx, r->files[i].reason);
    ls__free(r->owned.ctx, r->files);
    r->files = NULL;
}

static void close_report(ls__owned *self)
{
    ls_dataset_report *r = (ls_dataset_report *)self;
    const ls_context *ctx = self->ctx;
    ls__check_free_files(r);
    for (int64_t i = 0; i < r->groups.n; i++) ls__free(ctx, ls__check_group_at(r, i)->name);
    ls__check_finding *findings = r->findings.items;
    for (int64_t i = 0; i < r->findings.n; i++) {
        ls__free(ctx, findings[i].path);
        ls__free(ctx, findings[i].reason);
    }
    ls__free(ctx, r->groups.items);
    ls__free(ctx, findings);
    ls__free(ctx, r->dir);
    for (int i = 0; i < r->n_splits; i++) ls__free(ctx, r->splits[i]);
    ls__free(ctx, r->paths);
    ls__free(ctx, r->folders);
    ls__text_list_free(&r->folder_names);
    ls__text_list_free(&r->ignored);
    ls__text_list_free(&r->hidden);
    ls__text_list_free(&r->unreadable);
    ls__folder_files_free(&r->found);
    ls__free(ctx, r);
}

ls_dataset_report *ls__check_open_report(ls_context *ctx, const char *dir)
{
    ls_dataset_report *r = ls__zalloc(ctx, sizeof(*r));
    if (!r) return ls__fail_memory(ctx, what, sizeof(*r)), NULL;
    ls__own(ctx, &r->owned, close_report);
    r->ignored.ctx = r->hidden.ctx = r->unreadable.ctx = r->folder_names.ctx = ctx;
    r->found = (ls__folder_files){ .images.ctx = ctx,
                                   .folders.ctx = ctx,
                                   .ignored = &r->ignored,
                                   .hidden = &r->hidden,
                                   .unreadable = &r->unreadable };
    r->dir = ls__strdup(ctx, dir);
    if (!r->dir) {
        ls__fail_memory(ctx, dir, strlen(dir));
        ls_dataset_report_close(&r);
        return NULL;
    }
    ls__path_trim(r->dir);
    r->root_length = strlen(r->dir) + 1;
    return r;
}

void ls_dataset_report_close(ls_dataset_report **report)
{
    if (!report || !*report) return;
    ls__disown_and_close(&(*report)->owned);
    *report = NULL;
}

const char *ls_dataset_report_dir(const ls_dataset_report *report)
{
    return report ? report->dir : "";
}

int64_t ls_dataset_report_finding_count(const ls_dataset_report *r)
{
    return r ? r->findings.n : 0;
}

ls_finding ls_dataset_report_finding_at(const ls_dataset_report *r, int64_t i)
{
    if (!r || i < 0 || i >= r->findings.n) return (ls_finding){ 0 };
    return ((const ls__check_finding *)r->findings.items)[i].finding;
}

int64_t ls_dataset_report_class_count(const ls_dataset_report *r)
{
    return r ? r->groups.n : 0;
}

ls_class_summary ls_dataset_report_class_at(const ls_dataset_report *r, int64_t i)
{
    if (!r || i < 0 || i >= r->groups.n) return (ls_class_summary){ 0 };
    return ls__check_group_at(r, i)->count;
}

int64_t ls_dataset_report_folder_count(const ls_dataset_report *r)
{
    return r ? r->n_folders : 0;
}

ls_folder_summary ls_dataset_report_folder_at(const ls_dataset_report *r, int64_t i)
{
    if (!r || i < 0 || i >= r->n_folders) return (ls_folder_summary){ 0 };
    return r->folders[i];
}

ls_dataset_summary ls_dataset_report_summary(const ls_dataset_report *r)
{
    return r ? r->summary : (ls_dataset_summary){ 0 };
}
