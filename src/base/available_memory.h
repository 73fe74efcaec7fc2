/* available_memory.h: the memory that the process may still allocate. */
#ifndef LS_BASE_AVAILABLE_MEMORY_H
#define LS_BASE_AVAILABLE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* The smallest of: what the machine has (MemAvailable), what the control groups of the process and
 * their parents leave (version 1 and 2, files that were read not counted as used), and what
 * RLIMIT_AS leaves. 0 also if unknown. */
size_t ls__available_memory(void);

/* The same of other trees, for tests: `proc` for /proc, `mount` for /sys/fs/cgroup, and the limit
 * of the address space (UINT64_MAX: none). */
size_t ls__available_memory_of(const char *proc, const char *mount, uint64_t address_limit);

#endif
