/* symbol.h: what a test finds in the emulated module, which a context has loaded. */
#ifndef LS_TEST_EMULATED_SYMBOL_H
#define LS_TEST_EMULATED_SYMBOL_H

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static inline void *module_symbol(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/liblockstep_cuda.so", getenv("LOCKSTEP_MODULES"));
    void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(handle);
    void *symbol = dlsym(handle, name);
    ck_assert_ptr_nonnull(symbol);
    return symbol;
}

#endif
