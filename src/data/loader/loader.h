/* loader.h: the loader: a ring of batches, and workers that fill them image by image. */
#ifndef LS_DATA_LOADER_LOADER_H
#define LS_DATA_LOADER_LOADER_H

#include "base/queue.h"
#include "data/dataset/dataset.h"
#include "data/transform/transform.h"
#include "tensor/tensor.h"
#include <stdatomic.h>

/* A sample that could not be used, as a worker reports it to the caller. */
typedef struct ls__bad_sample {
    struct ls__bad_sample *next;
    int64_t sample;
    ls_status status;
    char reason[LS__REASON_SIZE];
} ls__bad_sample;

/* How one image of a batch was filled. */
typedef struct ls__item_result {
    ls_status status;
    ls__bad_sample *bads; /* those tried before, in order; incomplete when out of memory */
} ls__item_result;

/* A batch that is being filled, ready, or held by the caller. */
typedef struct ls__slot {
    void *block; /* labels, then pixels, of a full batch: memory that the host can write */
    int32_t *label_values; /* in it */
    uint8_t *pixels;
    int64_t *samples;
    ls__item_result *results;
    ls__event *uploaded; /* this and the next: only where host_memory is false */
    bool uploading;      /* the block must not be written */
} ls__slot;

/* Device memory that batches are copied to where the host can't write it. There are two, so that
 * one is filled while the device still reads the other. */
typedef struct ls__staging_buffer {
    void *memory;    /* as a slot's block */
    ls__event *read; /* the device has finished with the batch before */
} ls__staging_buffer;
enum { LS__N_STAGING_BUFFERS = 2 };

/* A worker's own memory. */
typedef struct ls__loader_worker {
    ls__decoder decoder;
    ls__transformer transformer;
} ls__loader_worker;

typedef struct ls__known_bad {
    int64_t sample;
    char *reason;
} ls__known_bad;

struct ls_loader {
    ls__owned owned;
    ls_dataset *dataset;
    ls_loader_config config; /* defaults filled in */
    ls__transform transform;
    int64_t n_steps; /* per epoch */
    size_t sample_bytes;
    size_t label_bytes; /* of a block, before its pixels */
    bool host_memory;   /* workers write into device memory */

    ls__queue *queue;
    int n_slots, n_workers; /* n_workers: at least 1, for the caller's thread */
    ls__slot *slots;
    ls__staging_buffer staging[LS__N_STAGING_BUFFERS];
    int64_t n_uploads;
    int held_slot; /* the slot that the caller holds, where it was uploaded; -1 = none */
    ls_tensor image_view, label_view; /* its tensors for the caller */
    ls__loader_worker *workers;
    /* n_samples: read once without an error, so that data after the region are not read again. It
     * saves time and changes no result, as long as the files do not change. */
    atomic_bool *known_whole;

    bool started;
    int64_t epoch, step; /* step: the next one to deliver */
    ls_status status;    /* of the epoch */
    int64_t n_images;
    double wait_seconds;
    ls__known_bad *bads; /* sorted by sample */
    int64_t n_bads, bad_capacity;
};

/* Checks the configuration against the dataset and fills in defaults: config, transform, n_steps.
 * Errors are kept in the context. */
ls_status ls__loader_configure(ls_loader *loader, const ls_loader_config *config);

/* Sets the samples that are known to be unreadable, n in ascending order, copied: those that a
 * resumed run had found. */
ls_status ls__loader_set_bads(ls_loader *loader, int64_t n, const int64_t *samples,
                              const char *const *reasons);

/* ---- Staging: how blocks get to the device ---- */

/* Allocates the slots' blocks and the staging buffers. */
ls_status ls__staging_open(ls_loader *loader);
/* Waits for uploads. */
void ls__staging_close(ls_loader *loader);
/* The caller has queued all its work on the batch that it holds. */
ls_status ls__staging_release(ls_loader *loader);
/* Waits until workers may write to all slots but the held one, or to all. */
ls_status ls__staging_wait(ls_loader *loader, bool all);
/* Uploads the first `bytes` of the slot's block. *memory: where work queued from now on reads them.
 */
ls_status ls__staging_upload(ls_loader *loader, ls__slot *slot, size_t bytes, void **memory);

/* Fills one image of a batch: an ls__queue_fn whose arg is the loader. */
void ls__loader_fill(void *loader, const ls__queue_item *item);

/* "image 'cats/1.jpg'" or "sample 7", for messages. */
enum { LS__SAMPLE_TEXT_SIZE = 600 };
const char *ls__sample_text(const ls_dataset *dataset, int64_t sample,
                            char buffer[LS__SAMPLE_TEXT_SIZE]);

#endif
