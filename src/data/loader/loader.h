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
    /* labels, targets, pixels of a full batch: memory that the host can write */
    void *block;
    int32_t *label_values; /* in it */
    float *targets;        /* [batch][n_targets] */
    uint8_t *pixels;
    atomic_llong n_filled; /* images of the batch that is being filled */
    int64_t *samples;
    ls__item_result *results;
    ls__event *uploaded; /* this and the next: only where host_memory is false */
    bool uploading;      /* the block must not be written */
} ls__slot;

/* Device memory for a batch, where the host can't write it: one is filled while the device reads
 * the other. */
typedef struct ls__staging_buffer {
    void *memory;    /* as a slot's block */
    ls__event *read; /* the device has finished with the batch before */
} ls__staging_buffer;
enum { LS__N_STAGING_BUFFERS = 2 };

/* Of LS_SAMPLER_BALANCED; else all zero. */
typedef struct ls__sampler {
    int n_classes;    /* that have samples */
    int32_t *classes; /* n_classes: their numbers */
    int64_t *samples; /* of the dataset, class by class */
    int64_t *ends;    /* of all classes: where their samples end */
} ls__sampler;

/* A worker's own memory. */
typedef struct ls__loader_worker {
    ls__decoder decoder;
    ls__transformer transformer;
    ls__buffer rgb; /* of a sample that becomes grey */
} ls__loader_worker;

typedef struct ls__known_bad {
    int64_t sample;
    char *reason;
    bool is_shared; /* known to all ranks */
} ls__known_bad;

struct ls_loader {
    ls__owned owned;
    ls__bump bump; /* of the arrays, except `bads` */
    ls_dataset *dataset;
    ls_loader_config config; /* defaults filled in */
    ls__transform transform;
    ls__sampler sampler;
    int channels;    /* of a batch */
    int64_t n_steps; /* per epoch */
    size_t sample_bytes;
    size_t label_bytes, target_bytes; /* of a block, before its pixels */
    bool mixes;                       /* mixup or cutmix, whose targets have a column per class */
    int n_targets;                    /* columns of a batch's targets; 0 = none */
    bool host_memory;                 /* workers write into device memory */

    ls__queue *queue;
    int n_slots, n_workers; /* n_workers: at least 1, for the caller's thread */
    ls__slot *slots;
    ls__staging_buffer staging[LS__N_STAGING_BUFFERS];
    int64_t n_uploads;
    int held_slot; /* the slot that the caller holds, where it was uploaded; -1 = none */
    ls_tensor image_view, label_view, target_view; /* its tensors for the caller */
    ls__loader_worker *workers;
    /* n_samples: read once without an error, so that data after the region are not read again. No
     * result depends on it. */
    atomic_bool *known_whole;
    bool *missing; /* n_samples: had no file when the loader was opened; NULL = none */

    bool by_batch;    /* rank k % n loads the whole batch k; otherwise each rank its samples of all
                         batches */
    const char *user; /* the call that runs passes over it, such as ls_trainer_run; NULL = none */
    const char *cut_by; /* the call that ended an epoch of the program's own loop; NULL = none */
    int64_t cut_epoch, cut_step;
    bool started;
    int64_t epoch, step; /* step: the next one to deliver */
    ls_status status;    /* of the epoch */
    int64_t n_images;
    double wait_seconds;
    ls__known_bad *bads; /* sorted by sample */
    int64_t n_bads;
    size_t bad_capacity;
};

/* Checks the configuration against the dataset and fills in defaults: config, transform, n_steps.
 * Errors are kept in the context. */
ls_status ls__loader_configure(ls_loader *loader, const ls_loader_config *config);

/* Passes the settings that are not 0 and change batches, for a run's identity, except on_bad_image:
 * a run may have to skip bad images to resume. A float is passed as its shortest exact decimal. */
void ls__loader_settings(const ls_loader *loader,
                         void (*put)(void *user, const char *name, double value), void *user);

/* Notes the samples whose file does not exist, which on_bad_image may replace. */
ls_status ls__loader_find_missing(ls_loader *loader);
/* Whether on_bad_image applies to a sample that failed with this status. Thread-safe. */
bool ls__loader_is_unusable(const ls_loader *loader, int64_t sample, ls_status status);

/* Sets the unreadable samples that a resumed run had found: n in ascending order, copied. */
ls_status ls__loader_set_bads(ls_loader *loader, int64_t n, const int64_t *samples,
                              const char *const *reasons);

/* Adds an unreadable sample to the list, unless it is there. */
ls_status ls__loader_add_bad(ls_loader *loader, int64_t sample, const char *reason);
/* Adds the unreadable samples that other ranks have found. All ranks call it. */
ls_status ls__loader_share_bads(ls_loader *loader);

/* ---- Staging: how blocks get to the device ---- */

/* Allocates the slots' blocks and the staging buffers. */
ls_status ls__staging_open(ls_loader *loader);
/* Waits for uploads. */
void ls__staging_close(ls_loader *loader);
/* The caller has queued all its work on the batch that it holds. */
ls_status ls__staging_release(ls_loader *loader);
/* Waits until workers may write to all slots but the held one, or to all. */
ls_status ls__staging_wait(ls_loader *loader, bool all);
/* Uploads the first `bytes` of the slot's block; work queued later reads them at *memory. */
ls_status ls__staging_upload(ls_loader *loader, ls__slot *slot, size_t bytes, void **memory);

/* Errors are kept in the context. */
ls_status ls__sampler_open(ls_loader *loader);
/* The sample at a position of the loader's epoch, and how often it stood at positions that count as
 * earlier. */
int64_t ls__sample_at(const ls_loader *loader, int64_t position, int64_t *occurrence);

/* Fills one image of a batch: an ls__queue_fn whose arg is the loader. */
void ls__loader_fill(void *loader, const ls__queue_item *item);

/* The images [*begin, *end) of a batch that this rank delivers. */
void ls__loader_own_range(const ls_loader *loader, int64_t step, int64_t *begin, int64_t *end);

/* Takes the loader for the passes of a call that returns to callbacks of the program, until
 * ls__loader_give_back. Meanwhile the program's own calls are errors. An epoch of the program's
 * loop that is in progress is lost, which its next ls_loader_next reports. */
ls_status ls__loader_take(ls_loader *loader, const char *call);
void ls__loader_give_back(ls_loader *loader);
/* ls_loader_start_at and ls_loader_next for the call that has taken the loader, or nobody. `call`
 * is for messages. */
ls_status ls__loader_start_at(ls_loader *loader, const char *call, int64_t epoch, int64_t step);
bool ls__loader_next(ls_loader *loader, ls_batch *batch);
/* ls_loader_start for epoch 0, except that with several ranks batch k is loaded by rank k % n. The
 * other ranks get it without images. */
ls_status ls__loader_start_turns(ls_loader *loader);

/* Mixes the images of a batch of n that this rank delivers, and makes their targets and labels: see
 * ls_loader_config. */
void ls__loader_mix(const ls_loader *loader, const ls__slot *slot, int64_t step, int64_t n);

/* The number of images of a batch. */
static inline int64_t ls__loader_batch_size(const ls_loader *loader, int64_t step)
{
    const int64_t left = loader->dataset->n_samples - step * loader->config.batch_size;
    return left < loader->config.batch_size ? left : loader->config.batch_size;
}

/* "image 'cats/1.jpg'" or "sample 7", for messages. */
enum { LS__SAMPLE_TEXT_SIZE = 600 };
const char *ls__sample_text(const ls_dataset *dataset, int64_t sample,
                            char buffer[LS__SAMPLE_TEXT_SIZE]);

#endif
