/* library.c: what NVIDIA's libraries are to the backend, emulated: a provider of several kernels
 * for one op, which takes part when the environment's LOCKSTEP_EMULATED_LIBRARY is set. Its kernels
 * are our own direct ones under other names, for convolutions:
 *
 *   "emulated 1"    can be listed, and not made: libraries refuse some of what they name
 *   "emulated 2"    the best one that can be had
 *   "emulated 3"
 *   "emulated 4"    is not deterministic
 *
 * LOCKSTEP_EMULATED_LIBRARY=broken makes listing fail. */
#include "base/error.h"
#include "driver.h"
#include "library.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 1, UNMADE = 1, UNREPEATED = 4, LAST = 4 };

static int64_t n_listings;
__attribute__((visibility("default"))) emulate_listings_fn emulate_listings;

int64_t emulate_listings(void)
{
    return n_listings;
}

static bool is_for(const ls__op *op)
{
    return getenv("LOCKSTEP_EMULATED_LIBRARY") && op->kind >= LS__OP_CONV2D &&
           op->kind <= LS__OP_CONV2D_BACKWARD_WEIGHTS;
}

static int candidates(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out, int max)
{
    (void)state;
    if (!is_for(op)) return 0;
    n_listings++;
    if (strcmp(getenv("LOCKSTEP_EMULATED_LIBRARY"), "broken") == 0) {
        (void)ls__fail(cuda->device.ctx, LS_ERR_DEVICE, "%s: emulated: it is broken",
                       ls__op_name(op->kind));
        return 0;
    }
    int n = 0;
    for (int i = FIRST; i <= LAST && n < max; i++) {
        ls__candidate *c = &out[n++];
        *c = (ls__candidate){ .deterministic = i != UNREPEATED, .cost_ms = i };
        snprintf(c->name, sizeof(c->name), "emulated %d", i);
    }
    return n;
}

static ls_status kernel_open(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                             ls__kernel **out)
{
    (void)state;
    const int number = atoi(name + strcspn(name, " "));
    if (!is_for(op) || number <= UNMADE || number > LAST)
        return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: '%s' can't be made",
                        ls__op_name(op->kind), name);
    LS_TRY(ls__cuda_own_provider.kernel_open(cuda, NULL, op, "own direct", out));
    snprintf((*out)->name, sizeof((*out)->name), "%s", name);
    (*out)->nondeterministic = number == UNREPEATED;
    return LS_OK;
}

const ls__cuda_provider emulated_library = { .name = "emulated",
                                             .candidates = candidates,
                                             .kernel_open = kernel_open };
