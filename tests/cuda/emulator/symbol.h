/* symbol.h: what a test finds in the emulated module, which a context has loaded. */
#ifndef LS_TEST_EMULATED_SYMBOL_H
#define LS_TEST_EMULATED_SYMBOL_H

#include "driver.h"
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What is open on the emulated device. */
static inline int64_t emulated_held(void)
{
    emulate_held_fn *held;
    void *symbol = module_symbol("emulate_held");
    memcpy(&held, &symbol, sizeof(held)); /* ISO C has no cast from one to the other */
    return held();
}

#endif
