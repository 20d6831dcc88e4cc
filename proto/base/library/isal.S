/* SPDX-License-Identifier: Apache-2.0 */
/* gzip in pieces (proto/coding/gzip_stream.h). The linker says which are missing here. */
#define NAME library_isal
#define SONAME "libisal.so.2"
#define FUNCTIONS \
    isal_deflate, isal_deflate_init
#include "proto/base/library/on_demand.inc"
