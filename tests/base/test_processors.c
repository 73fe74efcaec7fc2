/* Control group quotas, on made-up trees. */
#include "base/threads.h"

#include "../suite.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char mount[] = "/tmp/lockstep-test-XXXXXX";

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
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void remove_tree(void)
{
    char command[PATH_MAX];
    snprintf(command, sizeof(command), "rm -r '%s'", mount);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(version_2)
{
    strcpy(mount + strlen(mount) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(mount));
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
    remove_tree();
}
END_TEST

START_TEST(version_1)
{
    strcpy(mount + strlen(mount) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(mount));
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
    remove_tree();
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

int main(void)
{
    return RUN_SUITE("processors", version_2, version_1, nothing_there);
}
