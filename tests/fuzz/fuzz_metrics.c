/* fuzz_metrics.c: metrics.jsonl, which a resumed run reads before it adds rows. */
#include "fuzz.h"

#include "log/metrics.h"

static const char NAME[] = "metrics.jsonl";

static void resume(int64_t n_epochs)
{
    ls_context *ctx = fuzz_context();
    ls__metrics *metrics;
    ls_status status = ls__metrics_open(ctx, fuzz_folder(), n_epochs, &metrics);
    FUZZ_CHECK(fuzz_error(NAME) == status);
    if (status != LS_OK) return;
    json_t *row = json_pack("{s:I, s:f}", "epoch", (json_int_t)n_epochs + 1, "loss", 0.1);
    FUZZ_CHECK(ls__metrics_append(metrics, row) == LS_OK);
    ls__metrics_close(&metrics);
    FUZZ_CHECK(ls__metrics_open(ctx, fuzz_folder(), n_epochs + 1, &metrics) == LS_OK);
    ls__metrics_close(&metrics);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int64_t n_epochs = 0; n_epochs < 3; n_epochs++) {
        fuzz_file(NAME, data, size);
        resume(n_epochs);
    }
    return 0;
}
