/* rank_digest.c: digests of a step in several ranks; see step_digest.h. */
#include "log/step_digest.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include <string.h>

/* ---- Words ---- */

/* Bytes [begin, end) of a word of the tensor. */
static ls_status read_partial(const ls_tensor *tensor, size_t begin, size_t end,
                              ls__partial_word *out)
{
    unsigned char bytes[8] = { 0 };
    LS_TRY(ls__table(tensor)->read(tensor->owned.ctx->device, bytes + begin % 8,
                                   (const unsigned char *)tensor->data + begin, end - begin));
    out->position = begin / 8;
    for (int i = 0; i < 8; i++) out->word |= (uint64_t)bytes[i] << 8 * i;
    out->word = ls__replace_nans(out->word, ls__nan_words_of(tensor->dtype));
    return LS_OK;
}

ls_status ls__rank_digest_queue(const ls_tensor *tensor, ls__digest_sum *sum,
                                ls__partial_words *partial)
{
    const int64_t n = tensor->shape.dims[0];
    const size_t sample_bytes = tensor->bytes / (size_t)n;
    int64_t samples[2];
    ls__rank_samples(tensor->owned.ctx, n, &samples[0], &samples[1]);
    size_t begin = (size_t)samples[0] * sample_bytes, end = (size_t)samples[1] * sample_bytes;
    for (int i = 0; i < 2; i++) partial->ends[i] = (ls__partial_word){ UINT64_MAX, 0 };
    if (begin % 8 != 0) {
        const size_t word_end = ls__round_up(begin, 8), to = word_end < end ? word_end : end;
        LS_TRY(read_partial(tensor, begin, to, &partial->ends[0]));
        begin = to;
    }
    if (end % 8 != 0 && end > begin && end < tensor->bytes) {
        const size_t word = end - end % 8;
        LS_TRY(read_partial(tensor, word, end, &partial->ends[1]));
        end = word;
    }
    return begin < end ? ls__tensor_digest_queue_bytes(tensor, begin, end, sum) : LS_OK;
}

/* ---- Ranks ---- */

static void add(ls__digest_sum *to, const ls__digest_sum *from)
{
    for (int i = 0; i < 2; i++) to->words[i] += from->words[i];
}

/* Adds the words of which each rank has some bytes; each word once. */
static void add_partial(const ls__rank_digest *all, int n_ranks, int tensor, ls__digest_sum *sum)
{
    uint64_t position = UINT64_MAX, word = 0;
    for (int i = 0; i < 2 * n_ranks; i++) { /* positions ascend */
        const ls__partial_word *p = &all[i / 2].partial[tensor].ends[i % 2];
        if (p->position == UINT64_MAX) continue;
        if (p->position != position && position != UINT64_MAX) ls__digest_word(sum, word, position);
        word = (p->position == position ? word : 0) | p->word;
        position = p->position;
    }
    if (position != UINT64_MAX) ls__digest_word(sum, word, position);
}

static bool are_equal(const ls__digest_sum *a, const ls__digest_sum *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* offset: of a digest in ls__rank_digest. */
static const ls__digest_sum *digest_of(const ls__rank_digest *all, int rank, size_t offset)
{
    return (const ls__digest_sum *)((const char *)&all[rank] + offset);
}

static ls_status check_equal(const ls__comm *comm, const ls__rank_digest *all, size_t offset,
                             const char *what)
{
    int first = 0, n_group = 0, n_different = 0; /* of the largest group of equal ranks */
    for (int i = 0; i < comm->n_ranks; i++) {
        int n_equal = 0;
        for (int j = 0; j < comm->n_ranks; j++)
            n_equal += are_equal(digest_of(all, i, offset), digest_of(all, j, offset));
        if (n_equal > n_group) first = i, n_group = n_equal;
    }
    if (n_group == comm->n_ranks) return LS_OK;
    char buffer[512];
    ls__text ranks = { buffer, sizeof buffer, 0 };
    for (int i = 0; i < comm->n_ranks; i++)
        if (!are_equal(digest_of(all, i, offset), digest_of(all, first, offset)))
            ls__text_put(&ranks, n_different++ ? ", %d" : "%d", i);
    return ls__fail(comm->ctx, LS_ERR_MISMATCH,
                    "the %s of rank%s %s differ from those of rank %d%s: a processor, its memory "
                    "or a library computes a different result",
                    what, n_different == 1 ? "" : "s", buffer, first,
                    n_group > 1 ? " and others" : "");
}

static ls_status merge(const ls__comm *comm, const ls__rank_digest *all, ls__rank_digest *out)
{
    LS_TRY(check_equal(comm, all, offsetof(ls__rank_digest, gradients), "gradients"));
    LS_TRY(check_equal(comm, all, offsetof(ls__rank_digest, weights), "weights"));
    for (int i = 0; i < LS__N_BATCH_TENSORS; i++) {
        out->tensors[i] = (ls__digest_sum){ { 0, 0 } };
        for (int r = 0; r < comm->n_ranks; r++) add(&out->tensors[i], &all[r].tensors[i]);
        add_partial(all, comm->n_ranks, i, &out->tensors[i]);
    }
    out->samples = (ls__digest_sum){ { 0, 0 } };
    for (int r = 0; r < comm->n_ranks; r++) add(&out->samples, &all[r].samples);
    return LS_OK;
}

ls_status ls__rank_digest_gather(ls_context *ctx, ls__rank_digest *digest)
{
    const size_t bytes = (size_t)ctx->comm->n_ranks * sizeof *digest;
    ls__rank_digest *all = ls__alloc(ctx, bytes);
    if (!all) return ls__fail_memory(ctx, "digests of ranks", bytes);
    ls_status status = ls__comm_gather(ctx->comm, digest, sizeof *digest, all, "digests of a step");
    if (status == LS_OK) status = merge(ctx->comm, all, digest);
    ls__free(ctx, all);
    return status;
}
