/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/http */
/* A form: the Content-Type up to the first line end, then the body. Parts lie in it, in order and apart. */
#include "proto/http/multipart.h"
#include "proto/http/query.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes body = bytes_of(data, size), type = query_cut(&body, '\n');
    struct multipart m;
    struct multipart_part part;
    const uint8_t *end = body.p;
    int r = multipart_begin(&m, type, body);
    for (uint32_t n = 0; r == 0 && (r = multipart_next(&m, &part)) == 0; n++) {
        require(n < MULTIPART_PARTS_MAX);
        require(part.body.p >= end && part.body.p + part.body.n <= body.p + body.n);
        require(part.name.n == 0 || (part.name.p >= end && part.name.p + part.name.n <= part.body.p));
        end = part.body.p + part.body.n;
    }
    require((r == MULTIPART_MALFORMED) == (m.wrong != NULL));
    return 0;
}
