/* available.h: the processors and the memory that the process may use. */
#ifndef LS_BASE_AVAILABLE_H
#define LS_BASE_AVAILABLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    LS__MAX_PROCESSORS = 8192, /* Linux's largest configuration */
    LS__MASK_WORDS = LS__MAX_PROCESSORS / 64
};

/* The processors of the affinity mask, limited by the CPU quota of the control groups; at least 1.
 */
int ls__available_processors(void);

/* The affinity mask of a process, 0 = this one: bit i % 64 of word i / 64 stands for processor i.
 * All 0 if unknown. */
typedef struct ls__processor_mask {
    uint64_t words[LS__MASK_WORDS];
} ls__processor_mask;
void ls__affinity_mask(pid_t process, ls__processor_mask *out);
int ls__count_processors(const ls__processor_mask *mask);

/* The CPU quota of the process's control groups, in processors; 0 = none. */
int ls__processor_quota(void);

/* How many processors process `own` may use, of n on one machine with these masks, if each
 * processor is divided equally among the processes whose masks contain it, and the quota among all;
 * at least 1. */
int ls__processor_share(const ls__processor_mask *masks, int n, int own, int quota);

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
