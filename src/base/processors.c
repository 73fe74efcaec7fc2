/* processors.c: the number of processors of this process: its affinity mask, limited by the
 * CPU quota of its control groups (version 1 and 2), which containers set. */
#include "base/cgroup.h"
#include "base/threads.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PATH_SIZE = LS__CGROUP_PATH_SIZE };

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
    if (length >= (int)sizeof(path) || !ls__read_small_file(path, text, sizeof(text))) return 0;
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
        if (length >= (int)sizeof(path) || !ls__read_small_file(path, text, sizeof(text))) return 0;
        values[i] = strtoll(text, NULL, 10);
    }
    return quota_processors(values[0], values[1]);
}

static bool read_quota(const char *folder, bool version_2, uint64_t *processors)
{
    const int found = version_2 ? folder_quota_v2(folder) : folder_quota_v1(folder);
    *processors = (uint64_t)found;
    return found > 0;
}

int ls__cgroup_processors(const char *membership, const char *mount)
{
    const uint64_t smallest = ls__cgroup_smallest(membership, mount, "cpu", read_quota);
    return smallest < UINT64_MAX ? (int)smallest : 0;
}

static int affinity_processors(void)
{
    /* the kernel rejects masks smaller than its own, so larger ones are tried */
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
    if (ls__read_small_file("/proc/self/cgroup", membership, sizeof(membership))) {
        const int quota = ls__cgroup_processors(membership, "/sys/fs/cgroup");
        if (quota && quota < processors) processors = quota;
    }
    return processors < 1 ? 1 : processors;
}
