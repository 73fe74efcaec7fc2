/* available.c: reads the affinity mask, /proc and the control groups, versions 1 and 2. */
#include "base/available.h"

#include "base/minmax.h"
#include "base/path.h"
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_SIZE = 4096, TEXT_SIZE = 16384 };

/* Reads the first size - 1 bytes of a file as text. False if it cannot be read or is empty. */
static bool read_folder_file(const char *folder, const char *name, char *text, size_t size)
{
    char path[PATH_SIZE];
    FILE *file = ls__path_join(path, sizeof(path), folder, name) ? fopen(path, "re") : NULL;
    if (!file) return false;
    const size_t n = fread(text, 1, size - 1, file);
    text[n] = '\0';
    fclose(file);
    return n > 0;
}

/* ---- Control groups ---- */

/* Reads a group's limit in its folder; false if it has none. */
typedef bool (*limit_fn)(const char *folder, bool version_2, uint64_t *limit);

/* The smallest limit of `controller` ("cpu", "memory") among a process's groups and their parents;
 * UINT64_MAX without any. Missing folders are skipped, because a container often sees its own group
 * as the root. */
static uint64_t smallest_limit(const char *membership, const char *mount, const char *controller,
                               limit_fn read)
{
    uint64_t smallest = UINT64_MAX, found;
    char key[32], list[PATH_SIZE], folder[PATH_SIZE];
    snprintf(key, sizeof(key), ",%s,", controller);
    for (const char *line = membership, *end; *line; line = end + (*end == '\n')) {
        /* "number:controllers:/group"; version 2 has number 0 and no controllers */
        end = line + strcspn(line, "\n");
        const char *controllers = line + strcspn(line, ":\n") + 1;
        if (controllers > end) continue;
        const int n = (int)strcspn(controllers, ":\n");
        const char *group = controllers + n + 1;
        if (group > end) continue;
        snprintf(list, sizeof(list), ",%.*s,", n, controllers);
        if (n > 0 && !strstr(list, key)) continue;
        const int root_length =
            snprintf(folder, sizeof(folder), "%s%s%.*s", mount, n > 0 ? "/" : "", n, controllers);
        if (root_length + (end - group) >= (ptrdiff_t)sizeof(folder)) continue;
        snprintf(folder + root_length, sizeof(folder) - (size_t)root_length, "%.*s",
                 (int)(end - group), group);
        for (char *slash = folder; slash;) { /* up to the hierarchy's root */
            if (read(folder, n == 0, &found) && found < smallest) smallest = found;
            slash = strrchr(folder + root_length, '/');
            if (slash) *slash = '\0';
        }
    }
    return smallest;
}

/* ---- Processors ---- */

static int quota_processors(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return 0;
    const long long processors = (quota - 1) / period + 1;
    return processors < 1 << 20 ? (int)processors : 0;
}

/* Version 2: "QUOTA PERIOD" or "max PERIOD" in one file. Version 1: two files, quota -1 = none. */
static bool read_quota(const char *folder, bool version_2, uint64_t *processors)
{
    char quota[128], period[64];
    long long numbers[2];
    if (version_2) {
        if (!read_folder_file(folder, "cpu.max", quota, sizeof(quota)) ||
            sscanf(quota, "%lld %lld", &numbers[0], &numbers[1]) != 2)
            return false;
    } else {
        if (!read_folder_file(folder, "cpu.cfs_quota_us", quota, sizeof(quota)) ||
            !read_folder_file(folder, "cpu.cfs_period_us", period, sizeof(period)))
            return false;
        numbers[0] = strtoll(quota, NULL, 10);
        numbers[1] = strtoll(period, NULL, 10);
    }
    *processors = (uint64_t)quota_processors(numbers[0], numbers[1]);
    return *processors > 0;
}

int ls__cgroup_processors(const char *membership, const char *mount)
{
    const uint64_t smallest = smallest_limit(membership, mount, "cpu", read_quota);
    return smallest < UINT64_MAX ? (int)smallest : 0;
}

static int affinity_processors(void)
{
    /* the kernel rejects masks that are smaller than its own, so larger ones follow */
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

int ls__processor_quota(void)
{
    char membership[TEXT_SIZE];
    return read_folder_file("/proc/self", "cgroup", membership, sizeof(membership))
               ? ls__cgroup_processors(membership, "/sys/fs/cgroup")
               : 0;
}

int ls__available_processors(void)
{
    const int processors = affinity_processors(), quota = ls__processor_quota();
    const int available = quota && quota < processors ? quota : processors;
    return available < 1 ? 1 : available;
}

void ls__affinity_mask(pid_t process, ls__processor_mask *out)
{
    *out = (ls__processor_mask){ 0 };
    cpu_set_t *set = CPU_ALLOC(LS__MAX_PROCESSORS);
    if (!set) return;
    const size_t bytes = CPU_ALLOC_SIZE(LS__MAX_PROCESSORS);
    if (sched_getaffinity(process, bytes, set) == 0)
        for (size_t i = 0; i < LS__MAX_PROCESSORS; i++)
            out->words[i / 64] |= (uint64_t)(CPU_ISSET_S(i, bytes, set) != 0) << i % 64;
    CPU_FREE(set);
}

int ls__count_processors(const ls__processor_mask *mask)
{
    int n = 0;
    for (int w = 0; w < LS__MASK_WORDS; w++) n += __builtin_popcountll(mask->words[w]);
    return n;
}

int ls__processor_share(const ls__processor_mask *masks, int n, int own, int quota)
{
    double share = 1e-6; /* margin, so that the sum of three thirds reaches one */
    for (int i = 0; i < LS__MAX_PROCESSORS; i++) {
        const uint64_t bit = UINT64_C(1) << i % 64;
        if (!(masks[own].words[i / 64] & bit)) continue;
        int n_users = 0;
        for (int p = 0; p < n; p++) n_users += (masks[p].words[i / 64] & bit) != 0;
        share += 1.0 / n_users;
    }
    int processors = (int)share;
    if (quota && quota / n < processors) processors = quota / n;
    return processors < 1 ? 1 : processors;
}

/* ---- Memory ---- */

/* The number in a file of a group; false for "max". */
static bool read_folder_number(const char *folder, const char *name, uint64_t *out)
{
    char text[64], *end;
    if (!read_folder_file(folder, name, text, sizeof(text))) return false;
    *out = strtoull(text, &end, 10);
    return end != text;
}

/* The number after `key` at the beginning of a line. */
static bool find_number(const char *text, const char *key, uint64_t *out)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0) return sscanf(line + length, "%" SCNu64, out) == 1;
    }
    return false;
}

/* The memory that a group may still use. Its inactive file cache counts as used but can be freed.
 */
static bool read_available(const char *folder, bool version_2, uint64_t *available)
{
    static const char *const names[2][3] = {
        { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file " },
        { "memory.max", "memory.current", "inactive_file " },
    };
    const char *const *name = names[version_2];
    char text[TEXT_SIZE];
    uint64_t limit, used, files = 0;
    if (!read_folder_number(folder, name[0], &limit) || !read_folder_number(folder, name[1], &used))
        return false;
    if (read_folder_file(folder, "memory.stat", text, sizeof(text)))
        (void)find_number(text, name[2], &files);
    used -= ls__min_u64(files, used);
    *available = limit > used ? limit - used : 0;
    return true;
}

size_t ls__available_memory_of(const char *proc, const char *mount, uint64_t address_limit)
{
    char text[TEXT_SIZE];
    uint64_t available = UINT64_MAX, kib, pages = 0;
    if (read_folder_file(proc, "meminfo", text, sizeof(text)) &&
        find_number(text, "MemAvailable:", &kib))
        available = kib * 1024;
    if (read_folder_file(proc, "self/cgroup", text, sizeof(text)))
        available = ls__min_u64(available, smallest_limit(text, mount, "memory", read_available));
    if (address_limit < UINT64_MAX && read_folder_file(proc, "self/statm", text, sizeof(text)) &&
        sscanf(text, "%" SCNu64, &pages) == 1) {
        const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
        available = ls__min_u64(available, address_limit > used ? address_limit - used : 0);
    }
    return available < UINT64_MAX ? (size_t)available : 0;
}

size_t ls__available_memory(void)
{
    struct rlimit limit;
    const bool limited = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return ls__available_memory_of("/proc", "/sys/fs/cgroup",
                                   limited ? (uint64_t)limit.rlim_cur : UINT64_MAX);
}
