/* checkpoint.h: the tensors and the metadata of a checkpoint, for saving and loading.
 * checkpoint_save.c writes them through io/safetensors_write.c. */
#ifndef LS_CHECKPOINT_CHECKPOINT_H
#define LS_CHECKPOINT_CHECKPOINT_H

#include "base/bump.h"
#include <lockstep/checkpoint.h>

/* The optimizers of a training state: its only one, or its list. */
typedef struct ls__optimizers {
    int64_t n;
    ls_optimizer *const *items;
} ls__optimizers;

static inline ls__optimizers ls__optimizers_of(const ls_training_state *state)
{
    if (state->optimizer) return (ls__optimizers){ 1, &state->optimizer };
    return (ls__optimizers){ state->n_optimizers, state->optimizers };
}

/* ---- Tensors ---- */

/* One tensor of a checkpoint. Convolution weights are [O,I,H,W] in the file, [O,H,W,I] here. The
 * columns of a linear layer's weight over a flattened [N,H,W,C] are in that order in a checkpoint,
 * in the order C,H,W in PyTorch's files. */
typedef struct ls__saved_tensor {
    const char *name;
    ls_spec spec;     /* in the file */
    int64_t count;    /* elements */
    float *memory;    /* device memory, in our order; NULL = `number` */
    int64_t number;   /* an I64 scalar that only the file holds */
    int64_t channels; /* > 0: the file has them first, as dims[0] matrices of channels x pixels */
} ls__saved_tensor;

/* A net's tensors, then its optimizers'. */
typedef struct ls__saved_tensors {
    ls__saved_tensor *items;
    int64_t n_net, n;
    int64_t largest, total; /* elements: of the largest tensor, of all with device memory */
} ls__saved_tensors;

/* The net's weights, buffers and torch's batch counters; the optimizers' states and loss scale. net
 * may be NULL. torch: in the order of PyTorch's files. */
ls_status ls__saved_tensors_list(ls__bump *bump, ls_context *ctx, const ls_net *net,
                                 const ls__optimizers *optimizers, bool torch,
                                 ls__saved_tensors *out);

/* Reads the tensors that have device memory from a file that has them with these names and shapes,
 * in a type that ls__tensor_file_read_f32 reads. *out: their elements in our order, one tensor
 * after another, in `bump`. */
ls_status ls__saved_tensors_read(ls__bump *bump, ls_context *ctx, const ls_tensor_file *file,
                                 const ls__saved_tensors *tensors, float **out);
/* Copies those elements to the tensors. */
ls_status ls__saved_tensors_write(ls_context *ctx, const ls__saved_tensors *tensors,
                                  const float *values);

/* Transposes n matrices. Weights [O,I,H,W] are O matrices of I x HW, [O,H,W,I] of HW x I. */
void ls__transpose(float *out, const float *in, int64_t n, int64_t rows, int64_t columns);

/* Names of tensors that loading a net ignores. */
bool ls__is_optimizer_name(const char *name);
bool ls__is_torch_counter(const char *name);

/* ---- Metadata ---- */

/* The key of the digest of the rest of the file. */
#define LS__CHECKPOINT_DIGEST "lockstep digest"
/* The key of {"fc1.weight": 16, ...}: the C of linear layers' weights over a flattened [N,H,W,C].
 */
#define LS__CHECKPOINT_FLATTENED "flattened"

/* key, value, key, value, ..., NULL, with state->metadata's pairs at the end. */
ls_status ls__metadata_make(ls__bump *bump, ls_context *ctx, const ls_training_state *state,
                            const char *const **out);

/* Samples that a loader could not read. */
typedef struct ls__bad_samples {
    int64_t n;
    int64_t *samples;
    const char **reasons;
} ls__bad_samples;

/* The values read from a file's metadata. */
typedef struct ls__position {
    int64_t epoch, step, skipped_before;
    int64_t n_steps[LS_MAX_OPTIMIZERS], accumulated[LS_MAX_OPTIMIZERS]; /* per optimizer */
    double best;
    double schedule[LS_SCHEDULE_STATE_SIZE];
    char weights[LS_DIGEST_TEXT_SIZE]; /* digest of the weights that the run began with, or "" */
    bool *frozen;                      /* per parameter of the net; NULL = as they are */
    ls__bad_samples of_loader, of_validation;
} ls__position;

/* Compares the metadata with the members of state, then reads the position. Errors name the field
 * that differs. n_steps, skipped_before, accumulated and schedule are set only if state has
 * optimizers and a schedule; bad samples only without `force`, because then the data is the same.
 */
ls_status ls__metadata_check(ls__bump *bump, ls_context *ctx, const char *path,
                             const ls_tensor_file *file, const ls_training_state *state,
                             ls__position *out);

/* A number of epochs or steps, 0 to 2^40, in a file's metadata; false if missing. file may be NULL.
 */
bool ls__metadata_count(const ls_tensor_file *file, const char *key, int64_t *out);

/* ---- Both ---- */

/* Compares the file's contents with the digest in its metadata, because a bit flip would change the
 * run. Files of other programs have no digest, which is an error if it is `needed`. */
ls_status ls__checkpoint_check_digest(ls_context *ctx, const char *path, const ls_tensor_file *file,
                                      bool needed);

/* Fails unless a checkpoint can be read and its digest matches its contents.
 * LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_FORMAT, LS_ERR_MEMORY; LS_ERR_DEVICE without a file handle.
 */
ls_status ls__checkpoint_check(ls_context *ctx, const char *path);

/* The one context of state's members, without an error. */
ls_status ls__state_context(const char *call, const ls_training_state *state, ls_context **out);
/* path with the extension; NULL and an error if path is NULL or memory is short. */
const char *ls__checkpoint_path(ls_context *ctx, ls__bump *bump, const char *call,
                                const char *path);

#endif
