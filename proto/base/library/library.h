/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared libraries that are loaded when something needs them, and not by every start: a library that is
 * linked costs its relocations and the pages around them, and those of its own libraries, used or not.
 *
 * Their functions are called by their names, as declared in their headers; who uses a library first calls
 * library_load, where words for a person can be returned. A program without PG_ON_DEMAND (tests; sanitizers,
 * which want to know all libraries at the start) is linked with them as ever, and its library_load does
 * nothing.
 */
#ifndef PROTO_BASE_LIBRARY_LIBRARY_H
#define PROTO_BASE_LIBRARY_LIBRARY_H

#include <stdatomic.h>

#include "proto/base/error.h"

/* Laid out by on_demand.inc, too. */
struct library {
    const char *soname;
    const char *names; /* of its functions that we call, each ended by NUL, and an empty one */
    void **slots;      /* where each of them is; library_missing() before it was loaded */
    atomic_long is_loaded;
};

/* Weak: at NULL in a program that is linked with it. */
#define LIBRARY_DECLARE(name) extern struct library name __attribute__((weak))
LIBRARY_DECLARE(library_crypt);
LIBRARY_DECLARE(library_deflate);
LIBRARY_DECLARE(library_isal);
LIBRARY_DECLARE(library_lz4);
LIBRARY_DECLARE(library_openssl);
LIBRARY_DECLARE(library_rdkafka);
LIBRARY_DECLARE(library_snappy);
LIBRARY_DECLARE(library_sqlite3);
LIBRARY_DECLARE(library_yaml);
LIBRARY_DECLARE(library_zstd);

/* Its functions may be called from now on, by every thread; it is never unloaded. Costs nothing when it was
 * there before. 0; -ELIBACC with *e: it is not installed, or lacks a function, and none of them may be
 * called. Any thread. */
int library_load(struct library *library, struct error *e);

#endif
