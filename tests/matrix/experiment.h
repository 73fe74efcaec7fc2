/* experiment.h: one small training run, done by child processes: by one, or by several of which
 * each is killed with SIGKILL and the next goes on from the last checkpoint. */
#ifndef LS_TESTS_MATRIX_EXPERIMENT_H
#define LS_TESTS_MATRIX_EXPERIMENT_H

#include <lockstep/lockstep.h>

/* 41 images, of which 4 cannot be read, make 4 batches of 10 and one of 1. */
enum { BATCH = 10, STEPS_PER_EPOCH = 5, EPOCHS = 12, STEPS = STEPS_PER_EPOCH * EPOCHS };
enum { SAVE_EVERY = 4 };     /* steps; in mid-epoch mostly */
enum { VALIDATE_EVERY = 3 }; /* epochs */
enum { MAX_LEGS = 4, N_TENSORS = 64 };

typedef enum recipe {
    RECIPE_SGD,  /* momentum, clipping, moving averages, cosine with warm-up; random areas */
    RECIPE_ADAMW /* plateau, which listens to the validation; crops from a border of zeros; a wider
                    net and larger images */
} recipe;

/* What is done wrong on purpose, so that bits must change. */
typedef enum mistake {
    NO_MISTAKE,
    SUM_BY_THREADS,   /* one op adds as many partial sums as there are threads */
    SEED_BY_WORKER,   /* each data-loader worker has a sequence of its own */
    FORGET_OPTIMIZER, /* a resumed run begins with a new optimizer */
    REPEAT_EPOCH      /* a resumed run begins its epoch from the first step */
} mistake;

typedef enum moment {
    NEVER,
    WITH_BATCH, /* with the batch in hand, before its step; workers make the next ones */
    AFTER_STEP, /* before a checkpoint that may be due */
    IN_SAVE     /* with the next checkpoint half written */
} moment;

/* One process's part of a run. */
typedef struct leg {
    int workers, threads;
    moment killed;
    int64_t kill_step; /* of the whole run */
} leg;

/* What a run did, in memory that its processes share with the test; a resumed run overwrites what
 * was lost. */
typedef struct history {
    struct step_result {
        ls_step_digest digest;
        double top1;
    } steps[STEPS];
    struct epoch_result {
        double val_loss, val_top1;
    } epochs[EPOCHS];
    ls_digest optimizer[N_TENSORS]; /* at the end, of each parameter's states */
    ls_digest averages[N_TENSORS];
} history;

typedef struct outcome {
    history history;
    bool done[STEPS];        /* steps that some process has done */
    bool record_good;        /* the run's run_log.txt holds the digests of `history` */
    int64_t n_repeated;      /* steps that were done again after a restart */
    int64_t first_different; /* of those, the first one with other bits than before; -1 = none */
    char message[1024];      /* of a process that failed */
} outcome;

/* Shared memory for one outcome; never freed but by the end of the test. */
outcome *new_outcome(void);

/* Runs the legs, each in a process of its own, with `images` to train on. Files go to a folder
 * that is made and removed. Fails the test when a process does not end as its leg says. */
void run_experiment(recipe which, mistake wrong, const char *images, int n_legs, const leg *legs,
                    outcome *out);

#endif
