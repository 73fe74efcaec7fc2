/* threads.h: the pool that runs an op's tasks. The shapes alone divide an op into tasks. Which
 * thread runs a task changes no result, so results do not depend on the number of threads. */
#ifndef LS_BASE_THREADS_H
#define LS_BASE_THREADS_H

#include <lockstep/context.h>

typedef struct ls__threads ls__threads;

/* One task. `thread` is the index of the thread and of its scratch memory, 0..n_threads-1. */
typedef void (*ls__task_fn)(void *arg, int64_t task, int thread);

/* n_threads >= 1 includes the caller's thread. `start` (may be NULL) runs once in each new thread
 * before this returns; it returns false if memory is short. */
ls_status ls__threads_open(ls_context *ctx, int n_threads, bool (*start)(void), ls__threads **out);
void ls__threads_close(ls__threads **threads);
int ls__threads_count(const ls__threads *threads);

/* Runs fn(arg, 0..n_tasks-1), each once, and returns when all are done. Allocates nothing. One
 * caller at a time; must not be called from a task. n_tasks 1 runs in the caller. */
void ls__threads_run(ls__threads *threads, int64_t n_tasks, ls__task_fn fn, void *arg);

/* Measures tasks: while `observe` is set, the caller's thread runs all tasks one by one and calls
 * observe with the duration of each. n_tasks is the number of tasks for the first of a run, else 0.
 * NULL ends the measurement. */
typedef void (*ls__observe_fn)(void *user, int64_t n_tasks, double seconds);
void ls__threads_observe(ls__threads *threads, ls__observe_fn observe, void *user);

#endif
