/* Control group limits, on made-up trees: processors and memory. Shares of processes. */
#include "base/available.h"

#include "../suite.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *mount;

/* Writes a file, and the folders above it, under mount. */
static void put(const char *path, const char *text)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "%s/%s", mount, path);
    for (char *slash = full + strlen(mount); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        ck_assert(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    write_text(full, text);
}

START_TEST(version_2)
{
    mount = new_folder();
    put("cpu.max", "800000 100000\n");
    put("a/cpu.max", "150000 100000\n");
    put("a/b/cpu.max", "max 100000\n");
    ck_assert_int_eq(ls__cgroup_processors("0::/\n", mount), 8);
    ck_assert_int_eq(ls__cgroup_processors("0::/a\n", mount), 2);   /* 1.5, rounded up */
    ck_assert_int_eq(ls__cgroup_processors("0::/a/b\n", mount), 2); /* a parent's */
    ck_assert_int_eq(ls__cgroup_processors("0::/of/another/namespace\n", mount), 8);
    put("tiny/cpu.max", "1000 100000\n");
    ck_assert_int_eq(ls__cgroup_processors("0::/tiny\n", mount), 1);
    put("strange/cpu.max", "-5 0 what\n");
    ck_assert_int_eq(ls__cgroup_processors("0::/strange\n", mount), 8);
    remove_folder(mount);
}
END_TEST

START_TEST(version_1)
{
    mount = new_folder();
    put("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("cpu,cpuacct/docker/1/cpu.cfs_quota_us", "300000\n");
    put("cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
    const char *membership = "12:cpuset:/other\n"
                             "4:cpu,cpuacct:/docker/1\n"
                             "0::/\n";
    ck_assert_int_eq(ls__cgroup_processors(membership, mount), 3);
    ck_assert_int_eq(ls__cgroup_processors("4:cpu,cpuacct:/\n", mount), 0);
    ck_assert_int_eq(ls__cgroup_processors("4:cpuset:/docker/1\n", mount), 0);
    remove_folder(mount);
}
END_TEST

START_TEST(nothing_there)
{
    static const char *const memberships[] = { "", "\n", "::", "0::", "nonsense", "0::/x" };
    for (size_t i = 0; i < sizeof(memberships) / sizeof(memberships[0]); i++) {
        ck_assert_int_eq(ls__cgroup_processors(memberships[i], "/nonexistent"), 0);
    }
    ck_assert_int_ge(ls__available_processors(), 1);
}
END_TEST

static size_t memory_left(uint64_t address_limit)
{
    char proc[PATH_MAX], groups[PATH_MAX];
    snprintf(proc, sizeof(proc), "%s/proc", mount);
    snprintf(groups, sizeof(groups), "%s/cgroup", mount);
    return ls__available_memory_of(proc, groups, address_limit);
}

START_TEST(memory)
{
    mount = new_folder();
    ck_assert_uint_eq(memory_left(UINT64_MAX), 0); /* nothing is known */
    put("proc/meminfo", "MemTotal:       4000 kB\nMemAvailable:   3000 kB\n");
    ck_assert_uint_eq(memory_left(UINT64_MAX), 3000 * 1024);
    put("proc/self/statm", "10 5 1 1 0 1 0\n");
    const uint64_t used = 10 * (uint64_t)sysconf(_SC_PAGESIZE);
    ck_assert_uint_eq(memory_left(used + 5), 5);
    ck_assert_uint_eq(memory_left(used - 1), 0);

    /* version 2: a parent's limit counts; inactive files make room */
    put("proc/self/cgroup", "0::/a/b\n");
    put("cgroup/a/memory.max", "100000\n");
    put("cgroup/a/memory.current", "60000\n");
    put("cgroup/a/b/memory.max", "max\n");
    put("cgroup/a/b/memory.current", "60000\n");
    ck_assert_uint_eq(memory_left(UINT64_MAX), 40000);
    put("cgroup/a/memory.stat", "anon 1\nactive_file 7\ninactive_file 9000\n");
    ck_assert_uint_eq(memory_left(UINT64_MAX), 49000);
    put("cgroup/a/memory.current", "200000\n");
    ck_assert_uint_eq(memory_left(UINT64_MAX), 0);

    /* version 1, where no limit is a large number */
    put("proc/self/cgroup", "7:blkio:/\n3:memory:/job\n");
    put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("cgroup/memory/memory.usage_in_bytes", "4096\n");
    ck_assert_uint_eq(memory_left(UINT64_MAX), 3000 * 1024);
    put("cgroup/memory/job/memory.limit_in_bytes", "50000\n");
    put("cgroup/memory/job/memory.usage_in_bytes", "20000\n");
    put("cgroup/memory/job/memory.stat", "inactive_file 5\ntotal_inactive_file 1000\n");
    ck_assert_uint_eq(memory_left(UINT64_MAX), 31000);
    remove_folder(mount);
    ck_assert_uint_gt(ls__available_memory(), 0);
}
END_TEST

static ls__processor_mask processors(int begin, int end)
{
    ls__processor_mask mask = { 0 };
    for (int i = begin; i < end; i++) mask.words[i / 64] |= UINT64_C(1) << i % 64;
    return mask;
}

START_TEST(shares)
{
    ls__processor_mask own;
    ls__affinity_mask(0, &own);
    ck_assert_int_ge(ls__count_processors(&own), ls__available_processors());
    ck_assert_int_eq(ls__count_processors(&(ls__processor_mask){ 0 }), 0);

    const ls__processor_mask same[3] = { processors(0, 70), processors(0, 70), processors(0, 70) };
    ck_assert_int_eq(ls__count_processors(&same[0]), 70);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ls__processor_share(same, 3, i, 0), 23);
        ck_assert_int_eq(ls__processor_share(same, 3, i, 30), 10);
        ck_assert_int_eq(ls__processor_share(same, 3, i, 2), 1);
    }
    ck_assert_int_eq(ls__processor_share(same, 1, 0, 0), 70);
    const ls__processor_mask few[3] = { processors(0, 3), processors(0, 3), processors(0, 3) };
    ck_assert_int_eq(ls__processor_share(few, 3, 1, 0), 1);

    /* bound to processors of their own; two to each socket; unknown */
    const ls__processor_mask bound[2] = { processors(4, 6), processors(6, 7) };
    ck_assert_int_eq(ls__processor_share(bound, 2, 0, 0), 2);
    ck_assert_int_eq(ls__processor_share(bound, 2, 1, 0), 1);
    const ls__processor_mask sockets[4] = { processors(0, 8), processors(0, 8), processors(8, 20),
                                            processors(8, 20) };
    ck_assert_int_eq(ls__processor_share(sockets, 4, 1, 0), 4);
    ck_assert_int_eq(ls__processor_share(sockets, 4, 2, 0), 6);
    const ls__processor_mask unknown[2] = { { { 0 } }, processors(0, 8) };
    ck_assert_int_eq(ls__processor_share(unknown, 2, 0, 0), 1);
}
END_TEST

TEST_PROGRAM(processors)
{
    return RUN_SUITE("processors", shares, memory, version_2, version_1, nothing_there);
}
