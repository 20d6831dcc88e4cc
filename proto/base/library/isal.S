/* SPDX-License-Identifier: Apache-2.0 */
/* gzip in pieces, and the checksum of Snappy's frames (proto/coding). The linker says which are missing here. */
#define NAME library_isal
#define SONAME "libisal.so.2"
#define FUNCTIONS \
    crc32_iscsi, isal_deflate, isal_deflate_init
#include "proto/base/library/on_demand.inc"
