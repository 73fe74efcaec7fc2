/* csv_roots.c: the names of absolute paths of a CSV list: see csv.h. */
#include "data/dataset/lists/csv.h"

#include "base/error.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* The absolute paths so far. */
typedef struct roots {
    const ls__csv *csv;
    struct stat folder;   /* of relative paths: image_root, else the CSV file's */
    const char *inside;   /* the last path below it by another spelling; NULL = none */
    size_t inside_length; /* bytes up to that folder */
    const char *outside;  /* the last path that is not below it; NULL = none */
    size_t shared;        /* bytes up to the deepest folder that all of these share */
} roots;

static ls_status stat_folder(roots *r)
{
    const ls__csv *c = r->csv;
    char *text = ls__format(c->ctx, "%.*s.", (int)c->root_length, c->root);
    if (!text) return ls__fail_memory(c->ctx, c->path, c->root_length);
    const int error = stat(text, &r->folder) == 0 ? 0 : errno;
    ls__free(c->ctx, text);
    if (error == 0) return LS_OK;
    return ls__fail_errno(c->ctx, error, "csv file '%s': the folder of relative paths, '%.*s'",
                          c->path, (int)(c->root_length > 0 ? c->root_length : 1),
                          c->root_length > 0 ? c->root : ".");
}

/* Bytes of an absolute path up to the folder of relative paths, with its slash; 0: it is not
 * below it. Folders are compared by inode, because links and mounts give a folder several paths. */
static ls_status find_folder(const roots *r, const char *path, size_t *out)
{
    const ls__csv *c = r->csv;
    char *above = ls__strdup(c->ctx, path);
    if (!above) return ls__fail_memory(c->ctx, c->path, strlen(path));
    ls_status status = LS_OK;
    *out = 0;
    for (size_t n = 1; above[n - 1] && *out == 0 && status == LS_OK; n++) {
        struct stat there;
        if (above[n - 1] != '/') continue;
        const char next = above[n];
        above[n] = '\0';
        if (stat(above, &there) == 0)
            *out = there.st_ino == r->folder.st_ino && there.st_dev == r->folder.st_dev ? n : 0;
        else if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
            break;
        else
            status = ls__fail(c->ctx, LS_ERR_IO, "csv file '%s': '%s': %s", c->path, above,
                              strerror(errno));
        above[n] = next;
    }
    ls__free(c->ctx, above);
    return status;
}

/* Bytes up to the last slash, with it, in the first n. */
static size_t folder_length(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/') n--;
    return n;
}

/* The length of the part that both begin with. */
static size_t shared_length(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    return n;
}

static void add_outside(roots *r, const char *path)
{
    const size_t most = r->outside ? shared_length(path, r->outside) : strlen(path);
    r->shared = folder_length(path, r->outside && r->shared < most ? r->shared : most);
    r->outside = path;
}

/* The root of an absolute path that does not begin with the folder of relative paths as it was
 * typed; 0 = it is outside. A path in the folder of the one before it is not examined again. */
static ls_status find_root(roots *r, const char *path, size_t *out)
{
    *out = 0;
    if (r->inside && strncmp(path, r->inside, r->inside_length) == 0)
        *out = r->inside_length;
    else if (!r->outside || shared_length(path, r->outside) < folder_length(path, strlen(path)))
        LS_TRY(find_folder(r, path, out));
    if (*out == 0) {
        add_outside(r, path);
    } else {
        r->inside = path;
        r->inside_length = *out;
    }
    return LS_OK;
}

ls_status ls__csv_find_roots(const ls__csv *c, int64_t n, const char *const *paths, uint32_t *out)
{
    roots r = { .csv = c };
    LS_TRY(stat_folder(&r));
    for (int64_t i = 0; i < n; i++) {
        const char *path = paths[i];
        size_t root = c->root_length;
        if (*path == '/' && (root == 0 || strncmp(path, c->root, root) != 0))
            LS_TRY(find_root(&r, path, &root));
        while (root > 0 && path[root] == '/') root++;
        out[i] = (uint32_t)root;
    }
    for (int64_t i = 0; i < n; i++)
        if (*paths[i] == '/' && out[i] == 0) out[i] = (uint32_t)r.shared;
    return LS_OK;
}
