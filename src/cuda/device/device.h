/* cuda.h: the CUDA device, and what its providers of kernels share.
 *
 * An op's kernel comes from one of the providers: NVIDIA's libraries (cudnn/ for convolutions,
 * blas.c for linear layers), and our own kernels (own.c, kernels/) for everything between, and for
 * what the libraries leave out.
 *
 * Work of a device goes to the stream COMPUTE, but for copies of what comes next, and for kernels
 * that are launched in SIDE meanwhile. Sums have an order that shapes alone decide; nothing is
 * added by atomics but integers. */
#ifndef LS_CUDA_CUDA_H
#define LS_CUDA_CUDA_H

#include "base/text.h"
#include "cuda/device/driver.h"
#include "cuda/kernels/kernels.h"
#include "backend/backend.h"

typedef struct ls__cuda ls__cuda;

/* A provider lists and makes kernels as ls__backend's slots of the same names do. `state` is what
 * its open gave. */
typedef struct ls__cuda_provider {
    const char *name;
    /* Both NULL for our own kernels: "cuDNN", and what loads it, see libraries.h. Where it can't be
     * loaded the provider is left out. */
    const char *title;
    bool (*load)(char *text, size_t size);
    int64_t channel_multiple; /* as ls__backend's slot; 0 where any number of channels is as good */
    ls_status (*open)(ls__cuda *cuda, void **state); /* these two may be NULL */
    void (*close)(ls__cuda *cuda, void *state);
    /* "cuDNN 9.19.0"; may be NULL. */
    const char *(*library)(void *state);
    int (*candidates)(ls__cuda *cuda, void *state, const ls__op *op, ls__candidate *out, int max);
    ls_status (*kernel_open)(ls__cuda *cuda, void *state, const ls__op *op, const char *name,
                             ls__kernel **out);
} ls__cuda_provider;

enum { LS__CUDA_MAX_PROVIDERS = 4 };

struct ls__cuda {
    ls__device device; /* first */
    const ls__cuda_driver *driver;
    int index;
    ls__cuda_properties properties;
    ls__cuda_stream streams[LS__N_STREAMS];
    ls__cuda_stream stream; /* where kernels are launched: COMPUTE but for a while, see launch_in */
    ls__cuda_event marks[LS__N_STREAMS]; /* how far a stream has come, for another to wait for */
    ls__cuda_event timer[2];             /* opened when they are first used */
    ls__cuda_numbers *numbers;           /* device memory: those of the step under way */
    ls__cuda_numbers known;              /* what they are, once numbers_known */
    bool numbers_known, numbers_used;    /* used: since the recording began */
    bool records;                        /* between capture_begin and capture_end */
    bool left_out[LS__CUDA_MAX_PROVIDERS];
    void *states[LS__CUDA_MAX_PROVIDERS];
    char libraries[512], processor[448], description[1024], driver_text[96];
};

/* The build's, in the order in which they are asked; ends with NULL. */
extern const ls__cuda_provider *const ls__cuda_providers[];
extern const ls__cuda_provider ls__cuda_blas_provider, ls__cuda_own_provider;

/* memory.c: the slots of ls__backend of the same names, and the streams. What streams_open left
 * undone, streams_close leaves out. */
enum {
    LS__CUDA_SEGMENT_BYTES = 2 << 20, /* what the driver deals in */
    LS__CUDA_ALIGNMENT = 256          /* that cuDNN and cuBLASLt require of workspaces */
};
void *ls__cuda_allocate(ls__device *device, size_t bytes);
void ls__cuda_release(ls__device *device, void *memory, size_t bytes);
void *ls__cuda_host_allocate(ls__device *device, size_t bytes);
void ls__cuda_host_release(ls__device *device, void *memory, size_t bytes);
size_t ls__cuda_free_bytes(ls__device *device);
ls_status ls__cuda_streams_open(ls__cuda *cuda);
void ls__cuda_streams_close(ls__cuda *cuda);
ls_status ls__cuda_stream_wait(ls__device *device, ls__stream waiting, ls__stream awaited);
void ls__cuda_launch_in(ls__device *device, ls__stream stream);
ls_status ls__cuda_wait(ls__device *device);

/* Which device a thread's calls go to is that thread's setting, and a context may change threads:
 * so that every slot begins with this. */
const ls__cuda_driver *ls__cuda_enter(ls__device *device);

/* LS_OK for status 0; otherwise keeps "WHAT: CUDA: ...". After errors with which CUDA is lost to
 * the process the context can only be closed. On the user's thread only. */
ls_status ls__cuda_check(ls__cuda *cuda, int status, const char *what);

/* How far rounding to that type moves a value, relative to it; 0 for f32. */
static inline float ls__cuda_rounding(ls_dtype dtype)
{
    return dtype == LS_BF16 ? 0x1p-8f : dtype == LS_F16 ? 0x1p-11f : 0;
}

/* An error when the work under way is being recorded: for what would be done once only, and so be
 * missing when the recording is launched. */
ls_status ls__cuda_refuse_recording(ls__cuda *cuda, const char *what);

/* work.c: slots of the backend as well. */
ls_status ls__cuda_event_open(ls__device *device, ls__event **out);
ls_status ls__cuda_event_record(ls__device *device, ls__event *event);
ls_status ls__cuda_event_wait(ls__device *device, ls__event *event);
void ls__cuda_event_close(ls__device *device, ls__event *event);
ls_status ls__cuda_timer_start(ls__device *device);
ls_status ls__cuda_timer_stop(ls__device *device, double *ms);
ls_status ls__cuda_read(ls__device *device, void *host, const void *memory, size_t bytes);
ls_status ls__cuda_write(ls__device *device, void *memory, const void *host, size_t bytes);
ls_status ls__cuda_queue_download(ls__device *device, void *host, const void *memory, size_t bytes);
ls_status ls__cuda_queue_upload(ls__device *device, void *memory, const void *host, size_t bytes,
                                ls__event *after, ls__event *done);
ls_status ls__cuda_queue_copy(ls__device *device, void *dst, const void *src, size_t bytes);
ls_status ls__cuda_queue_clear(ls__device *device, void *memory, size_t bytes);
ls_status ls__cuda_queue_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from,
                              const void *src, int64_t count);
ls_status ls__cuda_queue_digest(ls__device *device, const void *memory, size_t bytes,
                                uint64_t offset, ls__digest_sum *sum);
ls_status ls__cuda_queue_gather(ls__device *device, float *out, const float *const *scalars, int n);
/* Brings the step's numbers to the device, unless they are there; queued. */
ls_status ls__cuda_set_numbers(ls__cuda *cuda, const ls__step *step);

/* In capture.c: slots of the backend. */
ls_status ls__cuda_recording_begin(ls__device *device, const ls__step *step);
ls_status ls__cuda_recording_end(ls__device *device, ls__captured **out);
ls_status ls__cuda_recording_launch(ls__device *device, ls__captured *recording,
                                    const ls__step *step);
void ls__cuda_recording_close(ls__device *device, ls__captured *recording);

/* Adds those of the process's environment variables by which NVIDIA's libraries may change their
 * kernels, ", NVIDIA_TF32_OVERRIDE=0", sorted; what is too long or has unusual characters as a
 * hash of all. */
void ls__cuda_environment(ls__text *out);

extern const ls__backend ls__cuda_backend;

#endif
