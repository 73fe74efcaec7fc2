/* libraries.h: loading of cuDNN and cuBLASLt. The module is not linked with them. So it works, with
 * our own kernels, where one of them is missing or has another version. */
#ifndef LS_CUDA_LIBRARIES_H
#define LS_CUDA_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

/* The first call loads the library, until the process ends. True: the library's functions can be
 * called by their own names, and text is the path of the file. False: none of its functions may be
 * called, and text is the reason. Any thread. */
bool ls__cudnn_load(char *text, size_t size);
bool ls__cublaslt_load(char *text, size_t size);

#endif
