/* available.h: the processors and the memory that the process may use. */
#ifndef LS_BASE_AVAILABLE_H
#define LS_BASE_AVAILABLE_H

#include <stddef.h>
#include <stdint.h>

/* The processors of the affinity mask, limited by the CPU quota of the control groups; at least 1.
 */
int ls__available_processors(void);

/* The minimum of the machine's MemAvailable, the remaining memory of the process's control groups
 * and their parents (versions 1 and 2; cached files do not count as used), and the remaining
 * address space (RLIMIT_AS). 0 also if unknown. */
size_t ls__available_memory(void);

/* ---- The same with other folders, for tests ---- */

/* The smallest CPU quota, rounded up to processors, among a process's control groups and their
 * parents; 0 = no quota. `membership` is the text of /proc/self/cgroup, `mount` the folder of the
 * hierarchies. */
int ls__cgroup_processors(const char *membership, const char *mount);

/* `proc` for /proc, `mount` for /sys/fs/cgroup, and the limit of the address space (UINT64_MAX =
 * none). */
size_t ls__available_memory_of(const char *proc, const char *mount, uint64_t address_limit);

#endif
