/* cgroup.h: a process's control groups, versions 1 and 2. */
#ifndef LS_BASE_CGROUP_H
#define LS_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS__CGROUP_PATH_SIZE = 4096 };

/* Reads a group's limit in its folder; false where it has none. */
typedef bool (*ls__cgroup_fn)(const char *folder, bool version_2, uint64_t *limit);

/* The smallest limit of `controller` ("cpu", "memory") among a process's groups and their parents;
 * UINT64_MAX without any. `membership` is the text of /proc/self/cgroup, `mount` where the
 * hierarchies lie. */
uint64_t ls__cgroup_smallest(const char *membership, const char *mount, const char *controller,
                             ls__cgroup_fn read);

/* Reads the first size - 1 bytes of a file as text; false where it cannot be read or is empty. */
bool ls__read_small_file(const char *path, char *text, size_t size);

#endif
