/* device.h: an open CUDA device: its state, and the check of every call.
 *
 * Kernels and copies are queued in the stream COMPUTE. Uploads of the next batch go to COPY, and
 * kernels that run at the same time as COMPUTE's go to SIDE. The order of every sum depends on
 * shapes alone. Atomics add integers only. */
#ifndef LS_CUDA_DEVICE_DEVICE_H
#define LS_CUDA_DEVICE_DEVICE_H

#include "backend/backend.h"
#include "cuda/device/driver.h"

enum {
    LS__CUDA_MAX_PROVIDERS = 4,
    LS__CUDA_ALIGNMENT = 256 /* cuDNN and cuBLASLt require it of workspaces */
};

typedef struct ls__cuda {
    ls__device device; /* first */
    const ls__cuda_driver *driver;
    int index;
    ls__cuda_properties properties;
    ls__cuda_stream streams[LS__N_STREAMS];
    ls__cuda_stream stream; /* kernels are launched here: COMPUTE, or SIDE (launch_in) */
    ls__cuda_event marks[LS__N_STREAMS]; /* recorded in a stream, and another waits for it */
    ls__cuda_event timer[2];             /* opened on first use */
    ls__step *device_step;               /* device memory: kernels read the current step here */
    ls__step step;                       /* the content of *device_step, if step_known */
    bool step_known, step_used;          /* step_used: by a kernel since the capture began */
    bool capturing;                      /* between capture_begin and capture_end */
    struct ls__nccl_comm *ranks;         /* nccl/ranks.h; NULL: not connected */
    bool left_out[LS__CUDA_MAX_PROVIDERS];
    void *states[LS__CUDA_MAX_PROVIDERS]; /* of the providers */
    char libraries[512], processor[448], description[1024], driver_text[96];
} ls__cuda;

/* Makes this device the thread's current one, which is a setting of each thread. Every slot calls
 * it first, because a context may be used by one thread after another. */
const ls__cuda_driver *ls__cuda_enter(ls__device *device);

/* LS_OK for status 0. Otherwise the error "WHAT: CUDA: ..." is kept. After a sticky error the
 * context can only be closed. On the user's thread only. */
ls_status ls__cuda_check(ls__cuda *cuda, int status, const char *what);

/* An error during graph capture. For a change that is made once and that a replay would not
 * repeat. */
ls_status ls__cuda_refuse_capture(ls__cuda *cuda, const char *what);

#endif
