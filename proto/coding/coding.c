/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/coding.h"

static const char *const names[] = {
    [CODING_IDENTITY] = "identity", [CODING_GZIP] = "gzip",     [CODING_DEFLATE] = "deflate",
    [CODING_ZSTD] = "zstd",         [CODING_SNAPPY] = "snappy", [CODING_LZ4] = "lz4",
    [CODING_UNKNOWN] = "unknown",
};

enum coding coding_parse(struct bytes name)
{
    static const struct {
        const char *name;
        enum coding coding;
    } known[] = {
        {"", CODING_IDENTITY},   {"identity", CODING_IDENTITY}, {"gzip", CODING_GZIP},
        {"x-gzip", CODING_GZIP}, {"deflate", CODING_DEFLATE},   {"zlib", CODING_DEFLATE},
        {"zstd", CODING_ZSTD},   {"snappy", CODING_SNAPPY},     {"x-snappy-framed", CODING_SNAPPY},
        {"lz4", CODING_LZ4},
    };
    name = bytes_trim(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (bytes_is_nocase(name, known[i].name))
            return known[i].coding;
    return CODING_UNKNOWN;
}

bool coding_is_gzip(struct bytes body)
{
    return body.n >= 2 && body.p[0] == 0x1f && body.p[1] == 0x8b;
}

const char *coding_name(enum coding c)
{
    return c <= CODING_UNKNOWN ? names[c] : names[CODING_UNKNOWN];
}
