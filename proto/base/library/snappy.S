/* SPDX-License-Identifier: Apache-2.0 */
/* The coding of that name (proto/coding); brings libstdc++. The linker says which are missing here. */
#define NAME library_snappy
#define SONAME "libsnappy.so.1"
#define FUNCTIONS \
    snappy_compress, snappy_max_compressed_length, snappy_uncompress, snappy_uncompressed_length
#include "proto/base/library/on_demand.inc"
