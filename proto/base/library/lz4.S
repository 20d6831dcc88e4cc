/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies in lz4 (proto/coding), buffers of Arrow's streams (proto/arrow). The linker says which are missing here. */
#define NAME library_lz4
#define SONAME "liblz4.so.1"
#define FUNCTIONS \
    LZ4F_compressFrame, LZ4F_compressFrameBound, LZ4F_createDecompressionContext, LZ4F_decompress, LZ4F_freeDecompressionContext, LZ4F_getErrorName, \
    LZ4F_isError, LZ4F_resetDecompressionContext
#include "proto/base/library/on_demand.inc"
