/* SPDX-License-Identifier: Apache-2.0 */
/* The codings gzip and deflate (proto/coding). The linker says which are missing here. */
#define NAME library_deflate
#define SONAME "libdeflate.so.0"
#define FUNCTIONS \
    libdeflate_alloc_compressor, libdeflate_alloc_decompressor, libdeflate_free_compressor, \
    libdeflate_free_decompressor, libdeflate_gzip_compress, libdeflate_gzip_compress_bound, \
    libdeflate_gzip_decompress_ex, libdeflate_zlib_compress, libdeflate_zlib_compress_bound, \
    libdeflate_zlib_decompress_ex
#include "proto/base/library/on_demand.inc"
