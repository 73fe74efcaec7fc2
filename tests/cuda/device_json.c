/* device_json.c: prints how cuDNN describes a GPU, as tests/cuda/h200.json wants it:
 *
 *   device_json         the first GPU
 *   device_json FILE    the one that FILE describes, as cuDNN understood it */
#include "cuda/cudnn/handle.h"
#include <lockstep/context.h>
#include <stdio.h>
#include <stdlib.h>

static int print_device(const ls__cudnn *cudnn)
{
    static char text[1 << 16];
    ls__cudnn_calls calls = { 0 };
    const int64_t n =
        ls__cudnn_get(&calls, cudnn->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                      CUDNN_TYPE_CHAR, sizeof(text) - 1, text);
    if (ls__cudnn_report(cudnn->ctx, &calls, "the device's description") != LS_OK || n <= 0)
        return EXIT_FAILURE;
    text[n] = '\0';
    return puts(text) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    static char given[1 << 16];
    FILE *file = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (file) {
        given[fread(given, 1, sizeof(given) - 1, file)] = '\0';
        fclose(file);
    } else if (argc > 1) {
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls__cudnn *cudnn = NULL;
    int exit_status = EXIT_FAILURE;
    if (ls__cudnn_open(ctx, file ? given : NULL, &cudnn) == LS_OK)
        exit_status = print_device(cudnn);
    if (exit_status != EXIT_SUCCESS) fprintf(stderr, "device_json: %s\n", ls_context_message(ctx));
    ls__cudnn_close(&cudnn);
    ls_context_close(&ctx);
    return exit_status;
}
