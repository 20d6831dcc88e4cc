#include "proto/coding/coding.h"

static const char *const names[] = {
    [CODING_IDENTITY] = "identity", [CODING_GZIP] = "gzip",       [CODING_DEFLATE] = "deflate",
    [CODING_ZSTD] = "zstd",         [CODING_UNKNOWN] = "unknown",
};

enum coding coding_parse(struct bytes name)
{
    name = bytes_trim(name);
    switch (name.n) {
    case 0: return CODING_IDENTITY;
    case 4:
        if (bytes_is_nocase(name, "gzip"))
            return CODING_GZIP;
        return bytes_is_nocase(name, "zstd") ? CODING_ZSTD : CODING_UNKNOWN;
    case 6: return bytes_is_nocase(name, "x-gzip") ? CODING_GZIP : CODING_UNKNOWN;
    case 7: return bytes_is_nocase(name, "deflate") ? CODING_DEFLATE : CODING_UNKNOWN;
    case 8: return bytes_is_nocase(name, "identity") ? CODING_IDENTITY : CODING_UNKNOWN;
    default: return CODING_UNKNOWN;
    }
}

const char *coding_name(enum coding c)
{
    return c <= CODING_UNKNOWN ? names[c] : names[CODING_UNKNOWN];
}
