/* module_host.h: the table of the core's functions, in a module. */
#ifndef LS_BACKEND_MODULE_HOST_H
#define LS_BACKEND_MODULE_HOST_H

#include "backend/module.h"

/* Sets the module's table. Must be called before any other function of the module; any thread may
 * call it. */
void ls__module_set_host(const ls__host *host);

#endif
