/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/grpc/code.h"

#include "proto/base/macros.h"
#include "proto/base/quantity.h"

static const struct {
    const char *name;
    uint32_t http;
} codes[] = {
#define GRPC_CODE_ROW(id, number, http_) [number] = {#id, http_},
    GRPC_CODE_TABLE(GRPC_CODE_ROW)
#undef GRPC_CODE_ROW
};

const char *grpc_code_name(enum grpc_code code)
{
    return (size_t)code < ARRAY_LEN(codes) ? codes[code].name : "UNKNOWN";
}

enum grpc_code grpc_code_parse(struct bytes value)
{
    uint64_t number;
    if (quantity_u64(bytes_trim(value), &number) < 0 || number >= ARRAY_LEN(codes))
        return GRPC_UNKNOWN;
    return (enum grpc_code)number;
}

uint32_t grpc_code_to_http(enum grpc_code code)
{
    return (size_t)code < ARRAY_LEN(codes) ? codes[code].http : 500;
}

enum grpc_code grpc_code_from_http(uint32_t status)
{
    switch (status) {
    case 400: return GRPC_INTERNAL;
    case 401: return GRPC_UNAUTHENTICATED;
    case 403: return GRPC_PERMISSION_DENIED;
    case 404: return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504: return GRPC_UNAVAILABLE;
    default: return GRPC_UNKNOWN;
    }
}
