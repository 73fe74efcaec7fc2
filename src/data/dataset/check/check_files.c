/* check_files.c: reads and decodes the files of a folder that is checked, and finds duplicates. */
#include "data/dataset/check/check.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/queue.h"
#include "data/decode/decoder.h"
#include <stdlib.h>
#include <string.h>

static const char what[] = "ls_dataset_check";

/* ---- Decoding, by workers ---- */

enum { SLOTS_PER_WORKER = 4 };

typedef struct decoding {
    ls_dataset_report *report;
    ls__decoder *decoders; /* one for each worker */
} decoding;

/* width: of the image whose pixels these are; 0 for the bytes of a file. */
static ls_digest digest(const void *bytes, size_t size, int64_t width)
{
    ls__digest_sum sum = { 0 };
    ls__digest_word(&sum, (uint64_t)width, 0);
    ls__digest_bytes(&sum, bytes, size, sizeof(uint64_t));
    return ls__digest_finish(&sum, sizeof(uint64_t) + size);
}

/* Sets what shows whether images are equal or look the same. Returns the sum of the bytes. */
static int64_t describe(const ls__image *image, ls__checked_file *f)
{
    const int64_t n = 3 * image->height * image->width;
    const ls__source source = ls__source_of_image(image);
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += image->pixels[i];
        if (image->pixels[i] > f->brightest) f->brightest = image->pixels[i];
    }
    f->is_uniform = f->is_uniform_again = ls__view_is_uniform(&source.view);
    f->pixels = digest(image->pixels, (size_t)n, image->width);
    ls__fingerprint_image(&source.view, &f->look);
    return sum;
}

/* A transparent image is composed on black, too, because white shapes are all alike on white. Of
 * samples of 16 bits of which only the lower ones are used the bits in use are compared. on_white:
 * the sum of the bytes of the first image. */
static ls_status decode_again(ls__decoder *decoder, ls__checked_file *f, int64_t on_white)
{
    ls__checked_file again = { 0 };
    decoder->alpha = LS_ALPHA_BLACK;
    decoder->depth = f->is_transparent ? 0 : ls__check_bits(f->max_sample);
    ls_status status = ls__decoder_probe(decoder, f->path, true);
    if (status == LS_OK) status = ls__decode_region(decoder, NULL);
    decoder->alpha = LS_ALPHA_WHITE;
    decoder->depth = 0;
    if (status != LS_OK) return status;
    const int64_t on_black = describe(&decoder->image, &again);
    f->is_uniform_again = again.is_uniform;
    const ls_digest both[2] = { f->pixels, again.pixels };
    f->pixels = digest(both, sizeof(both), f->width);
    if (again.look.spread > f->look.spread) f->look = again.look;
    /* Of a channel the difference is 255 - alpha. */
    f->opacity = 100 - (int)(100 * (on_white - on_black) / (255 * 3 * f->height * f->width));
    return LS_OK;
}

static ls_status decode(ls__decoder *decoder, ls__checked_file *f)
{
    LS_TRY(ls__decoder_read(decoder, f->path));
    f->file = digest(decoder->file, decoder->file_bytes, 0);
    LS_TRY(ls__decoder_probe_memory(decoder, decoder->file, decoder->file_bytes, true));
    f->orientation = decoder->orientation;
    f->is_cmyk = decoder->is_cmyk;
    f->is_transparent = decoder->transparent;
    f->min_sample = (int32_t)decoder->min_sample;
    f->max_sample = (int32_t)decoder->max_sample;
    LS_TRY(ls__decode_region(decoder, NULL));
    f->height = decoder->image.height;
    f->width = decoder->image.width;
    const int64_t on_white = describe(&decoder->image, f);
    return f->is_transparent || ls__check_is_dark(f) ? decode_again(decoder, f, on_white) : LS_OK;
}

static void fill(void *arg, const ls__queue_item *item)
{
    const decoding *d = arg;
    ls__decoder *decoder = &d->decoders[item->worker];
    ls__checked_file *f = &d->report->files[item->step];
    f->status = decode(decoder, f);
    if (f->status == LS_OK) return;
    f->reason = ls__strdup(decoder->ctx, decoder->reason);
    if (!f->reason) f->status = LS_ERR_MEMORY;
}

static ls_status decode_all(const decoding *d, ls__queue *queue,
                            const ls_dataset_check_config *config)
{
    ls_dataset_report *r = d->report;
    ls__queue_start(queue, r->n_files, 1, 0, r->n_files);
    for (int64_t i = 0; i < r->n_files; i++) {
        if (config->progress && !config->progress(config->user, i, r->n_files))
            return ls__fail(r->owned.ctx, LS_ERR_IO, "%s: '%s': stopped", what, r->dir);
        ls__queue_take(queue);
        const ls__checked_file *f = &r->files[i];
        if (f->status != LS_OK && !ls__is_bad_image(f->status))
            return ls__fail(r->owned.ctx, f->status, "%s: image '%s': %s", what, f->path,
                            f->reason ? f->reason : "out of memory");
        if (f->status == LS_OK && f->group >= 0) r->groups[f->group].count.n_readable++;
    }
    return LS_OK;
}

ls_status ls__check_decode(ls_dataset_report *r, const ls_dataset_check_config *config)
{
    ls_context *ctx = r->owned.ctx;
    const int n = config->workers > 0 ? config->workers : 1;
    ls__queue *queue = NULL;
    decoding d = { r, ls__alloc(ctx, (size_t)n * sizeof(*d.decoders)) };
    if (!d.decoders) return ls__fail_memory(ctx, what, (size_t)n * sizeof(*d.decoders));
    for (int i = 0; i < n; i++)
        d.decoders[i] = (ls__decoder){ .ctx = ctx, .max_pixels = config->max_pixels };
    ls_status status =
        ls__queue_open(ctx, what, config->workers, n * SLOTS_PER_WORKER, 0, fill, &d, &queue);
    if (status == LS_OK) status = decode_all(&d, queue, config);
    ls__queue_close(&queue);
    for (int i = 0; i < n; i++) ls__decoder_free(&d.decoders[i]);
    ls__free(ctx, d.decoders);
    return status;
}

/* ---- Duplicates ---- */

static int compare_digests(const ls_digest *a, const ls_digest *b)
{
    for (int i = 0; i < 2; i++)
        if (a->words[i] != b->words[i]) return a->words[i] < b->words[i] ? -1 : 1;
    return 0;
}

/* By pixels, then in the order of files. */
static int compare_pixels(const void *a, const void *b)
{
    const ls__checked_file *x = *(const ls__checked_file *const *)a;
    const ls__checked_file *y = *(const ls__checked_file *const *)b;
    const int order = compare_digests(&x->pixels, &y->pixels);
    return order ? order : (x > y) - (x < y);
}

static ls_status add_duplicate(ls_dataset_report *r, const ls__checked_file *original,
                               const ls__checked_file *f)
{
    const ls_class_summary *a = &r->groups[original->group].count;
    const ls_class_summary *b = &r->groups[f->group].count;
    const char *name_a = a->name ? a->name : "", *name_b = b->name ? b->name : "";
    const bool same_file = compare_digests(&original->file, &f->file) == 0;
    const ls_finding_kind kind = strcmp(a->split, b->split) != 0 ? LS_FINDING_LEAK
                                 : strcmp(name_a, name_b) != 0   ? LS_FINDING_AMBIGUOUS
                                                                 : LS_FINDING_DUPLICATE;
    const char *path = ls__check_name(r, f->path), *other = ls__check_name(r, original->path);
    if (strcmp(original->path, f->path) != 0)
        return ls__check_add(r, kind, path, other, "the same %s as %s",
                             same_file ? "file" : "pixels", other);
    return ls__check_add(r, kind, path, other, "also in class '%s'%s%s%s", name_a,
                         *a->split ? " of '" : "", a->split, *a->split ? "'" : "");
}

static ls_status find_duplicates(ls_dataset_report *r)
{
    ls_context *ctx = r->owned.ctx;
    ls__checked_file **files = ls__alloc(ctx, (size_t)r->n_images * sizeof(*files));
    if (!files) return ls__fail_memory(ctx, what, (size_t)r->n_images * sizeof(*files));
    size_t n = 0;
    for (int64_t i = 0; i < r->n_images; i++)
        if (r->files[i].status == LS_OK) files[n++] = &r->files[i];
    qsort(files, n, sizeof(*files), compare_pixels);
    ls_status status = LS_OK;
    for (size_t original = 0, i = 1; i < n && status == LS_OK; i++) {
        files[i]->is_copy = compare_digests(&files[original]->pixels, &files[i]->pixels) == 0;
        if (files[i]->is_copy)
            status = add_duplicate(r, files[original], files[i]);
        else
            original = i;
    }
    ls__free(ctx, files);
    return status;
}

/* ---- Single files ---- */

static ls_status check_image(ls_dataset_report *r, const ls__checked_file *f, int64_t min_side)
{
    if (f->status != LS_OK)
        return ls__check_add(r, LS_FINDING_UNREADABLE, ls__check_name(r, f->path), "", "%s",
                             f->reason);
    if (f->orientation > 1)
        LS_TRY(ls__check_add(r, LS_FINDING_ROTATED, ls__check_name(r, f->path), "",
                             "orientation %d", f->orientation));
    if (f->is_cmyk)
        LS_TRY(ls__check_add(r, LS_FINDING_CMYK, ls__check_name(r, f->path), "",
                             "a JPEG file in CMYK"));
    if (f->height >= min_side && f->width >= min_side) return LS_OK;
    return ls__check_add(r, LS_FINDING_SMALL, ls__check_name(r, f->path), "", "%lld x %lld pixels",
                         (long long)f->width, (long long)f->height);
}

/* A file without an image's extension. */
static ls_status check_ignored(ls_dataset_report *r, const ls__checked_file *f)
{
    return ls__check_add(r, LS_FINDING_IGNORED, ls__check_name(r, f->path), "", "%s",
                         f->status == LS_OK ? "a readable image, whose name does not end "
                                              "in " LS__IMAGE_EXTENSIONS
                                            : f->reason);
}

/* ---- Summary ---- */

static int compare_integers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static ls_size_range range_of(int64_t *sides, int64_t n)
{
    if (n == 0) return (ls_size_range){ 0 };
    qsort(sides, (size_t)n, sizeof(*sides), compare_integers);
    return (ls_size_range){ sides[0], sides[(n - 1) / 2], sides[n - 1] };
}

static ls_status summarize(ls_dataset_report *r)
{
    ls_context *ctx = r->owned.ctx;
    const size_t bytes = 2 * (size_t)r->n_images * sizeof(int64_t);
    int64_t *widths = ls__alloc(ctx, bytes), n = 0;
    if (!widths) return ls__fail_memory(ctx, what, bytes);
    int64_t *heights = widths + r->n_images;
    for (int64_t i = 0; i < r->n_images; i++) {
        if (r->files[i].status != LS_OK) continue;
        widths[n] = r->files[i].width;
        heights[n++] = r->files[i].height;
    }
    r->summary = (ls_dataset_summary){ r->n_images, n, range_of(widths, n), range_of(heights, n) };
    ls__free(ctx, widths);
    return LS_OK;
}

ls_status ls__check_files(ls_dataset_report *r, int64_t min_side)
{
    for (int64_t i = 0; i < r->n_images; i++) LS_TRY(check_image(r, &r->files[i], min_side));
    for (int64_t i = r->n_images; i < r->n_files; i++) LS_TRY(check_ignored(r, &r->files[i]));
    for (int64_t i = 0; i < r->hidden.n; i++)
        LS_TRY(ls__check_add(r, LS_FINDING_HIDDEN, ls__check_name(r, r->paths[r->n_files + i]), "",
                             "its name begins with a dot"));
    LS_TRY(find_duplicates(r));
    return summarize(r);
}
