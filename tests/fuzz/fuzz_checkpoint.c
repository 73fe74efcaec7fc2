/* fuzz_checkpoint.c: checkpoints, as they are and with what depends on this machine and the digest
 * repaired. A checkpoint that is refused must leave the run as it was. */
#include "fuzz.h"
#include "repair.h"
#include "small_run.h"

#include "nn/net/net.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/identity.h"
#include "checkpoint/algorithm_cache_file.h"
#include "io/safetensors.h"
#include <stdlib.h>
#include <string.h>

static const char NAME[] = "x.safetensors";
enum { MAX_ELEMENTS = 256, LENGTH_BYTES = 8 };

static ls_training_state run; /* net NULL: to be opened */
static float values[MAX_ELEMENTS];

static const ls__net_blocks *open_run(void)
{
    static ls__net_blocks blocks;
    if (!run.net) {
        run = small_run_open(fuzz_context());
        FUZZ_CHECK(ls_context_status(fuzz_context()) == LS_OK);
        blocks = ls__net_get_blocks(run.net);
        FUZZ_CHECK(blocks.parameter_elements <= MAX_ELEMENTS);
        memcpy(values, blocks.values, (size_t)blocks.parameter_elements * sizeof(float));
    }
    return &blocks;
}

/* After each call: a run that was changed is replaced by a new one. */
static void end(ls_status status)
{
    const ls__net_blocks *blocks = open_run();
    const size_t bytes = (size_t)blocks->parameter_elements * sizeof(float);
    if (status != LS_OK) {
        FUZZ_CHECK(fuzz_error(NAME) == status);
        FUZZ_CHECK(memcmp(values, blocks->values, bytes) == 0);
        FUZZ_CHECK(run.epoch == 0 && run.step == 0 && run.best == 0);
        FUZZ_CHECK(ls_loader_statistics(run.loader).n_bad == 0);
        return;
    }
    run = (ls_training_state){ 0 };
    fuzz_context_close();
}

static void load(const char *path)
{
    for (int force = 0; force < 2; force++) {
        open_run();
        run.force = force;
        end(ls_checkpoint_load(&run, path));
    }
    open_run();
    end(ls_net_load_weights(run.net, path, NULL, NULL));
    open_run();
    end(ls_checkpoint_load_algorithms(fuzz_context(), path));
}

/* Writes length, header and the rest of the input, which is the tensors' data. */
static const char *write_file(const json_t *header, const uint8_t *data, size_t n)
{
    char *text = json_dumps(header, JSON_COMPACT | JSON_REAL_PRECISION(17));
    FUZZ_CHECK(text);
    const uint64_t length = strlen(text);
    uint8_t *file = malloc(LENGTH_BYTES + length + n);
    FUZZ_CHECK(file);
    memcpy(file, &length, LENGTH_BYTES);
    memcpy(file + LENGTH_BYTES, text, length);
    memcpy(file + LENGTH_BYTES + length, data, n);
    const char *path = fuzz_file(NAME, file, LENGTH_BYTES + length + n);
    free(file);
    free(text);
    return path;
}

/* NULL where the header is not one of a checkpoint. */
static const char *write_repaired(json_t *header, const uint8_t *data, size_t n)
{
    json_t *metadata = json_object_get(header, LS__SAFETENSORS_METADATA);
    if (!json_is_object(metadata)) return NULL;
    open_run();
    json_t *identity = ls__identity_make(fuzz_context(), &run);
    json_t *kernels = ls__algorithm_cache_of_net(fuzz_context(), run.net);
    fuzz_fill_text(metadata, "identity", identity);
    fuzz_fill_text(metadata, "kernels", kernels);
    json_decref(kernels);
    json_decref(identity);

    ls_tensor_file *file = ls_tensor_file_open(fuzz_context(), write_file(header, data, n));
    ls_digest digest;
    char text[LS_DIGEST_TEXT_SIZE];
    fuzz_error(NAME);
    if (!file) return NULL;
    FUZZ_CHECK(ls__tensor_file_digest(file, LS__CHECKPOINT_DIGEST, &digest) == LS_OK);
    ls_tensor_file_close(&file);
    json_object_set_new(metadata, LS__CHECKPOINT_DIGEST, json_string(ls_digest_text(digest, text)));
    return write_file(header, data, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    load(fuzz_file(NAME, data, size));
    uint64_t length;
    if (size < LENGTH_BYTES) return 0;
    memcpy(&length, data, LENGTH_BYTES);
    if (length > size - LENGTH_BYTES) return 0;
    json_t *header = json_loadb((const char *)data + LENGTH_BYTES, length, 0, NULL);
    const char *path =
        write_repaired(header, data + LENGTH_BYTES + length, size - LENGTH_BYTES - length);
    json_decref(header);
    if (path) load(path);
    return 0;
}
