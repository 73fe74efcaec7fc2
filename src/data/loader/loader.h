/* loader.h: what a loader is made of: a ring of batches, and workers that fill them image by
 * image. */
#ifndef LS_DATA_LOADER_LOADER_H
#define LS_DATA_LOADER_LOADER_H

#include "base/queue.h"
#include "data/dataset/dataset.h"
#include "data/transform/transform.h"
#include "tensor/tensor.h"
#include <stdatomic.h>

/* A sample that could not be used, on its way from a worker to the caller. */
typedef struct ls__bad {
    struct ls__bad *next;
    int64_t sample;
    ls_status status;
    char reason[LS__REASON_SIZE];
} ls__bad;

/* One image's place in a batch: whether it was filled, and which samples were tried in vain. */
typedef struct ls__place {
    ls_status status;
    ls__bad *bads; /* in the order of the attempts; not all there when there was no memory */
} ls__place;

/* A batch in the making, ready, or in the caller's hands. */
typedef struct ls__slot {
    void *block; /* labels, then pixels, of a full batch: memory that the host can write */
    int32_t *label_values; /* in it */
    uint8_t *pixels;
    int64_t *samples;
    ls__place *places;
    ls__event *uploaded; /* this and the next: where the device's memory is elsewhere */
    bool uploading;      /* the block must stay as it is */
} ls__slot;

/* Device memory that batches are copied to where the host can't write it. With two of them one is
 * filled while the device still works on the other. */
typedef struct ls__staging {
    void *memory;    /* as a slot's block */
    ls__event *read; /* the device has done what was asked of it with the batch before */
} ls__staging;
enum { LS__N_STAGES = 2 };

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
    ls__staging stages[LS__N_STAGES];
    int64_t n_uploads;
    int out; /* the slot in the caller's hands, where it was uploaded; -1 = none */
    ls_tensor image_view, label_view; /* what the caller gets of it */
    ls__loader_worker *workers;
    /* n_samples: read once without a complaint, so that the next time only the part that is wanted
     * is looked at. It saves time and changes nothing, as long as the files stay as they are. */
    atomic_bool *known_whole;

    bool started;
    int64_t epoch, step; /* step: the next to be handed out */
    ls_status status;    /* of the epoch */
    int64_t n_images;
    double wait_seconds;
    ls__known_bad *bads; /* sorted by sample */
    int64_t n_bads, bad_capacity;
};

/* Checks the configuration against the data set and fills in defaults: config, transform, n_steps.
 * Errors are kept in the context. */
ls_status ls__loader_configure(ls_loader *loader, const ls_loader_config *config);

/* Makes these n samples, in ascending order, the ones that are known to be unreadable: what a run
 * that goes on had found. Copied. */
ls_status ls__loader_set_bads(ls_loader *loader, int64_t n, const int64_t *samples,
                              const char *const *reasons);

/* ---- Blocks' way to the device, in loader_staging.c ---- */

/* Memory of slots and stages. */
ls_status ls__staging_open(ls_loader *loader);
/* Waits for uploads. */
void ls__staging_close(ls_loader *loader);
/* The caller has asked the device for all that it wants of the batch in its hands. */
ls_status ls__staging_give_back(ls_loader *loader);
/* Waits until workers may write to all slots but the one in the caller's hands, or to all. */
ls_status ls__staging_settle(ls_loader *loader, bool all);
/* Where on the device the first `bytes` of the slot's block are for what is queued from now on. */
ls_status ls__staging_upload(ls_loader *loader, ls__slot *slot, size_t bytes, void **memory);

/* Fills one place: an ls__queue_fn whose arg is the loader. */
void ls__loader_fill(void *loader, const ls__queue_item *item);

/* "image 'cats/1.jpg'" or "sample 7", for messages. */
enum { LS__SAMPLE_TEXT_SIZE = 600 };
const char *ls__sample_text(const ls_dataset *dataset, int64_t sample,
                            char buffer[LS__SAMPLE_TEXT_SIZE]);

#endif
