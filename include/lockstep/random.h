/* random.h: counter-based random numbers, Philox4x32-10 (Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", SC'11). There is no generator state: the key is computed from the seed, and
 * the counter identifies the draw, so a draw gives the same words on any thread, worker and
 * machine, and after a restart. */
#ifndef LOCKSTEP_RANDOM_H
#define LOCKSTEP_RANDOM_H

#include <lockstep/export.h>
#include <stdint.h>

LS_BEGIN_DECLARATIONS

/* The purpose of a draw. New purposes are added at the end, so that no existing value changes. */
typedef enum ls_random_stream {
    LS_RANDOM_INIT,      /* initial values: layer = index among parameters and buffers; sample =
                            element / 2 for normal values (two words per element), element / 4
                            for uniform values (one word per element) */
    LS_RANDOM_DROPOUT,   /* layer = dropout index, sample = logical element / 4; the element uses
                            word number element % 4. Stochastic depth: the same with images, or 0,
                            in place of elements */
    LS_RANDOM_SHUFFLE,   /* permutation of a dataset's samples in one epoch */
    LS_RANDOM_TRANSFORM, /* the transforms of one sample in one epoch; block = purpose */
    LS_RANDOM_REPLACE,   /* the sample that replaces an unreadable one; step = which of its draws */
    LS_RANDOM_TENSOR,    /* ls_tensor_random_* */
    LS_RANDOM_DEMO,      /* the images of `lockstep demo-data` */
    LS_RANDOM_USER,      /* for programs */
    LS_RANDOM_WORKER,  /* a loader worker's own sequence (LS_SEED_BY_WORKER): layer = 1 + worker, 0
                          for the caller's thread; sample = number of the image in its sequence */
    LS_RANDOM_SPLIT,   /* ls_dataset_split: sample and step = the hash of the sample's path */
    LS_RANDOM_SAMPLER, /* LS_SAMPLER_BALANCED: the permutation of a class; sample = the class, step
                         = number of the pass over it in the epoch */
    LS_RANDOM_MIX,     /* mixup and cutmix: step = number of the batch; block = purpose */
    LS_RANDOM_SEARCH /* ls_search: sample = trial, step = the hash of the parameter's name; block =
                        purpose */
} ls_random_stream;

/* Identifies one draw. Limits: stream < 2^8, layer < 2^16, epoch < 2^20, step < 2^36, sample <
 * 2^40, block < 2^8: together they fill the 128-bit counter, so no two draws share one. Only the
 * low bits of larger values are used. */
typedef struct ls_draw {
    ls_random_stream stream;
    uint32_t layer;
    uint32_t epoch;
    uint64_t step;
    uint64_t sample;
    uint32_t block;
} ls_draw;

/* out = Philox4x32-10(counter, key): the bare function of the paper. */
LS_API void ls_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Four words for one draw under one seed. */
LS_API void ls_random_words(uint64_t seed, const ls_draw *draw, uint32_t out[4]);

/* A word as a float in [0,1): (word >> 8) * 2^-24. */
LS_API float ls_random_uniform(uint32_t word);

/* Two words as an integer in [0,n), n >= 1, by multiplication (Lemire 2019, "Fast random integer
 * generation in an interval"); the bias is below n * 2^-64. */
LS_API uint64_t ls_random_below(uint32_t high, uint32_t low, uint64_t n);

/* Element i of a keyed pseudorandom permutation of 0..n-1: a Feistel network over Philox words with
 * cycle walking; for n < 64, where that is not uniform, Durstenfeld's shuffle. Equal (seed, epoch)
 * give equal permutations; O(1) memory. i >= n is returned unchanged. */
LS_API uint64_t ls_random_permute(uint64_t seed, uint32_t epoch, uint64_t n, uint64_t i);

LS_END_DECLARATIONS

#endif
