/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/admin */
/* What a scraper sends in its Accept, Accept-Encoding and query string. */
#include "gateway/admin/format.h"
#include "proto/http/query.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_of(data, size), name, value;
    struct admin_metrics m = {0};
    query_metrics_format(in, &m);
    if (m.format > ADMIN_OPENMETRICS_1_0_0 || m.escaping > PROMETHEUS_ESCAPE_VALUES)
        abort();
    query_accepts_gzip(in);
    query_accepts(in, "application/json");
    while (query_next(&in, &name, &value))
        query_is(name, "collect[]");
    return 0;
}
