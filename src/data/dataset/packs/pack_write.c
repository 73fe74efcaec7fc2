/* pack_write.c: image folders into a pack. Workers read and decode, the caller's thread writes, in
 * the order of the samples, and the index at the end. */
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/queue.h"
#include "data/dataset/dataset.h"
#include "data/transform/transform.h"
#include <lockstep/pack.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char what[] = "ls_pack_write";

enum { MAX_WORKERS = 1024, MAX_SIDE = 1 << 16, SLOTS_PER_WORKER = 4 };

/* ---- The file, which is written sample by sample ---- */

/* The file is gone unless it is finished. */
typedef struct pack_file {
    ls_context *ctx;
    ls__bump bump;
    ls__atomic_file *file;
    uint64_t bytes;  /* of the file so far, with those in the buffer */
    uint8_t *buffer; /* bytes that are not written yet, so that writes are large */
    size_t n_buffered;
    uint64_t header_hash;
    ls__pack_group *splits, *classes;
    ls__pack_sample *samples;
    int64_t n_splits, n_classes, n_samples; /* so far; there is memory for all */
    ls__text_list names;
    uint64_t decoders; /* in names */
} pack_file;

enum { BUFFER_BYTES = 1 << 20 };

static ls_status flush(pack_file *file)
{
    const size_t n = file->n_buffered;
    file->n_buffered = 0;
    return ls__atomic_file_write(file->file, file->buffer, n);
}

static ls_status append(pack_file *file, const void *bytes, size_t size)
{
    file->bytes += size;
    if (size > BUFFER_BYTES - file->n_buffered) LS_TRY(flush(file));
    if (size > BUFFER_BYTES) return ls__atomic_file_write(file->file, bytes, size);
    memcpy(file->buffer + file->n_buffered, bytes, size);
    file->n_buffered += size;
    return LS_OK;
}

static ls_status add_name(pack_file *file, const char *name, uint64_t *out)
{
    *out = file->names.n_bytes;
    return ls__text_list_add(&file->names, what, name);
}

/* Writes the header with the form, resize, alpha and depth of `settings`; has memory for so many of
 * each. */
static ls_status pack_file_open(ls_context *ctx, const char *path, const ls__pack_header *settings,
                                const char *decoders, int64_t n_splits, int64_t n_classes,
                                int64_t n_samples, pack_file *out)
{
    *out = (pack_file){ .ctx = ctx, .names.ctx = ctx };
    ls__bump_open(&out->bump, ctx);
    out->splits = ls__bump_alloc(&out->bump, (size_t)n_splits * sizeof(*out->splits));
    out->classes = ls__bump_alloc(&out->bump, (size_t)n_classes * sizeof(*out->classes));
    out->samples = ls__bump_alloc(&out->bump, (size_t)n_samples * sizeof(*out->samples));
    out->buffer = ls__bump_alloc(&out->bump, BUFFER_BYTES);
    if (!out->splits || !out->classes || !out->samples || !out->buffer)
        return ls__fail_memory(ctx, what, (size_t)n_samples * sizeof(*out->samples));
    LS_TRY(add_name(out, decoders, &out->decoders));
    LS_TRY(ls__atomic_file_open(ctx, path, &out->file));
    ls__atomic_file_sweep(out->file);
    ls__pack_header header = *settings;
    header.version = LS__PACK_VERSION;
    memcpy(header.magic, LS__PACK_MAGIC, sizeof(header.magic));
    header.hash = ls__hash(&header, offsetof(ls__pack_header, hash), 0);
    out->header_hash = ls__hash(&header, sizeof(header), 0);
    return append(out, &header, sizeof(header));
}

/* A new split or class, to which the next classes or samples belong. */
static ls_status pack_file_split(pack_file *file, const char *name)
{
    ls__pack_group *split = &file->splits[file->n_splits++];
    split->first = (uint64_t)file->n_classes;
    return add_name(file, name, &split->name);
}

static ls_status pack_file_class(pack_file *file, const char *name)
{
    ls__pack_group *class = &file->classes[file->n_classes++];
    class->first = (uint64_t)file->n_samples;
    file->splits[file->n_splits - 1].n++;
    return add_name(file, name, &class->name);
}

/* All of `sample` is read but its offset and name. */
static ls_status pack_file_sample(pack_file *file, const char *name, const ls__pack_sample *sample,
                                  const void *data)
{
    static const uint8_t zeros[LS__PACK_BLOCK];
    ls__pack_sample *s = &file->samples[file->n_samples++];
    *s = *sample;
    s->offset = file->bytes;
    file->classes[file->n_classes - 1].n++;
    LS_TRY(add_name(file, name, &s->name));
    LS_TRY(append(file, data, (size_t)s->bytes));
    return append(file, zeros, (size_t)(-s->bytes % LS__PACK_BLOCK));
}

/* Writes index and trailer; the file appears at its path. */
static ls_status pack_file_finish(pack_file *file)
{
    const ls__pack_index head = { .n_splits = (uint64_t)file->n_splits,
                                  .n_classes = (uint64_t)file->n_classes,
                                  .n_samples = (uint64_t)file->n_samples,
                                  .text_bytes = file->names.n_bytes,
                                  .decoders = file->decoders };
    const struct {
        const void *memory;
        size_t bytes;
    } tables[] = {
        { &head, sizeof(head) },
        { file->splits, (size_t)file->n_splits * sizeof(*file->splits) },
        { file->classes, (size_t)file->n_classes * sizeof(*file->classes) },
        { file->samples, (size_t)file->n_samples * sizeof(*file->samples) },
        { file->names.text, file->names.n_bytes },
    };
    enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };
    size_t bytes = 0;
    for (int i = 0; i < N_TABLES; i++) bytes += tables[i].bytes;
    uint8_t *index = ls__alloc(file->ctx, bytes), *at = index;
    if (!index) return ls__fail_memory(file->ctx, what, bytes);
    for (int i = 0; i < N_TABLES; at += tables[i++].bytes)
        memcpy(at, tables[i].memory, tables[i].bytes);

    ls__pack_trailer trailer = { .bytes = file->bytes + bytes + sizeof(trailer),
                                 .index_offset = file->bytes,
                                 .index_bytes = bytes,
                                 .index_hash = ls__hash(index, bytes, 0),
                                 .header_hash = file->header_hash };
    memcpy(trailer.magic, LS__PACK_END_MAGIC, sizeof(trailer.magic));
    trailer.hash = ls__hash(&trailer, offsetof(ls__pack_trailer, hash), 0);
    ls_status status = append(file, index, bytes);
    ls__free(file->ctx, index);
    if (status == LS_OK) status = append(file, &trailer, sizeof(trailer));
    if (status == LS_OK) status = flush(file);
    return status == LS_OK ? ls__atomic_file_commit(&file->file) : status;
}

static void pack_file_close(pack_file *file)
{
    ls__atomic_file_abandon(&file->file);
    ls__bump_close(&file->bump);
    ls__text_list_free(&file->names);
}

/* ---- Samples between reading and writing ---- */

typedef struct slot {
    ls__buffer file; /* the image file */
    ls__image image; /* its pixels, in a pack of pixels */
    ls__pack_sample sample;
    const void *data;
    ls_status status; /* of reading and decoding */
    char reason[LS__REASON_SIZE];
} slot;

typedef struct worker {
    ls__decoder decoder;
    ls__resizer resizer;
} worker;

typedef struct packing {
    ls_context *ctx;
    const char *path;
    int n_splits;
    const ls_pack_split *splits;
    ls_pack_config config;
    ls__pack_form form;
    int64_t n_classes, n_samples; /* of all splits */
    int n_slots, n_workers;
    slot *slots;
    worker *workers;
    ls__queue *queue;
    pack_file file;
    int64_t n_bad;
} packing;

/* ---- Workers ---- */

/* The split of sample number i of all splits; i becomes its number there. */
static const ls_pack_split *find_split(const packing *p, int64_t *i)
{
    const ls_pack_split *split = p->splits;
    for (; *i >= split->dataset->n_samples; split++) *i -= split->dataset->n_samples;
    return split;
}

static ls_status resize(const packing *p, worker *w, slot *s)
{
    const ls__image *from = &w->decoder.image;
    int64_t height = from->height, width = from->width;
    const ls__transform shorter_side = { .resize = p->config.resize };
    ls__transformed_size(&shorter_side, &height, &width, &(ls__window){ 0 });
    LS_TRY(ls__check_resize(from->height, from->width, height, width, w->decoder.reason));
    if (!ls__resize_image(&w->resizer, &w->decoder.source, height, width, &s->image))
        return ls__undecodable(&w->decoder, LS_ERR_MEMORY, "no memory to resize it");
    return LS_OK;
}

/* The decoder's image becomes the sample's pixels. */
static ls_status take_pixels(const packing *p, worker *w, slot *s)
{
    if (p->config.resize > 0) {
        LS_TRY(resize(p, w, s));
    } else {
        const ls__image image = w->decoder.image;
        w->decoder.image = s->image;
        s->image = image;
    }
    s->sample.orientation =
        (uint16_t)ls__exif_orientation(s->file.bytes, (size_t)s->sample.file_bytes);
    s->sample.height = (uint32_t)s->image.height;
    s->sample.width = (uint32_t)s->image.width;
    s->sample.bytes = 3 * (uint64_t)s->image.height * (uint64_t)s->image.width;
    s->data = s->image.pixels;
    return LS_OK;
}

/* Reads the file and decodes it. */
static ls_status load(const packing *p, worker *w, slot *s, const char *path)
{
    ls__decoder *decoder = &w->decoder;
    LS_TRY(ls__decoder_read(decoder, path));
    s->sample.file_bytes = s->sample.bytes = decoder->file_bytes;
    s->sample.file_hash = ls__hash(decoder->file, decoder->file_bytes, 0);
    const ls__buffer file = decoder->buffer; /* the slot and the decoder exchange their memory */
    decoder->buffer = s->file;
    s->file = file;
    s->data = file.bytes ? (const void *)file.bytes : ""; /* an empty file needs no memory */
    LS_TRY(ls__decoder_probe_memory(decoder, file.bytes, (size_t)s->sample.file_bytes, false));
    LS_TRY(ls__decode_region(decoder, NULL));
    return p->form == LS__PACK_PIXELS ? take_pixels(p, w, s) : LS_OK;
}

/* A pack of files stores a file that can't be decoded unchanged. */
static void take_reason(const packing *p, slot *s)
{
    if (p->form == LS__PACK_FILES && s->data) return;
    s->sample.state = s->status == LS_ERR_NOT_FOUND ? LS__PACK_NOT_FOUND
                      : s->status == LS_ERR_IO      ? LS__PACK_UNREAD
                                                    : LS__PACK_UNUSABLE;
    s->sample.bytes = strlen(s->reason);
    s->data = s->reason;
}

static void fill(void *arg, const ls__queue_item *item)
{
    const packing *p = arg;
    slot *s = &p->slots[item->slot];
    worker *w = &p->workers[item->worker];
    int64_t i = item->step;
    const char *path = find_split(p, &i)->dataset->paths[i];
    s->sample = (ls__pack_sample){ .file_bytes = LS__PACK_UNKNOWN, .file_hash = LS__PACK_UNKNOWN };
    s->data = NULL;
    s->status = load(p, w, s, path);
    if (s->status != LS_OK) {
        memcpy(s->reason, w->decoder.reason, sizeof(s->reason));
        struct stat there;
        if (s->sample.file_bytes == LS__PACK_UNKNOWN && stat(path, &there) == 0)
            s->sample.file_bytes = (uint64_t)there.st_size;
        take_reason(p, s);
    }
    const bool is_file = p->form == LS__PACK_FILES && s->sample.state == LS__PACK_SOUND;
    s->sample.hash = is_file ? s->sample.file_hash : ls__hash(s->data, (size_t)s->sample.bytes, 0);
}

/* ---- The caller's thread ---- */

static ls_status write_sample(packing *p, slot *s, const ls_dataset *dataset, int64_t i)
{
    if (s->status != LS_OK) {
        /* another error of reading may pass, but would be in the pack for ever */
        const bool is_bad = s->status == LS_ERR_DATA || s->status == LS_ERR_NOT_FOUND;
        p->n_bad += is_bad;
        if (p->config.on_bad_image == LS_BAD_IMAGE_FAIL || !is_bad)
            return ls__fail(p->ctx, s->status, "%s: '%s': image '%s': %s", what, p->path,
                            dataset->paths[i], s->reason);
        ls__warn(p->ctx, LS_LOG_DATA, "'%s': packed though it can't be used: image '%s': %s",
                 p->path, dataset->paths[i], s->reason);
    }
    if (i == 0 || dataset->labels[i] != dataset->labels[i - 1])
        LS_TRY(pack_file_class(&p->file, dataset->class_names[dataset->labels[i]]));
    LS_TRY(pack_file_sample(&p->file, ls__dataset_name(dataset, i), &s->sample, s->data));
    /* One huge image should not hold its memory until the end. */
    if (s->image.capacity > LS__KEEP_BYTES) ls__image_free(p->ctx, &s->image);
    if (s->file.capacity > LS__KEEP_BYTES) ls__buffer_free(p->ctx, &s->file);
    return LS_OK;
}

/* A file that is overwritten must not be one of the images. */
static ls_status check_replaced(const packing *p, const struct stat *there)
{
    for (int i = 0; i < p->n_splits; i++) {
        const ls_dataset *d = p->splits[i].dataset;
        for (int64_t k = 0; k < d->n_samples; k++) {
            struct stat image;
            if (stat(d->paths[k], &image) == 0 && image.st_ino == there->st_ino &&
                image.st_dev == there->st_dev)
                return ls__fail(p->ctx, LS_ERR_INVALID,
                                "%s: '%s' is one of the images to be packed, '%s'", what, p->path,
                                d->paths[k]);
        }
    }
    return LS_OK;
}

static ls_status check_path(const packing *p)
{
    struct stat there;
    if (stat(p->path, &there) != 0 || !S_ISREG(there.st_mode)) return LS_OK;
    if (p->config.overwrite) return check_replaced(p, &there);
    return ls__fail(p->ctx, LS_ERR_IO, "%s: '%s': there is a file already", what, p->path);
}

/* Returns the decoders of the first split that depends on more than the loaded decoder of JPEG,
 * else those of all. NULL if memory is short. */
static const char *find_decoders(const packing *p, char buffer[LS__DECODERS_SIZE])
{
    char jpeg[LS__DECODERS_SIZE];
    const char *out = ls__decoders(false, jpeg);
    for (int i = 0; i < p->n_splits && out && strcmp(out, jpeg) == 0; i++)
        out = ls__dataset_decoders(p->splits[i].dataset, buffer);
    return out;
}

static ls_status write_all(packing *p)
{
    char buffer[LS__DECODERS_SIZE];
    const char *decoders = find_decoders(p, buffer);
    if (!decoders) return ls__fail_memory(p->ctx, what, 0);
    static const uint32_t alphas[] = { [LS_ALPHA_WHITE] = 1, [LS_ALPHA_BLACK] = 2 };
    const bool has_alpha = p->form == LS__PACK_PIXELS && p->config.alpha != LS_ALPHA_IGNORE;
    const ls__pack_header settings = { .form = p->form,
                                       .resize = (uint32_t)p->config.resize,
                                       .alpha = has_alpha ? alphas[p->config.alpha] : 0,
                                       .depth =
                                           p->config.depth == 16 ? 0 : (uint32_t)p->config.depth };
    LS_TRY(pack_file_open(p->ctx, p->path, &settings, decoders, p->n_splits, p->n_classes,
                          p->n_samples, &p->file));
    ls__queue_start(p->queue, p->n_samples, 1, 0, p->n_samples);
    for (int64_t done = 0; done < p->n_samples; done++) {
        if (p->config.progress && !p->config.progress(p->config.user, done, p->n_samples))
            return ls__fail(p->ctx, LS_ERR_IO, "%s: '%s': stopped", what, p->path);
        int64_t i = done;
        const ls_pack_split *split = find_split(p, &i);
        if (i == 0) LS_TRY(pack_file_split(&p->file, split->name));
        LS_TRY(write_sample(p, &p->slots[ls__queue_take(p->queue)], split->dataset, i));
    }
    if (p->n_bad == p->n_samples)
        return ls__fail(p->ctx, LS_ERR_DATA, "%s: '%s': none of the %lld images can be used", what,
                        p->path, (long long)p->n_samples);
    LS_TRY(check_path(p)); /* another process may have written one meanwhile */
    return pack_file_finish(&p->file);
}

static ls_status open_workers(packing *p)
{
    p->n_workers = p->config.workers > 0 ? p->config.workers : 1;
    p->n_slots = p->config.workers > 0 ? p->config.workers * SLOTS_PER_WORKER : 1;
    p->slots = ls__zalloc(p->ctx, (size_t)p->n_slots * sizeof(*p->slots));
    p->workers = ls__zalloc(p->ctx, (size_t)p->n_workers * sizeof(*p->workers));
    if (!p->slots || !p->workers)
        return ls__fail_memory(p->ctx, what, (size_t)p->n_slots * sizeof(*p->slots));
    for (int i = 0; i < p->n_workers; i++)
        p->workers[i] = (worker){ .decoder = { .ctx = p->ctx,
                                               .max_pixels = p->config.max_pixels,
                                               .alpha = p->config.alpha,
                                               .depth = p->config.depth },
                                  .resizer = { .ctx = p->ctx } };
    return ls__queue_open(p->ctx, what, p->config.workers, p->n_slots, 0, fill, p, &p->queue);
}

static void close_all(packing *p)
{
    ls__queue_close(&p->queue);
    for (int i = 0; p->workers && i < p->n_workers; i++) {
        ls__decoder_free(&p->workers[i].decoder);
        ls__buffer_free(p->ctx, &p->workers[i].resizer.memory);
    }
    for (int i = 0; p->slots && i < p->n_slots; i++) {
        ls__buffer_free(p->ctx, &p->slots[i].file);
        ls__image_free(p->ctx, &p->slots[i].image);
    }
    ls__free(p->ctx, p->slots);
    ls__free(p->ctx, p->workers);
    pack_file_close(&p->file);
}

/* ---- Checks ---- */

static ls_status check_config(ls_context *ctx, const ls_pack_config *c)
{
    if (c->resize < 0 || c->resize > MAX_SIDE)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: resize is %lld, expected 0 to %d", what,
                        (long long)c->resize, MAX_SIDE);
    if (c->max_pixels < 0 || c->max_pixels > LS__MAX_PIXELS)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: max_pixels is %lld, expected 0 to %d", what,
                        (long long)c->max_pixels, LS__MAX_PIXELS);
    if (c->alpha < LS_ALPHA_WHITE || c->alpha > LS_ALPHA_IGNORE || c->depth < 0 || c->depth > 16 ||
        (c->depth > 0 && c->depth <= 8))
        return ls__fail(ctx, LS_ERR_INVALID, "%s: alpha is %d, depth %d; expected 0 to 2, 9 to 16",
                        what, (int)c->alpha, c->depth);
    if ((c->alpha != LS_ALPHA_WHITE || c->depth > 0) && !c->pixels && c->resize == 0)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: alpha or depth is set, but the pack holds files, which its loaders "
                        "decode",
                        what);
    if (c->workers < 0 || c->workers > MAX_WORKERS)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: workers is %d, expected 0 to %d", what,
                        c->workers, MAX_WORKERS);
    if (c->on_bad_image != LS_BAD_IMAGE_FAIL && c->on_bad_image != LS_BAD_IMAGE_SKIP)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: on_bad_image is %d, expected 0 or 1", what,
                        (int)c->on_bad_image);
    return LS_OK;
}

/* Classes without samples are not packed, so only the order of the others is checked. */
static ls_status check_split(ls_context *ctx, const ls_pack_split *split)
{
    const ls_dataset *d = split->dataset;
    if (!d || d->owned.ctx != ctx || !d->in_class_folders || ls__dataset_whole(d)->pack)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: split '%s': expected a dataset of an image folder in this context",
                        what, split->name);
    const char *before = NULL;
    for (int64_t i = 0; i < d->n_samples; i++) {
        const char *name = d->class_names[d->labels[i]];
        if (before && strcmp(before, name) > 0)
            return ls__fail(ctx, LS_ERR_INVALID,
                            "%s: split '%s': class '%s' comes after '%s'; expected byte order",
                            what, split->name, name, before);
        before = name;
    }
    return LS_OK;
}

static ls_status check_splits(ls_context *ctx, int n_splits, const ls_pack_split *splits)
{
    if (n_splits < 1 || !splits) return ls__fail(ctx, LS_ERR_INVALID, "%s: no splits given", what);
    for (int i = 0; i < n_splits; i++) {
        const char *name = splits[i].name;
        if (!name || strchr(name, '/') || (*name == '\0' && n_splits > 1))
            return ls__fail(ctx, LS_ERR_INVALID,
                            "%s: split %d of %d is called '%s'; expected a name without slashes",
                            what, i, n_splits, name ? name : "(NULL)");
        for (int k = 0; k < i; k++)
            if (strcmp(splits[k].name, name) == 0)
                return ls__fail(ctx, LS_ERR_INVALID, "%s: split '%s' is given twice", what, name);
        LS_TRY(check_split(ctx, &splits[i]));
    }
    return LS_OK;
}

ls_status ls_pack_write(ls_context *ctx, const char *path, int n_splits,
                        const ls_pack_split *splits, const ls_pack_config *config,
                        ls_pack_summary *out)
{
    if (out) *out = (ls_pack_summary){ 0 };
    LS__ENTER(ctx);
    packing p = { .ctx = ctx, .path = path, .n_splits = n_splits, .splits = splits };
    if (config) p.config = *config;
    p.form = p.config.pixels || p.config.resize > 0 ? LS__PACK_PIXELS : LS__PACK_FILES;
    LS_TRY(check_config(ctx, &p.config));
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "%s: no path given", what);
    LS_TRY(check_splits(ctx, n_splits, splits));
    LS_TRY(check_path(&p));
    for (int i = 0; i < n_splits; i++) {
        p.n_classes += splits[i].dataset->n_classes;
        p.n_samples += splits[i].dataset->n_samples;
    }
    /* `progress` may close them. */
    for (int i = 0; i < n_splits; i++) ls__use(splits[i].dataset);
    ls_status status = open_workers(&p);
    if (status == LS_OK) status = write_all(&p);
    if (out) out->n_bad = p.n_bad;
    if (status == LS_OK && out)
        *out = (ls_pack_summary){ .n_splits = n_splits,
                                  .n_samples = p.n_samples,
                                  .n_bad = p.n_bad,
                                  .bytes = (int64_t)p.file.bytes,
                                  .pixels = p.form == LS__PACK_PIXELS,
                                  .resize = p.config.resize };
    close_all(&p);
    for (int i = 0; i < n_splits; i++) ls__release(splits[i].dataset);
    return status;
}
