/* slots.h: the slots of ls__backend that the files of this folder implement, under the slots'
 * names. backend.h documents them. */
#ifndef LS_CUDA_DEVICE_SLOTS_H
#define LS_CUDA_DEVICE_SLOTS_H

#include "base/text.h"
#include "cuda/device/device.h"

/* streams.c. finish_stream and finish_event wait, but not for ranks that do not answer: before each
 * call of the driver that waits. */
ls_status ls__cuda_finish_stream(ls__cuda *cuda, ls__cuda_stream stream, const char *what);
ls_status ls__cuda_finish_event(ls__cuda *cuda, ls__cuda_event event, const char *what);
/* streams_close also closes what a failed streams_open has opened. */
ls_status ls__cuda_streams_open(ls__cuda *cuda);
void ls__cuda_streams_close(ls__cuda *cuda);
ls_status ls__cuda_stream_wait(ls__device *device, ls__stream waiting, ls__stream awaited);
void ls__cuda_launch_in(ls__device *device, ls__stream stream);
ls_status ls__cuda_wait(ls__device *device);
ls_status ls__cuda_event_open(ls__device *device, ls__event **out);
ls_status ls__cuda_event_record(ls__device *device, ls__event *event);
ls_status ls__cuda_event_wait(ls__device *device, ls__event *event);
void ls__cuda_event_close(ls__device *device, ls__event *event);
ls_status ls__cuda_timer_start(ls__device *device);
ls_status ls__cuda_timer_stop(ls__device *device, double *ms);
/* An upload, which uses COPY and two events. */
ls_status ls__cuda_upload(ls__device *device, void *memory, const void *host, size_t bytes,
                          ls__event *after, ls__event *done);

/* memory.c */
void *ls__cuda_allocate(ls__device *device, size_t bytes);
void ls__cuda_release(ls__device *device, void *memory, size_t bytes);
void *ls__cuda_host_allocate(ls__device *device, size_t bytes);
void ls__cuda_host_release(ls__device *device, void *memory, size_t bytes);
size_t ls__cuda_free_bytes(ls__device *device);
ls_status ls__cuda_read(ls__device *device, void *host, const void *memory, size_t bytes);
ls_status ls__cuda_write(ls__device *device, void *memory, const void *host, size_t bytes);
ls_status ls__cuda_download(ls__device *device, void *host, const void *memory, size_t bytes);
ls_status ls__cuda_copy(ls__device *device, void *dst, const void *src, size_t bytes);
ls_status ls__cuda_clear(ls__device *device, void *memory, size_t bytes);
ls_status ls__cuda_queue_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from,
                              const void *src, int64_t count);
ls_status ls__cuda_queue_digest(ls__device *device, ls_dtype dtype, const void *memory,
                                size_t bytes, uint64_t offset, ls__digest_sum *sum);
ls_status ls__cuda_queue_gather(ls__device *device, float *out, const float *const *scalars, int n);

/* capture.c. set_step copies the step to the device, unless it is there; queued. */
ls_status ls__cuda_set_step(ls__cuda *cuda, const ls__step *step);
ls_status ls__cuda_capture_begin(ls__device *device, const ls__step *step);
ls_status ls__cuda_capture_end(ls__device *device, ls__captured **out);
ls_status ls__cuda_captured_launch(ls__device *device, ls__captured *captured,
                                   const ls__step *step);
void ls__cuda_captured_close(ls__device *device, ls__captured *captured);

/* environment.c: appends ", NVIDIA_TF32_OVERRIDE=0" and the like, sorted: the process's environment
 * variables that may change the kernels of NVIDIA's libraries. A hash of them all where the list is
 * too long or has unusual characters. */
void ls__cuda_environment(ls__text *out);

#endif
