/* pause.h: pauses between tests of something that other processes or a device complete. */
#ifndef LS_BASE_PAUSE_H
#define LS_BASE_PAUSE_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

/* A test takes 0.1 to 1 microseconds, so the first tests cover the latency of shared memory. After
 * them other threads run: a thread that spins beside busy cores takes the time that it waits for.
 * The longest sleep is small beside an exchange of gradients, tens of ms on CPUs. */
enum {
    LS__N_SPINS = 100,
    LS__N_YIELDS = 100,
    LS__MIN_SLEEP_NS = 20000,
    LS__MAX_SLEEP_NS = 1000000
};

/* Zeros before the first test, and where the pauses begin again. */
typedef struct ls__pauses {
    int64_t n_tests;
    long sleep_ns;
} ls__pauses;

/* Pauses after a test without progress. */
static inline void ls__pause(ls__pauses *pauses)
{
    if (++pauses->n_tests <= LS__N_SPINS) return;
    if (pauses->n_tests <= LS__N_SPINS + LS__N_YIELDS) {
        sched_yield();
        return;
    }
    if (pauses->sleep_ns == 0) pauses->sleep_ns = LS__MIN_SLEEP_NS;
    nanosleep(&(struct timespec){ .tv_nsec = pauses->sleep_ns }, NULL);
    pauses->sleep_ns =
        pauses->sleep_ns < LS__MAX_SLEEP_NS / 2 ? 2 * pauses->sleep_ns : LS__MAX_SLEEP_NS;
}

#endif
