/* check_report.c: the report of ls_dataset_check, and its findings. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include <stdarg.h>
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

ls_status ls__check_add(ls_dataset_report *r, ls_finding_kind kind, const char *path,
                        const char *other, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *reason = ls__bump_vformat(&r->bump, format, args);
    va_end(args);
    ls_finding *all = ls__bump_room(&r->bump, r->findings, (size_t)r->n_findings, 1,
                                    &r->finding_capacity, sizeof(*all));
    if (!path || !other || !reason || !all) return ls__fail_memory(r->owned.ctx, what, 0);
    r->findings = all;
    all[r->n_findings++] = (ls_finding){ kind, path, other, reason };
    return LS_OK;
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
    ls__bump_close(&r->bump);
    ls__text_list_free(&r->folder_names);
    ls__text_list_free(&r->ignored);
    ls__text_list_free(&r->hidden);
    ls__text_list_free(&r->unreadable);
    ls__folder_files_free(&r->found);
    ls__free(ctx, r);
}

ls_dataset_report *ls__check_open_report(ls_context *ctx, const char *dir)
{
    ls_dataset_report *r = ls__open_owned(ctx, what, sizeof(*r), close_report);
    if (!r) return NULL;
    r->ignored.ctx = r->hidden.ctx = r->unreadable.ctx = r->folder_names.ctx = ctx;
    r->found = (ls__folder_files){ .images.ctx = ctx,
                                   .folders.ctx = ctx,
                                   .ignored = &r->ignored,
                                   .hidden = &r->hidden,
                                   .unreadable = &r->unreadable };
    ls__bump_open(&r->bump, ctx);
    r->dir = ls__bump_strdup(&r->bump, dir);
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
    LS__CLOSE_OWNED(report);
}

const char *ls_dataset_report_dir(const ls_dataset_report *report)
{
    return report ? report->dir : "";
}

int64_t ls_dataset_report_finding_count(const ls_dataset_report *r)
{
    return r ? r->n_findings : 0;
}

ls_finding ls_dataset_report_finding_at(const ls_dataset_report *r, int64_t i)
{
    if (!r || i < 0 || i >= r->n_findings) return (ls_finding){ 0 };
    return r->findings[i];
}

int64_t ls_dataset_report_class_count(const ls_dataset_report *r)
{
    return r ? r->n_groups : 0;
}

ls_class_summary ls_dataset_report_class_at(const ls_dataset_report *r, int64_t i)
{
    if (!r || i < 0 || i >= r->n_groups) return (ls_class_summary){ 0 };
    return r->groups[i].count;
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
