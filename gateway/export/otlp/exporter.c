/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/otlp/exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/otlp/backend.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/client/endpoint.h"
#include "proto/otlp/layouts/layout_1_9.h"

#define AT(field)   offsetof(struct otlp_settings, field)
#define SENT(field) AT(sending.field)

static const struct settings_word protocols[] = {{"grpc", OTLP_GRPC}, {"http", OTLP_HTTP}, {NULL}},
                                  encodings[] = {{"proto", OTLP_PROTO}, {"json", OTLP_JSON}, {NULL}},
                                  compressions[] = {{"as_received", CLIENT_COMPRESS_AS_RECEIVED},
                                                    {"gzip", CLIENT_COMPRESS_GZIP},
                                                    {"zstd", CLIENT_COMPRESS_ZSTD},
                                                    {"none", CLIENT_COMPRESS_NONE},
                                                    {NULL}},
                                  wire_versions[] = {{"1.9", OTLP_LAYOUT_1_9},
                                                     {"1.10", OTLP_LAYOUT_1_10},
                                                     {NULL}},
                                  balancings[] = {{"round_robin", OTLP_ROUND_ROBIN},
                                                  {"failover", OTLP_FAILOVER},
                                                  {NULL}},
                                  temporalities[] = EXPORT_TEMPORALITIES;

const struct settings_word otlp_backends[] = {{"any", OTLP_ANY},
                                              {"collector", OTLP_COLLECTOR},
                                              {"parca", OTLP_PARCA},
                                              {"pyroscope", OTLP_PYROSCOPE},
                                              {NULL}};

/* clang-format off */
static const struct settings_row rows[] = {
    {"endpoint", SETTINGS_TEXT, SENT(endpoint), "", 0, 0, NULL,
     "http://host:port or https://host:port (for protocol http, a path may follow), or host:port"},
    {"endpoints", SETTINGS_STRINGS, AT(endpoints), "", 0, 0, NULL,
     "several in place of one, which take the same: each request goes to one of them; up to 16"},
    {"weights", SETTINGS_STRINGS, AT(weights), "", 0, 0, NULL, "of the endpoints' turns, as many numbers from 1 to 1000; default is 1 each"},
    {"balancing", SETTINGS_CHOICE, AT(balancing), "round_robin", 0, 0, balancings,
     "round_robin: endpoints take turns; failover: the first that is well. One that failed is left alone for 1s to 30s"},
    {"protocol", SETTINGS_CHOICE, AT(protocol), "grpc", 0, 0, protocols, "OTLP/gRPC or OTLP/HTTP"},
    {"encoding", SETTINGS_CHOICE, AT(encoding), "proto", 0, 0, encodings, "of metrics by protocol http"},
    {"compression", SETTINGS_CHOICE, AT(compression), "as_received", 0, 0, compressions,
     "of request bodies; as_received: a request that came in gzip or zstd, or plain, leaves in that coding (what is forwarded whole, "
     "as the very bytes that came: nothing is compressed), all else in gzip"},
    {"compression_params.level", SETTINGS_COUNT, AT(compression_level), "0", 0, 19, NULL,
     "of what is compressed here: gzip 1 to 12, zstd 1 to 19; 0 is 6 and 3. Of 128 KB of profiles gzip 6 takes 2.3 ms, gzip 1 0.9, zstd 3 0.7 and zstd 1 0.5"},
    {"temporality", SETTINGS_CHOICE, AT(temporality), "default", 0, 0, temporalities,
     "of counters sent here; default is metrics.temporality"},
    {"resource_attributes", SETTINGS_STRINGS, AT(resource_attributes), "", 0, 0, NULL,
     "resource attributes that leave here (k8s.* is a prefix); default is all but metrics.drop_attributes"},
    {"own_metrics", SETTINGS_BOOL, AT(own_metrics), "false", 0, 0, NULL,
     "the gateway's own numbers leave here with each flush, too: those of /metrics but for rates and ages, of the resource service.name=profgate"},
    SENDING_ROWS(SENT),
    {"sending_queue.num_consumers", SETTINGS_COUNT, AT(queue_consumers), "4", 1, 64, NULL,
     "requests under way at once"},
    {"max_request_bytes", SETTINGS_SIZE, SENT(request_bytes), "4MiB", 1024, 1024 * SENDING_MIB, NULL,
     "metrics and raw profiles are split into requests below this (gRPC receivers stop at 4 MiB unless told otherwise)"},
    {"wire_version", SETTINGS_CHOICE, AT(wire_version), "1.10", 0, 0, wire_versions,
     "the layout of raw profiles sent here: 1.9 for those that read no newer one"},
    {"references", SETTINGS_BOOL, AT(references), "true", 0, 0, NULL,
     "attributes of raw profiles may refer to the string table (key_strindex) where they came so; false writes them out, for who reads none"},
    {"backend", SETTINGS_CHOICE, AT(backend), "any", 0, 0, otlp_backends,
     "what takes the raw profiles, which are written as that reads them: collector without references; parca and pyroscope anew, with all that "
     "these refuse or misread put right (gateway/export/otlp/README.md)"},
    {"text_attributes", SETTINGS_STRINGS, AT(text_attributes), "", 0, 0, NULL,
     "attributes of raw profiles whose numbers are sent as text, for backends that make labels of text alone (process.pid, thread.id)"},
};
/* clang-format on */

struct otlp {
    struct sending sending;
    struct pieces *pieces; /* of profiles that are written anew; or NULL */
    const char **texts;    /* theirs */
    bool json, layout_1_9;
};

static int check_endpoints(const struct otlp_settings *s, struct error *e)
{
    uint64_t weight;
    if (s->endpoints.n > 0 && s->sending.endpoint)
        return error_set(e, -EINVAL, "endpoint and endpoints are either the one or the other");
    if (s->endpoints.n > CLIENT_ENDPOINTS_MAX)
        return error_set(e, -EINVAL, "more than %u endpoints", CLIENT_ENDPOINTS_MAX);
    if (s->weights.n > 0 && s->weights.n != s->endpoints.n)
        return error_set(e, -EINVAL, "weights: %u for %u endpoints", s->weights.n, s->endpoints.n);
    for (uint32_t i = 0; i < s->weights.n; i++)
        if (quantity_u64(bytes_str(s->weights.items[i]), &weight) < 0 || weight < 1 || weight > 1000)
            return error_set(e, -EINVAL, "weights: \"%s\" is not a number from 1 to 1000",
                             s->weights.items[i]);
    for (uint32_t i = 0; i < s->endpoints.n; i++) {
        cleanup(endpoint_release) struct endpoint parsed = {0};
        int r = endpoint_parse(&parsed, s->endpoints.items[i], 1, e);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check(const char *name, const void *settings, struct error *e)
{
    const struct otlp_settings *s = settings;
    int r = backend_check(s, e);
    if (r < 0)
        return error_prefix(e, r, "exporters.%s: ", name);
    r = check_endpoints(s, e);
    if (r < 0)
        return error_prefix(e, r, "exporters.%s: ", name);
    struct sending_settings first = s->sending;
    if (s->endpoints.n > 0)
        first.endpoint = s->endpoints.items[0];
    return sending_check(name, &first, e);
}

static void stream(const void *settings, struct export_stream *ret)
{
    const struct otlp_settings *s = settings;
    ret->temporality = s->temporality;
    ret->attributes = s->resource_attributes;
    ret->own = s->own_metrics;
}

/* ---- metrics ---- */

static void push_metrics(struct exporter *x, const struct metric_batch *batch)
{
    struct otlp *o = container_of(x, struct otlp, sending.base);
    sending_push_metrics(&o->sending, batch, o->json);
    sending_window_ends(&o->sending);
}

/* ---- profiles: any thread ---- */

/* The codings in which what came leaves as it came: those that it would be put into again. */
static uint32_t codings(const struct client *x)
{
    uint32_t set = 0;
    for (enum coding c = CODING_IDENTITY + 1; c < CODING_UNKNOWN; c++)
        if (client_coding(x, c) == c)
            set |= 1u << c;
    return set;
}

/* The body in layout 1.9, a copy: others share it as it is. NULL: memory is out (or, which the terms exclude,
 * it is no such message). */
static struct client_body *in_1_9(const struct client_body *body)
{
    uint8_t *p = malloc(body->n ? body->n : 1);
    if (!p)
        return NULL;
    memcpy(p, body->p, body->n);
    if (profiles_to_1_9(p, body->n) < 0) {
        free(p);
        return NULL;
    }
    return client_body_received(p, body->n, CODING_IDENTITY, body->n, body->received);
}

/* One request that is written anew, piece by piece. */
struct rewriting {
    struct otlp *to;
    enum coding received;
    size_t reserved; /* for the request */
    uint64_t left;   /* samples */
    bool has_room;   /* that was not used yet */
    struct promise *safe;
};

/* Room for a piece: the first has what was reserved for the request, and more where that is not enough. */
static bool take_room(struct rewriting *w, size_t n, size_t *reserved)
{
    struct exporter *x = &w->to->sending.base;
    const size_t have = w->has_room ? w->reserved : 0;
    if (!w->has_room || n > have) {
        if (!sending_reserve(x, n > have ? n - have : 0))
            return false;
        if (w->has_room)
            sending_cancel(x, 0); /* a request of the two */
    }
    w->has_room = false;
    *reserved = max_of(have, n);
    return true;
}

static void push_piece(void *user, uint8_t *p, size_t n, uint64_t samples)
{
    struct rewriting *w = user;
    size_t reserved;
    if ((w->to->layout_1_9 && profiles_to_1_9(p, n) < 0) || !take_room(w, n, &reserved)) {
        free(p);
        return;
    }
    struct client_body *body = client_body_received(p, n, CODING_IDENTITY, n, w->received);
    if (body) {
        sending_push(&w->to->sending, body, reserved, samples, w->safe);
        w->left -= min_of(w->left, samples);
    } else {
        sending_cancel(&w->to->sending.base, reserved);
    }
    client_body_unref(body);
}

static void push_anew(struct otlp *o, const struct client_body *body, size_t reserved, uint64_t n_samples,
                      struct promise *safe)
{
    struct rewriting w = {o, body->received, reserved, n_samples, true, safe};
    pieces_write(o->pieces, body, push_piece, &w);
    if (w.has_room)
        sending_cancel(&o->sending.base, reserved);
    if (w.left > 0)
        sending_lost(&o->sending, w.left);
}

static void push_profiles(struct exporter *x, struct client_body *body, size_t reserved, uint64_t n_samples,
                          struct promise *safe)
{
    struct otlp *o = container_of(x, struct otlp, sending.base);
    if (body && o->pieces) {
        push_anew(o, body, reserved, n_samples, safe);
        return;
    }
    struct client_body *mine = !body ? NULL : o->layout_1_9 ? in_1_9(body) : client_body_ref(body);
    if (mine) {
        sending_push(&o->sending, mine, reserved, n_samples, safe);
    } else {
        sending_lost(&o->sending, n_samples);
        sending_cancel(x, reserved);
    }
    client_body_unref(mine);
}

/* ---- life ---- */

static uint32_t weight_of(const struct otlp_settings *s, uint32_t i)
{
    uint64_t weight = 1;
    if (i < s->weights.n)
        (void)quantity_u64(bytes_str(s->weights.items[i]), &weight); /* which was checked */
    return (uint32_t)weight;
}

/* 0 or -ENOMEM. */
static int add_endpoints(const struct otlp_settings *s, struct arena *arena, struct client_options *ret)
{
    struct client_endpoint *others = arena_calloc(arena, s->endpoints.n, sizeof *others);
    if (!others)
        return -ENOMEM;
    for (uint32_t i = 1; i < s->endpoints.n; i++) {
        const char *endpoint = sending_endpoint(&s->sending, s->endpoints.items[i], arena);
        if (!endpoint)
            return -ENOMEM;
        others[i - 1] = (struct client_endpoint){endpoint, weight_of(s, i)};
    }
    ret->weight = weight_of(s, 0);
    ret->others = others;
    ret->n_others = s->endpoints.n - 1;
    ret->failover = s->balancing == OTLP_FAILOVER;
    return 0;
}

static int open_otlp(struct exporter *x, const void *settings, const struct export_context *c,
                     struct error *e)
{
    struct otlp *o = container_of(x, struct otlp, sending.base);
    const struct otlp_settings *s = settings;
    cleanup(arena_release) struct arena arena = {0};
    struct client_options options;
    struct sending_settings first = s->sending;
    if (s->endpoints.n > 0)
        first.endpoint = s->endpoints.items[0];
    int r = sending_options(&first, c, &arena, &options, e);
    if (r < 0)
        return r;
    if (s->endpoints.n > 1 && (r = add_endpoints(s, &arena, &options)) < 0)
        return error_set(e, r, "out of memory");
    options.protocol = s->protocol;
    options.compression = s->compression;
    options.compression_level = (int)s->compression_level;
    const bool profiles = c->signal == CONFIG_TAKES_PROFILES;
    if (profiles)
        options.max_request_bytes = backend_request_max(s);
    if (s->backend == OTLP_PARCA || s->backend == OTLP_PYROSCOPE) {
        options.retry_exhausted = true; /* it says that of its limits of rate */
        if (s->compression == CLIENT_COMPRESS_AS_RECEIVED)
            options.compression = CLIENT_COMPRESS_GZIP;
    }
    if (profiles && backend_rewrites(s) && !(o->pieces = backend_pieces(s, c->budget, &o->texts)))
        return error_set(e, -ENOMEM, "out of memory");
    options.queue.num_consumers = s->queue_consumers;
    o->json = c->signal == CONFIG_TAKES_METRICS && s->encoding == OTLP_JSON;
    o->layout_1_9 = s->wire_version == OTLP_LAYOUT_1_9;
    if (o->json)
        options.dialect.content_type = "application/json";
    if (o->json && options.protocol != OTLP_HTTP)
        return error_set(e, -EINVAL, "encoding json needs protocol http: gRPC carries protobuf");
    r = sending_open(&o->sending, c, &options, &s->sending, e);
    const bool is_anew = o->layout_1_9 || o->pieces != NULL;
    o->sending.base.terms.no_references =
        !o->pieces && (o->layout_1_9 || !s->references || s->backend == OTLP_COLLECTOR);
    if (r == 0 && !is_anew)
        o->sending.base.codings = codings(o->sending.client);
    return r;
}

static void release_otlp(struct exporter *x)
{
    struct otlp *o = container_of(x, struct otlp, sending.base);
    sending_release(&o->sending);
    pieces_free(o->pieces);
    free(o->texts);
}

const struct exporter_kind exporter_otlp = {
    .config =
        {
            .type = "otlp",
            .section = {"exporters.otlp/NAME", "an OTLP destination for metrics, raw profiles or both", rows,
                        ARRAY_LEN(rows)},
            .size = sizeof(struct otlp_settings),
            .takes = CONFIG_TAKES_METRICS | CONFIG_TAKES_PROFILES,
            .check = check,
        },
    .size = sizeof(struct otlp),
    .stream = stream,
    .open = open_otlp,
    .push_metrics = push_metrics,
    .push_profiles = push_profiles,
    SENDING_FUNCTIONS,
    .release = release_otlp,
};
