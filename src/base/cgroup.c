/* cgroup.c: reads a process's control groups up to the hierarchies' roots. */
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = LS__CGROUP_PATH_SIZE };

bool ls__read_small_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t n = fread(text, 1, size - 1, file);
    text[n] = '\0';
    fclose(file);
    return n > 0;
}

/* The smallest limit from the group's folder up to the hierarchy's root. A container often sees its
 * own group as the root, so folders that are missing are passed by. */
static uint64_t hierarchy_smallest(const char *root, const char *group, bool version_2,
                                   ls__cgroup_fn read)
{
    char folder[PATH_SIZE];
    uint64_t smallest = UINT64_MAX;
    const int length = snprintf(folder, sizeof(folder), "%s%s", root, group);
    if (length >= (int)sizeof(folder)) return smallest;
    const size_t root_length = strlen(root);
    for (;;) {
        uint64_t found;
        if (read(folder, version_2, &found) && found < smallest) smallest = found;
        char *slash = strrchr(folder + root_length, '/');
        if (!slash) return smallest;
        *slash = '\0';
    }
}

/* Is `name` an element of a list separated by commas? */
static bool list_has(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; *at;) {
        const size_t n = strcspn(at, ",");
        if (n == length && memcmp(at, name, n) == 0) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

uint64_t ls__cgroup_smallest(const char *membership, const char *mount, const char *controller,
                             ls__cgroup_fn read)
{
    uint64_t smallest = UINT64_MAX;
    char line[PATH_SIZE];
    for (const char *at = membership; *at;) {
        const size_t n = strcspn(at, "\n");
        const bool fits = n < sizeof(line);
        if (fits) {
            memcpy(line, at, n);
            line[n] = '\0';
        }
        at += n + (at[n] == '\n');

        /* "number:controllers:/group"; version 2 has number 0 and no controllers */
        char *controllers = fits ? strchr(line, ':') : NULL;
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *controllers++ = '\0';
        *group++ = '\0';
        char root[PATH_SIZE];
        uint64_t found = UINT64_MAX;
        if (*controllers == '\0') {
            found = hierarchy_smallest(mount, group, true, read);
        } else if (list_has(controllers, controller) &&
                   snprintf(root, sizeof(root), "%s/%s", mount, controllers) < (int)sizeof(root)) {
            found = hierarchy_smallest(root, group, false, read);
        }
        if (found < smallest) smallest = found;
    }
    return smallest;
}
