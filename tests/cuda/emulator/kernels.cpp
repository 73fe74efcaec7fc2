/* kernels.cpp: the emulator's blocks and threads. */
#include "../../sanitizers.h"
#include "driver.h"
#include "emulator.h"
#include "graphs.h"
#include "streams.h"
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#if ADDRESS_SANITIZER
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
#endif

emulated_place threadIdx, blockIdx, blockDim, gridDim;

namespace
{

enum { MAX_THREADS = 1024, STACK_BYTES = 64 << 10 };

/* Runs a block's threads one after the other until one waits, which keeps the coroutine; the next
 * one then runs the threads after it. Most kernels have no barrier and need one coroutine. */
struct coroutine {
    ucontext_t first;
    jmp_buf place;
    char *stack;
    bool begun, waits; /* waits: at __syncthreads */
    void *fake_stack;
};

coroutine coroutines[MAX_THREADS];
jmp_buf scheduler;
unsigned running, next_thread; /* the coroutine that runs; the first thread that has not begun */
void (*body)(void *);
void *body_arg;

/* Tell AddressSanitizer on which stack we are. */
void before_switch(void **fake_stack, const void *bottom, size_t size)
{
#if ADDRESS_SANITIZER
    __sanitizer_start_switch_fiber(fake_stack, bottom, size);
#else
    (void)fake_stack;
    (void)bottom;
    (void)size;
#endif
}

const void *scheduler_stack;
size_t scheduler_size;
void *scheduler_fake;

void after_switch(void *fake_stack, const void **bottom, size_t *size)
{
#if ADDRESS_SANITIZER
    __sanitizer_finish_switch_fiber(fake_stack, bottom, size);
#else
    (void)fake_stack;
    (void)bottom;
    (void)size;
#endif
}

/* AddressSanitizer's _longjmp makes the whole stack accessible, for frames that are left behind.
 * There are none here, and it took most of the time: the C library's own is called. */
void jump(jmp_buf place)
{
#if ADDRESS_SANITIZER
    static void (*const own)(jmp_buf, int) = (void (*)(jmp_buf, int))dlsym(RTLD_NEXT, "_longjmp");
    own(place, 1);
#else
    _longjmp(place, 1);
#endif
}

void to_scheduler(coroutine *self)
{
    if (_setjmp(self->place) == 0) {
        before_switch(&self->fake_stack, scheduler_stack, scheduler_size);
        jump(scheduler);
    }
    after_switch(self->fake_stack, &scheduler_stack, &scheduler_size);
}

void coroutine_main(void)
{
    coroutine *self = &coroutines[running];
    after_switch(NULL, &scheduler_stack, &scheduler_size);
    for (;;) {
        while (next_thread < blockDim.x) {
            threadIdx.x = next_thread++;
            body(body_arg);
        }
        self->waits = false;
        to_scheduler(self);
    }
}

bool prepare(coroutine *c)
{
    if (c->stack) return true;
    c->stack = (char *)malloc(STACK_BYTES);
    if (!c->stack) return false;
    getcontext(&c->first);
    c->first.uc_stack.ss_sp = c->stack;
    c->first.uc_stack.ss_size = STACK_BYTES;
    makecontext(&c->first, coroutine_main, 0);
    return true;
}

/* Runs a coroutine until no thread is left for it, or the next __syncthreads. Returns whether it
 * waits there. */
bool run_coroutine(unsigned i)
{
    coroutine *c = &coroutines[i];
    running = i;
    if (_setjmp(scheduler) == 0) {
        before_switch(&scheduler_fake, c->stack, STACK_BYTES);
        if (c->begun) jump(c->place);
        c->begun = true;
        setcontext(&c->first);
    }
    after_switch(scheduler_fake, NULL, NULL);
    return coroutines[running].waits;
}

void run_block(unsigned n_threads)
{
    unsigned n_waiting = 0;
    next_thread = 0;
    while (next_thread < n_threads) n_waiting += run_coroutine(n_waiting);
    while (n_waiting != 0) {
        /* Some at the barrier and some at the end: on a GPU that is undefined. */
        if (n_waiting != n_threads) abort();
        n_waiting = 0;
        for (unsigned t = 0; t < n_threads; t++) { /* thread t is in coroutine t */
            threadIdx.x = t;
            n_waiting += run_coroutine(t);
        }
    }
}

} /* namespace */

void emulate_syncthreads(void)
{
    coroutine *self = &coroutines[running];
    self->waits = true;
    to_scheduler(self);
}

namespace
{

struct launch {
    unsigned n_blocks, n_threads;
    void (*body)(void *);
    max_align_t arg[1]; /* as many bytes as it has */
};

void run_launch(void *arg)
{
    launch *l = (launch *)arg;
    body = l->body;
    body_arg = l->arg;
    blockDim.x = l->n_threads;
    gridDim.x = l->n_blocks;
    for (unsigned b = 0; b < l->n_blocks; b++) {
        blockIdx.x = b;
        run_block(l->n_threads);
    }
}

} /* namespace */

int emulate_launch(void *stream, unsigned n_blocks, unsigned n_threads, void (*new_body)(void *arg),
                   const void *arg, size_t arg_bytes)
{
    int status = emulated_enter(stream);
    if (status == 0) status = emulated_take_error();
    if (status != 0) return status;
    if (n_blocks == 0 || n_threads == 0 || n_threads > MAX_THREADS) return 9; /* configuration */
    for (unsigned t = 0; t < n_threads; t++)
        if (!prepare(&coroutines[t])) return 2; /* memory */
    launch *l = (launch *)emulated_queue(stream, run_launch, sizeof(launch) + arg_bytes);
    if (!l) return 2;
    l->n_blocks = n_blocks;
    l->n_threads = n_threads;
    l->body = new_body;
    memcpy(l->arg, arg, arg_bytes);
    emulated_streams_advance();
    return 0;
}
