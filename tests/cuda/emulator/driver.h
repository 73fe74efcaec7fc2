/* driver.h: the emulated device: what a test can do to it. Its memory can't be touched by the host
 * outside of copies and kernels: doing so is a segmentation fault.
 *
 * What is queued in its streams runs in an order that LOCKSTEP_EMULATED_STREAMS decides when they
 * are opened: "late", the default: when the host waits for it; "now": when it is queued, unless it
 * has to wait for what is not done; a number, the seed of an order by chance: each stream is late,
 * prompt, or between. So what waits too little reads too early, or is written over. The order of a
 * graph's work, where it leaves one open, goes by the stream that it is launched in.
 *
 * Its clock gives all work 0.1 ms, and the first LOCKSTEP_EMULATED_COLD pieces 1 ms more. Streams
 * run at the same time, but for those of one graph where LOCKSTEP_EMULATED_FULL is set.
 *
 * It has 1 GiB of memory, or as many bytes as LOCKSTEP_EMULATED_MEMORY says. A process sees
 * LOCKSTEP_EMULATED_DEVICES of a machine's devices [2], from number LOCKSTEP_EMULATED_FIRST on. */
#ifndef LS_TEST_EMULATED_DRIVER_H
#define LS_TEST_EMULATED_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens and closes the device's memory, around what the device does. */
void emulated_memory_open(void);
void emulated_memory_close(void);

/* The calling thread's. */
int emulated_current_device(void);
bool emulated_is_on_device(const void *memory);

/* A library's failed launch leaves this error for the next launch to report as its own. */
void emulated_leave_error(void);
int emulated_take_error(void);

/* Counts a call, and says whether it is to fail; as a status, that of a launch that lacks resources
 * or, when all calls fail from now on, of a kernel that went wrong. */
bool emulated_failure(void);
/* Whether all calls fail from now on: what is queued is never done. */
bool emulated_is_lost(void);
int emulated_failure_status(void);

/* For the stand-in of NCCL, found in the module by these names: appends work(arg) to a stream, or
 * to its capture, and gives a status. Work that waits for another process calls emulate_pending,
 * and is called again. */
typedef int emulate_queue_fn(void *stream, void (*work)(void *arg), const void *arg, size_t bytes);
typedef void emulate_pending_fn(void);
typedef bool emulate_is_captured_fn(const void *stream);

/* For tests, found in the module by these names. Calls are counted from 1 since the last
 * emulate_fail_at; that one fails, and with sticky all after it. 0 = none. */
typedef void emulate_fail_at_fn(int64_t call, bool sticky);
typedef int64_t emulate_calls_fn(void);
/* Returns the number of open blocks of device and host memory, streams and events: 0 once all
 * contexts are closed. */
typedef int64_t emulate_held_fn(void);
/* How often the host has waited for a stream. */
typedef int64_t emulate_waits_fn(void);
/* Graphs that are open, and recordings made of them. */
typedef int64_t emulate_graphs_fn(void);
/* How much work of other streams than the first the last graph has that was captured. */
typedef int64_t emulate_beside_fn(void);
/* Work that waits in the streams. */
typedef int64_t emulate_queued_fn(void);
/* The first ranges that were pushed and popped, as "name{" and "}". */
enum { EMULATED_RANGES_SIZE = 1 << 14 };
typedef const char *emulate_ranges_fn(void);
/* How often the emulated library was asked what it has. */
typedef int64_t emulate_listings_fn(void);

#ifdef __cplusplus
}
#endif

#endif
