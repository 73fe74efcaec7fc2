/* threads.h: the pool that runs an op's tasks. An op is a list of tasks cut by shape alone; threads
 * only decide who runs which task, so results cannot depend on how many there are. */
#ifndef LS_BASE_THREADS_H
#define LS_BASE_THREADS_H

#include <lockstep/context.h>

typedef struct ls__threads ls__threads;

/* One task. `thread` in 0..n_threads-1 tells which scratch memory is this thread's. */
typedef void (*ls__task_fn)(void *arg, int64_t task, int thread);

/* n_threads >= 1, the caller's thread among them. `start` (may be NULL) has run once in
 * each new thread when this returns; false means that it had no memory. */
ls_status ls__threads_open(ls_context *ctx, int n_threads, bool (*start)(void), ls__threads **out);
void ls__threads_close(ls__threads **threads);
int ls__threads_count(const ls__threads *threads);

/* Runs fn(arg, 0..n_tasks-1), each once, and returns when all are done. Allocates nothing. One
 * caller at a time; must not be called from a task. n_tasks 1 runs in the caller. */
void ls__threads_run(ls__threads *threads, int64_t n_tasks, ls__task_fn fn, void *arg);

/* For measuring: as long as `observe` is set, runs go one task after the other in the caller's
 * thread, and observe hears of each task's time; n_tasks with the first of a run, else 0. NULL ends
 * that. */
typedef void (*ls__observe_fn)(void *user, int64_t n_tasks, double seconds);
void ls__threads_observe(ls__threads *threads, ls__observe_fn observe, void *user);

/* Processors this process may run on (affinity and cgroup quota respected), at least 1. */
int ls__available_processors(void);

/* The smallest CPU quota, rounded up to processors, among a process's cgroups and their parents; 0
 * = no quota. `membership` is the text of /proc/self/cgroup, `mount` where the hierarchies lie. */
int ls__cgroup_processors(const char *membership, const char *mount);

#endif
