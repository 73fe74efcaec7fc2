/* available_memory.c: reads /proc and the control groups. */
#include "base/available_memory.h"

#include "base/cgroup.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_SIZE = LS__CGROUP_PATH_SIZE, TEXT_SIZE = 16384 };

static bool read_in(const char *folder, const char *name, char *text, size_t size)
{
    char path[PATH_SIZE];
    return snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path) &&
           ls__read_small_file(path, text, size);
}

/* The number in a file of a group; false for "max". */
static bool read_number(const char *folder, const char *name, uint64_t *out)
{
    char text[64], *end;
    if (!read_in(folder, name, text, sizeof(text))) return false;
    *out = strtoull(text, &end, 10);
    return end != text;
}

/* The number behind `key` at the beginning of a line. */
static bool find_number(const char *text, const char *key, uint64_t *out)
{
    const size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0) return sscanf(line + length, "%" SCNu64, out) == 1;
    }
    return false;
}

/* The memory that a group leaves. Its inactive file cache counts as used but can be freed. */
static bool read_rest(const char *folder, bool version_2, uint64_t *rest)
{
    static const char *const names[2][3] = {
        { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file " },
        { "memory.max", "memory.current", "inactive_file " },
    };
    const char *const *name = names[version_2];
    char text[TEXT_SIZE];
    uint64_t limit, used, files = 0;
    if (!read_number(folder, name[0], &limit) || !read_number(folder, name[1], &used)) return false;
    if (read_in(folder, "memory.stat", text, sizeof(text)))
        (void)find_number(text, name[2], &files);
    used -= files < used ? files : used;
    *rest = limit > used ? limit - used : 0;
    return true;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

size_t ls__available_memory_of(const char *proc, const char *mount, uint64_t address_limit)
{
    char text[TEXT_SIZE];
    uint64_t available = UINT64_MAX, kib, pages = 0;
    if (read_in(proc, "meminfo", text, sizeof(text)) && find_number(text, "MemAvailable:", &kib))
        available = kib * 1024;
    if (read_in(proc, "self/cgroup", text, sizeof(text)))
        available = smaller(available, ls__cgroup_smallest(text, mount, "memory", read_rest));
    if (address_limit < UINT64_MAX && read_in(proc, "self/statm", text, sizeof(text)) &&
        sscanf(text, "%" SCNu64, &pages) == 1) {
        const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
        available = smaller(available, address_limit > used ? address_limit - used : 0);
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
