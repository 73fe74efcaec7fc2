/* cudnn_support.h: see cudnn_support.c. */
#ifndef LS_TEST_EMULATED_CUDNN_SUPPORT_H
#define LS_TEST_EMULATED_CUDNN_SUPPORT_H

#include "cudnn_program.h"

/* Success, or why no engine, or none of those that cuDNN compiles, runs the program. */
cudnnStatus_t cudnn_check_support(const cudnn_program *program, bool compiled);
/* The type of what a program's convolution multiplies. */
cudnnDataType_t cudnn_factor_type(const cudnn_program *program);

#endif
