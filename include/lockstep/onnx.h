/* onnx.h: nets as ONNX models, for inference in other programs. */
#ifndef LOCKSTEP_ONNX_H
#define LOCKSTEP_ONNX_H

#include <lockstep/net.h>

LS_BEGIN_DECLARATIONS

typedef enum ls_onnx_input {
    LS_ONNX_INPUT_F32,  /* f32 [N,C,H,W], normalised by the caller: (byte / 255 - mean) / std */
    LS_ONNX_INPUT_BYTES /* u8 [N,H,W,C], as decoders write images; the model normalises it */
} ls_onnx_input;

enum { LS_ONNX_MIN_OPSET = 17, LS_ONNX_MAX_OPSET = 25 };

typedef struct ls_onnx_config {
    int opset;            /* LS_ONNX_MIN_OPSET to LS_ONNX_MAX_OPSET; 0 = 17 */
    bool keep_batch_norm; /* default: a batch norm that alone reads a convolution or linear layer is
                             folded into its weight and bias */
    ls_onnx_input input;  /* of the net's U8 input; bytes are an error for an F32 input */
    /* The names of the outputs' classes, or NULL and 0: "classes" in the metadata, a JSON array.
     * Bytes that are not UTF-8 become "\xFF", as in checkpoints. */
    const char *const *classes;
    int64_t n_classes;
    /* Additional metadata: key, value, ..., NULL, texts in UTF-8; may be NULL. The keys differ from
     * "classes", "mean" and "std". */
    const char *const *metadata;
    LS_RESERVED(7);
} ls_onnx_config;

/* Writes the net's evaluation as an ONNX model with f32 weights: inputs and outputs have the names
 * of the graph ("input", "output"; an input with the name of an output gets a number), nodes those
 * of the layers, and weights those of the parameters. The batch is the symbolic dimension "N";
 * other dimensions are those that the net was built with. Images and other values [N,H,W,C] are
 * [N,C,H,W] in the model. Outputs [N,K] are those of ls_net_output, also after ls_flatten. Dropout,
 * losses and metrics are left out, and so is all that no output depends on. "mean" and "std" in the
 * metadata are JSON arrays, for U8 inputs. The same net and config give the same bytes.
 *
 * config NULL = all defaults. The file is written atomically; after an error a file at path is
 * unchanged. Waits for the device. Errors: LS_ERR_INVALID for an unusable config;
 * LS_ERR_UNSUPPORTED names a layer that can't be exported, such as an ls_custom_op, or reports a
 * model of 2 GiB or more, or a build without protobuf-c; LS_ERR_IO and LS_ERR_NOT_FOUND name the
 * path. https://github.com/onnx/onnx/blob/main/docs/Operators.md */
LS_API ls_status ls_onnx_export(ls_net *net, const ls_onnx_config *config, const char *path);

LS_END_DECLARATIONS

#endif
