/* export.h: symbol visibility and C linkage. */
#ifndef LOCKSTEP_EXPORT_H
#define LOCKSTEP_EXPORT_H

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

/* Declarations between these have C linkage in C++. */
#if defined(__cplusplus)
#define LS_BEGIN_DECLARATIONS extern "C" {
#define LS_END_DECLARATIONS   }
#else
#define LS_BEGIN_DECLARATIONS
#define LS_END_DECLARATIONS
#endif

#endif
