/* library.c: what NVIDIA's libraries are to the backend, emulated: a provider of several kernels
 * for one op, which takes part when the environment's LOCKSTEP_EMULATED_LIBRARY is set. Its kernels
 * are our own direct ones under other names, for convolutions:
 *
 *   "emulated 1"    can be listed, and not made: libraries refuse some of what they name
 *   "emulated 2"    the best one that can be had
 *   "emulated 3"
 *   "emulated 4"    is not deterministic
 *
 * LOCKSTEP_EMULATED_LIBRARY=broken makes listing fail. LOCKSTEP_EMULATED_LIBRARY=fused has kernels
 * for the optional convolutions instead, "emulated fused", which run in fused.cpp.
 *
 * The device's clock gives every launch 0.1 ms. LOCKSTEP_EMULATED_MS="emulated 3=5,
 * conv2d_statistics=2" lets runs of these kernels, or of all kernels for these ops, take so many
 * milliseconds more. LOCKSTEP_EMULATED_FAULTS="emulated 2=run, emulated 3=capture,
 * conv2d_statistics=open" lets runs of these fail, always or while they are captured, or refuses to
 * make the fused kernels for that op. */
#include "base/alloc.h"
#include "base/error.h"
#include "driver.h"
#include "graphs.h"
#include "library.h"
#include "streams.h"
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
           ls__is_half(&op->operands[0]);
}

static const char fused_name[] = "emulated fused";

typedef struct library_kernel {
    ls__kernel kernel; /* first */
    ls__cuda *cuda;
    ls__op op;
    ls__kernel *inner; /* our own; NULL: fused.cpp's */
} library_kernel;

/* What a variable like LOCKSTEP_EMULATED_MS says of a name; "" when it says nothing. */
static const char *setting_of(const char *variable, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = getenv(variable); at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
    }
    return "";
}

static ls_status library_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                             const ls__step *step)
{
    enum { LAUNCH_OUT_OF_RESOURCES = 701 };
    library_kernel *k = (library_kernel *)kernel;
    const char *op = ls__op_name(k->op.kind);
    const char *fault = setting_of("LOCKSTEP_EMULATED_FAULTS", k->kernel.name);
    const double ms = atof(setting_of("LOCKSTEP_EMULATED_MS", k->kernel.name)) +
                      atof(setting_of("LOCKSTEP_EMULATED_MS", op));
    int status = strncmp(fault, "run", 3) == 0       ? LAUNCH_OUT_OF_RESOURCES
                 : strncmp(fault, "capture", 7) == 0 ? emulated_forbids()
                                                     : 0;
    if (status == 0 && ms > 0) status = emulated_spend(k->cuda->stream, ms);
    if (status == 0 && k->inner) return k->inner->run(k->inner, buffers, workspace, step);
    if (status == 0) status = emulate_fused(&k->op, buffers, workspace, k->cuda->stream);
    return ls__cuda_check(k->cuda, status, op);
}

static void library_close(ls__kernel *kernel)
{
    library_kernel *k = (library_kernel *)kernel;
    if (k->inner) k->inner->close(k->inner);
    ls__free(k->cuda->device.ctx, k);
}

static ls_status library_open(ls__cuda *cuda, const ls__op *op, const char *name, ls__kernel **out)
{
    library_kernel *k = ls__zalloc(cuda->device.ctx, sizeof(*k));
    if (!k) return ls__fail_memory(cuda->device.ctx, name, sizeof(*k));
    snprintf(k->kernel.name, sizeof(k->kernel.name), "%s", name);
    k->kernel.run = library_run;
    k->kernel.close = library_close;
    k->cuda = cuda;
    k->op = *op;
    *out = &k->kernel;
    return LS_OK;
}

static ls_status fused_open(ls__cuda *cuda, const ls__op *op, ls__kernel **out)
{
    const char *name = ls__op_name(op->kind);
    if (strncmp(setting_of("LOCKSTEP_EMULATED_FAULTS", name), "open", 4) == 0)
        return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: '%s' can't be made", name,
                        fused_name);
    LS_TRY(library_open(cuda, op, fused_name, out));
    for (int i = 0; i < op->n_operands; i++)
        if (op->operands[i].shape.n_dims == 4)
            (*out)->workspace_bytes +=
                (size_t)ls_shape_count(&op->operands[i].shape) * sizeof(double);
    return LS_OK;
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
    if (is_for_fused(op) && strcmp(name, fused_name) == 0) return fused_open(cuda, op, out);
    const int number = atoi(name + strcspn(name, " "));
    if (!is_for(op) || number <= UNMADE || number > LAST)
        return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: '%s' can't be made",
                        ls__op_name(op->kind), name);
    LS_TRY(library_open(cuda, op, name, out));
    library_kernel *k = (library_kernel *)*out;
    const ls_status status =
        ls__cuda_own_provider.kernel_open(cuda, NULL, op, "own direct", &k->inner);
    if (status != LS_OK) {
        library_close(*out);
        *out = NULL;
        return status;
    }
    k->kernel.workspace_bytes = k->inner->workspace_bytes;
    k->kernel.nondeterministic = number == UNREPEATED;
    return LS_OK;
}

const ls__cuda_provider emulated_library = { .name = "emulated",
                                             .candidates = candidates,
                                             .kernel_open = kernel_open };
