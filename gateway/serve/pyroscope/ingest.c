/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent is in the query string: whose it is, when it was, in what format. pprof comes alone, or as the
 * field "profile" of a form, beside which "sample_type_config" says how Pyroscope shall name its types: that
 * is not looked at, a pprof has its own.
 */
#include "gateway/serve/pyroscope/pyroscope.h"

#include <errno.h>

#include "gateway/serve/otlp/words.h"
#include "gateway/serve/pprof/taking.h"
#include "gateway/serve/pyroscope/labels.h"
#include "gateway/serve/pyroscope/size.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/base/room.h"
#include "proto/convert/from_text.h"
#include "proto/http/multipart.h"
#include "proto/http/query.h"
#include "proto/otlp/view/profiles.h"

struct ingest_query {
    struct bytes name, format, spy;
    struct bytes app;    /* in the name */
    int64_t rate;        /* samples a second */
    int64_t from, until; /* nanoseconds; 0: not said */
};

/* A moment as attime.Parse of Pyroscope reads digits: seconds, or finer by their number. 0: another one, of
 * which Pyroscope says now. */
static int64_t moment_of(struct bytes text)
{
    uint64_t digits;
    int64_t v;
    if (text.n > 19 || quantity_u64(text, &digits) < 0)
        return 0;
    const int64_t unit = text.n == 19 ? 1 : text.n == 16 ? 1000 : text.n == 13 ? 1000000 : NSEC_PER_SEC;
    return __builtin_mul_overflow(digits, unit, &v) ? 0 : v;
}

/* types.DefaultSampleRate: also of what is no number. */
#define DEFAULT_RATE 100

static int64_t rate_of(struct bytes text)
{
    int64_t rate = 0;
    for (size_t i = 0; i < text.n && text.n < 10; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return DEFAULT_RATE;
        rate = rate * 10 + (text.p[i] - '0');
    }
    return text.n < 10 && rate > 0 ? rate : DEFAULT_RATE;
}

static enum refusal read_query(struct origin *o, struct bytes query, struct ingest_query *ret,
                               struct error *why)
{
    struct bytes name, value;
    *ret = (struct ingest_query){.rate = DEFAULT_RATE};
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
        else if (query_is(name, "sampleRate"))
            ret->rate = rate_of(value);
    }
    return refusal;
}

static enum refusal read_origin(struct origin *o, const struct intake_head *head, struct ingest_query *query,
                                struct error *why)
{
    enum refusal refusal = read_query(o, head->query, query, why);
    if (refusal == REFUSAL_NONE)
        refusal = labels_of_name(o, query->name, &query->app, why);
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
    error_set(why, 0, "format: %.*s is not taken; pprof, folded and lines are",
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

static bool has_type(const struct intake_head *head, const char *media)
{
    struct bytes type = head->type;
    return bytes_is_nocase(bytes_trim(query_cut(&type, ';')), media);
}

/* What is in the body: the type says it where it can, whatever the query says (ingestParamsFromRequest of
 * pkg/ingester/pyroscope/ingest_handler.go). */
static struct bytes format_of(const struct intake_head *head, const struct ingest_query *query)
{
    static const char *const types[] = {"binary/octet-stream+tree", "binary/octet-stream+trie"};
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (has_type(head, types[i]))
            return bytes_after_last(bytes_str(types[i]), '+');
    return query->format;
}

/* ---- text ---- */

/* What the last part of an application's name says is counted (convertMetadata of
 * pkg/ingester/pyroscope/ingest_adapter.go); with a
 * period type it is samples at a rate. */
static const struct {
    const char *suffix, *type, *unit, *period_type;
} suffixes[] = {
    {"cpu", "samples", "count", "cpu"},
    {"itimer", "samples", "count", "cpu"},
    {"wall", "samples", "count", "wall"},
    {"inuse_objects", "inuse_objects", "count", NULL},
    {"inuse_space", "inuse_space", "bytes", NULL},
    {"alloc_objects", "alloc_objects", "count", NULL},
    {"alloc_space", "alloc_space", "bytes", NULL},
    {"goroutines", "goroutines", "count", NULL},
    {"mutex_count", "contentions", "count", NULL},
    {"mutex_duration", "delay", "nanoseconds", NULL},
    {"block_count", "contentions", "count", NULL},
    {"block_duration", "delay", "nanoseconds", NULL},
    {"lock_count", "contentions", "count", NULL},
    {"lock_duration", "delay", "nanoseconds", NULL},
    {"alloc_in_new_tlab_objects", "alloc_in_new_tlab_objects", "count", NULL},
    {"alloc_in_new_tlab_bytes", "alloc_in_new_tlab_bytes", "bytes", NULL},
    {"alloc_outside_tlab_objects", "alloc_outside_tlab_objects", "count", NULL},
    {"alloc_outside_tlab_bytes", "alloc_outside_tlab_bytes", "bytes", NULL},
    {"live", "live", "count", NULL},
    {"exceptions", "exceptions", "count", NULL},
};

/* Which of these; the first where the name says none, which Pyroscope refuses if there is a dot in it. The
 * part is taken off the name. */
static size_t take_suffix(struct origin *o, struct bytes app)
{
    const struct bytes last = bytes_after_last(app, '.');
    for (size_t i = 0; i < ARRAY_LEN(suffixes) && last.n < app.n; i++) {
        if (!bytes_is(last, suffixes[i].suffix))
            continue;
        for (uint32_t k = 0; k < o->from.n_resource; k++)
            if (o->attrs[k].value.text.p == app.p && o->attrs[k].value.text.n == app.n)
                o->attrs[k].value.text.n -= last.n + 1;
        return i;
    }
    return 0;
}

static enum refusal take_text(const struct ingest_query *query, struct bytes text, struct origin *o,
                              struct buffer *out, struct error *why)
{
    const size_t kind = take_suffix(o, query->app);
    struct from_text_options options = {
        .origin = o->from,
        .type = bytes_str(suffixes[kind].type),
        .unit = bytes_str(suffixes[kind].unit),
        .time_unix_nano = (uint64_t)o->from.time_nanos,
        .duration_nano = (uint64_t)o->from.duration_nanos,
    };
    if (suffixes[kind].period_type) {
        options.period_type = bytes_str(suffixes[kind].period_type);
        options.period_unit = BYTES_LIT("nanoseconds");
        options.period = NSEC_PER_SEC / query->rate;
    }
    struct from_text *converter = from_text_new(o->budget);
    const bool lines = bytes_is(query->format, "lines");
    int r = converter
                ? from_text(converter, lines ? FROM_TEXT_LINES : FROM_TEXT_FOLDED, text, &options, out, why)
                : -ENOMEM;
    from_text_free(converter);
    return r == 0                     ? REFUSAL_NONE
           : r == FROM_TEXT_MALFORMED ? REFUSAL_MALFORMED
           : r == FROM_TEXT_TOO_LARGE ? REFUSAL_TOO_LARGE
                                      : REFUSAL_BUSY;
}

/* ---- a request ---- */

/* Nothing happened meanwhile: Pyroscope takes it. */
static enum refusal take_nothing(struct buffer *out, struct budget *budget)
{
    if (room_make(out, PROFILES_PADDING, budget) != 0)
        return REFUSAL_BUSY;
    memset(out->p, 0, PROFILES_PADDING);
    return REFUSAL_NONE;
}

/* "groups" is what its code calls folded stacks, which is what it takes for granted. */
static bool is_text(struct bytes format)
{
    return format.n == 0 || bytes_is(format, "folded") || bytes_is(format, "lines") ||
           bytes_is(format, "groups");
}

static enum refusal take(const struct intake_head *head, const struct ingest_query *query, struct bytes body,
                         struct origin *o, struct buffer *out, struct error *why)
{
    const bool form = has_type(head, "multipart/form-data");
    const struct bytes format = format_of(head, query);
    const bool text = !form && is_text(format);
    enum refusal refusal = form ? read_form(head, body, &body, why) : REFUSAL_NONE;
    if (refusal != REFUSAL_NONE)
        return refusal;
    if (!form && !text && !bytes_is(format, "pprof"))
        return unsupported(why, format);
    if (body.n == 0)
        return take_nothing(out, o->budget);
    if (text)
        return take_text(query, body, o, out, why);
    cleanup(pprof_taking_release) struct pprof_taking taking;
    refusal = pprof_taking_init(&taking, out->max, o->budget);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_take(&taking, body, &o->from, why);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_taking_end(&taking, out);
    return refusal;
}

static enum refusal decode(const struct intake_head *head, struct bytes body, struct buffer *out,
                           struct budget *budget, struct profiles_written *ret, struct error *why)
{
    cleanup(origin_release) struct origin origin;
    struct ingest_query query;
    *ret = (struct profiles_written){PROFILES_LAYOUT_1_10, 0};
    origin_init(&origin, head->links, budget);
    enum refusal refusal = read_origin(&origin, head, &query, why);
    if (refusal == REFUSAL_NONE)
        refusal = take(head, &query, body, &origin, out, why);
    return refusal;
}

#define INGEST                                                                                    \
    .protocol = INTAKE_HTTP, .method = BYTES_LIT("POST"),                                         \
    .media = (const char *const[]){INTAKE_ANY_MEDIA, NULL}, .reads_head = true, .decode = decode, \
    .size = pyroscope_size, .words = &otlp_words_json

const struct intake pyroscope_ingest = {.path = BYTES_LIT("/ingest"), INGEST};
const struct intake pyroscope_ingest_below = {.path = BYTES_LIT("/pyroscope/ingest"), INGEST};
