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
#include <sanitizer/common_interface_defs.h>
#endif

emulated_place threadIdx, blockIdx, blockDim, gridDim;

namespace
{

enum { MAX_THREADS = 1024, STACK_BYTES = 64 << 10 };

/* A thread of a block: runs the body, then waits to run it again for another block. */
struct coroutine {
    ucontext_t first;
    jmp_buf place;
    char *stack;
    bool begun, waits; /* waits: at __syncthreads */
    void *fake_stack;
};

coroutine threads[MAX_THREADS];
jmp_buf scheduler;
unsigned running;
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

void to_scheduler(coroutine *self)
{
    if (_setjmp(self->place) == 0) {
        before_switch(&self->fake_stack, scheduler_stack, scheduler_size);
        _longjmp(scheduler, 1);
    }
    after_switch(self->fake_stack, &scheduler_stack, &scheduler_size);
}

void thread_main(void)
{
    coroutine *self = &threads[running];
    after_switch(NULL, &scheduler_stack, &scheduler_size);
    for (;;) {
        body(body_arg);
        self->waits = false;
        to_scheduler(self);
    }
}

bool prepare(coroutine *thread)
{
    if (thread->stack) return true;
    thread->stack = (char *)malloc(STACK_BYTES);
    if (!thread->stack) return false;
    getcontext(&thread->first);
    thread->first.uc_stack.ss_sp = thread->stack;
    thread->first.uc_stack.ss_size = STACK_BYTES;
    makecontext(&thread->first, thread_main, 0);
    return true;
}

/* Runs a thread until its end or the next __syncthreads. */
void run_thread(unsigned t)
{
    coroutine *thread = &threads[t];
    running = t;
    threadIdx.x = t;
    if (_setjmp(scheduler) == 0) {
        before_switch(&scheduler_fake, thread->stack, STACK_BYTES);
        if (thread->begun) _longjmp(thread->place, 1);
        thread->begun = true;
        setcontext(&thread->first);
    }
    after_switch(scheduler_fake, NULL, NULL);
}

void run_block(unsigned n_threads)
{
    bool waiting = true;
    while (waiting) {
        waiting = false;
        unsigned n_waiting = 0;
        for (unsigned t = 0; t < n_threads; t++) {
            run_thread(t);
            n_waiting += threads[t].waits;
        }
        /* Some at the barrier and some at the end: on a GPU that is undefined. */
        if (n_waiting != 0 && n_waiting != n_threads) abort();
        waiting = n_waiting == n_threads;
    }
}

} /* namespace */

void emulate_syncthreads(void)
{
    coroutine *self = &threads[running];
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
        if (!prepare(&threads[t])) return 2; /* memory */
    launch *l = (launch *)emulated_queue(stream, run_launch, sizeof(launch) + arg_bytes);
    if (!l) return 2;
    l->n_blocks = n_blocks;
    l->n_threads = n_threads;
    l->body = new_body;
    memcpy(l->arg, arg, arg_bytes);
    emulated_streams_advance();
    return 0;
}
