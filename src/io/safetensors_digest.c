/* safetensors_digest.c: a digest of a safetensors file's contents. The position of a text or tensor
 * is the hash of its name, so that the order in the file does not matter. */
#include "io/safetensors.h"

#include <string.h>

enum { SEED_OF_TEXTS = 1, SEED_OF_TENSORS };

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return ls__hash(text, strlen(text), seed);
}

void ls__tensors_digest_text(ls__digest_sum *sum, const char *key, const char *value)
{
    ls__digest_word(sum, hash_text(value, 0), hash_text(key, SEED_OF_TEXTS));
}

void ls__tensors_digest_elements(ls__digest_sum *sum, const char *name, const ls_spec *spec,
                                 const void *elements, size_t bytes)
{
    const size_t dims = (size_t)spec->shape.n_dims * sizeof(*spec->shape.dims);
    const uint64_t type = hash_text(ls_dtype_name(spec->dtype), 0);
    const uint64_t shape = ls__hash(spec->shape.dims, dims, type);
    ls__digest_word(sum, ls__hash(elements, bytes, shape), hash_text(name, SEED_OF_TENSORS));
}

ls_digest ls__tensors_digest_finish(ls__digest_sum *sum)
{
    ls_digest out;
    ls__digest_finish(sum, 0);
    memcpy(out.words, sum->words, sizeof(out.words));
    return out;
}
