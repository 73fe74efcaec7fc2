/* symbol.h: what a test finds in the emulated module, which a context has loaded. */
#ifndef LS_TEST_EMULATED_SYMBOL_H
#define LS_TEST_EMULATED_SYMBOL_H

#include "driver.h"
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: it has none of that name. */
static inline void *find_symbol(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/liblockstep_cuda.so", getenv("LOCKSTEP_MODULES"));
    void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(handle);
    return dlsym(handle, name);
}

static inline void *module_symbol(const char *name)
{
    void *symbol = find_symbol(name);
    ck_assert_ptr_nonnull(symbol);
    return symbol;
}

/* Returns the emulator's counter of this name. */
static inline int64_t emulated_count(const char *name)
{
    void *symbol = module_symbol(name);
    int64_t (*function)(void);
    memcpy(&function, &symbol, sizeof(function)); /* ISO C has no cast from one to the other */
    return function();
}

/* Lets the call of that number fail, from 1; 0 = none. sticky: and all after it. */
static inline void emulated_fail_at(int64_t call, bool sticky)
{
    void *symbol = module_symbol("emulate_fail_at");
    emulate_fail_at_fn *function;
    memcpy(&function, &symbol, sizeof(function));
    function(call, sticky);
}

/* Returns the number of open objects on the emulated device, and in the libraries' stand-ins if
 * they are loaded. */
static inline int64_t emulated_held(void)
{
    emulate_held_fn *held;
    void *symbol = module_symbol("emulate_held");
    memcpy(&held, &symbol, sizeof(held));
    symbol = find_symbol("emulate_libraries_held");
    if (!symbol) return held();
    emulate_held_fn *libraries;
    memcpy(&libraries, &symbol, sizeof(libraries));
    return held() + libraries();
}

#endif
