/* fuzz.c: see fuzz.h. */
#include "fuzz.h"

#include "base/hash.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
    abort();
}

static ls_context *context;

ls_context *fuzz_context(void)
{
    if (!context) context = ls_context_open(&(ls_context_config){ .threads = 1 });
    FUZZ_CHECK(ls_context_status(context) == LS_OK);
    return context;
}

void fuzz_context_close(void)
{
    ls_context_close(&context);
}

ls_status fuzz_error(const char *name)
{
    const ls_status status = ls_context_status(context);
    if (status == LS_OK || status == LS_ERR_MEMORY) return status;
    if (!strstr(ls_context_message(context), name))
        fprintf(stderr, "no '%s' in the message: %s\n", name, ls_context_message(context));
    FUZZ_CHECK(strstr(ls_context_message(context), name));
    return status;
}

/* ---- Files ---- */

static char folder[256];

static void remove_folder(void)
{
    DIR *files = opendir(folder);
    for (const struct dirent *entry; files && (entry = readdir(files));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(files), entry->d_name, 0);
    if (files) closedir(files);
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (*folder) return folder;
    const char *root = getenv("TMPDIR");
    if (!root) root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof(folder), "%s/lockstep-fuzz-XXXXXX", root);
    FUZZ_CHECK(mkdtemp(folder));
    FUZZ_CHECK(atexit(remove_folder) == 0);
    return folder;
}

const char *fuzz_path(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", fuzz_folder(), name);
    return path;
}

const char *fuzz_file(const char *name, const void *bytes, size_t n)
{
    const char *path = fuzz_path(name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(bytes, 1, n, file) == n);
    FUZZ_CHECK(fclose(file) == 0);
    return path;
}

uint32_t fuzz_seed(const uint8_t *data, size_t size)
{
    return (uint32_t)ls__hash(data, size, 0);
}
