/* fuzz_idx.c: idx files, as images beside sound labels and as labels beside sound images. */
#include "fuzz.h"

#include <stdio.h>

enum { N = 2, SIDE = 3 };

static const uint8_t images[] = { 0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, SIDE, 0, 0, 0, SIDE, 1,
                                  2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6,    5, 4, 3, 2,    1 };
static const uint8_t labels[] = { 0, 0, 8, 1, 0, 0, 0, N, 1, 0 };

/* Both samples of an accepted pair can be loaded. */
static void check(const char *name, const char *image_path, const char *label_path, int n_classes)
{
    ls_dataset *data = ls_idx_open(fuzz_context(), image_path, label_path, n_classes);
    const ls_status status = fuzz_error(name);
    FUZZ_CHECK((status == LS_OK) == (data != NULL));
    if (!data) return;
    FUZZ_CHECK(ls_dataset_sample_count(data) == N && ls_dataset_channel_count(data) == 1);
    for (int i = 0; i < N; i++)
        FUZZ_CHECK(ls_dataset_label(data, i) >= 0 &&
                   ls_dataset_label(data, i) < ls_dataset_class_count(data));
    ls_loader *loader =
        ls_loader_open(data, &(ls_loader_config){ .batch_size = N, .resize = SIDE, .crop = SIDE });
    ls_batch batch;
    FUZZ_CHECK(ls_loader_start(loader, 0) == LS_OK);
    if (ls_loader_next(loader, &batch)) FUZZ_CHECK(batch.n == N);
    (void)fuzz_error("sample"); /* an image of one row that is too long to resize */
    ls_loader_close(&loader);
    ls_dataset_close(&data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", fuzz_file("x.idx", data, size));
    check("x.idx", path, fuzz_file("labels", labels, sizeof(labels)), 0);
    check("x.idx", fuzz_file("images", images, sizeof(images)), path, 10);
    return 0;
}
