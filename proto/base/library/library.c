/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/library/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct library) == 32 && offsetof(struct library, slots) == 16,
               "as on_demand.inc has it");

/* What a slot holds before its library was loaded: a library_load was forgotten. */
void library_missing(void);
void library_missing(void)
{
    fputs("a function of a library was called that is not loaded\n", stderr);
    abort();
}

/* Where all are, or not at all: `slots` may be read by others meanwhile, and nobody reads them before
 * is_loaded. */
static int find_all(void *so, const struct library *l, struct error *e)
{
    void **slot = l->slots;
    for (const char *name = l->names; *name; name += strlen(name) + 1)
        if (!dlsym(so, name))
            return error_set(e, -ELIBACC, "%s has no %s", l->soname, name);
    for (const char *name = l->names; *name; name += strlen(name) + 1)
        *slot++ = dlsym(so, name);
    return 0;
}

int library_load(struct library *l, struct error *e)
{
    if (!l || atomic_load_explicit(&l->is_loaded, memory_order_acquire))
        return 0;
    void *so = dlopen(l->soname, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return error_set(e, -ELIBACC, "a library that this needs cannot be loaded: %s", dlerror());
    int r = find_all(so, l, e);
    if (r == 0) /* two threads at once find the same */
        atomic_store_explicit(&l->is_loaded, 1, memory_order_release);
    return r;
}
