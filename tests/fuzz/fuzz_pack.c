/* fuzz_pack.c: packs, as they are and with their hashes repaired. */
#include "fuzz.h"

#include "base/hash.h"
#include "data/dataset/packs/pack.h"
#include <lockstep/pack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char NAME[] = "x.pack";
enum { MAX_STEPS = 16, MAX_SAMPLES = 64, SIDE = 8, IMAGE_BYTES = SIDE * SIDE * 3 };

/* A sample has the same pixels each time: what was read before may be read in another way. */
static void check_batch(const ls_batch *batch, uint64_t seen[MAX_SAMPLES])
{
    const uint8_t *pixels = ls_tensor_data_const(batch->images);
    for (int64_t i = 0; i < batch->n; i++) {
        const int64_t sample = batch->samples[i];
        const uint64_t hash = ls__hash(pixels + i * IMAGE_BYTES, IMAGE_BYTES, 0);
        if (sample >= MAX_SAMPLES) continue;
        FUZZ_CHECK(seen[sample] == 0 || seen[sample] == hash);
        seen[sample] = hash;
    }
}

static void load_all(ls_dataset *dataset)
{
    ls_loader *loader =
        ls_loader_open(dataset, &(ls_loader_config){ .batch_size = 2,
                                                     .honour_exif = true,
                                                     .on_bad_image = LS_BAD_IMAGE_SKIP,
                                                     .resize = SIDE,
                                                     .crop = SIDE });
    ls_batch batch;
    uint64_t seen[MAX_SAMPLES] = { 0 };
    for (int epoch = 0; epoch < 2; epoch++) {
        ls_loader_start(loader, epoch);
        for (int i = 0; i < MAX_STEPS && ls_loader_next(loader, &batch); i++)
            check_batch(&batch, seen);
        fuzz_error(NAME);
    }
    ls_loader_close(&loader);
}

static void read_all(ls_dataset *dataset)
{
    ls_digest digest;
    FUZZ_CHECK(ls_dataset_digest(dataset, true, &digest) == LS_OK);
    const int n_classes = ls_dataset_class_count(dataset);
    for (int64_t i = 0; i < ls_dataset_sample_count(dataset); i++) {
        const int label = ls_dataset_label(dataset, i);
        FUZZ_CHECK(label >= 0 && label < n_classes && ls_dataset_class_name(dataset, label));
        FUZZ_CHECK(ls_dataset_sample_path(dataset, i));
    }
    load_all(dataset);
}

static void check_pack(const uint8_t *bytes, size_t n)
{
    ls_context *ctx = fuzz_context();
    char path[512], split[sizeof(path) + 8];
    snprintf(path, sizeof(path), "%s", fuzz_file(NAME, bytes, n));
    snprintf(split, sizeof(split), "%s/train", path);
    const ls_status status = ls_pack_check(ctx, path, NULL, NULL);
    FUZZ_CHECK(fuzz_error(NAME) == status);
    bool found[2];
    (void)ls_pack_holds(path, 2, (const char *const[]){ "", "train" }, found);
    for (int i = 0; i < 2; i++) {
        ls_dataset *dataset = ls_image_folder_open(ctx, i ? split : path);
        fuzz_error(NAME);
        FUZZ_CHECK(!dataset || found[i]);
        if (dataset) read_all(dataset);
        ls_dataset_close(&dataset);
    }
}

/* ---- Repairing, as pack.h describes the file ---- */

static uint64_t get64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static void put64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static void seal(uint8_t *block)
{
    put64(block + LS__PACK_BLOCK - 8, ls__hash(block, LS__PACK_BLOCK - 8, 0));
}

/* The hashes of samples, where the index's numbers allow it. */
static void repair_samples(uint8_t *file, uint64_t index, uint64_t bytes)
{
    const uint64_t n_groups = get64(file + index) + get64(file + index + 8);
    const uint64_t n_samples = get64(file + index + 16);
    if (n_groups > bytes || n_samples > bytes) return;
    const uint64_t at = sizeof(ls__pack_index) + n_groups * sizeof(ls__pack_group);
    if (at + n_samples * sizeof(ls__pack_sample) > bytes) return;
    for (uint64_t i = 0; i < n_samples; i++) {
        uint8_t *sample = file + index + at + i * sizeof(ls__pack_sample);
        const uint64_t offset = get64(sample), n = get64(sample + 8);
        if (offset <= index && n <= index - offset)
            put64(sample + 16, ls__hash(file + offset, n, 0));
    }
}

static void repair(uint8_t *file, size_t size)
{
    uint8_t *trailer = file + size - LS__PACK_BLOCK;
    const uint64_t index = get64(trailer + 16), end = size - LS__PACK_BLOCK;
    seal(file);
    if (index <= end && end - index >= sizeof(ls__pack_index)) {
        repair_samples(file, index, end - index);
        put64(trailer + 24, end - index);
        put64(trailer + 32, ls__hash(file + index, end - index, 0));
    }
    put64(trailer + 8, size);
    put64(trailer + 40, ls__hash(file, LS__PACK_BLOCK, 0));
    seal(trailer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_pack(data, size);
    if (size < 2 * LS__PACK_BLOCK) return 0;
    uint8_t *repaired = malloc(size);
    FUZZ_CHECK(repaired);
    memcpy(repaired, data, size);
    repair(repaired, size);
    check_pack(repaired, size);
    free(repaired);
    return 0;
}
