/* safetensors.h: what the writer and the reader of safetensors files share. */
#ifndef LS_TENSOR_SAFETENSORS_H
#define LS_TENSOR_SAFETENSORS_H

/* Numbers in the file are little-endian; they are read and written as they lie in memory. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files need a little-endian machine"
#endif

#define LS__SAFETENSORS_METADATA "__metadata__"

enum {
    LS__SAFETENSORS_MAX_HEADER = 100000000, /* the format's limit */
    LS__SAFETENSORS_PIECE = 1 << 16         /* bytes per copy where the device is not the host */
};

#endif
