/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/serve gateway/scrape proto/coding proto/http proto/otlp/view */
/*
 * Bodies that are no OTLP, on their way to it: a digit says which intake, a line each is the query string and
 * the Content-Type, the rest is the body. What is taken is a request that the view reads; what is refused for
 * good has words; nothing stays on the budget. A pprof is also compared with itself.
 */
#include <stdlib.h>
#include <string.h>

#include "gateway/scrape/delta.h"
#include "gateway/serve/convert/convert.h"
#include "gateway/serve/pprof/pprof.h"
#include "gateway/serve/pyroscope/pyroscope.h"
#include "proto/base/macros.h"
#include "proto/base/room.h"
#include "proto/http/query.h"
#include "tests/fuzz/fuzz.h"

#define OUT_MAX (4u << 20)

static void read_as(const struct intake *intake, const struct intake_head *head, struct bytes body,
                    struct budget *budget)
{
    struct buffer out = BUFFER_INIT(OUT_MAX);
    struct error why = {""};
    struct profiles view;
    struct profiles_written as = {PROFILES_LAYOUT_UNKNOWN, 0};
    const char *type = NULL;
    enum refusal refusal = intake->answer ? intake->answer(head, body, &out, budget, &type, &why)
                                          : intake->decode(head, body, &out, budget, &as, &why);
    require(refusal != REFUSAL_MALFORMED || why.text[0]);
    require(refusal != REFUSAL_NONE || !intake->answer || type);
    if (refusal == REFUSAL_NONE && !intake->answer) {
        require(profiles_init(&view, NULL) == 0);
        require(profiles_decode_as(&view, buffer_bytes(&out), as.layout, &profiles_limits_default, &why) ==
                0);
        profiles_release(&view);
    }
    room_release(&out, budget);
}

static void compare(struct bytes body, struct budget *budget)
{
    struct delta *d = delta_new(budget);
    require(d != NULL);
    for (int i = 0; i < 2; i++) {
        struct buffer out = BUFFER_INIT(0);
        struct delta_said said;
        struct error e = {""};
        if (delta_take(d, body, &out, &said, &e) == 0) {
            require(said.is_first == (i == 0) && !said.restarted);
            delta_keep(d);
        }
        room_release(&out, budget);
    }
    delta_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct intake *const intakes[] = {&pprof_http,           &pyroscope_ingest,
                                                   &pyroscope_push_proto, &pyroscope_push_json,
                                                   &convert_http,         NULL /* compared */,
                                                   &parca_write_raw_json, &parca_write_raw};
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    struct bytes rest = bytes_of(data, size);
    struct intake_head head = {0};
    if (size == 0)
        return 0;
    const size_t which = data[0] % ARRAY_LEN(intakes);
    rest = bytes_from(rest, 1);
    head.query = query_cut(&rest, '\n');
    head.type = query_cut(&rest, '\n');
    /* Its own memory, with the padding that a request's body has. */
    uint8_t *body = calloc(1, rest.n + PROFILES_PADDING);
    require(body != NULL);
    if (rest.n > 0)
        memcpy(body, rest.p, rest.n);
    if (intakes[which])
        read_as(intakes[which], &head, bytes_of(body, rest.n), &budget);
    else
        compare(bytes_of(body, rest.n), &budget);
    free(body);
    require(budget.used == 0);
    return 0;
}
