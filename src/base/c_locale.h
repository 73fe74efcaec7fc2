/* c_locale.h: numbers in files have decimal points in every locale. jansson converts numbers with
 * the thread's locale, and fails an assertion if its decimal point has two bytes. */
#ifndef LS_BASE_C_LOCALE_H
#define LS_BASE_C_LOCALE_H

#include <locale.h>

static inline void ls__restore_locale(const locale_t *before)
{
    uselocale(*before);
}

/* A declaration that sets the thread's locale to "C" until the end of the block. The C library
 * keeps that locale in static memory. */
#define LS__IN_C_LOCALE                                                                            \
    __attribute__((cleanup(ls__restore_locale), unused)) const locale_t ls__locale_before =        \
        uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0))

#endif
