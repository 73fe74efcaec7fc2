/* advice.c: warnings about a run that is possible but hardly intended; see run.h. */
#include "folders.h"
#include "run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The folder ---- */

/* Detects a folder one level too high: its class folders are the train/ and val/ of a dataset. The
 * library warns about the classes; this message gives the correct --data-dir. */
static void advise_folder(const cli_run *t)
{
    const char *dir = t->recipe->data_dir;
    const int n = ls_dataset_class_count(t->train_data);
    int n_splits = 0;
    bool has_train = false;
    for (int i = 0; i < n * N_SPLITS; i++) {
        const int split = i % N_SPLITS;
        if (strcmp(t->classes[i / N_SPLITS], split_names[split]) != 0) continue;
        has_train |= split == 0;
        n_splits++;
    }
    if (n == 0 || (!has_train && n_splits < n))
        return; /* classes "valid" and "invalid" are possible */
    print_message("the classes of %s/train are named like a dataset's folders; did you mean "
                  "--data-dir %s/train?",
                  dir, dir);
}

/* ---- The batch ---- */

static void advise_batch(const cli_run *t)
{
    const int64_t n = ls_dataset_sample_count(t->train_data), batch = t->recipe->batch;
    const int64_t steps = ls_loader_step_count(t->train);
    int64_t better = 1;
    while (better * 2 <= n / 8) better *= 2;
    if (batch <= n / 4 || better >= batch) return;
    print_warning(
        "-b %lld gives only %lld step%s per epoch for %lld training images; -b %lld gives %lld",
        (long long)batch, (long long)steps, plural(steps), (long long)n, (long long)better,
        (long long)(n / better));
}

/* An epoch ends a group of --accumulate batches. */
static void advise_accumulate(const cli_run *t)
{
    const int64_t n = t->recipe->accumulate, steps = ls_loader_step_count(t->train);
    const recipe *r = t->recipe;
    const bool scales_lr =
        (r->lr_per_256 > 0 || r->optimizer == OPT_SGD) && r->lr == recipe_default_lr(r);
    if (n <= 1 || n <= steps) return;
    print_warning("--accumulate %lld is above the %lld step%s of an epoch. The weights are updated "
                  "at the end of each epoch, so --accumulate %lld gives the same updates%s",
                  (long long)n, (long long)steps, plural(steps), (long long)steps,
                  scales_lr ? ", with a learning rate for as many batches" : "");
}

/* ---- The size of images ---- */

/* The shorter side by a JPEG file's frame header (ITU-T T.81, B.2.2), which follows segments of any
 * kind; 0 without one. */
static int64_t jpeg_side(FILE *file)
{
    unsigned char b[5];
    if (fseek(file, 2, SEEK_SET) != 0) return 0;
    while (fread(b, 1, 4, file) == 4 && b[0] == 0xff) {
        const bool is_frame =
            b[1] >= 0xc0 && b[1] <= 0xcf && b[1] != 0xc4 && b[1] != 0xc8 && b[1] != 0xcc;
        const long length = (long)b[2] << 8 | b[3];
        if (is_frame) {
            if (fread(b, 1, 5, file) != 5) return 0;
            const int64_t height = b[1] << 8 | b[2], width = b[3] << 8 | b[4];
            return height < width ? height : width;
        }
        if (length < 2 || fseek(file, length - 2, SEEK_CUR) != 0) return 0;
    }
    return 0;
}

/* By a PNG file's first chunk. */
static int64_t png_side(const unsigned char header[24])
{
    int64_t sides[2] = { 0, 0 };
    for (int i = 0; i < 8; i++) sides[i / 4] = sides[i / 4] << 8 | header[16 + i];
    return sides[0] < sides[1] ? sides[0] : sides[1];
}

/* The shorter side of a JPEG or PNG file; 0 for all else, images in a pack among it. */
static int64_t shorter_side(const char *path)
{
    unsigned char header[24];
    FILE *file = is_file(path) ? fopen(path, "rb") : NULL;
    if (!file) return 0;
    int64_t side = 0;
    if (fread(header, 1, sizeof(header), file) == sizeof(header)) {
        if (memcmp(header, "\xff\xd8\xff", 3) == 0) side = jpeg_side(file);
        if (memcmp(header, "\x89PNG\r\n\x1a\n", 8) == 0) side = png_side(header);
    }
    fclose(file);
    return side;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Detects photographs that would be reduced to thumbnails. From 128 pixels on, the shapes in a
 * photograph stay recognizable; 224 is the usual size. */
static void advise_size(const cli_run *t)
{
    enum { MAX_FILES = 15, MUCH = 4, ENOUGH = 128 };
    const int64_t n = ls_dataset_sample_count(t->train_data), size = t->recipe->image_size;
    int64_t sides[MAX_FILES];
    int n_sides = 0;
    if (size >= ENOUGH) return;
    for (int64_t i = 0; i < MAX_FILES && i < n; i++) {
        const int64_t sample = n > MAX_FILES ? i * (n - 1) / (MAX_FILES - 1) : i;
        const int64_t side = shorter_side(ls_dataset_sample_path(t->train_data, sample));
        if (side > 0) sides[n_sides++] = side;
    }
    if (n_sides == 0) return;
    qsort(sides, (size_t)n_sides, sizeof(*sides), by_size);
    const int64_t median = sides[n_sides / 2];
    if (median < MUCH * size) return;
    print_warning("most training images are much larger than --image-size %lld (median shorter "
                  "side of %d files: %lld pixels): details are lost; for photographs use --model "
                  "resnet18 --image-size %d",
                  (long long)size, n_sides, (long long)median, ENOUGH);
}

void advise(const cli_run *t)
{
    advise_folder(t);
    advise_batch(t);
    advise_accumulate(t);
    advise_size(t);
}
