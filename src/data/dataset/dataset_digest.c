/* dataset_digest.c: one digest of a dataset's samples. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include <string.h>
#include <sys/stat.h>

/* The words of 64 bits that each sample adds. */
enum { LABEL, NAME, SIZE, CONTENTS, N_WORDS };

/* A file that can't be read is no error here, because the loader may replace it. */
#define UNREADABLE UINT64_MAX

static ls_status add_file(const ls_dataset *dataset, int64_t sample, bool contents,
                          uint64_t words[N_WORDS])
{
    const ls_context *ctx = dataset->owned.ctx;
    const char *path = dataset->paths[sample], *name = ls__dataset_name(dataset, sample);
    struct stat there;
    words[NAME] = ls__hash(name, strlen(name), 0);
    words[SIZE] = stat(path, &there) == 0 ? (uint64_t)there.st_size : UNREADABLE;
    if (!contents) return LS_OK;
    unsigned char *bytes;
    size_t size;
    char message[LS__MESSAGE_SIZE];
    const ls_status status =
        ls__read_file(ctx, path, LS__MAX_FILE_BYTES, &bytes, &size, message, sizeof(message));
    words[CONTENTS] = status == LS_OK ? ls__hash(bytes, size, 0) : UNREADABLE;
    ls__free(ctx, bytes);
    return status == LS_ERR_MEMORY ? status : LS_OK;
}

/* The words of the file that was packed. A resized pack is a dataset of its own: its names are
 * hashed with the size as seed, and its pixels in place of the file. */
static void add_packed(const ls_dataset *dataset, int64_t i, uint64_t words[N_WORDS])
{
    const ls__pack_sample *sample = ls__dataset_packed(dataset, i);
    const char *name = ls__dataset_name(dataset, i);
    const int64_t resize = dataset->pack->resize;
    const bool own = resize > 0 && sample->state == LS__PACK_SOUND;
    words[NAME] = ls__hash(name, strlen(name), (uint64_t)resize);
    words[SIZE] = own ? sample->bytes : sample->file_bytes;
    words[CONTENTS] = own ? sample->hash : sample->file_hash;
}

static void add_memory(const ls_dataset *dataset, int64_t sample, uint64_t words[N_WORDS])
{
    const size_t size = (size_t)(dataset->height * dataset->width * dataset->channels);
    words[NAME] = (uint64_t)dataset->height << 32 | (uint64_t)dataset->width;
    words[SIZE] = size;
    words[CONTENTS] = ls__hash(dataset->images + (size_t)sample * size, size, 0);
}

/* As add_file, a sample that can't be loaded is no error. */
static ls_status add_callbacks(const ls_dataset *dataset, int64_t sample, ls__decoder *decoder,
                               uint64_t words[N_WORDS])
{
    words[CONTENTS] = UNREADABLE;
    const ls_status status =
        ls__callbacks_digest(dataset, sample, decoder, &words[SIZE], &words[CONTENTS]);
    return status == LS_ERR_MEMORY ? status : LS_OK;
}

/* The label, or with targets a hash of both. */
static uint64_t label_word(const ls_dataset *dataset, int64_t sample)
{
    const uint64_t label = (uint64_t)(int64_t)dataset->labels[sample];
    const size_t bytes = (size_t)ls_dataset_target_count(dataset) * sizeof(float);
    return bytes > 0 ? ls__hash(ls_dataset_targets(dataset, sample), bytes, label) : label;
}

/* `decoder`: for callbacks. */
static ls_status add_sample(const ls_dataset *dataset, int64_t i, bool contents,
                            ls__decoder *decoder, ls__digest_sum *sum)
{
    uint64_t words[N_WORDS] = { [LABEL] = label_word(dataset, i) };
    int64_t sample = i;
    const ls_dataset *source = ls__dataset_source(dataset, &sample);
    ls_status status = LS_OK;
    if (source->images)
        add_memory(source, sample, words);
    else if (source->callbacks)
        status = add_callbacks(source, sample, decoder, words);
    else if (source->pack)
        add_packed(source, sample, words);
    else
        status = add_file(source, sample, contents, words);
    if (!contents) words[CONTENTS] = 0;
    for (int w = 0; w < N_WORDS; w++)
        ls__digest_word(sum, words[w], (uint64_t)i * N_WORDS + (uint64_t)w);
    return status;
}

ls_status ls_dataset_digest(ls_dataset *dataset, bool contents, ls_digest *out)
{
    if (!dataset) return LS_ERR_EARLIER;
    LS__ENTER(dataset->owned.ctx);
    if (!out) return ls__fail(dataset->owned.ctx, LS_ERR_INVALID, "ls_dataset_digest: out is NULL");
    const ls_dataset *whole = ls__dataset_whole(dataset);
    contents =
        contents || whole->images || whole->callbacks || (whole->pack && whole->pack->resize > 0);
    if (dataset->has_digest && (dataset->digest_of_contents || !contents)) {
        *out = dataset->digest;
        return LS_OK;
    }
    /* No limit but the largest, because that of a loader does not change the dataset. */
    ls__decoder decoder = { .ctx = dataset->owned.ctx, .max_pixels = LS_LARGEST_MAX_PIXELS };
    ls__digest_sum sum = { 0 };
    ls_status status = LS_OK;
    int64_t i = 0;
    for (; i < dataset->n_samples && status == LS_OK; i++)
        status = add_sample(dataset, i, contents, &decoder, &sum);
    ls__decoder_free(&decoder);
    if (status != LS_OK)
        return ls__fail_memory(dataset->owned.ctx,
                               dataset->paths ? dataset->paths[i - 1] : "ls_dataset_digest",
                               LS__MAX_FILE_BYTES);
    dataset->digest =
        ls__digest_finish(&sum, (uint64_t)dataset->n_samples * N_WORDS * sizeof(uint64_t));
    dataset->digest_of_contents = contents;
    dataset->has_digest = true;
    *out = dataset->digest;
    return LS_OK;
}
