/* check_near.c: finds images that look the same, by their fingerprints.
 *
 * Candidates are found by multi-index hashing (M. Norouzi, A. Punjani, D. J. Fleet, "Fast Search in
 * Hamming Space with Multi-Index Hashing", CVPR 2012): the 64 bits of a hash are cut into 4 bands.
 * Of two hashes that differ in at most 7 bits one band differs in at most one. So each image is
 * compared with those that have an equal band, or one with a single other bit. The time grows with
 * the number of images, not with its square. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include <string.h>

static const char what[] = "ls_dataset_check";

enum {
    N_BANDS = 4,
    BAND_BITS = 64 / N_BANDS,
    N_KEYS = 1 << BAND_BITS,
    MAX_DISTANCE = 2 * N_BANDS - 1, /* of hashes, in bits */
    /* Hashes of drawings and of products on plain backgrounds are similar. An image is compared
     * with at most this number of candidates, those with equal bands first. */
    MAX_CANDIDATES = 1 << 14
};

/* Images by one band: those of key k are items[begin[k]] to items[begin[k + 1] - 1], ascending. */
typedef struct band {
    int32_t begin[N_KEYS + 1];
    int32_t *items; /* positions in near_index.files */
} band;

typedef struct near_index {
    ls_dataset_report *report;
    const ls__checked_file **files; /* in the order of the report, without exact copies */
    int32_t n;
    band *bands; /* [N_BANDS] */
} near_index;

/* Every fourth bit, so that plain parts of images, in which no bit is set, fill no whole band. */
static uint32_t key_of(uint64_t hash, int number)
{
    uint32_t key = 0;
    for (int bit = 0; bit < BAND_BITS; bit++)
        key |= (uint32_t)(hash >> (N_BANDS * bit + number) & 1) << bit;
    return key;
}

/* Counting sort. */
static void fill_band(const near_index *x, int number)
{
    band *b = &x->bands[number];
    for (int32_t i = 0; i < x->n; i++) b->begin[key_of(x->files[i]->look.hash, number)]++;
    for (int32_t key = 0, end = 0; key <= N_KEYS; key++) b->begin[key] = end += b->begin[key];
    for (int32_t i = x->n; i-- > 0;)
        b->items[--b->begin[key_of(x->files[i]->look.hash, number)]] = i;
}

/* ---- Search ---- */

/* The best of the images before one that look the same. */
typedef struct match {
    int32_t i, other; /* positions in near_index.files; other -1: none */
    ls_finding_kind kind;
    int32_t n_candidates;
} match;

static ls_finding_kind kind_of(const near_index *x, const ls__checked_file *a,
                               const ls__checked_file *b)
{
    const ls_class_summary *of_a = &x->report->groups[a->group].count;
    const ls_class_summary *of_b = &x->report->groups[b->group].count;
    if (strcmp(of_a->split, of_b->split) != 0) return LS_FINDING_NEAR_LEAK;
    return a->group != b->group ? LS_FINDING_NEAR_AMBIGUOUS : LS_FINDING_NEAR_DUPLICATE;
}

/* The most serious kind is best, then the first image in the order of the report. */
static void compare(const near_index *x, int32_t candidate, match *best)
{
    const ls__checked_file *a = x->files[candidate], *b = x->files[best->i];
    if (ls__fingerprint_distance(a->look.hash, b->look.hash) > MAX_DISTANCE) return;
    const ls_finding_kind kind = kind_of(x, a, b);
    const bool is_better =
        best->other < 0 || kind < best->kind || (kind == best->kind && candidate < best->other);
    if (!is_better || !ls__fingerprint_matches(&a->look, &b->look)) return;
    best->other = candidate;
    best->kind = kind;
}

static void search_key(const near_index *x, int number, uint32_t key, match *best)
{
    const band *b = &x->bands[number];
    for (int32_t k = b->begin[key];
         k < b->begin[key + 1] && b->items[k] < best->i && best->n_candidates < MAX_CANDIDATES;
         k++, best->n_candidates++)
        compare(x, b->items[k], best);
}

static match search(const near_index *x, int32_t i)
{
    match best = { .i = i, .other = -1 };
    const uint64_t hash = x->files[i]->look.hash;
    for (int number = 0; number < N_BANDS; number++)
        search_key(x, number, key_of(hash, number), &best);
    for (int number = 0; number < N_BANDS; number++)
        for (int bit = 0; bit < BAND_BITS && best.n_candidates < MAX_CANDIDATES; bit++)
            search_key(x, number, key_of(hash, number) ^ 1u << bit, &best);
    return best;
}

static ls_status search_all(const near_index *x)
{
    ls_dataset_report *r = x->report;
    for (int32_t i = 0; i < x->n; i++) {
        const match m = search(x, i);
        if (m.other < 0) continue;
        const ls__checked_file *a = x->files[m.other], *b = x->files[i];
        const char *other = ls__check_name(r, a->path);
        const int distance = ls__fingerprint_distance(a->look.hash, b->look.hash);
        LS_TRY(ls__check_add(r, m.kind, ls__check_name(r, b->path), other,
                             "looks the same as %s; hash distance %d", other, distance));
    }
    return LS_OK;
}

ls_status ls__check_near(ls_dataset_report *r)
{
    ls_context *ctx = r->owned.ctx;
    const size_t n = (size_t)r->n_images, bytes = n * sizeof(ls__checked_file *);
    near_index x = { .report = r,
                     .files = ls__alloc(ctx, bytes),
                     .bands = ls__zalloc(ctx, N_BANDS * sizeof(band)) };
    int32_t *items = ls__alloc(ctx, N_BANDS * n * sizeof(*items));
    ls_status status = LS_OK;
    if (x.files && x.bands && items) {
        for (int64_t i = 0; i < r->n_images; i++)
            if (r->files[i].status == LS_OK && !r->files[i].is_copy) x.files[x.n++] = &r->files[i];
        for (int number = 0; number < N_BANDS; number++) {
            x.bands[number].items = items + (size_t)number * n;
            fill_band(&x, number);
        }
        status = search_all(&x);
    } else {
        status = ls__fail_memory(ctx, what, bytes);
    }
    ls__free(ctx, items);
    ls__free(ctx, x.bands);
    ls__free(ctx, x.files);
    return status;
}
