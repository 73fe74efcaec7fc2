/* version.h: the version of these headers, and of the library.
 *
 * The libraries of one minor version (0.1.x) have one binary interface and one name,
 * liblockstep.so.0.1: a program runs with each that is at least as new as the headers that it was
 * compiled with (docs/compatibility.md). */
#ifndef LOCKSTEP_VERSION_H
#define LOCKSTEP_VERSION_H

#include <lockstep/export.h>

LS_BEGIN_DECLARATIONS

#define LS_VERSION_MAJOR 0
#define LS_VERSION_MINOR 1
#define LS_VERSION_PATCH 0
#define LS_VERSION       "0.1.0"
/* 10000 major + 100 minor + patch. */
#define LS_VERSION_NUMBER (LS_VERSION_MAJOR * 10000 + LS_VERSION_MINOR * 100 + LS_VERSION_PATCH)

/* LS_VERSION of the library. */
LS_API const char *ls_version(void);

LS_END_DECLARATIONS

#endif
