/* export.h: visibility of symbols, C linkage, and space for the fields of later versions. */
#ifndef LOCKSTEP_EXPORT_H
#define LOCKSTEP_EXPORT_H

#include <stdint.h>

#if defined(LS_STATIC) || !defined(__GNUC__)
#define LS_API
#else
#define LS_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#define LS_PRINTF(format_index, first_index)                                                       \
    __attribute__((format(printf, format_index, first_index)))
#else
#define LS_PRINTF(format_index, first_index)
#endif

/* The end of structs that programs and the library exchange: later versions of one binary interface
 * (version.h) put new fields there, which are zero, the default, for programs that do not know
 * them. Every initializer sets it to zero. A struct without it will not grow. */
#define LS_RESERVED(n_words) uint64_t reserved[n_words]

/* Declarations between these have C linkage in C++. */
#if defined(__cplusplus)
#define LS_BEGIN_DECLARATIONS extern "C" {
#define LS_END_DECLARATIONS   }
#else
#define LS_BEGIN_DECLARATIONS
#define LS_END_DECLARATIONS
#endif

#endif
