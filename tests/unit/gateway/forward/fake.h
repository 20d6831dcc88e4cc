/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of forward share: the export stage as forward sees it (one queue with so much room), and
 * requests read back. Included once a test program.
 */
#ifndef TESTS_UNIT_GATEWAY_FORWARD_FAKE_H
#define TESTS_UNIT_GATEWAY_FORWARD_FAKE_H

#include <stdlib.h>

#include "gateway/export/profiles.h"
#include "gateway/forward/forward.h"
#include "gateway/forward/pick.h"
#include "proto/otlp/write/build.h"
#include "proto/otlp/view/profiles.h"
#include "tests/lib/unit.h"

/* Requests that are open at once, where a test does not say. */
#define FAKE_REQUESTS   1000u
#define FAKE_PUSHES_MAX 4096u

struct export_profiles {
    size_t limit, room, reserved; /* limit 0: none */
    uint32_t requests_max;        /* 0: the terms say FAKE_REQUESTS, and nothing is refused for it */
    uint32_t requests;            /* reservations that are open */
    uint32_t pushes;
    uint64_t samples; /* of all pushes */
    bool no_references;
    /* What becomes of a request that was pushed: its owner. NULL: the last one stays in `body`. */
    void (*push)(struct export_profiles *x, uint8_t *body, size_t n, uint64_t n_samples);
    uint8_t *body;
    size_t n;
    unsigned forms;            /* that the destinations want of what came coded; 0: EXPORT_PLAIN */
    struct client_body *coded; /* of the last request */
    enum coding received;      /* of the last plain one */
    struct buffer *all;        /* [FAKE_PUSHES_MAX] copies of every request, if not NULL */
    uint64_t sum;              /* of what is in the requests, if the test's `push` adds it up */
};

struct export_terms export_profiles_terms(const struct export_profiles *x)
{
    return (struct export_terms){x->limit ? x->limit : SIZE_MAX,
                                 x->requests_max ? x->requests_max : FAKE_REQUESTS, x->no_references};
}

export_set export_profiles_all(const struct export_profiles *x)
{
    return 1;
}

bool export_profiles_is_durable(const struct export_profiles *x)
{
    return false;
}

export_set export_profiles_reserve(struct export_profiles *x, size_t n, uint32_t requests, export_set of)
{
    if (of == 0 || n > x->room - x->reserved || (x->requests_max && x->requests + requests > x->requests_max))
        return 0;
    x->reserved += n;
    x->requests += requests;
    return 1;
}

void export_profiles_cancel(struct export_profiles *x, size_t n, uint32_t requests, export_set of)
{
    if (of == 0)
        return;
    ck_assert(x->requests >= requests && x->reserved >= n);
    x->reserved -= n;
    x->requests -= requests;
}

unsigned export_profiles_forms(const struct export_profiles *x, enum coding received)
{
    return x->forms ? x->forms : EXPORT_PLAIN;
}

void export_profiles_push(struct export_profiles *x, struct export_forms forms, size_t reserved,
                          uint64_t n_samples, export_set to, struct promise *safe)
{
    uint8_t *body = NULL;
    size_t n = 0;
    client_body_unref(x->coded);
    x->coded = forms.coded;
    ck_assert(forms.plain || forms.coded);
    ck_assert(!forms.coded || forms.coded->n <= reserved);
    if (forms.plain) {
        ck_assert_int_eq(forms.plain->coding, CODING_IDENTITY);
        x->received = forms.plain->received;
        body = forms.plain->p;
        n = forms.plain->n;
        forms.plain->p = NULL; /* the fake's */
        client_body_unref(forms.plain);
    }
    ck_assert(n <= reserved);
    ck_assert(x->limit == 0 || n <= x->limit);
    ck_assert_uint_gt(n_samples, 0);
    export_profiles_cancel(x, reserved, 1, to);
    x->samples += n_samples;
    if (x->all) {
        struct buffer *copy = &x->all[x->pushes];
        ck_assert_uint_lt(x->pushes, FAKE_PUSHES_MAX);
        *copy = (struct buffer)BUFFER_INIT(0);
        ck_assert_int_eq(buffer_add(copy, body, n), 0);
        ck_assert_int_eq(buffer_reserve(copy, PROFILES_PADDING), 0);
    }
    if (x->push) {
        x->push(x, body, n, n_samples);
    } else {
        free(x->body);
        x->body = body;
        x->n = n;
    }
    x->pushes++;
}

/* PROFILES_PADDING readable bytes follow the body. */
static inline struct profiles decoded(struct bytes body)
{
    struct profiles view;
    struct error e = {""};
    ck_assert_int_eq(profiles_init(&view, NULL), 0);
    ck_assert_msg(profiles_decode(&view, body, &profiles_limits_default, &e) == 0, "%s", e.text);
    return view;
}

/* Of a body without that padding; *ret is the caller's to free, after the view. */
static inline struct profiles decoded_copy(const uint8_t *p, size_t n, uint8_t **ret)
{
    *ret = unit_made(calloc(1, n + PROFILES_PADDING));
    memcpy(*ret, p, n);
    return decoded(bytes_of(*ret, n));
}

/* The request that a builder holds, padded; frees the builder. */
static inline uint8_t *built(struct build *b, size_t *ret_n)
{
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(build_finish(b, &out), 0);
    build_free(b);
    ck_assert_int_eq(buffer_reserve(&out, PROFILES_PADDING), 0);
    return buffer_take(&out, ret_n);
}

/* Requests as senders made them. */
static const char *const files[] = {
    "connector/ebpf-go-0003.pb",     "connector/ebpf-java-0003.pb", "connector/ebpf-kernel_tcp-0001.pb",
    "connector/ebpf-python-0003.pb", "connector/synth-multi.pb",    "connector/rand-02.pb",
};

static inline struct forward *make(double keep, uint64_t seed, struct export_profiles *x, struct stats *stats,
                                   struct budget *budget)
{
    struct forward_options o = {.keep = keep, .seed = seed, .refuse_when_full = true};
    struct forward *f = unit_made(forward_new(&o, x, stats, budget));
    return f;
}

static inline int pick_samples(struct pick *p, const struct profiles *view, double share, uint64_t seed)
{
    int r = pick_by_share(p, view, share, seed);
    if (r == 0)
        pick_group(p, view, 0);
    return r;
}

/* A request of n samples with n distinct one-frame stacks. */
static inline uint8_t *many_stacks(uint32_t n, const char *service, size_t *ret_n)
{
    struct build *b = unit_made(build_new(NULL));
    struct attr attr = {.key = BYTES_LIT("service.name"),
                        .value = {.kind = ATTR_STRING, .text = bytes_str(service)}};
    build_begin(b);
    build_resource(b, &attr, 1, bytes_of(NULL, 0));
    build_scope(b, BYTES_LIT("t"), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    build_profile(b, &(struct build_profile){.type = build_string(b, BYTES_LIT("samples")),
                                             .unit = build_string(b, BYTES_LIT("count"))});
    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "function_%u", i);
        struct build_line line = {.function = build_function(
                                      b, &(struct build_function){.name = build_string(b, bytes_str(name))})};
        uint32_t location = build_location(b, &(struct build_location){.lines = &line, .n_lines = 1});
        int64_t one = 1;
        build_sample(
            b, &(struct build_sample){.stack = build_stack(b, &location, 1), .values = &one, .n_values = 1});
    }
    return built(b, ret_n);
}

#endif
