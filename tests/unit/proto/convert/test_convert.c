/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/coding proto/otlp/view */
/*
 * What becomes of a pprof is judged by pprof's own library in tests/interop/test_pprof.py; here is what that
 * cannot see: the request's own shape, what is refused, and failing memory.
 */
#include <errno.h>

#include "proto/coding/coding.h"
#include "proto/base/room.h"
#include "proto/convert/formats.h"
#include "proto/convert/from_pprof.h"
#include "proto/convert/to_pprof.h"
#include "proto/pprof/write.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

static const struct from_pprof_origin origin = {.scope = {(const uint8_t *)"test", 4}};

/* Four types, two samples of one stack, with labels. */
static int write_heap(struct buffer *out, uint32_t default_type)
{
    static const char *const names[] = {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"};
    const int64_t values[] = {1, 2, 3, 4};
    const uint32_t stack[] = {2, 1};
    struct pprof_writer w;
    pprof_write_begin(&w, NULL, out);
    struct pprof once = {.time_nanos = 1000, .duration_nanos = 5, .period = 7};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t name = pprof_write_string(&w, bytes_str(names[i]));
        pprof_write_type(&w, &(struct pprof_type){name, pprof_write_string(&w, BYTES_LIT("unit"))});
        once.default_type = i == default_type ? name : once.default_type;
    }
    pprof_write_profile(&w, &once);
    for (uint32_t i = 1; i <= 2; i++)
        pprof_write_location(&w, &(struct pprof_location){.id = i, .address = i}, NULL, 0);
    uint32_t key = pprof_write_string(&w, BYTES_LIT("key")),
             trace = pprof_write_string(&w, BYTES_LIT("trace_id")),
             span = pprof_write_string(&w, BYTES_LIT("span_id"));
    const struct pprof_label labels[] = {
        {.key = key, .number = 9},
        {.key = trace, .text = pprof_write_string(&w, BYTES_LIT("000102030405060708090a0b0c0d0e0f"))},
        {.key = key, .text = key},
        {.key = span, .text = pprof_write_string(&w, BYTES_LIT("f001020304050607"))},
    };
    pprof_write_sample(&w, &(struct pprof_sample){stack, 2, values, labels, 4}, 4);
    pprof_write_sample(&w, &(struct pprof_sample){stack, 2, values, labels, 1}, 4);
    return pprof_write_end(&w);
}

static void decode(struct profiles *view, const struct buffer *request)
{
    struct error e;
    ck_assert_int_eq(profiles_init(view, NULL), 0);
    int r =
        profiles_decode_as(view, buffer_bytes(request), PROFILES_LAYOUT_1_10, &profiles_limits_default, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_uint_eq(view->rejected.samples, 0);
}

static void convert(struct buffer *pprof, struct buffer *request)
{
    struct error e = {""};
    struct from_pprof *c = unit_made(from_pprof_new(NULL));
    int r = from_pprof(c, buffer_bytes(pprof), &origin, request, &e);
    ck_assert_msg(r == 0, "%d %s", r, e.text);
    from_pprof_free(c);
}

/* Which type is first: the default one, else the last; then the others in their order. */
UNIT(a_profile_a_type_the_default_first)
{
    static const struct {
        uint32_t default_type;
        const char *first, *second, *last;
    } cases[] = {{0, "alloc_objects", "alloc_space", "inuse_space"},
                 {2, "inuse_objects", "alloc_objects", "inuse_space"},
                 {9, "inuse_space", "alloc_objects", "inuse_objects"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup(buffer_release) struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0);
        cleanup(profiles_release) struct profiles v;
        ck_assert_int_eq(write_heap(&pprof, cases[i].default_type), 0);
        convert(&pprof, &request);
        decode(&v, &request);
        ck_assert_uint_eq(v.profile.n, 4);
        ck_assert_uint_eq(v.scope.n, 1);
        ck_assert(bytes_is(profiles_string(&v, v.profile.type[0]), cases[i].first));
        ck_assert(bytes_is(profiles_string(&v, v.profile.type[1]), cases[i].second));
        ck_assert(bytes_is(profiles_string(&v, v.profile.type[3]), cases[i].last));
        ck_assert(v.profile.time_unix_nano[3] == 1000 && v.profile.duration_nano[3] == 5 &&
                  v.profile.period[3] == 7);
    }
}

UNIT(labels_are_attributes_and_a_span_is_a_link)
{
    cleanup(buffer_release) struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0);
    cleanup(profiles_release) struct profiles v;
    ck_assert_int_eq(write_heap(&pprof, 9), 0);
    convert(&pprof, &request);
    decode(&v, &request);
    ck_assert_uint_eq(v.sample.n, 8);
    ck_assert_uint_eq(v.stack.n, 2);
    ck_assert(v.sample.link[0] == 1 && v.sample.link[1] == 0);
    ck_assert_uint_eq(v.body.p[v.link.trace_at[1] + 15], 0x0f);
    ck_assert_uint_eq(v.body.p[v.link.span_at[1]], 0xf0);
    const struct attr_value *both = &v.attribute.value[v.attr_index.attribute[v.sample.attrs_at[0]]];
    ck_assert_uint_eq(v.sample.attrs_at[1] - v.sample.attrs_at[0], 1);
    ck_assert_int_eq(both->kind, ATTR_ARRAY);
    const struct attr_value *one = &v.attribute.value[v.attr_index.attribute[v.sample.attrs_at[1]]];
    ck_assert(one->kind == ATTR_INT && one->integer == 9);
}

/* Go's writer cannot say it, others do: a text that is empty is no number. */
UNIT(an_empty_text_of_a_label_is_a_text)
{
    cleanup(buffer_release) struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0),
                                          back = BUFFER_INIT(0);
    struct to_pprof_lost lost;
    cleanup(profiles_release) struct profiles v;
    struct pprof_writer w;
    cleanup(pprof_release) struct pprof p;
    struct pprof_sample s;
    struct error e;
    const int64_t value = 1;
    pprof_write_begin(&w, NULL, &pprof);
    pprof_write_type(&w, &(struct pprof_type){pprof_write_string(&w, BYTES_LIT("samples")), 0});
    struct pprof_label label = {.key = pprof_write_string(&w, BYTES_LIT("key")),
                                .text = pprof_write_text(&w, BYTES_LIT(""))};
    ck_assert_uint_ne(label.text, 0);
    pprof_write_sample(&w, &(struct pprof_sample){NULL, 0, &value, &label, 1}, 1);
    ck_assert_int_eq(pprof_write_end(&w), 0);
    convert(&pprof, &request);
    decode(&v, &request);
    ck_assert_int_eq(v.attribute.value[1].kind, ATTR_STRING);
    ck_assert_int_eq(to_pprof(&v, NULL, &back, &lost), 0);
    pprof_init(&p, NULL);
    ck_assert_int_eq(pprof_read(&p, buffer_bytes(&back), &e), 0);
    struct pprof_samples at = pprof_samples(&p);
    ck_assert_int_eq(pprof_next(&p, &at, &s, &e), 0);
    ck_assert_uint_eq(s.n_labels, 1);
    ck_assert(s.labels[0].text != 0 && p.strings.p[s.labels[0].text].n == 0);
}

/* Readers bound messages that hold nothing; a profile may have any number of functions without a name. */
UNIT(functions_without_a_name_are_no_empty_messages)
{
    cleanup(buffer_release) struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0);
    cleanup(profiles_release) struct profiles v;
    struct pprof_writer w;
    const int64_t value = 1;
    const uint32_t stack[] = {70000};
    pprof_write_begin(&w, NULL, &pprof);
    pprof_write_type(&w, &(struct pprof_type){pprof_write_string(&w, BYTES_LIT("samples")), 0});
    for (uint32_t i = 1; i <= 70000; i++) {
        pprof_write_mapping(&w, &(struct pprof_mapping){.id = i});
        pprof_write_function(&w, &(struct pprof_function){.id = i});
        pprof_write_location(&w, &(struct pprof_location){.id = i}, NULL, 0);
    }
    pprof_write_sample(&w, &(struct pprof_sample){stack, 1, &value, NULL, 0}, 1);
    ck_assert_int_eq(pprof_write_end(&w), 0);
    convert(&pprof, &request);
    decode(&v, &request);
    ck_assert(v.mapping.n == 70001 && v.function.n == 70001 && v.location.n == 70001);
}

/* Each has its resource, and its samples lead to its own locations. */
UNIT(several_profiles_become_one_request)
{
    cleanup(buffer_release) struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0);
    struct from_pprof *c = unit_made(from_pprof_new(NULL));
    struct error e = {""};
    struct profiles v;
    ck_assert_int_eq(write_heap(&pprof, 9), 0);
    from_pprof_begin(c);
    for (int64_t i = 0; i < 2; i++) {
        const struct attr name = {BYTES_LIT("n"), {.kind = ATTR_INT, .integer = i}};
        struct from_pprof_origin whose = origin;
        whose.resource = &name;
        whose.n_resource = 1;
        whose.time_nanos = i * 2000000000ll * 1000000000ll;
        whose.duration_nanos = 8;
        ck_assert_int_eq(from_pprof_add(c, buffer_bytes(&pprof), &whose, 0, &e), 0);
    }
    ck_assert_int_eq(from_pprof_end(c, &request), 0);
    decode(&v, &request);
    ck_assert(v.resource.n == 2 && v.profile.n == 8 && v.sample.n == 16 && v.location.n == 5);
    ck_assert(v.key_value.attr[v.resource.attrs_at[1]].value.integer == 1);
    for (uint32_t i = 0; i < 16; i++) {
        const uint32_t at = v.stack.locations_at[v.sample.stack[i]];
        ck_assert_uint_eq(v.stack_location.location[at], i < 8 ? 2 : 4);
    }
    ck_assert(v.profile.time_unix_nano[0] == 1000 && v.profile.time_unix_nano[4] == 2000000000000000000ull);
    ck_assert(v.profile.duration_nano[0] == 5);
    profiles_release(&v);
    from_pprof_free(c);
}

/* A name that is no id is passed over, and so is a span without a trace. */
UNIT(labels_by_which_spans_are_named_can_be_chosen)
{
    static const char *const trace[] = {"key", "trace_id"}, *const span[] = {"none", "span_id"};
    static const struct {
        struct from_pprof_links links;
        uint32_t n_links;
    } cases[] = {{{trace, span, 2, 2}, 2},
                 {{trace, span, 1, 2}, 1},
                 {{trace, span, 2, 1}, 1},
                 {{trace, span, 0, 0}, 1}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup(buffer_release) struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0);
        struct from_pprof *c = unit_made(from_pprof_new(NULL));
        struct from_pprof_origin named = origin;
        struct error e;
        struct profiles v;
        named.links = &cases[i].links;
        ck_assert_int_eq(write_heap(&pprof, 9), 0);
        ck_assert_int_eq(from_pprof(c, buffer_bytes(&pprof), &named, &request, &e), 0);
        decode(&v, &request);
        ck_assert_uint_eq(v.link.n, cases[i].n_links);
        profiles_release(&v);
        from_pprof_free(c);
    }
}

UNIT(what_would_be_longer_than_allowed_is_refused)
{
    struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(200);
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    struct error e = {""};
    struct from_pprof *c = unit_made(from_pprof_new(&budget));
    ck_assert_int_eq(write_heap(&pprof, 0), 0);
    ck_assert_int_eq(from_pprof(c, buffer_bytes(&pprof), &origin, &request, &e), FROM_PPROF_TOO_LARGE);
    ck_assert_uint_eq(request.n, 0);
    request.max = 0;
    ck_assert_int_eq(from_pprof(c, buffer_bytes(&pprof), &origin, &request, &e), 0);
    room_release(&request, &budget);
    from_pprof_free(c);
    ck_assert_uint_eq(budget.used, 0);
    buffer_release(&pprof);
}

struct pieces {
    struct buffer all;
    uint32_t n, fails_at; /* 0: never */
};

static int put_piece(void *user, struct bytes piece)
{
    struct pieces *p = user;
    return ++p->n == p->fails_at ? -EPIPE : buffer_add_bytes(&p->all, piece);
}

/* Two types and so many functions that the dictionary is several pieces. */
static int write_large(struct buffer *out)
{
    char name[100];
    const int64_t values[] = {1, 2};
    struct pprof_writer w;
    pprof_write_begin(&w, NULL, out);
    for (uint32_t i = 0; i < 2; i++)
        pprof_write_type(&w, &(struct pprof_type){pprof_write_string(&w, BYTES_LIT("type")), 0});
    pprof_write_profile(&w, &(struct pprof){.period = 7});
    for (uint32_t i = 1; i <= 3000; i++) {
        snprintf(name, sizeof name, "%080u", i);
        pprof_write_function(&w, &(struct pprof_function){.id = i,
                                                          .name = pprof_write_string(&w, bytes_str(name))});
        const struct pprof_line line = {.function = i};
        pprof_write_location(&w, &(struct pprof_location){.id = i, .address = i, .n_lines = 1}, &line, 1);
        const uint32_t stack[] = {i, 1};
        pprof_write_sample(&w, &(struct pprof_sample){stack, 2, values, NULL, 0}, 2);
    }
    return pprof_write_end(&w);
}

UNIT(pieces_are_the_same_request_and_who_takes_them_may_end_it)
{
    struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0);
    struct pieces pieces = {.n = 0};
    struct error e = {""};
    struct from_pprof *c = unit_made(from_pprof_new(NULL));
    ck_assert_int_eq(write_large(&pprof), 0);
    convert(&pprof, &request);
    int r = from_pprof_pieces(c, buffer_bytes(&pprof), NULL, &origin, 1u << 30, put_piece, &pieces, &e);
    ck_assert_msg(r == 0, "%d %s", r, e.text);
    ck_assert_uint_gt(pieces.n, 4);
    ck_assert(bytes_eq(buffer_bytes(&pieces.all), buffer_bytes(&request)));
    const uint32_t n = pieces.n;
    for (uint32_t at = 1; at <= n; at += n - 1) {
        pieces.n = 0;
        pieces.fails_at = at;
        r = from_pprof_pieces(c, buffer_bytes(&pprof), NULL, &origin, 1u << 30, put_piece, &pieces, &e);
        ck_assert(r == -EPIPE && pieces.n == at);
    }
    pieces.n = 0;
    ck_assert_int_eq(from_pprof_pieces(c, buffer_bytes(&pprof), NULL, &origin, 1000, put_piece, &pieces, &e),
                     FROM_PPROF_TOO_LARGE);
    ck_assert_int_eq(from_pprof_pieces(c, BYTES_LIT("\x0a"), NULL, &origin, 1000, put_piece, &pieces, &e),
                     PPROF_MALFORMED);
    ck_assert_uint_eq(pieces.n, 0);
    from_pprof_free(c);
    buffer_release(&pprof);
    buffer_release(&request);
    buffer_release(&pieces.all);
}

UNIT(packed_pieces_are_the_same_pprof_and_who_takes_them_may_end_it)
{
    struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0);
    struct pieces pieces = {.n = 0};
    struct arena scratch = ARENA_INIT(NULL);
    struct to_pprof_lost lost;
    struct profiles v;
    struct coding_decoder *d = unit_made(coding_decoder_new());
    ck_assert_int_eq(write_large(&pprof), 0);
    convert(&pprof, &request);
    decode(&v, &request);
    ck_assert_int_eq(to_pprof_pieces(&v, NULL, put_piece, &pieces, &lost), 0);
    const uint32_t last = pieces.n;
    ck_assert_uint_gt(last, 1);
    static const enum convert_format formats[] = {CONVERT_PPROF, CONVERT_PPROF_EXACT};
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        const enum convert_format to = formats[i];
        cleanup(buffer_release) struct buffer all = BUFFER_INIT(0), plain = BUFFER_INIT(0);
        ck_assert_int_eq(convert_write(&v, buffer_bytes(&request), to, &scratch, NULL, &all, &lost), 0);
        if (to == CONVERT_PPROF)
            ck_assert(bytes_eq(buffer_bytes(&all), buffer_bytes(&pieces.all)));
        pieces.all.n = 0;
        ck_assert_int_eq(convert_pack(&v, buffer_bytes(&request), to, &scratch, NULL, all.n, put_piece,
                                      &pieces, &lost),
                         0);
        ck_assert_int_eq(coding_decode(d, CODING_GZIP, buffer_bytes(&pieces.all), all.n, 0, NULL, &plain), 0);
        ck_assert(bytes_eq(buffer_bytes(&all), buffer_bytes(&plain)));
        ck_assert_int_eq(convert_pack(&v, buffer_bytes(&request), to, &scratch, NULL, all.n - 1, put_piece,
                                      &pieces, &lost),
                         -ENOBUFS);
    }
    for (uint32_t at = 1; at <= last; at += last - 1) {
        pieces.n = 0;
        pieces.fails_at = at;
        ck_assert_int_eq(to_pprof_pieces(&v, NULL, put_piece, &pieces, &lost), -EPIPE);
        ck_assert_uint_eq(pieces.n, at);
    }
    coding_decoder_free(d);
    arena_release(&scratch);
    profiles_release(&v);
    buffer_release(&pprof);
    buffer_release(&request);
    buffer_release(&pieces.all);
}

OOM_SWEEP(no_memory_for_pieces)
{
    struct budget budget = BUDGET_INIT(1u << 30, NULL);
    struct buffer pprof = BUFFER_INIT(0);
    struct pieces pieces = {.n = 0};
    struct error e = {""};
    struct from_pprof *c = from_pprof_new(&budget);
    int r = c ? write_heap(&pprof, 1) : -ENOMEM;
    r = r < 0 ? r
              : from_pprof_pieces(c, buffer_bytes(&pprof), NULL, &origin, 1u << 20, put_piece, &pieces, &e);
    ck_assert(r == 0 || r == -ENOMEM);
    from_pprof_free(c);
    ck_assert_uint_eq(budget.used, 0);
    buffer_release(&pprof);
    buffer_release(&pieces.all);
}

OOM_SWEEP(there_and_back_or_memory_is_out)
{
    struct buffer pprof = BUFFER_INIT(0), request = BUFFER_INIT(0), back = BUFFER_INIT(0);
    struct to_pprof_lost lost;
    struct error e = {""};
    struct profiles v = {0};
    struct from_pprof *c = from_pprof_new(NULL);
    struct pieces pieces = {.n = 0};
    int r = c ? write_heap(&pprof, 1) : -ENOMEM;
    r = r < 0 ? r : from_pprof(c, buffer_bytes(&pprof), &origin, &request, &e);
    r = r < 0 ? r : profiles_init(&v, NULL);
    if (r == 0)
        r = profiles_decode_as(&v, buffer_bytes(&request), PROFILES_LAYOUT_1_10, &profiles_limits_default,
                               &e);
    if (r == 0)
        r = to_pprof(&v, NULL, &back, &lost);
    ck_assert_msg(r == 0 || r == -ENOMEM || r == PROFILES_OVER_BUDGET, "%d %s", r, e.text);
    ck_assert(r == 0 || back.n == 0);
    if (r == 0)
        ck_assert(back.n == pprof.n && lost.moments == 0 && lost.attributes == 0);
    if (r == 0)
        r = convert_pack(&v, buffer_bytes(&request), CONVERT_PPROF, NULL, NULL, back.n, put_piece, &pieces,
                         &lost);
    ck_assert(r == 0 || r == -ENOMEM || r == PROFILES_OVER_BUDGET);
    if (v.memory)
        profiles_release(&v);
    from_pprof_free(c);
    buffer_release(&pprof);
    buffer_release(&request);
    buffer_release(&back);
    buffer_release(&pieces.all);
}

/* A pprof of two locations and one sample with these fields and a value. */
static int convert_sample(struct bytes fields, struct buffer *request, struct error *e)
{
    static const uint8_t rest[] =
        "\x0a\x04\x08\x01\x10\x01\x22\x04\x08\x01\x18\x10\x22\x04\x08\x02\x18\x20\x32\x00\x32\x01x";
    cleanup(buffer_release) struct buffer pprof = BUFFER_INIT(0);
    ck_assert_int_eq(buffer_add(&pprof, rest, sizeof rest - 1), 0);
    ck_assert_int_eq(buffer_add(&pprof, (uint8_t[]){0x12, (uint8_t)(fields.n + 3)}, 2), 0);
    ck_assert_int_eq(buffer_add_bytes(&pprof, fields), 0);
    ck_assert_int_eq(buffer_add(&pprof, "\x12\x01\x07", 3), 0);
    struct from_pprof *c = from_pprof_new(NULL);
    int r = from_pprof(c, buffer_bytes(&pprof), &origin, request, e);
    from_pprof_free(c);
    return r;
}

/* Stacks go over as they stand where they can, and are looked at all the same. */
UNIT(a_stack_is_the_same_however_its_list_is_written)
{
    static const struct {
        struct bytes fields;
        const char *wrong;
    } cases[] = {
        {BYTES_LIT("\x0a\x02\x02\x01"), NULL},
        {BYTES_LIT("\x08\x02\x08\x01"), NULL},
        {BYTES_LIT("\x0a\x01\x02\x0a\x01\x01"), NULL},
        {BYTES_LIT("\x08\x02\x0a\x01\x01"), NULL},
        {BYTES_LIT("\x0a\x01\x02\x08\x01"), NULL},
        {BYTES_LIT("\x0a\x00\x0a\x02\x02\x01"), NULL},
        {BYTES_LIT("\x0a\x03\x82\x00\x01"), NULL},
        {BYTES_LIT("\x0a\x0b\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00\x01"), NULL},
        {BYTES_LIT("\x8a\x00\x02\x02\x01"), NULL},
        {BYTES_LIT("\x0a\x02\x02\x03"), "sample[0].location_id: there is no 3"},
        {BYTES_LIT("\x0a\x02\x00\x01"), "sample[0].location_id: there is no 0"},
        {BYTES_LIT("\x0a\x01\x03\x0a\x01\x01"), "sample[0].location_id: there is no 3"},
        {BYTES_LIT("\x0a\x02\x02\x81"), "sample[0].location_id: no varint"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup(buffer_release) struct buffer request = BUFFER_INIT(0);
        cleanup(profiles_release) struct profiles view;
        struct error e = {""};
        int r = convert_sample(cases[i].fields, &request, &e);
        if (cases[i].wrong) {
            ck_assert_int_eq(r, PPROF_MALFORMED);
            ck_assert_msg(strstr(e.text, cases[i].wrong), "%zu: %s", i, e.text);
            continue;
        }
        ck_assert_msg(r == 0, "%zu: %s", i, e.text);
        decode(&view, &request);
        const uint32_t *at = view.stack_location.location + view.stack.locations_at[view.sample.stack[0]];
        ck_assert_uint_eq(view.sample.n, 1);
        ck_assert_uint_eq(view.stack.locations_at[view.sample.stack[0] + 1] -
                              view.stack.locations_at[view.sample.stack[0]],
                          2);
        ck_assert_uint_eq(at[0], 2);
        ck_assert_uint_eq(at[1], 1);
    }
}
