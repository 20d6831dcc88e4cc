/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever comes becomes an OTLP request; where that is not what is wanted, its view is written in the format
 * that is. Writers do not charge what they write, so a bound of it is charged beforehand.
 */
#include "gateway/serve/convert/convert.h"

#include "gateway/serve/otlp/words.h"
#include "gateway/serve/pprof/origin.h"
#include "gateway/serve/pprof/taking.h"
#include "proto/base/macros.h"
#include "proto/base/room.h"
#include "proto/convert/formats.h"
#include "proto/convert/from_text.h"
#include "proto/convert/original.h"
#include "proto/http/query.h"
#include "proto/otlp/json/profiles.h"

/* The first row of a format has the type that it is answered with. */
static const struct {
    const char *type;
    enum convert_format format;
} types[] = {
    {"application/octet-stream", CONVERT_PPROF},
    {"application/vnd.google.protobuf", CONVERT_PPROF},
    {"application/x-protobuf", CONVERT_OTLP},
    {"application/json", CONVERT_JSON},
    {"text/plain", CONVERT_FOLDED},
    /* Accept means what stands before. */
    {"application/json", CONVERT_SPEEDSCOPE},
    {"application/octet-stream", CONVERT_PPROF_EXACT},
};

static const struct {
    const char *word;
    enum convert_format format;
} words[] = {
#define FORMAT_WORD(name, word) {word, CONVERT_##name},
    CONVERT_FORMATS(FORMAT_WORD)
#undef FORMAT_WORD
};

struct converting {
    struct budget *budget;
    struct pprof_taking taking;
    struct origin origin;
    struct buffer request; /* OTLP that was made of something else, on the budget */
    struct bytes otlp;     /* the request */
    enum profiles_layout layout;
    enum convert_format to;
    struct profiles view;
    struct arena scratch;
    struct error *why;
};

/* ---- in ---- */

/* What weighs most; unsaid where anything else is as good to who asks, or better. */
static enum convert_format accepted(struct bytes accept)
{
    const unsigned any = query_accepts(accept, "*/*");
    enum convert_format format = CONVERT_UNSAID;
    for (unsigned i = 0, most = 0; i < ARRAY_LEN(types); i++) {
        const unsigned weight = query_accepts(accept, types[i].type);
        if (weight > most && weight >= any) {
            format = types[i].format;
            most = weight;
        }
    }
    return format;
}

static enum refusal wanted(const struct intake_head *head, enum convert_format *ret, struct error *why)
{
    struct bytes query = head->query, name, value;
    *ret = CONVERT_UNSAID;
    while (query_next(&query, &name, &value)) {
        if (!query_is(name, "to"))
            continue;
        for (size_t i = 0; i < ARRAY_LEN(words); i++)
            if (query_is(value, words[i].word))
                *ret = words[i].format;
        if (*ret != CONVERT_UNSAID)
            return REFUSAL_NONE;
        error_set(why, 0, "to: profiles become pprof, pprof-exact, otlp, json, folded or speedscope");
        return REFUSAL_MALFORMED;
    }
    *ret = accepted(head->accept);
    return REFUSAL_NONE;
}

static enum refusal read_json(struct converting *c, struct bytes body)
{
    struct profiles_written as = {c->layout, 0};
    int r = profiles_json_transcode(body, &profiles_limits_default, c->budget, &c->request, &as, c->why);
    c->layout = as.layout;
    c->otlp = buffer_bytes(&c->request);
    return r == 0                      ? REFUSAL_NONE
           : r == PROFILES_MALFORMED   ? REFUSAL_MALFORMED
           : r == PROFILES_UNSUPPORTED ? REFUSAL_UNSUPPORTED
           : r == PROFILES_TOO_LARGE   ? REFUSAL_TOO_LARGE
                                       : REFUSAL_BUSY;
}

static enum refusal read_pprof(struct converting *c, const struct intake_head *head, struct bytes body)
{
    enum refusal refusal = origin_add_query(&c->origin, head->query, "to", c->why);
    c->layout = PROFILES_LAYOUT_1_10;
    /* Who says whose it is says more than what the request in it had. */
    if (refusal == REFUSAL_NONE && c->origin.from.n_resource == 0 && original_of(body, &c->otlp))
        return REFUSAL_NONE;
    if (refusal == REFUSAL_NONE)
        refusal = pprof_take(&c->taking, body, &c->origin.from, c->why);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_taking_end(&c->taking, &c->request);
    c->otlp = buffer_bytes(&c->request);
    return refusal;
}

static enum refusal read_text(struct converting *c, const struct intake_head *head,
                              enum from_text_format format, struct bytes body)
{
    struct from_text *converter = from_text_new(c->budget);
    enum refusal refusal = converter ? origin_add_query(&c->origin, head->query, "to", c->why) : REFUSAL_BUSY;
    if (refusal == REFUSAL_NONE) {
        const struct from_text_options options = {.origin = c->origin.from};
        int r = from_text(converter, format, body, &options, &c->request, c->why);
        refusal = r == 0                     ? REFUSAL_NONE
                  : r == FROM_TEXT_MALFORMED ? REFUSAL_MALFORMED
                  : r == FROM_TEXT_TOO_LARGE ? REFUSAL_TOO_LARGE
                                             : REFUSAL_BUSY;
    }
    from_text_free(converter);
    c->otlp = buffer_bytes(&c->request);
    c->layout = PROFILES_LAYOUT_1_10;
    return refusal;
}

/* A type of JSON says more than the bytes do. */
static enum convert_input input_of(const struct intake_head *head, struct bytes body)
{
    struct bytes type = head->type;
    return bytes_is_nocase(bytes_trim(query_cut(&type, ';')), "application/json") ? CONVERT_IS_JSON
                                                                                  : convert_guess(body);
}

static enum refusal read_body(struct converting *c, const struct intake_head *head, struct bytes body)
{
    enum refusal refusal = pprof_unpack(&c->taking, &body, c->why);
    if (refusal != REFUSAL_NONE)
        return refusal;
    c->taking.left = c->taking.max; /* it is the same file once more */
    c->layout = PROFILES_LAYOUT_UNKNOWN;
    c->otlp = body;
    const enum convert_input input = input_of(head, body);
    const bool is_otlp = input == CONVERT_IS_JSON || (input == CONVERT_IS_OTLP && body.n > 0);
    c->to = c->to ? c->to : is_otlp ? CONVERT_PPROF : CONVERT_OTLP;
    return input == CONVERT_IS_JSON   ? read_json(c, from_text_without_mark(body))
           : input == CONVERT_IS_TEXT ? read_text(c, head, from_text_guess(body), body)
           : is_otlp                  ? REFUSAL_NONE
                                      : read_pprof(c, head, body);
}

static enum refusal read_view(struct converting *c)
{
    int r = profiles_decode_as(&c->view, c->otlp, c->layout, &profiles_limits_default, c->why);
    return r == 0                      ? REFUSAL_NONE
           : r == PROFILES_MALFORMED   ? REFUSAL_MALFORMED
           : r == PROFILES_UNSUPPORTED ? REFUSAL_UNSUPPORTED
           : r == PROFILES_TOO_LARGE   ? REFUSAL_TOO_LARGE
                                       : REFUSAL_BUSY;
}

/* ---- out ---- */

/* What it becomes, other than gzip, is seldom longer for each byte of OTLP than this: JSON of small numbers.
 * Folded deep stacks are, and are written again within as many times more. */
#define LONGER 8u

static int add_piece(void *out, struct bytes piece)
{
    return buffer_add_bytes(out, piece);
}

/* pprof is answered as its files are: in gzip. */
static int write_packed(struct converting *c, struct buffer *out)
{
    struct to_pprof_lost lost;
    return convert_pack(&c->view, c->otlp, c->to, &c->scratch, c->budget, out->max, add_piece, out, &lost);
}

/* Within `bound` bytes, which are charged while it is written; then made->cap is. REFUSAL_TOO_LARGE: the
 * bound is too small, or memory is out, of which a wider one has less. */
static enum refusal write_within(struct converting *c, size_t bound, struct buffer *made)
{
    *made = (struct buffer)BUFFER_INIT(bound);
    if (!budget_charge(c->budget, bound))
        return REFUSAL_BUSY;
    const int r = convert_is_pprof(c->to)
                      ? write_packed(c, made)
                      : convert_write(&c->view, c->otlp, c->to, &c->scratch, c->budget, made, NULL);
    budget_refund(c->budget, bound);
    if (r == 0 && budget_charge(c->budget, made->cap))
        return REFUSAL_NONE;
    buffer_release(made);
    if (r == 0)
        return REFUSAL_BUSY;
    if (!convert_is_pprof(c->to) || r != TO_PPROF_TYPES)
        return REFUSAL_TOO_LARGE;
    error_set(c->why, 0, "pprof: more than %u kinds of profiles", PPROF_TYPES_MAX);
    return REFUSAL_MALFORMED;
}

/* out->cap is on the budget when this returns. */
static enum refusal write_answer(struct converting *c, struct buffer *out)
{
    size_t bound = min_of(out->max, c->otlp.n * LONGER + ROOM_MIN);
    struct buffer made;
    enum refusal refusal = write_within(c, bound, &made);
    while (refusal == REFUSAL_TOO_LARGE && bound < out->max) {
        bound = min_of(out->max, bound * LONGER);
        refusal = write_within(c, bound, &made);
    }
    if (refusal == REFUSAL_NONE) {
        made.max = out->max;
        *out = made;
    } else if (refusal == REFUSAL_TOO_LARGE) {
        error_set(c->why, 0, "in that format it is larger than %zu bytes", out->max);
    }
    return refusal;
}

static enum refusal convert(struct converting *c, const struct intake_head *head, struct bytes body,
                            struct buffer *out)
{
    enum refusal refusal = wanted(head, &c->to, c->why);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_taking_init(&c->taking, out->max, c->budget);
    if (refusal == REFUSAL_NONE)
        refusal = read_body(c, head, body);
    if (refusal == REFUSAL_NONE)
        refusal = read_view(c);
    /* Any JSON is a request without profiles to who passes over what it does not know. */
    if (refusal == REFUSAL_NONE && c->view.profile.n == 0 && (c->otlp.n == 0 || convert_is_pprof(c->to))) {
        error_set(c->why, 0, "there is no profile in it");
        refusal = REFUSAL_MALFORMED;
    }
    return refusal == REFUSAL_NONE ? write_answer(c, out) : refusal;
}

static enum refusal answer(const struct intake_head *head, struct bytes body, struct buffer *out,
                           struct budget *budget, const char **ret_type, struct error *why)
{
    struct converting c = {.budget = budget, .why = why, .scratch = ARENA_INIT(budget)};
    c.request.max = out->max;
    origin_init(&c.origin, head->links, budget);
    enum refusal refusal = profiles_init(&c.view, budget) == 0 ? convert(&c, head, body, out) : REFUSAL_BUSY;
    for (size_t i = 0; i < ARRAY_LEN(types) && !*ret_type; i++)
        if (types[i].format == c.to)
            *ret_type = types[i].type;
    profiles_release(&c.view);
    arena_release(&c.scratch);
    room_release(&c.request, budget);
    origin_release(&c.origin);
    pprof_taking_release(&c.taking);
    return refusal;
}

/* Everything is looked at twice, and written. */
static size_t size(struct bytes body)
{
    return 2 * pprof_plain_size(body);
}

const struct intake convert_http = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT("/v1/convert"),
    .media = (const char *const[]){INTAKE_ANY_MEDIA, NULL},
    .reads_head = true,
    .answer = answer,
    .size = size,
    .words = &otlp_words_json,
};
