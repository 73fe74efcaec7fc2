/* max_isa_report [native]: opens a context, with native arithmetic if named, and prints what its
 * kernels are made for, one fact a line. */
#include "backend/backend.h"
#include "base/context.h"
#include "data/transform/resize_kernels.h"
#include <lockstep/lockstep.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    (void)argv;
    ls_context *ctx = ls_context_open(&(ls_context_config){
        .threads = 1, .arithmetic = argc > 1 ? LS_ARITHMETIC_NATIVE : LS_ARITHMETIC_PORTABLE });
    printf("status %d\n", (int)ls_context_status(ctx));
    printf("message %s\n", ls_context_message(ctx));
    printf("device %s\n", ls_context_device(ctx));
    if (ls_context_status(ctx) == LS_OK)
        printf("processor %s\n", ctx->device->backend->processor(ctx->device, LS_BF16));
    for (int i = 0; ls__resize_kernels_at(i); i++)
        printf("resize %s\n", ls__resize_kernels_at(i)->name);
    ls_context_close(&ctx);
    return 0;
}
