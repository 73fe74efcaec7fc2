/* libraries.h: loading of cuDNN and cuBLASLt. The module is not linked with them, so that it loads,
 * and runs on its own kernels, where one of them is missing or of another version. */
#ifndef LS_CUDA_LIBRARIES_H
#define LS_CUDA_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/* Loads the library for the life of the process, at the first call; from then on its functions can
 * be called by their own names. True: text is the file's path. False: text says why the library
 * can't be used, and none of its functions may be called. Any thread. */
bool ls__cudnn_load(char *text, size_t size);
bool ls__cublaslt_load(char *text, size_t size);

#endif
