/* The loader's batches are the same, to the bit, for any number of workers: pixels, labels, sample
 * numbers and their order, with bad images at the awkward places, data sets of odd sizes, partial
 * last batches, over several epochs and from the middle of one. */
#include "../suite.h"
#include "loader_support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SAMPLES = 129, N_CLASSES = 5, N_EPOCHS = 3, MOST_BAD = 10, SEED = 11 };

static const int workers[] = { 0, 1, 2, 3, 5, 8 };
static const int prefetches[] = { 1, 0, 7 };
enum { N_WORKERS = sizeof(workers) / sizeof(*workers) };

static const ls_loader_config recipes[] = {
    { .random_resized_crop = true, .crop = 10, .flip_probability = 0.5f, .honour_exif = true },
    { .resize = 8, .crop = 10, .crop_padding = 3, .flip_probability = 0.5f },
    { .resize = 9, .crop = 8 },
    { .resize = 12,
      .resize_mode = LS_RESIZE_PAD,
      .crop = 8,
      .crop_width = 11,
      .random_resized_crop = true },
    { .resize = 9, .resize_mode = LS_RESIZE_STRETCH, .crop = 8, .crop_padding = 2 },
    { .random_resized_crop = true,
      .crop = 10,
      .flip_probability = 0.5f,
      .vertical_flip_probability = 0.5f,
      .auto_augment = LS_AUTO_AUGMENT_RAND,
      .brightness = 0.4f,
      .contrast = 0.4f,
      .saturation = 0.4f,
      .hue = 0.1f,
      .random_erase = 0.5f },
    { .resize = 12, .crop = 11, .auto_augment = LS_AUTO_AUGMENT_TRIVIAL },
    { .resize = 8, .crop = 10, .crop_padding = 3, .mixup_alpha = 0.4f, .cutmix_alpha = 1 },
};
enum { N_RECIPES = sizeof(recipes) / sizeof(*recipes) };

/* Bad images by their places in the order of epoch 0; -1 is the last one. In later epochs of a
 * shuffled loader they are elsewhere. */
static const struct layout {
    int n;
    int64_t batch;
    int n_bad;
    int64_t bad[MOST_BAD];
} layouts[] = {
    { .n = 1, .batch = 1 },
    { .n = 1, .batch = 4 },
    { .n = 2, .batch = 1, .n_bad = 1, .bad = { 0 } },
    { .n = 2, .batch = 2, .n_bad = 1, .bad = { -1 } },
    { .n = 2, .batch = 3 },
    { .n = 7, .batch = 2, .n_bad = 2, .bad = { 0, -1 } },
    { .n = 7, .batch = 3, .n_bad = 3, .bad = { 0, 1, 2 } }, /* all of a batch */
    { .n = 7, .batch = 4, .n_bad = 3, .bad = { 4, 5, 6 } }, /* all of the partial one */
    { .n = 7, .batch = 7, .n_bad = 1, .bad = { 3 } },
    { .n = 7, .batch = 8, .n_bad = 2, .bad = { 0, 6 } },
    { .n = 129, .batch = 2, .n_bad = 6, .bad = { 0, 1, 2, 63, 100, -1 } },
    { .n = 129, .batch = 8, .n_bad = 9, .bad = { 0, 7, 8, 64, 65, 66, 70, 71, -1 } },
    { .n = 129, .batch = 43, .n_bad = 8, .bad = { 0, 42, 43, 44, 85, 86, 127, -1 } },
    { .n = 129, .batch = 128, .n_bad = 7, .bad = { 0, 1, 2, 3, 126, 127, -1 } },
    { .n = 129, .batch = 200, .n_bad = 3, .bad = { 0, 64, -1 } },
};
enum { N_LAYOUTS = sizeof(layouts) / sizeof(*layouts) };

/* ---- Data ---- */

typedef struct images {
    char *folder;
    char *sound[MOST_SAMPLES], *bad[N_BAD_KINDS];
} images;

static void draw_images(images *p)
{
    p->folder = new_folder();
    for (int i = 0; i < MOST_SAMPLES; i++) {
        const int h = 9 + i % 7, w = 9 + i % 5;
        uint8_t *pixels = draw_image(h, w, 3, (unsigned)i);
        p->sound[i] = strdup(path_in(p->folder, "%d.%s", i, i % 3 ? "jpg" : "png"));
        if (i % 3)
            write_jpeg(p->sound[i], h, w, pixels, (jpeg_options){ .orientation = i % 9 });
        else
            write_png(p->sound[i], h, w, 3, pixels);
        free(pixels);
    }
    for (int kind = 0; kind < N_BAD_KINDS; kind++) {
        p->bad[kind] = strdup(path_in(p->folder, "bad%d.jpg", kind));
        write_bad_image(p->bad[kind], kind);
    }
}

static void remove_images(images *p)
{
    for (int i = 0; i < MOST_SAMPLES; i++) free(p->sound[i]);
    for (int i = 0; i < N_BAD_KINDS; i++) free(p->bad[i]);
    remove_folder(p->folder);
}

/* The sample at a place in the order of an epoch. */
static int64_t sample_at(const struct layout *l, bool shuffle, int64_t epoch, int64_t place)
{
    if (place < 0) place += l->n;
    return shuffle
               ? (int64_t)ls_random_permute(SEED, (uint32_t)epoch, (uint64_t)l->n, (uint64_t)place)
               : place;
}

static ls_dataset *open_data(ls_context *ctx, const images *p, const struct layout *l, bool shuffle,
                             bool is_bad[MOST_SAMPLES])
{
    const char *paths[MOST_SAMPLES];
    int32_t labels[MOST_SAMPLES];
    for (int i = 0; i < l->n; i++) {
        paths[i] = p->sound[i];
        labels[i] = i % N_CLASSES;
        is_bad[i] = false;
    }
    for (int i = 0; i < l->n_bad; i++) {
        const int64_t sample = sample_at(l, shuffle, 0, l->bad[i]);
        paths[sample] = p->bad[i % N_BAD_KINDS];
        is_bad[sample] = true;
    }
    ls_dataset *data = ls_image_list_open(ctx, l->n, paths, labels, N_CLASSES);
    expect_ok(ctx);
    return data;
}

/* ---- Checks ---- */

/* Sound samples are where the order has them, bad ones are gone, labels are those of the samples,
 * or of the image mixed in. */
static void check_order(ls_context *ctx, ls_dataset *data, const ls_loader_config *config,
                        const struct layout *l, const bool *is_bad)
{
    ls_loader *loader = ls_loader_open(data, config);
    for (int64_t epoch = 0; epoch < N_EPOCHS; epoch++) {
        int64_t n = 0;
        ck_assert_int_eq(ls_loader_start(loader, epoch), LS_OK);
        for (ls_batch b; ls_loader_next(loader, &b);) {
            const int32_t *labels = ls_tensor_data_const(b.labels);
            for (int64_t i = 0; i < b.n; i++, n++) {
                const int64_t due = sample_at(l, config->shuffle, epoch, n);
                ck_assert(is_bad[due] ? !is_bad[b.samples[i]] : b.samples[i] == due);
                const int64_t before = b.samples[i > 0 ? i - 1 : b.n - 1];
                ck_assert(labels[i] == b.samples[i] % N_CLASSES ||
                          (b.targets && labels[i] == before % N_CLASSES));
            }
        }
        expect_ok(ctx);
        ck_assert_int_eq(n, config->drop_last ? l->n - l->n % l->batch : l->n);
    }
    if (!config->drop_last) ck_assert_int_eq(ls_loader_statistics(loader).n_bad, l->n_bad);
    ls_loader_close(&loader);
}

/* Batches from a step of epoch 1 on are those that the whole run had there. Bad images are listed
 * by the loader that met them, so what the first epoch met is not asked of it. */
static void expect_tail(const trace *whole, const trace *tail, int at, const char *what)
{
    ck_assert_msg(tail->status == LS_OK && tail->n == whole->n - at, "%s: %d batches of %d from %d",
                  what, tail->n, whole->n, at);
    for (int i = 0; i < tail->n; i++) {
        const trace_batch a = whole->batches[at + i], b = tail->batches[i];
        const bool same =
            ls_digest_equal(a.images, b.images) && ls_digest_equal(a.labels, b.labels) &&
            ls_digest_equal(a.samples, b.samples) && ls_digest_equal(a.targets, b.targets) &&
            a.count == b.count && a.epoch == b.epoch && a.step == b.step;
        ck_assert_msg(same, "%s: epoch %d, step %d differs", what, (int)a.epoch, (int)a.step);
    }
}

/* The middle of epoch 1, as another loader finds it in a checkpoint. */
static int64_t saved_middle(ls_context *ctx, const char *path, ls_dataset *data,
                            const ls_loader_config *config)
{
    ls_loader_config other = *config;
    other.workers = 3;
    ls_training_state saved = { .loader = ls_loader_open(data, config), .epoch = 1 },
                      loaded = { 0 };
    const int64_t middle = ls_loader_step_count(saved.loader) / 2;
    saved.step = middle;
    loaded.loader = ls_loader_open(data, &other);
    ck_assert_int_eq(ls_checkpoint_save(&saved, path), LS_OK);
    ck_assert_msg(ls_checkpoint_load(&loaded, path) == LS_OK, "%s", ls_context_message(ctx));
    ck_assert(loaded.epoch == 1 && loaded.step == middle);
    ls_loader_close(&saved.loader);
    ls_loader_close(&loaded.loader);
    return loaded.step;
}

/* All numbers of workers, each with another number of batches ahead, the whole run and from the
 * middle of epoch 1. */
static void compare_workers(ls_context *ctx, ls_dataset *data, ls_loader_config config,
                            int64_t middle, const char *what)
{
    trace *whole = malloc(sizeof(trace)), *other = malloc(sizeof(trace));
    for (int w = 0; w < N_WORKERS; w++) {
        config.workers = workers[w];
        config.prefetch = prefetches[w % 3];
        run_epochs(ctx, data, config, 0, N_EPOCHS - 1, w ? other : whole);
        ck_assert_msg(whole->status == LS_OK, "%s: %s", what, whole->message);
        if (w > 0) expect_same_trace(whole, other, what);

        const int n_steps = whole->n / N_EPOCHS;
        const int starts[] = { 1, (int)middle, n_steps - 1, n_steps };
        for (int s = w % 2; s < 4; s += 2) {
            run_epochs_from(ctx, data, config, 1, starts[s], N_EPOCHS - 1, other);
            expect_tail(whole, other, n_steps + starts[s], what);
        }
    }
    free(whole), free(other);
}

START_TEST(workers_change_no_bit)
{
    images p;
    draw_images(&p);
    char *const checkpoint = strdup(path_in(p.folder, "checkpoint.safetensors"));
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = SEED, .threads = 1 });
    for (int i = 0; i < 4 * N_LAYOUTS; i++) {
        const struct layout *l = &layouts[i / 4];
        const int flags = i % 4;
        ls_loader_config config = recipes[(i / 4 + flags) % N_RECIPES];
        config.batch_size = l->batch;
        config.on_bad_image = LS_BAD_IMAGE_SKIP;
        config.shuffle = flags & 1;
        config.drop_last = flags & 2;
        if (config.drop_last && l->n < l->batch) continue;     /* refused: it would leave nothing */
        if (config.mixup_alpha > 0 && l->batch == 1) continue; /* refused: nothing to mix with */
        bool is_bad[MOST_SAMPLES];
        char what[128];
        snprintf(what, sizeof(what), "%d samples by %d%s%s", l->n, (int)l->batch,
                 config.shuffle ? ", shuffled" : "", config.drop_last ? ", last dropped" : "");
        ls_dataset *data = open_data(ctx, &p, l, config.shuffle, is_bad);
        check_order(ctx, data, &config, l, is_bad);
        const int64_t middle = saved_middle(ctx, checkpoint, data, &config);
        compare_workers(ctx, data, config, middle, what);
        ls_dataset_close(&data);
    }
    ls_context_close(&ctx);
    free(checkpoint);
    remove_images(&p);
}
END_TEST

TEST_PROGRAM(loader_bits)
{
    return RUN_SUITE("loader's bits", workers_change_no_bit);
}
