/* advice.c: warnings about a run that is possible but hardly intended; see run.h. */
#include "folders.h"
#include "run.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_EXAMINED = 15 }; /* images */

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

/* ---- The images ---- */

/* The images of a list that was moved without its images, or whose paths are wrong. */
void advise_missing(const cli_run *t)
{
    const int64_t n = ls_dataset_sample_count(t->train_data);
    int64_t n_missing = 0;
    const char *missing = NULL;
    if (!folders_has_csv(t->recipe->data_dir)) return;
    for (int64_t i = 0; i < n; i++) {
        const char *path = ls_dataset_sample_path(t->train_data, i);
        if (!file_exists(path) && n_missing++ == 0) missing = path;
    }
    if (n_missing > 0)
        print_message("%s: %lld of %lld training images are missing, such as '%s'; if they were "
                      "moved, change the paths in the list",
                      t->recipe->data_dir, (long long)n_missing, (long long)n, missing);
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Detects photographs that would be reduced to thumbnails. From 128 pixels on, the shapes in a
 * photograph stay recognizable; 224 is the usual size. */
static void advise_size(const recipe *r, int n, const ls_image_info *images)
{
    enum { MUCH = 4, ENOUGH = 128 };
    int64_t sides[MAX_EXAMINED];
    for (int i = 0; i < n; i++)
        sides[i] = images[i].height < images[i].width ? images[i].height : images[i].width;
    qsort(sides, (size_t)n, sizeof(*sides), by_size);
    const int64_t size = r->image_size, median = n > 0 ? sides[n / 2] : 0;
    if (size >= ENOUGH || median < MUCH * size) return;
    const bool large_model = ls_model_find(r->model)->image_size >= ENOUGH;
    print_warning("most training images are much larger than --image-size %lld (median shorter "
                  "side of %d images: %lld pixels): details are lost; for photographs use "
                  "%s--image-size %d",
                  (long long)size, n, (long long)median, large_model ? "" : "--model resnet18 ",
                  ENOUGH);
}

static void advise_orientation(const recipe *r, int n, const ls_image_info *images)
{
    int n_turned = 0;
    for (int i = 0; i < n; i++) n_turned += images[i].orientation > 1;
    if (n_turned > 0 && !r->exif)
        print_warning("%d of %d training images examined have an EXIF orientation: without --exif "
                      "they are used as stored, turned or mirrored",
                      n_turned, n);
}

/* Examines some images, evenly spaced, without those that are unreadable. */
static void advise_images(const cli_run *t)
{
    const int64_t n = ls_dataset_sample_count(t->train_data);
    ls_image_info images[MAX_EXAMINED];
    int n_images = 0;
    for (int64_t i = 0; i < MAX_EXAMINED && i < n; i++) {
        const int64_t sample = n > MAX_EXAMINED ? i * (n - 1) / (MAX_EXAMINED - 1) : i;
        n_images += ls_dataset_image_info(t->train_data, sample, &images[n_images]) == LS_OK;
        ls_context_clear_error(t->ctx);
    }
    advise_size(t->recipe, n_images, images);
    advise_orientation(t->recipe, n_images, images);
}

void advise(const cli_run *t)
{
    advise_folder(t);
    advise_batch(t);
    advise_accumulate(t);
    advise_missing(t);
    advise_images(t);
}
