/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message of series, each with its labels and pprofs: all of them become one request, so that either all
 * are counted or none. JSON is written as the protobuf that it means, and read as that.
 */
#include "gateway/serve/pyroscope/push.h"

#include "gateway/serve/otlp/words.h"
#include "gateway/serve/pprof/taking.h"
#include "gateway/serve/pyroscope/labels.h"
#include "gateway/serve/pyroscope/pyroscope.h"
#include "gateway/serve/pyroscope/size.h"
#include "proto/base/room.h"
#include "proto/grpc/status.h"
#include "proto/otlp/json/mapping.h"
#include "proto/wire/reader.h"

#define LIST(number, name, of)                                             \
    {                                                                      \
        number, name, FIELD_MESSAGE, .is_repeated = true, .message = &(of) \
    }

MAPPING_TABLE(label_json, {LABEL_NAME, "name", FIELD_STRING}, {LABEL_VALUE, "value", FIELD_STRING});
MAPPING_TABLE(label_set_json, LIST(SERIES_LABELS, "labels", label_json));
MAPPING_TABLE(sample_json, {SAMPLE_RAW_PROFILE, "raw_profile", FIELD_BYTES});
MAPPING_TABLE(series_json, LIST(SERIES_LABELS, "labels", label_json),
              LIST(SERIES_SAMPLES, "samples", sample_json));
MAPPING_TABLE(series_with_set_json, {SERIES_LABELS, "labels", FIELD_MESSAGE, .message = &label_set_json},
              LIST(SERIES_SAMPLES, "samples", sample_json));
MAPPING_TABLE(push_json, LIST(REQUEST_SERIES, "series", series_json));
MAPPING_TABLE(write_raw_json, LIST(WRITE_RAW_SERIES, "series", series_with_set_json));

/* The two messages, which are alike but for this. */
struct push_form {
    uint32_t series; /* the field */
    bool has_set;    /* the labels of a series are a message that has them */
    const struct mapping_message *json;
};

static const struct push_form push = {REQUEST_SERIES, false, &push_json};
static const struct push_form write_raw = {WRITE_RAW_SERIES, true, &write_raw_json};

/* ---- protobuf ---- */

static enum refusal malformed(struct error *why, const char *place)
{
    error_set(why, 0, "%s: not as its .proto has it", place);
    return REFUSAL_MALFORMED;
}

/* The next field of that number, a message or bytes; passes over others. 0, WIRE_END, WIRE_MALFORMED. */
static int next_of(struct wire_reader *r, uint32_t number, struct bytes *ret)
{
    struct wire_field f;
    int result;
    while ((result = wire_next(r, &f)) == 0) {
        if (f.number != number)
            continue;
        *ret = f.bytes;
        return f.type == WIRE_LEN ? 0 : WIRE_MALFORMED;
    }
    return result;
}

int push_field(struct bytes message, uint32_t number, struct bytes *ret)
{
    struct wire_reader r = wire_reader(message);
    struct bytes found;
    int result;
    *ret = bytes_of(message.p, 0);
    while ((result = next_of(&r, number, &found)) == 0)
        *ret = found;
    return result == WIRE_END ? 0 : result;
}

static enum refusal take_labels(struct origin *o, const struct push_form *form, struct bytes series,
                                struct error *why)
{
    struct bytes label, name, value, labels = series;
    if (form->has_set && push_field(series, SERIES_LABELS, &labels) != 0)
        return malformed(why, "series.labels");
    struct wire_reader r = wire_reader(labels);
    int result;
    while ((result = next_of(&r, SERIES_LABELS, &label)) == 0) {
        if (push_field(label, LABEL_NAME, &name) != 0 || push_field(label, LABEL_VALUE, &value) != 0)
            return malformed(why, "series.labels");
        enum refusal refusal = label_add(o, name, value, why);
        if (refusal != REFUSAL_NONE)
            return refusal;
    }
    return result == WIRE_END ? REFUSAL_NONE : malformed(why, "series");
}

static enum refusal take_samples(struct pprof_taking *t, const struct origin *o, struct bytes series,
                                 struct error *why)
{
    struct wire_reader r = wire_reader(series);
    struct bytes sample, profile;
    int result;
    while ((result = next_of(&r, SERIES_SAMPLES, &sample)) == 0) {
        if (push_field(sample, SAMPLE_RAW_PROFILE, &profile) != 0)
            return malformed(why, "series.samples");
        enum refusal refusal = pprof_take(t, profile, &o->from, why);
        if (refusal != REFUSAL_NONE)
            return refusal;
    }
    return result == WIRE_END ? REFUSAL_NONE : malformed(why, "series");
}

static enum refusal take_all(struct pprof_taking *t, const struct push_form *form,
                             const struct from_pprof_links *links, struct bytes request,
                             struct budget *budget, struct error *why)
{
    struct wire_reader r = wire_reader(request);
    struct bytes series;
    int result;
    while ((result = next_of(&r, form->series, &series)) == 0) {
        struct origin origin;
        origin_init(&origin, links, budget);
        enum refusal refusal = take_labels(&origin, form, series, why);
        if (refusal == REFUSAL_NONE)
            refusal = take_samples(t, &origin, series, why);
        origin_release(&origin);
        if (refusal != REFUSAL_NONE)
            return refusal;
    }
    return result == WIRE_END ? REFUSAL_NONE : malformed(why, "series");
}

static enum refusal decode(const struct push_form *form, const struct intake_head *head, struct bytes body,
                           struct buffer *out, struct budget *budget, struct profiles_written *ret,
                           struct error *why)
{
    cleanup(pprof_taking_release) struct pprof_taking taking;
    *ret = (struct profiles_written){PROFILES_LAYOUT_1_10, 0};
    enum refusal refusal = pprof_taking_init(&taking, out->max, budget);
    if (refusal == REFUSAL_NONE)
        refusal = take_all(&taking, form, head->links, body, budget, why);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_taking_end(&taking, out);
    return refusal;
}

static enum refusal decode_proto(const struct intake_head *head, struct bytes body, struct buffer *out,
                                 struct budget *budget, struct profiles_written *ret, struct error *why)
{
    return decode(&push, head, body, out, budget, ret, why);
}

static enum refusal decode_parca(const struct intake_head *head, struct bytes body, struct buffer *out,
                                 struct budget *budget, struct profiles_written *ret, struct error *why)
{
    return decode(&write_raw, head, body, out, budget, ret, why);
}

/* ---- JSON ---- */

/* No message is longer than twice its JSON and what the writer wants to have free: "{}," is two bytes. */
#define SPARE 64u

static enum refusal decode_form_json(const struct push_form *form, const struct intake_head *head,
                                     struct bytes body, struct buffer *out, struct budget *budget,
                                     struct profiles_written *ret, struct error *why)
{
    struct buffer message = BUFFER_INIT(0);
    enum refusal refusal = REFUSAL_BUSY;
    if (body.n > SIZE_MAX / 4 || room_make(&message, 2 * body.n + SPARE, budget) != 0)
        return REFUSAL_BUSY;
    message.max = message.cap;
    int r = mapping_read(form->json, body, &message, why);
    if (r == MAPPING_MALFORMED)
        refusal = REFUSAL_MALFORMED;
    else if (r == 0)
        refusal = decode(form, head, buffer_bytes(&message), out, budget, ret, why);
    room_release(&message, budget);
    return refusal;
}

static enum refusal decode_json(const struct intake_head *head, struct bytes body, struct buffer *out,
                                struct budget *budget, struct profiles_written *ret, struct error *why)
{
    return decode_form_json(&push, head, body, out, budget, ret, why);
}

static enum refusal decode_parca_json(const struct intake_head *head, struct bytes body, struct buffer *out,
                                      struct budget *budget, struct profiles_written *ret, struct error *why)
{
    return decode_form_json(&write_raw, head, body, out, budget, ret, why);
}

/* What is base64 does not show that it is gzip. */
static size_t size_of_json(struct bytes body)
{
    return body.n < SIZE_MAX / 1032 ? body.n * 1032 : body.n;
}

/* ---- words: PushResponse and WriteRawResponse have no fields ---- */

static int accepted_proto(struct buffer *out, uint64_t rejected, struct bytes message)
{
    return 0;
}

static int accepted_json(struct buffer *out, uint64_t rejected, struct bytes message)
{
    return buffer_add_str(out, "{}");
}

static int refused(struct buffer *out, const struct grpc_status *why)
{
    return grpc_connect_error(out, why->code, why->message);
}

static const struct intake_words words_grpc = {.media_type = BYTES_LIT("application/grpc"),
                                               .accepted = accepted_proto};
static const struct intake_words words_proto = {.media_type = BYTES_LIT("application/proto"),
                                                .refusal_type = BYTES_LIT("application/json"),
                                                .accepted = accepted_proto,
                                                .refused = refused};
static const struct intake_words words_json = {
    .media_type = BYTES_LIT("application/json"), .accepted = accepted_json, .refused = refused};

#define PATH BYTES_LIT("/push.v1.PusherService/Push")

const struct intake pyroscope_push_grpc = {
    .protocol = INTAKE_GRPC,
    .method = BYTES_LIT("POST"),
    .path = PATH,
    .media = (const char *const[]){"application/grpc", "application/grpc+proto", NULL},
    .decode = decode_proto,
    .size = pyroscope_size,
    .words = &words_grpc,
};

const struct intake parca_write_raw = {
    .protocol = INTAKE_GRPC,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT("/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"),
    .media = (const char *const[]){"application/grpc", "application/grpc+proto", NULL},
    .decode = decode_parca,
    .size = pyroscope_size,
    .words = &words_grpc,
};

const struct intake parca_write_raw_json = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT("/api/profiles/writeraw"),
    .media = (const char *const[]){INTAKE_ANY_MEDIA, NULL}, /* grpc-gateway looks at none */
    .decode = decode_parca_json,
    .size = size_of_json,
    .words = &otlp_words_json, /* grpc-gateway's are a Status, too */
};

const struct intake pyroscope_push_proto = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = PATH,
    .media = (const char *const[]){"application/proto", NULL},
    .decode = decode_proto,
    .size = pyroscope_size,
    .words = &words_proto,
};

const struct intake pyroscope_push_json = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = PATH,
    .media = (const char *const[]){"application/json", NULL},
    .decode = decode_json,
    .size = size_of_json,
    .words = &words_json,
};
