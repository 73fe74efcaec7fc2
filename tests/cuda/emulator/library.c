/* library.c: what NVIDIA's libraries are to the backend, emulated: a provider of several kernels
 * for one op, which takes part when the environment's LOCKSTEP_EMULATED_LIBRARY is set. Its kernels
 * are our own direct ones under other names, for convolutions:
 *
 *   "emulated 1"    can be listed, and not made: libraries refuse some of what they name
 *   "emulated 2"    the best one that can be had
 *   "emulated 3"
 *   "emulated 4"    is not deterministic
 *
 * LOCKSTEP_EMULATED_LIBRARY=missing makes loading fail, broken makes listing fail.
 * LOCKSTEP_EMULATED_LIBRARY=fused has kernels for the optional convolutions instead, "emulated
 * fused", which run in fused.cpp. */
#include "base/alloc.h"
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

static bool is_mode(const char *mode)
{
    const char *wanted = getenv("LOCKSTEP_EMULATED_LIBRARY");
    return wanted && strcmp(wanted, mode) == 0;
}

static bool is_for(const ls__op *op)
{
    return getenv("LOCKSTEP_EMULATED_LIBRARY") && !is_mode("fused") && op->kind >= LS__OP_CONV2D &&
           op->kind <= LS__OP_CONV2D_BACKWARD_WEIGHTS;
}

static bool is_for_fused(const ls__op *op)
{
    return is_mode("fused") && ls__op_is_optional(op->kind) && ls__op_is_convolution(op->kind) &&
           op->operands[0].dtype == LS_F16;
}

static const char fused_name[] = "emulated fused";

typedef struct fused_kernel {
    ls__kernel kernel; /* first */
    ls__cuda *cuda;
    ls__op op;
} fused_kernel;

static ls_status fused_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                           const ls__step *step)
{
    (void)step;
    fused_kernel *k = (fused_kernel *)kernel;
    return ls__cuda_check(k->cuda, emulate_fused(&k->op, buffers, workspace, k->cuda->stream),
                          ls__op_name(k->op.kind));
}

static void fused_close(ls__kernel *kernel)
{
    ls__free(((fused_kernel *)kernel)->cuda->device.ctx, kernel);
}

static ls_status fused_open(ls__cuda *cuda, const ls__op *op, ls__kernel **out)
{
    fused_kernel *k = ls__zalloc(cuda->device.ctx, sizeof(*k));
    if (!k) return ls__fail_memory(cuda->device.ctx, fused_name, sizeof(*k));
    snprintf(k->kernel.name, sizeof(k->kernel.name), "%s", fused_name);
    for (int i = 0; i < op->n_operands; i++)
        if (op->operands[i].shape.n_dims == 4)
            k->kernel.workspace_bytes +=
                (size_t)ls_shape_count(&op->operands[i].shape) * sizeof(double);
    k->kernel.run = fused_run;
    k->kernel.close = fused_close;
    k->cuda = cuda;
    k->op = *op;
    *out = &k->kernel;
    return LS_OK;
}

/* Libraries work for the device that is current in the thread. */
static ls_status check_device(ls__cuda *cuda, const ls__op *op)
{
    if (emulated_current_device() == cuda->index) return LS_OK;
    return ls__fail(cuda->device.ctx, LS_ERR_DEVICE,
                    "%s: emulated: device %d is current, expected device %d", ls__op_name(op->kind),
                    emulated_current_device(), cuda->index);
}

static int candidates(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out, int max)
{
    (void)state;
    if (max > 0 && is_for_fused(op)) {
        *out = (ls__candidate){ .deterministic = true };
        snprintf(out->name, sizeof(out->name), "%s", fused_name);
        return 1;
    }
    if (!is_for(op)) return 0;
    n_listings++;
    if (check_device(cuda, op) != LS_OK) return 0;
    if (is_mode("broken")) {
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
    LS_TRY(check_device(cuda, op));
    if (is_for_fused(op) && strcmp(name, fused_name) == 0) return fused_open(cuda, op, out);
    const int number = atoi(name + strcspn(name, " "));
    if (!is_for(op) || number <= UNMADE || number > LAST)
        return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: '%s' can't be made",
                        ls__op_name(op->kind), name);
    LS_TRY(ls__cuda_own_provider.kernel_open(cuda, NULL, op, "own direct", out));
    snprintf((*out)->name, sizeof((*out)->name), "%s", name);
    (*out)->nondeterministic = number == UNREPEATED;
    return LS_OK;
}

static bool load(char *text, size_t size)
{
    snprintf(text, size, is_mode("missing") ? "emulated: it is not there" : "the emulator");
    return !is_mode("missing");
}

const ls__cuda_provider emulated_library = { .name = "emulated",
                                             .title = "emulated library",
                                             .load = load,
                                             .candidates = candidates,
                                             .kernel_open = kernel_open };

const ls__cuda_provider *const ls__cuda_providers[] = { &emulated_library, &ls__cuda_own_provider,
                                                        NULL };
