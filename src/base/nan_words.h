/* nan_words.h: words of 64 bits that hold floating-point elements. In a digest one NaN stands for
 * all: the sign and the payload of a NaN depend on the processor (the default NaN of x86 is
 * negative, that of ARM positive) and on the order of operands. */
#ifndef LS_BASE_NAN_WORDS_H
#define LS_BASE_NAN_WORDS_H

#include "base/shared.h"
#include <lockstep/tensor.h>

/* A dtype's bits, repeated for each element of a word; all 0 for integers, which have no NaN. */
typedef struct ls__nan_words {
    uint64_t sign, infinity;
    uint64_t nan; /* the one that stands for all: quiet, positive, without payload */
    int element_bytes;
} ls__nan_words;

static inline ls__nan_words ls__nan_words_of(ls_dtype dtype)
{
    const ls__nan_words f32 = { UINT64_C(0x8000000080000000), UINT64_C(0x7f8000007f800000),
                                UINT64_C(0x7fc000007fc00000), 4 };
    const ls__nan_words bf16 = { UINT64_C(0x8000800080008000), UINT64_C(0x7f807f807f807f80),
                                 UINT64_C(0x7fc07fc07fc07fc0), 2 };
    const ls__nan_words f16 = { UINT64_C(0x8000800080008000), UINT64_C(0x7c007c007c007c00),
                                UINT64_C(0x7e007e007e007e00), 2 };
    const ls__nan_words integers = { 0, 0, 0, 0 };
    switch (dtype) {
    case LS_F32: return f32;
    case LS_BF16: return bf16;
    case LS_F16: return f16;
    case LS_I64:
    case LS_I32:
    case LS_U8: break;
    }
    return integers;
}

/* The sign bits of the elements that are NaN. A NaN without its sign is larger than infinity, so
 * the sum below carries into the sign's bit, and never beyond it. */
LS__SHARED uint64_t ls__find_nans(uint64_t word, ls__nan_words of)
{
    return ((word & ~of.sign) + (~of.sign - of.infinity)) & of.sign;
}

LS__SHARED uint64_t ls__replace_nans(uint64_t word, ls__nan_words of)
{
    const uint64_t signs = ls__find_nans(word, of);
    if (signs == 0) return word;
    const uint64_t elements = (signs << 1) - (signs >> (8 * of.element_bytes - 1)); /* all bits */
    return (word & ~elements) | (of.nan & elements);
}

#endif
