/* libraries.c: loading of the stand-ins for cuDNN and cuBLASLt, which are linked; with
 * LOCKSTEP_EMULATED_LIBRARY=missing there are none. */
#include "cuda/device/libraries.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool load(char *text, size_t size)
{
    const char *set = getenv("LOCKSTEP_EMULATED_LIBRARY");
    const bool missing = set && strcmp(set, "missing") == 0;
    snprintf(text, size, "%s", missing ? "emulated: it is missing" : "the emulator");
    return !missing;
}

bool ls__cudnn_load(char *text, size_t size)
{
    return load(text, size);
}

bool ls__cublaslt_load(char *text, size_t size)
{
    return load(text, size);
}
