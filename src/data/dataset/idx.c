/* idx.c: images and labels in idx files, the format of MNIST ("The MNIST database of handwritten
 * digits", LeCun, Cortes, Burges). Numbers are big-endian:
 *
 *   images   0x00000803, count, height, width; then count * height * width bytes
 *   labels   0x00000801, count; then a byte for each
 *
 * The magic number's third byte is the type (8 = unsigned bytes), its fourth the number of
 * dimensions. A file may be compressed by gzip. */
#include "data/dataset/dataset.h"
#include "data/dataset/gzip.h"

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include <string.h>

enum { MAX_DIMS = 3, TYPE_U8 = 8, GZIP_MAGIC = 0x1f8b, GZIP_MIN_BYTES = 18, MAX_CLASSES = 256 };

typedef struct idx_file {
    ls_context *ctx;
    const char *path;
    unsigned char *bytes;
    size_t n_bytes;
    size_t at;      /* of the next byte of a file that is not compressed */
    ls__gzip *gzip; /* NULL: not compressed */
} idx_file;

/* All zero: nothing to close. */
static void close_file(idx_file *file)
{
    ls__gzip_close(&file->gzip);
    ls__free(file->ctx, file->bytes);
}

static ls_status open_file(idx_file *file, ls_context *ctx, const char *path)
{
    char message[LS__MESSAGE_SIZE];
    *file = (idx_file){ .ctx = ctx, .path = path };
    const ls_status status = ls__read_file(ctx, path, LS__MAX_FILE_BYTES, &file->bytes,
                                           &file->n_bytes, message, sizeof(message));
    if (status != LS_OK) return ls__fail(ctx, status, "idx file '%s': %s", path, message);
    if (file->n_bytes < GZIP_MIN_BYTES || ls__be16(file->bytes) != GZIP_MAGIC) return LS_OK;
    return ls__gzip_open(ctx, path, file->bytes, file->n_bytes, &file->gzip);
}

/* Reads up to n <= UINT32_MAX bytes; *got are fewer at the end. */
static ls_status read_some(idx_file *file, void *out, size_t n, size_t *got)
{
    if (file->gzip) return ls__gzip_read(file->gzip, out, n, got);
    const size_t left = file->n_bytes - file->at;
    *got = n < left ? n : left;
    memcpy(out, file->bytes + file->at, *got);
    file->at += *got;
    return LS_OK;
}

static ls_status fail_short(const idx_file *file, const char *part, size_t got, size_t expected)
{
    return ls__fail(file->ctx, LS_ERR_DATA, "idx file '%s': %s has %zu bytes, expected %zu",
                    file->path, part, got, expected);
}

/* Reads the magic number and the dimensions. */
static ls_status read_header(idx_file *file, int n_dims, int64_t dims[MAX_DIMS])
{
    unsigned char bytes[4 * (1 + MAX_DIMS)];
    const uint32_t expected = TYPE_U8 << 8 | (uint32_t)n_dims;
    const size_t n = 4 * (1 + (size_t)n_dims);
    const bool named_gz = !file->gzip && ls__ends_with(file->path, ".gz");
    size_t got, rest = 0;
    LS_TRY(read_some(file, bytes, 4, &got));
    const uint32_t magic = got == 4 ? ls__be32(bytes) : 0;
    if (got == 4 && magic != expected)
        return ls__fail(
            file->ctx, LS_ERR_DATA,
            "idx file '%s': begins with 0x%08x, expected 0x%08x: unsigned bytes in %d "
            "dimension%s%s",
            file->path, (unsigned)magic, (unsigned)expected, n_dims, n_dims > 1 ? "s" : "",
            magic >> 16 == GZIP_MAGIC           ? "; it is a truncated gzip file"
            : magic >> 8 != TYPE_U8 && named_gz ? "; it is named .gz, but not compressed by gzip"
            : magic >> 8 != TYPE_U8             ? ""
            : magic == 0x801                    ? "; it is a file of labels"
            : magic == 0x803                    ? "; it is a file of images"
                                                : "");
    if (got == 4) LS_TRY(read_some(file, bytes + 4, n - 4, &rest));
    if (got + rest < n) return fail_short(file, "its header", got + rest, n);
    for (int i = 0; i < n_dims; i++) dims[i] = ls__be32(bytes + 4 + 4 * i);
    return LS_OK;
}

/* The number of data bytes that the header claims, before memory is allocated for them. */
static ls_status check_size(const idx_file *file, int n_dims, const int64_t dims[MAX_DIMS],
                            size_t *out)
{
    size_t size = 1;
    bool fits = true;
    for (int i = 0; i < n_dims; i++) fits = fits && ls__mul_size(size, (size_t)dims[i], &size);
    const size_t header = 4 * (1 + (size_t)n_dims);
    const size_t max_bytes =
        file->gzip ? file->n_bytes * LS__GZIP_MAX_INFLATION : file->n_bytes - header;
    if (fits && size == 0 && n_dims == 1)
        return ls__fail(file->ctx, LS_ERR_DATA,
                        "idx file '%s': its header states 0 labels, expected 1 or more",
                        file->path);
    if (fits && size == 0)
        return ls__fail(file->ctx, LS_ERR_DATA,
                        "idx file '%s': its header states %lld images of %lld x %lld pixels, "
                        "expected 1 or more of each",
                        file->path, (long long)dims[0], (long long)dims[1], (long long)dims[2]);
    if (!fits || size > max_bytes || (n_dims == 3 && dims[1] > LS__MAX_PIXELS / dims[2]))
        return ls__fail(
            file->ctx, LS_ERR_DATA,
            "idx file '%s': its header claims %lld x %lld x %lld bytes, which a file of "
            "%zu bytes%s does not hold",
            file->path, (long long)dims[0], (long long)(n_dims > 1 ? dims[1] : 1),
            (long long)(n_dims > 2 ? dims[2] : 1), file->n_bytes, file->gzip ? " (gzip)" : "");
    *out = size;
    return LS_OK;
}

/* Reads all data, and checks that nothing follows. */
static ls_status read_data(idx_file *file, uint8_t *out, size_t size)
{
    enum { CHUNK = 1 << 30 };
    size_t done = 0, got = 1;
    for (; done < size && got > 0; done += got)
        LS_TRY(read_some(file, out + done, size - done < CHUNK ? size - done : CHUNK, &got));
    if (done < size) return fail_short(file, "its data", done, size);
    uint8_t more;
    LS_TRY(read_some(file, &more, 1, &got));
    if (got > 0)
        return ls__fail(file->ctx, LS_ERR_DATA,
                        "idx file '%s': more bytes follow the %zu that its header states",
                        file->path, size);
    return LS_OK;
}

/* A whole file. The caller frees *out. */
static ls_status read_idx(ls_context *ctx, const char *path, int n_dims, int64_t dims[MAX_DIMS],
                          uint8_t **out)
{
    idx_file file;
    size_t size = 0;
    ls_status status = open_file(&file, ctx, path);
    if (status == LS_OK) status = read_header(&file, n_dims, dims);
    if (status == LS_OK) status = check_size(&file, n_dims, dims, &size);
    if (status == LS_OK) {
        *out = ls__alloc(ctx, size);
        status = *out ? read_data(&file, *out, size) : ls__fail_memory(ctx, path, size);
    }
    close_file(&file);
    return status;
}

static ls_status check_labels(ls_context *ctx, const char *path, int64_t n, const uint8_t *labels,
                              int *n_classes)
{
    int largest = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] <= largest && i > 0) continue;
        largest = labels[i];
        at = i;
    }
    if (*n_classes == 0) *n_classes = largest + 1;
    if (largest < *n_classes) return LS_OK;
    return ls__fail(ctx, LS_ERR_DATA, "idx file '%s': label %lld is %d, expected 0 to %d", path,
                    (long long)at, largest, *n_classes - 1);
}

/* The dataset takes the images' memory. */
static bool take_images(ls_dataset *dataset, uint8_t **images, const int64_t dims[MAX_DIMS],
                        const uint8_t *labels, int n_classes)
{
    dataset->n_samples = dims[0];
    dataset->height = dims[1];
    dataset->width = dims[2];
    dataset->channels = 1;
    dataset->images = *images;
    *images = NULL;
    dataset->labels = ls__bump_alloc(&dataset->bump, (size_t)dims[0] * sizeof(*dataset->labels));
    if (!dataset->labels) return false;
    for (int64_t i = 0; i < dims[0]; i++) dataset->labels[i] = labels[i];
    return ls__dataset_name_classes(dataset, n_classes, NULL);
}

ls_dataset *ls_idx_open(ls_context *ctx, const char *images, const char *labels, int n_classes)
{
    LS__ENTER_NULL(ctx);
    if (!images || !labels || n_classes < 0 || n_classes > MAX_CLASSES) {
        if (images && labels)
            ls__fail(ctx, LS_ERR_INVALID, "ls_idx_open: %d classes, expected 0 to %d", n_classes,
                     MAX_CLASSES);
        else
            ls__fail(ctx, LS_ERR_INVALID, "ls_idx_open: no file of %s",
                     images ? "labels" : "images");
        return NULL;
    }
    int64_t image_dims[MAX_DIMS], label_dims[MAX_DIMS];
    uint8_t *pixels = NULL, *numbers = NULL;
    ls_dataset *dataset = NULL;
    ls_status status = read_idx(ctx, labels, 1, label_dims, &numbers);
    if (status == LS_OK) status = read_idx(ctx, images, 3, image_dims, &pixels);
    if (status == LS_OK && image_dims[0] != label_dims[0])
        status = ls__fail(ctx, LS_ERR_DATA, "idx file '%s' has %lld images, '%s' has %lld labels",
                          images, (long long)image_dims[0], labels, (long long)label_dims[0]);
    if (status == LS_OK) status = check_labels(ctx, labels, label_dims[0], numbers, &n_classes);
    if (status == LS_OK) dataset = ls__dataset_open(ctx, images);
    if (dataset && !take_images(dataset, &pixels, image_dims, numbers, n_classes)) {
        ls__fail_memory(ctx, images, (size_t)image_dims[0] * sizeof(*dataset->labels));
        ls_dataset_close(&dataset);
    }
    ls__free(ctx, pixels);
    ls__free(ctx, numbers);
    return dataset;
}
