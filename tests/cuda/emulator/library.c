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
 * fused", which run in fused.cpp.
 *
 * LOCKSTEP_EMULATED_LIBRARY=narrow has "emulated narrow" for 16-bit weight gradients, which rounds
 * them to 16 bits as cuDNN does.
 *
 * The device's clock gives every launch 0.1 ms. LOCKSTEP_EMULATED_MS="emulated 3=5,
 * conv2d_statistics=2" lets runs of these kernels, or of all kernels for these ops, take so many
 * milliseconds more. LOCKSTEP_EMULATED_FAULTS="emulated 2=run, emulated 3=capture,
 * conv2d_statistics=open" lets runs of these fail, always or while they are captured, or refuses to
 * make the fused kernels for that op. */
#include "base/alloc.h"
#include "base/error.h"
#include "driver.h"
#include "library.h"
#include "streams.h"
#include "graphs.h"
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
    return getenv("LOCKSTEP_EMULATED_LIBRARY") && !is_mode("fused") && !is_mode("narrow") &&
           ls__op_is_convolution(op->kind) && !ls__op_is_optional(op->kind);
}

static bool is_for_fused(const ls__op *op)
{
    return is_mode("fused") && ls__op_is_optional(op->kind) && ls__op_is_convolution(op->kind) &&
           ls__is_half(&op->operands[0]);
}

static bool is_for_narrow(const ls__op *op)
{
    return is_mode("narrow") && op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS &&
           ls__is_half(&op->operands[0]);
}

static const char fused_name[] = "emulated fused", narrow_name[] = "emulated narrow";

/* `inner` is our own kernel; NULL for those of fused.cpp. */
typedef struct library_kernel {
    ls__kernel kernel; /* first */
    ls__cuda *cuda;
    ls__op op;
    ls__kernel *inner;
    bool narrow; /* rounds dw to x's type, and widens it again */
} library_kernel;

/* Returns the value that a variable like LOCKSTEP_EMULATED_MS has for a name; "" if it has none. */
static const char *setting_of(const char *variable, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = getenv(variable); at; at = strchr(at, ',')) {
        at += strspn(at, ", ");
        if (strncmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
    }
    return "";
}

static bool has_fault(const char *name, const char *fault)
{
    return strncmp(setting_of("LOCKSTEP_EMULATED_FAULTS", name), fault, strlen(fault)) == 0;
}

static ls_status fail_run(ls__cuda *cuda, const ls__op *op, const char *reason)
{
    emulated_leave_error();
    return ls__fail(cuda->device.ctx, LS_ERR_DEVICE, "%s: emulated: %s", ls__op_name(op->kind),
                    reason);
}

/* The rounded dw lies behind the inner kernel's workspace. */
static size_t narrow_offset(const library_kernel *k)
{
    return (k->inner->workspace_bytes + LS__CUDA_ALIGNMENT - 1) / LS__CUDA_ALIGNMENT *
           LS__CUDA_ALIGNMENT;
}

static ls_status run_narrow(library_kernel *k, void *const *buffers, void *workspace,
                            const ls__step *step)
{
    const ls_dtype dtype = k->op.operands[0].dtype;
    const int64_t count = ls_shape_element_count(&k->op.operands[2].shape);
    void *rounded = (unsigned char *)workspace + narrow_offset(k), *stream = k->cuda->stream;
    LS_TRY(k->inner->run(k->inner, buffers, workspace, step));
    int status = ls__cuda_cast(dtype, rounded, LS_F32, buffers[2], count, stream);
    if (status == 0) status = ls__cuda_cast(LS_F32, buffers[2], dtype, rounded, count, stream);
    return ls__cuda_check(k->cuda, status, narrow_name);
}

static ls_status run(ls__kernel *kernel, void *const *buffers, void *workspace,
                     const ls__step *step)
{
    library_kernel *k = (library_kernel *)kernel;
    const char *op = ls__op_name(k->op.kind);
    const double ms = atof(setting_of("LOCKSTEP_EMULATED_MS", kernel->name)) +
                      atof(setting_of("LOCKSTEP_EMULATED_MS", op));
    if (has_fault(kernel->name, "run")) return fail_run(k->cuda, &k->op, "it fails when it is run");
    int status = has_fault(kernel->name, "capture") ? emulated_forbids() : 0;
    if (status == 0 && ms > 0) status = emulated_spend(k->cuda->stream, ms);
    if (status != 0) return ls__cuda_check(k->cuda, status, op);
    if ((uintptr_t)workspace % LS__CUDA_ALIGNMENT != 0)
        return fail_run(k->cuda, &k->op, "the workspace is not aligned to 256 bytes");
    if (k->narrow) return run_narrow(k, buffers, workspace, step);
    if (k->inner) return k->inner->run(k->inner, buffers, workspace, step);
    return ls__cuda_check(k->cuda, emulate_fused(&k->op, buffers, workspace, k->cuda->stream), op);
}

static void close(ls__kernel *kernel)
{
    library_kernel *k = (library_kernel *)kernel;
    if (k->inner) k->inner->close(k->inner);
    ls__free(k->cuda->device.ctx, k);
}

static ls_status make_kernel(ls__cuda *cuda, const ls__op *op, const char *name,
                             library_kernel **out)
{
    library_kernel *k = ls__zalloc(cuda->device.ctx, sizeof(*k));
    if (!k) return ls__fail_memory(cuda->device.ctx, name, sizeof(*k));
    snprintf(k->kernel.name, sizeof(k->kernel.name), "%s", name);
    k->kernel.unproven = true;
    k->kernel.run = run;
    k->kernel.close = close;
    k->cuda = cuda;
    k->op = *op;
    *out = k;
    return LS_OK;
}

static ls_status fused_open(ls__cuda *cuda, const ls__op *op, ls__kernel **out)
{
    library_kernel *k = NULL;
    if (has_fault(ls__op_name(op->kind), "open"))
        return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: '%s' can't be made",
                        ls__op_name(op->kind), fused_name);
    LS_TRY(make_kernel(cuda, op, fused_name, &k));
    for (int i = 0; i < op->n_operands; i++)
        if (op->operands[i].shape.n_dims == 4)
            k->kernel.workspace_bytes +=
                (size_t)ls_shape_element_count(&op->operands[i].shape) * sizeof(double);
    *out = &k->kernel;
    return LS_OK;
}

static ls_status own_open(ls__cuda *cuda, const ls__op *op, const char *name, library_kernel **out)
{
    library_kernel *k = NULL;
    LS_TRY(make_kernel(cuda, op, name, &k));
    const ls_status status =
        ls__cuda_our_kernels.kernel_open(cuda, NULL, op, "own direct", &k->inner);
    if (status != LS_OK) {
        close(&k->kernel);
        return status;
    }
    k->kernel.workspace_bytes = k->inner->workspace_bytes;
    *out = k;
    return LS_OK;
}

static ls_status narrow_open(ls__cuda *cuda, const ls__op *op, ls__kernel **out)
{
    library_kernel *k = NULL;
    LS_TRY(own_open(cuda, op, narrow_name, &k));
    k->narrow = true;
    k->kernel.error_bound = ls__cuda_rounding(op->operands[0].dtype);
    k->kernel.workspace_bytes =
        narrow_offset(k) +
        (size_t)ls_shape_element_count(&op->operands[2].shape) * sizeof(uint16_t);
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
    if (max > 0 && (is_for_fused(op) || is_for_narrow(op))) {
        *out = (ls__candidate){ .deterministic = true };
        snprintf(out->name, sizeof(out->name), "%s", is_for_fused(op) ? fused_name : narrow_name);
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
    if (is_for_narrow(op) && strcmp(name, narrow_name) == 0) return narrow_open(cuda, op, out);
    const int number = atoi(name + strcspn(name, " "));
    if (number < FIRST || number > LAST)
        return ls__fail(cuda->device.ctx, LS_ERR_NOT_FOUND, "%s: emulated: there is no kernel '%s'",
                        ls__op_name(op->kind), name);
    if (!is_for(op) || number == UNMADE)
        return ls__fail(cuda->device.ctx, LS_ERR_UNSUPPORTED, "%s: '%s' can't be made",
                        ls__op_name(op->kind), name);
    library_kernel *k = NULL;
    LS_TRY(own_open(cuda, op, name, &k));
    k->kernel.nondeterministic = number == UNREPEATED;
    *out = &k->kernel;
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
                                             .channel_multiple = 8,
                                             .candidates = candidates,
                                             .kernel_open = kernel_open };

const ls__cuda_provider *const ls__cuda_providers[] = { &emulated_library, &ls__cuda_our_kernels,
                                                        NULL };
