/* sanitizers.h: ADDRESS_SANITIZER and THREAD_SANITIZER are 1 in programs with these sanitizers, for
 * which gcc has macros and clang has features. */
#ifndef LS_TESTS_SANITIZERS_H
#define LS_TESTS_SANITIZERS_H

#if defined(__has_feature)
#define ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define THREAD_SANITIZER  __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#else
#define ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#else
#define THREAD_SANITIZER 0
#endif
#endif

#endif
