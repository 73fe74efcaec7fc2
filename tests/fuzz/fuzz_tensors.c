/* fuzz_tensors.c: safetensors files, and what the command reads from their metadata. */
#include "fuzz.h"

#include "io/safetensors.h"
#include "checkpoint/progress.h"
#include "run/run_files.h"

static const char NAME[] = "x.safetensors";

static void read_tensors(ls_tensor_file *file)
{
    const int64_t n = ls_tensor_file_tensor_count(file);
    for (int64_t i = 0; i < n; i++) {
        const char *name = ls_tensor_file_name(file, i);
        const bool readable = ls_tensor_file_find(file, name, NULL);
        ls_tensor *tensor = ls_tensor_file_load(file, name);
        const ls_status status = fuzz_error(NAME);
        FUZZ_CHECK(tensor ? readable && status == LS_OK : status != LS_OK);
        if (tensor) {
            FUZZ_CHECK(ls_tensor_file_read(file, name, tensor) == LS_OK);
            (void)ls_tensor_file_read(file, ls_tensor_file_name(file, 0), tensor);
            fuzz_error(NAME);
        }
        ls_tensor_close(&tensor);
    }
    ls_digest digest;
    FUZZ_CHECK(ls__tensor_file_digest(file, "none", &digest) == LS_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(NAME, data, size);
    ls_context *ctx = fuzz_context();
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    FUZZ_CHECK((fuzz_error(NAME) == LS_OK) == (file != NULL));
    if (file) {
        ls__progress progress;
        if (ls__progress_read(ls_tensor_file_metadata(file, "progress"), &progress))
            FUZZ_CHECK(progress.sums.n_images >= 0 && progress.best_epoch >= 0);
        FUZZ_CHECK(ls__run_steps_done(file, 3) >= -1);
        read_tensors(file);
        ls_tensor_file_close(&file);
        ls_saved_model *model = ls_saved_model_open(ctx, path);
        const ls_status status = fuzz_error(NAME);
        FUZZ_CHECK((status == LS_OK) == (model != NULL));
        ls_saved_model_close(&model);
    }
    return 0;
}
