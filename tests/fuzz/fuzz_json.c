/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/json */
/*
 * OTLP/JSON on its way in: any text is transcoded or refused within its bounds; what was transcoded is
 * well-formed protobuf, which the decoder may only refuse for its content, never as malformed.
 */
#include <string.h>

#include "proto/otlp/json/reader.h"
#include "proto/otlp/json/profiles.h"
#include "tests/fuzz/fuzz.h"

/* Each text of a row of them, as `profgate count` takes a file apart. */
static void take_apart(struct bytes texts)
{
    size_t n;
    while ((n = json_text_length(texts)) > 0) {
        require(n <= texts.n);
        texts = bytes_of(texts.p + n, texts.n - n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const struct profiles_limits limits = {.column_bytes = 64u << 20, .depth = 64};
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    struct error e = {""};
    cleanup(profiles_release) struct profiles v;
    require(profiles_init(&v, NULL) == 0);
    take_apart(bytes_of(data, len));
    struct profiles_written as = {PROFILES_LAYOUT_1_10, 0};
    int r = profiles_json_transcode(bytes_of(data, len), &limits, &budget, &out, &as, &e);
    require(r == 0 || r == PROFILES_MALFORMED);
    require((r == 0) == (e.text[0] == '\0') && (r == 0 || out.n == 0));
    require(budget.used == out.cap && out.n <= 4 * len + 16);
    if (r == 0) { /* what was written is well-formed in its layout, whichever that is */
        r = profiles_decode_as(&v, buffer_bytes(&out), as.layout, &limits, &e);
        require(r == 0 || r == PROFILES_OVER_BUDGET || strstr(e.text, "hold nothing") ||
                strstr(e.text, "64 sample types"));
    }
    return 0;
}
