/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/look proto/otlp/json */
/*
 * Calls of Pyroscope's queriers, as JSON and as protobuf: any body is answered within its bounds, and what
 * JSON became a message of is well-formed.
 */
#include "gateway/look/querier.h"
#include "proto/wire/reader.h"
#include "tests/fuzz/fuzz.h"

/* The first byte says which method, and whether it is JSON. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct look_store *store;
    const struct look_store_options options = {1u << 20, 1000000000, 1};
    if (!store)
        store = look_store_new(&options, NULL);
    if (len == 0)
        return 0;
    struct look_answer answer;
    const bool is_json = data[0] & 0x80;
    require(look_query(store, (enum look_method)((data[0] & 0x7f) % LOOK_N_METHODS), is_json,
                       bytes_of(data + 1, len - 1), 1795338000000000000, 0, &answer) == 0);
    require(answer.status == 200 || answer.status == 400 || answer.status == 429 || answer.status == 501);
    struct wire_reader r = wire_reader(buffer_bytes(&answer.body));
    struct wire_field f;
    while (answer.status == 200 && !is_json) {
        const int result = wire_next(&r, &f);
        require(result == 0 || result == WIRE_END);
        if (result == WIRE_END)
            break;
    }
    buffer_release(&answer.body);
    return 0;
}
