/* SPDX-License-Identifier: Apache-2.0 */
/* The coding of that name (proto/coding), and buffers of Arrow's streams. The linker says which are missing here. */
#define NAME library_zstd
#define SONAME "libzstd.so.1"
#define FUNCTIONS \
    ZSTD_compressBound, ZSTD_compressCCtx, ZSTD_createCCtx, ZSTD_createDCtx, ZSTD_decompress, ZSTD_decompressDCtx, \
    ZSTD_findFrameCompressedSize, ZSTD_freeCCtx, ZSTD_freeDCtx, ZSTD_getErrorCode, ZSTD_isError
#include "proto/base/library/on_demand.inc"
