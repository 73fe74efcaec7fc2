/* advice.c: warnings about a run that is possible but hardly intended; see run.h. */
#include "folders.h"
#include "run.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_EXAMINED = 15 }; /* images */

/* ---- The folder ---- */

/* The slash after the class folder in the path of an image, or NULL. */
static const char *find_class(const char *path, const char *class)
{
    const size_t length = strlen(class);
    const char *found = NULL;
    for (const char *at = path; (at = strchr(at, '/')); at++)
        if (strncmp(at + 1, class, length) == 0 && at[length + 1] == '/') found = at + length + 1;
    return found;
}

/* Detects class folders that hold only folders, which may be the classes. The library warns about
 * them; this message gives the options that train them. */
static void advise_folder(const cli_run *t)
{
    const char *first = NULL;
    const int64_t n = ls_dataset_sample_count(t->train_data);
    size_t n_first = 0; /* bytes of its path that are the folder to open */
    bool has_splits = false;
    if (folders_has_csv(t->recipe->data_dir)) return;
    for (int64_t i = 0; i < n; i++) {
        const int label = ls_dataset_label(t->train_data, i);
        const char *path = ls_dataset_sample_path(t->train_data, i);
        const char *at = label >= 0 && path ? find_class(path, t->classes[label]) : NULL;
        if (!at || !strchr(at + 1, '/')) return; /* an image in the class folder itself */
        if (!first) {
            has_splits = ls_split_of_name(t->classes[label], NULL);
            n_first = (size_t)(at - path) - (has_splits ? strlen(t->classes[label]) + 1 : 0);
            first = path;
        }
    }
    if (first && has_splits)
        print_message("did you mean --data-dir %.*s?", (int)n_first, first);
    else if (first)
        print_message("--data-dir %.*s --val-split 0.2 trains the folders in it as classes",
                      (int)n_first, first);
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

/* ---- The classes ---- */

/* Rare classes are hardly learned, which top-1 does not show. */
static void advise_balance(const cli_run *t)
{
    const recipe *r = t->recipe;
    const int n_classes = ls_dataset_class_count(t->train_data);
    int64_t *counts = n_classes > 1 ? calloc((size_t)n_classes, sizeof(*counts)) : NULL;
    const bool counted = counts && ls_dataset_class_sizes(t->train_data, counts) == LS_OK;
    int most = -1, least = -1;
    for (int c = 0; c < n_classes && counted; c++) {
        if (counts[c] == 0) continue;
        if (most < 0 || counts[c] > counts[most]) most = c;
        if (least < 0 || counts[c] < counts[least]) least = c;
    }
    if (most >= 0 && counts[most] >= LS_IMBALANCE_RATIO * counts[least] && !r->class_weights &&
        r->sampler != LS_SAMPLER_BALANCED)
        print_warning("class '%s' has %lld training images, '%s' %lld: --class-weights balanced or "
                      "--sampler balanced gives rare classes more weight; --metric macro_recall "
                      "chooses the best epoch by all classes",
                      t->classes[most], (long long)counts[most], t->classes[least],
                      (long long)counts[least]);
    free(counts);
}

/* Without this, "10" before "2" looks like a mistake of the model. */
static void advise_order(const cli_run *t)
{
    const int n = ls_dataset_class_count(t->train_data);
    for (int c = 1; c < n; c++) {
        if (strverscmp(t->classes[c - 1], t->classes[c]) <= 0) continue;
        print_note("the classes are in byte order, '%s' before '%s': read predictions by the name "
                   "of the class, not its number",
                   t->classes[c - 1], t->classes[c]);
        return;
    }
}

/* ---- The images ---- */

bool check_missing(const cli_run *t)
{
    const recipe *r = t->recipe;
    const bool skips = r->on_bad_image != LS_BAD_IMAGE_FAIL;
    if (!folders_has_csv(r->data_dir)) return true;
    const bool train = data_check_missing(r->data_dir, t->train_data, "training", skips);
    return (!t->val_data || data_check_missing(r->data_dir, t->val_data, "validation", skips)) &&
           train;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Detects images that would be much enlarged, and photographs that would be reduced to thumbnails.
 * From 128 pixels on, the shapes in a photograph stay recognizable; 224 is the usual size. */
static void advise_size(const recipe *r, int n, const ls_image_info *images)
{
    enum { MUCH = 4, ENOUGH = 128, MIN_SIZE = 32 };
    int64_t sides[MAX_EXAMINED];
    for (int i = 0; i < n; i++)
        sides[i] = images[i].height < images[i].width ? images[i].height : images[i].width;
    qsort(sides, (size_t)n, sizeof(*sides), by_size);
    const cli_size *wanted = &r->image_size;
    const int64_t size = wanted->height < wanted->width ? wanted->height : wanted->width;
    const int64_t median = n > 0 ? sides[n / 2] : 0;
    if (n > 0 && MUCH * median < size) {
        int64_t better = MIN_SIZE;
        while (better < median) better *= 2;
        print_warning(
            "most training images are much smaller than --image-size %lld (median shorter "
            "side of %d images: %lld pixels): enlarging them costs time and adds no "
            "detail; --image-size %lld may do",
            (long long)size, n, (long long)median, (long long)better);
    }
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

static void advise_transparency(const recipe *r, int n, const ls_image_info *images)
{
    static const char *const alphas[] = { "composed on white", "composed on black",
                                          "used with their stored colours" };
    int n_transparent = 0;
    for (int i = 0; i < n; i++) n_transparent += images[i].transparent;
    if (n_transparent > 0)
        print_message("%d of %d training images examined have transparent pixels, which are %s "
                      "(--alpha white|black|ignore)",
                      n_transparent, n, alphas[r->alpha]);
}

/* Images of 16 bits of which only the lower bits are used would be nearly black. */
static void advise_depth(const recipe *r, int n, const ls_image_info *images)
{
    const int depth = r->depth > 0 ? (int)r->depth : 16;
    int min = UINT16_MAX, max = 0, bits = 9, n_deep = 0;
    for (int i = 0; i < n; i++) {
        if (images[i].max_sample == 0) continue;
        n_deep++;
        if (images[i].min_sample < min) min = images[i].min_sample;
        if (images[i].max_sample > max) max = images[i].max_sample;
    }
    while (bits < 16 && max >> bits) bits++;
    if (n_deep > 0 && bits < depth)
        print_warning("%d of %d training images examined have samples of 16 bits that use %d to "
                      "%d only: they are nearly black; --depth %d shows their differences",
                      n_deep, n, min, max, bits);
    else if (n_deep > 0 && bits > depth)
        print_warning("%d of %d training images examined have samples of 16 bits up to %d: "
                      "--depth %d makes those above %d white",
                      n_deep, n, max, depth, (1 << depth) - 1);
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
    advise_transparency(t->recipe, n_images, images);
    advise_depth(t->recipe, n_images, images);
}

void advise(const cli_run *t)
{
    advise_folder(t);
    advise_batch(t);
    advise_accumulate(t);
    advise_balance(t);
    advise_order(t);
    advise_images(t);
}
