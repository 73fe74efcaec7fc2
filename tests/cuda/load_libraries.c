/* load_libraries.c: what src/cuda/libraries.c finds; the tests look at the two lines. */
#include "cuda/device/libraries.h"
#include <stdio.h>

int main(void)
{
    char text[512];
    bool usable = ls__cudnn_load(text, sizeof(text));
    printf("cuDNN: %s: %s\n", usable ? "loaded" : "left out", text);
    usable = ls__cublaslt_load(text, sizeof(text));
    printf("cuBLASLt: %s: %s\n", usable ? "loaded" : "left out", text);
    return 0;
}
