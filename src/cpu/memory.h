/* memory.h: the CPU backend's slots for memory, copies, conversions and digests. */
#ifndef LS_CPU_MEMORY_H
#define LS_CPU_MEMORY_H

#include "cpu/cpu.h"

void *ls__cpu_allocate(ls__device *device, size_t bytes);
void ls__cpu_release(ls__device *device, void *memory, size_t bytes);
size_t ls__cpu_free_bytes(ls__device *device);
/* The slots read, write, download and copy; zeros if src is NULL. */
ls_status ls__cpu_copy(ls__device *device, void *dst, const void *src, size_t bytes);
ls_status ls__cpu_clear(ls__device *device, void *memory, size_t bytes);
ls_status ls__cpu_digest(ls__device *device, ls_dtype dtype, const void *memory, size_t bytes,
                         uint64_t offset, ls__digest_sum *sum);
ls_status ls__cpu_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from, const void *src,
                       int64_t count);

#endif
