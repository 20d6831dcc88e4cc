/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent is in the query string: whose it is, when it was, in what format. pprof comes alone, or as the
 * field "profile" of a form, beside which "sample_type_config" says how Pyroscope shall name its types: that
 * is not looked at, a pprof has its own.
 */
#include "gateway/serve/pyroscope/pyroscope.h"

#include "gateway/serve/otlp/words.h"
#include "gateway/serve/pprof/taking.h"
#include "gateway/serve/pyroscope/labels.h"
#include "gateway/serve/pyroscope/size.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/coding/room.h"
#include "proto/http/multipart.h"
#include "proto/http/query.h"
#include "proto/otlp/view/profiles.h"

struct ingest_query {
    struct bytes name, format, spy;
    int64_t from, until; /* nanoseconds; 0: not said */
};

/* A moment as attime.Parse of Pyroscope reads digits: seconds, or finer by their number. 0: another one, of
 * which Pyroscope says now. */
static int64_t moment_of(struct bytes text)
{
    int64_t v = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || text.n > 19 || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, text.p[i] - '0', &v))
            return 0;
    }
    const int64_t unit = text.n == 19 ? 1 : text.n == 16 ? 1000 : text.n == 13 ? 1000000 : NSEC_PER_SEC;
    return __builtin_mul_overflow(v, unit, &v) ? 0 : v;
}

static enum refusal read_query(struct origin *o, struct bytes query, struct ingest_query *ret,
                               struct error *why)
{
    struct bytes name, value;
    *ret = (struct ingest_query){0};
    enum refusal refusal = origin_reserve(o, query.n);
    while (refusal == REFUSAL_NONE && query_next(&query, &name, &value)) {
        refusal = origin_decode(o, value, &value, why);
        if (query_is(name, "name"))
            ret->name = value;
        else if (query_is(name, "format"))
            ret->format = value;
        else if (query_is(name, "spyName"))
            ret->spy = value;
        else if (query_is(name, "from"))
            ret->from = moment_of(value);
        else if (query_is(name, "until"))
            ret->until = moment_of(value);
    }
    return refusal;
}

static enum refusal read_origin(struct origin *o, const struct intake_head *head, struct ingest_query *query,
                                struct error *why)
{
    struct bytes app;
    enum refusal refusal = read_query(o, head->query, query, why);
    if (refusal == REFUSAL_NONE)
        refusal = labels_of_name(o, query->name, &app, why);
    if (refusal == REFUSAL_NONE && query->spy.n > 0)
        refusal = label_add(o, BYTES_LIT("pyroscope_spy"), query->spy, why);
    if (query->from > 0) {
        o->from.time_nanos = query->from;
        o->from.duration_nanos = query->until > query->from ? query->until - query->from : 0;
    }
    return refusal;
}

static enum refusal unsupported(struct error *why, struct bytes format)
{
    error_set(why, 0, "format: %.*s is not taken; pprof is",
              bytes_is_utf8(format) ? (int)min_of(format.n, (size_t)40) : 0, (const char *)format.p);
    return REFUSAL_UNSUPPORTED;
}

/* The profile in a form; empty if there is none. */
static enum refusal read_form(const struct intake_head *head, struct bytes body, struct bytes *ret,
                              struct error *why)
{
    struct multipart form;
    struct multipart_part part;
    int r = multipart_begin(&form, head->type, body);
    *ret = bytes_of(body.p, 0);
    while (r == 0 && (r = multipart_next(&form, &part)) == 0) {
        if (bytes_is(part.name, "profile")) {
            *ret = part.body;
        } else if (bytes_is(part.name, "jfr")) {
            return unsupported(why, part.name);
        } else if (bytes_is(part.name, "prev_profile")) {
            error_set(why, 0,
                      "prev_profile: clients that send the profile before do not any more; update it");
            return REFUSAL_UNSUPPORTED;
        }
    }
    if (r != MULTIPART_MALFORMED)
        return REFUSAL_NONE;
    error_set(why, 0, "%s", form.wrong);
    return REFUSAL_MALFORMED;
}

static bool is_form(const struct intake_head *head)
{
    struct bytes type = head->type;
    return bytes_is_nocase(bytes_trim(query_cut(&type, ';')), "multipart/form-data");
}

/* Nothing happened meanwhile: Pyroscope takes it. */
static enum refusal take_nothing(struct buffer *out, struct budget *budget)
{
    if (room_make(out, PROFILES_PADDING, budget) != 0)
        return REFUSAL_BUSY;
    memset(out->p, 0, PROFILES_PADDING);
    return REFUSAL_NONE;
}

static enum refusal take(const struct intake_head *head, const struct ingest_query *query, struct bytes body,
                         const struct origin *o, struct buffer *out, struct error *why)
{
    const bool form = is_form(head);
    enum refusal refusal = form ? read_form(head, body, &body, why) : REFUSAL_NONE;
    if (refusal != REFUSAL_NONE)
        return refusal;
    if (!form && !bytes_is(query->format, "pprof"))
        return unsupported(why, query->format.n ? query->format : BYTES_LIT("folded"));
    if (body.n == 0)
        return take_nothing(out, o->budget);
    struct pprof_taking taking;
    refusal = pprof_taking_init(&taking, out->max, o->budget);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_take(&taking, body, &o->from, why);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_taking_end(&taking, out);
    pprof_taking_release(&taking);
    return refusal;
}

static enum refusal decode(const struct intake_head *head, struct bytes body, struct buffer *out,
                           struct budget *budget, enum profiles_layout *ret_layout, struct error *why)
{
    struct origin origin;
    struct ingest_query query;
    *ret_layout = PROFILES_LAYOUT_1_10;
    origin_init(&origin, budget);
    enum refusal refusal = read_origin(&origin, head, &query, why);
    if (refusal == REFUSAL_NONE)
        refusal = take(head, &query, body, &origin, out, why);
    origin_release(&origin);
    return refusal;
}

#define INGEST                                                                                    \
    .protocol = INTAKE_HTTP, .method = BYTES_LIT("POST"),                                         \
    .media = (const char *const[]){INTAKE_ANY_MEDIA, NULL}, .reads_head = true, .decode = decode, \
    .size = pyroscope_size, .words = &otlp_words_json

const struct intake pyroscope_ingest = {.path = BYTES_LIT("/ingest"), INGEST};
const struct intake pyroscope_ingest_below = {.path = BYTES_LIT("/pyroscope/ingest"), INGEST};
