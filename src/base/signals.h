/* signals.h: no handler of a signal runs in this thread for a while. */
#ifndef LS_BASE_SIGNALS_H
#define LS_BASE_SIGNALS_H

#include <signal.h>

/* Blocks all signals but those of faults, which can't wait. */
static inline void ls__block_signals(sigset_t *before)
{
    sigset_t blocked;
    sigfillset(&blocked);
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };
    for (int i = 0; i < (int)(sizeof faults / sizeof faults[0]); i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

static inline void ls__restore_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

#endif
