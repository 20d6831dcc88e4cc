/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parca-agent's way (reporter/parca_reporter.go of parca-dev/parca-agent at cb46a8e): a message whose one
 * field is a stream of Arrow.
 */
#include "gateway/serve/pyroscope/push.h"
#include "gateway/serve/pyroscope/pyroscope.h"
#include "proto/convert/from_parca.h"

#define WRITE_ARROW_IPC_BUFFER 1

static enum refusal decode(const struct intake_head *head, struct bytes body, struct buffer *out,
                           struct budget *budget, struct profiles_written *ret, struct error *why)
{
    struct bytes ipc;
    *ret = (struct profiles_written){PROFILES_LAYOUT_1_10, 0};
    if (push_field(body, WRITE_ARROW_IPC_BUFFER, &ipc) != 0) {
        error_set(why, 0, "ipc_buffer: not as its .proto has it");
        return REFUSAL_MALFORMED;
    }
    struct from_parca *c = from_parca_new(budget);
    const int r = c ? from_parca(c, ipc, head->links, out, why) : -1;
    from_parca_free(c);
    return r == 0                      ? REFUSAL_NONE
           : r == FROM_PARCA_MALFORMED ? REFUSAL_MALFORMED
           : r == FROM_PARCA_TOO_LARGE ? REFUSAL_TOO_LARGE
                                       : REFUSAL_BUSY;
}

/* Nothing says how much its compressed buffers become: always work for a lane. */
static size_t size(struct bytes body)
{
    return body.n > 0 ? SIZE_MAX : 0;
}

static int accepted(struct buffer *out, uint64_t rejected, struct bytes message)
{
    return 0; /* WriteArrowResponse has no fields */
}

static const struct intake_words words = {.media_type = BYTES_LIT("application/grpc"), .accepted = accepted};

const struct intake parca_write_arrow = {
    .protocol = INTAKE_GRPC,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT("/parca.profilestore.v1alpha1.ProfileStoreService/WriteArrow"),
    .media = (const char *const[]){"application/grpc", "application/grpc+proto", NULL},
    .decode = decode,
    .size = size,
    .words = &words,
};
