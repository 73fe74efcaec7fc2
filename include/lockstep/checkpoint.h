/* checkpoint.h: saving and restoring a training run, and loading weights. Checkpoints are
 * safetensors files with torchvision's names and O,I,H,W order for convolution weights. The columns
 * of a linear layer's weight after ls_flatten are in the order H,W,C. They are written atomically.
 */
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/optim.h>

LS_BEGIN_DECLARATIONS

/* The objects of a run, all of one context; members may be NULL. */
typedef struct ls_training_state {
    ls_net *net;
    ls_optimizer *optimizer;
    ls_schedule *schedule;
    ls_loader *loader;
    ls_loader *validation;       /* the loader whose metric decides which epoch is best */
    int64_t epoch, step;         /* the next step to run */
    double best;                 /* best metric so far */
    const char *metric;          /* ls_trainer_config.metric, part of the identity; NULL = the
                                    default. Of a net's own metric with `minimize`: "NAME, lowest" */
    bool force;                  /* load: resume even if the identity differs; each difference is a
                                    warning. The metric must be the same */
    const char *const *metadata; /* additional metadata: key, value, ..., NULL; may be NULL */
    /* Instead of `optimizer`: n_optimizers of them, of one net, in the same order when saving and
     * loading. LS_ERR_INVALID if two of them train the same parameter */
    ls_optimizer *const *optimizers;
    int64_t n_optimizers; /* up to LS_MAX_OPTIMIZERS */
    LS_RESERVED(6);
} ls_training_state;
enum { LS_MAX_OPTIMIZERS = 8 };

/* Weights and buffers are stored under their names, optimizer state under
 * "optimizer.<state>.<parameter>", moving averages under "optimizer.ema.<name>", and with loss
 * scaling "optimizer.loss_scale" (three numbers: the loss scale, the updates since it last changed,
 * the skipped updates). All are F32 in every precision. The rest is metadata:
 *
 * - "identity": all that the result depends on: seed, device, versions of kernels, with native
 *   arithmetic in bf16 and on a GPU the processor and versions of libraries, data with its digest
 *   (ls_dataset_digest), settings of loaders, optimizer, loss scale and schedule, precision, a
 *   digest of the model, the list of parameters that were frozen when the training began, the
 *   kernels used;
 * - "classes": a JSON array of names, from the loader;
 * - "mean", "std": JSON arrays of numbers, from the loader, or from the net if there is no loader;
 * - "crop": the side of the images, likewise;
 * - "bad_images": the samples that the loaders have found unreadable;
 * - "epoch", "step", "best";
 * - "frozen": a JSON array of the names of frozen parameters, if others are frozen than when the
 *   training began;
 * - "flattened": C of each linear layer's weight over a flattened [N,H,W,C]: {"fc1.weight": 16};
 * - "kernels": the kernel selections with their origins, also those for ops that have not run yet;
 * - "lockstep digest": a digest of the rest of the file;
 * - the keys of `state->metadata`, which must differ from these.
 *
 * ".safetensors" is appended to path when it is missing. A symbolic link at path is replaced, not
 * followed. Errors: LS_ERR_IO, LS_ERR_NOT_FOUND name the path; the previous file is unchanged.
 *
 * With several ranks (context.h) all of them call it, and rank 0 writes the file, with the bytes
 * that one process writes. If it fails, all ranks get the error. */
LS_API ls_status ls_checkpoint_save(const ls_training_state *state, const char *path);
/* Resumes a run: restores the objects that `state` points to, and sets epoch, step and best. Names,
 * shapes and the identity of these objects are checked before anything is changed. Of the identity,
 * only the parts of the members that are not NULL are compared; seed, device, libraries, processor,
 * model and kernels only with an optimizer. Errors name the file and both values of what differs:
 * LS_ERR_MISMATCH, LS_ERR_SHAPE, LS_ERR_TYPE; LS_ERR_FORMAT when the file is not a checkpoint of a
 * run, or its digest shows that it was changed after it was saved. With `force` a different
 * identity and a missing digest are not errors. Members that are NULL are neither compared nor
 * restored: to resume with a different schedule, set `schedule` to NULL; the stored schedule is
 * then not compared. With an optimizer and without `force` the net also uses the run's kernels for
 * ops whose kernel is not selected yet. Kernels that are already selected must equal those of the
 * run. Therefore a run whose kernels were selected by timing or by an algorithm cache file requires
 * ls_checkpoint_load_algorithms before the net is built. */
LS_API ls_status ls_checkpoint_load(ls_training_state *state, const char *path);
/* Replaces the context's algorithm cache (algorithm_cache.h) with the kernel selections of the
 * checkpoint's run; call it before the net is built. They are the selections that the run has used,
 * and those that were loaded or timed when its net was built, for ops that have not run yet.
 * Previous selections of the context are dropped, so an algorithm cache file that was written or
 * edited later does not change the result: the run resumes with the same kernels, even if they were
 * selected by timing. Errors are those of ls_algorithm_cache_load; LS_ERR_FORMAT when the file has
 * no kernel selections. */
LS_API ls_status ls_checkpoint_load_algorithms(ls_context *ctx, const char *path);

/* ---- Weights ---- */

typedef struct ls_load_weights_config {
    bool new_head; /* the head (the net's last linear layer) keeps its values, whatever the file has
                      for it; for a new set of classes. LS_ERR_INVALID if there is no such layer */
    bool partial;  /* missing and unexpected tensors are not errors, as with PyTorch's strict=False;
                      at least one tensor must be loaded */
    const char *key; /* where the file has the weights; NULL = found, see ls_net_load_weights.
                        Borrowed during the call, as classes */
    /* The names of the data's n_classes classes, in the order of the head's outputs, or NULL and 0.
     * If the file is a checkpoint of this library, the head's rows are loaded by the names of the
     * classes. Unless new_head is set, LS_ERR_MISMATCH is a class that the checkpoint does not
     * have, or another order if the net has no linear layer. LS_ERR_INVALID for a name that is
     * NULL. */
    const char *const *classes;
    int64_t n_classes;
    LS_RESERVED(8);
} ls_load_weights_config;

/* The result for a tensor of the net or of the file. */
typedef enum ls_weight_state {
    LS_WEIGHT_LOADED,
    LS_WEIGHT_MISSING,    /* in the net, but not in the file */
    LS_WEIGHT_UNEXPECTED, /* in the file, but not in the net */
    LS_WEIGHT_MISMATCHED, /* in both, with different shapes, or in a type that is not floating */
    LS_WEIGHT_NEW_HEAD,   /* of the head, which kept its values because of new_head */
    LS_WEIGHT_IGNORED     /* in the file: optimizer state of a checkpoint, num_batches_tracked, and
                             tensors without the prefix */
} ls_weight_state;

typedef struct ls_weight_info {
    const char *name; /* the net's, or else the file's; NULL = no such tensor */
    ls_weight_state state;
    bool head;                      /* a weight or bias of the net's head */
    const char *dtype;              /* in the file: "F32", "F64", ...; NULL if missing */
    ls_shape file_shape, net_shape; /* in the file's order: convolution weights are [O,I,H,W] */
    LS_RESERVED(4);
} ls_weight_info;

/* Every tensor of the net and of a file. The caller owns it. */
typedef struct ls_weight_report ls_weight_report;
LS_API int64_t ls_weight_report_count(const ls_weight_report *report, ls_weight_state state);
/* The i-th tensor of that state, in the order of the net, or else of names. The texts are valid as
 * long as the report. */
LS_API ls_weight_info ls_weight_report_at(const ls_weight_report *report, ls_weight_state state,
                                          int64_t i);
/* The key of the dict in a PyTorch file that was read, such as "model_ema", or "". This text and
 * the next one are valid as long as the report. */
LS_API const char *ls_weight_report_key(const ls_weight_report *report);
/* The prefix of the names that was left out, such as "module.", or "". */
LS_API const char *ls_weight_report_prefix(const ls_weight_report *report);
/* True if the head's rows were put into the order of ls_load_weights_config.classes. */
LS_API bool ls_weight_report_classes_reordered(const ls_weight_report *report);
LS_API void ls_weight_report_close(ls_weight_report **report);

/* Loads weights and buffers by name. Call it before training: a digest of what was loaded becomes
 * part of a run's identity. A run that resumes takes them from its checkpoint instead.
 *
 * The file is a checkpoint of this library, a safetensors file, or a PyTorch file (ls_tensor_file)
 * with torchvision's or timm's names, in F64, F32, F16 or BF16; values are rounded to nearest even.
 *
 * A PyTorch file may be a state dict, or hold it among other values, which are skipped. With the
 * key "a.b" it is the item "b" of the dict "a". Without a key it is the dict of a usual key,
 * averaged weights first ("model_ema", "ema", ..., "state_dict", "model", ...), else the only dict
 * of tensors apart from an optimizer's state. A prefix of the names that leads to most of the net's
 * tensors is left out, such as "module." (DataParallel) or "model." (a module that holds the net);
 * what lies beside it is ignored. A key that names no dict is the prefix, or a dict's key followed
 * by it. The report names both.
 *
 * The weight of a linear layer that reads a flattened [N,H,W,C], with functions of each element
 * (ls_relu, ls_dropout) between, has its columns in the order H,W,C here and in checkpoints, and in
 * the order C,H,W in PyTorch. In other files than checkpoints it is read in PyTorch's order.
 *
 * config NULL = all defaults: a tensor that is missing, unexpected or mismatched is an error that
 * names it, and the net is unchanged: LS_ERR_SHAPE or LS_ERR_TYPE if one is mismatched, else
 * LS_ERR_MISMATCH. Other errors: those of ls_tensor_file_open; LS_ERR_FORMAT if the file has a
 * Lockstep digest that does not match its contents; LS_ERR_NONFINITE for a value that is infinite
 * or not a number; LS_ERR_MISMATCH without a report if several keys or prefixes
 * suit and `key` is NULL, or if there is nothing at `key`. report
 * may be NULL; else *report is the report, also after an error about tensors, and NULL after other
 * errors. */
LS_API ls_status ls_net_load_weights(ls_net *net, const char *path,
                                     const ls_load_weights_config *config,
                                     ls_weight_report **report);

/* Writes the weights and buffers of a file for PyTorch: a safetensors file in PyTorch's order (see
 * ls_net_load_weights), without optimizer state. Of a checkpoint's metadata it has what describes
 * the model and its classes, so that ls_saved_model_open reads it. The names stay the same, but if
 * all begin with "module.", that prefix is left out. `path` is a checkpoint or another file that
 * ls_net_load_weights reads. F64 is rounded to F32; other types stay the same. tensor_count
 * receives the number of tensors; it may be NULL. Errors: those of ls_tensor_file_open;
 * LS_ERR_UNSUPPORTED for a tensor that ls_tensor_file_load does not read; LS_ERR_FORMAT as in
 * ls_net_load_weights; LS_ERR_IO if `out` can't be written. They leave a file at `out` unchanged.
 */
LS_API ls_status ls_checkpoint_export(ls_context *ctx, const char *path, const char *out,
                                      int64_t *tensor_count);

LS_END_DECLARATIONS

#endif
