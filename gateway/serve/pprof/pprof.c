/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/pprof/pprof.h"

#include "gateway/serve/otlp/words.h"
#include "gateway/serve/pprof/origin.h"
#include "gateway/serve/pprof/taking.h"

static enum refusal decode(const struct intake_head *head, struct bytes body, struct buffer *out,
                           struct budget *budget, struct profiles_written *ret, struct error *why)
{
    cleanup(pprof_taking_release) struct pprof_taking taking;
    cleanup(origin_release) struct origin origin;
    *ret = (struct profiles_written){PROFILES_LAYOUT_1_10, 0};
    origin_init(&origin, head->links, budget);
    enum refusal refusal = pprof_taking_init(&taking, out->max, budget);
    if (refusal == REFUSAL_NONE)
        refusal = origin_add_query(&origin, head->query, NULL, why);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_take(&taking, body, &origin.from, why);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_taking_end(&taking, out);
    return refusal;
}

const struct intake pprof_http = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT("/v1/pprof"),
    .media = (const char *const[]){"application/octet-stream", "application/x-protobuf", "application/gzip",
                                   "application/x-gzip", "application/vnd.google.protobuf",
                                   "application/x-www-form-urlencoded", "text/plain", NULL},
    .reads_head = true,
    .decode = decode,
    .size = pprof_plain_size,
    .words = &otlp_words_json,
};
