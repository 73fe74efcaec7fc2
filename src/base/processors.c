/* processors.c: how many processors this process may use: what its affinity mask allows, cut by the
 * CPU quota of its control groups (version 1 and 2), which containers set. */
#include "base/threads.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 4096 };

/* Reads the start of a small text file; false when there is none. */
static bool read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const size_t n = fread(text, 1, size - 1, file);
    text[n] = '\0';
    fclose(file);
    return n > 0;
}

static int quota_processors(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return 0;
    const long long processors = (quota - 1) / period + 1;
    return processors < 1 << 20 ? (int)processors : 0;
}

/* Version 2: "QUOTA PERIOD" or "max PERIOD" in one file. */
static int folder_quota_v2(const char *folder)
{
    char path[PATH_SIZE], text[128];
    long long quota, period;
    const int length = snprintf(path, sizeof(path), "%s/cpu.max", folder);
    if (length >= (int)sizeof(path) || !read_text(path, text, sizeof(text))) return 0;
    return sscanf(text, "%lld %lld", &quota, &period) == 2 ? quota_processors(quota, period) : 0;
}

/* Version 1: two files, quota -1 = none. */
static int folder_quota_v1(const char *folder)
{
    static const char *const names[2] = { "cpu.cfs_quota_us", "cpu.cfs_period_us" };
    long long values[2];
    for (int i = 0; i < 2; i++) {
        char path[PATH_SIZE], text[128];
        const int length = snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        if (length >= (int)sizeof(path) || !read_text(path, text, sizeof(text))) return 0;
        values[i] = strtoll(text, NULL, 10);
    }
    return quota_processors(values[0], values[1]);
}

/* The smallest quota from the group's folder up to the hierarchy's root. A container often sees its
 * own group as the root, so folders that are missing are passed by. */
static int hierarchy_quota(const char *root, const char *group, int (*quota)(const char *folder))
{
    char folder[PATH_SIZE];
    const int length = snprintf(folder, sizeof(folder), "%s%s", root, group);
    if (length >= (int)sizeof(folder)) return 0;
    const size_t root_length = strlen(root);
    int smallest = 0;
    for (;;) {
        const int found = quota(folder);
        if (found && (!smallest || found < smallest)) smallest = found;
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

int ls__cgroup_processors(const char *membership, const char *mount)
{
    int smallest = 0;
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
        int found = 0;
        if (*controllers == '\0') {
            found = hierarchy_quota(mount, group, folder_quota_v2);
        } else if (list_has(controllers, "cpu") &&
                   snprintf(root, sizeof(root), "%s/%s", mount, controllers) < (int)sizeof(root)) {
            found = hierarchy_quota(root, group, folder_quota_v1);
        }
        if (found && (!smallest || found < smallest)) smallest = found;
    }
    return smallest;
}

static int affinity_processors(void)
{
    /* the kernel refuses masks smaller than its own, so ask with larger ones */
    for (int n_cpus = 1024; n_cpus <= 1 << 20; n_cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(n_cpus);
        if (!set) break;
        const size_t bytes = CPU_ALLOC_SIZE(n_cpus);
        const bool known = sched_getaffinity(0, bytes, set) == 0;
        const int count = known ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (known) return count;
    }
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int ls__available_processors(void)
{
    char membership[16384];
    int processors = affinity_processors();
    if (read_text("/proc/self/cgroup", membership, sizeof(membership))) {
        const int quota = ls__cgroup_processors(membership, "/sys/fs/cgroup");
        if (quota && quota < processors) processors = quota;
    }
    return processors < 1 ? 1 : processors;
}
