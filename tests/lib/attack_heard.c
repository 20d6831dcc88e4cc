/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/attack_heard.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/attack_wire.h"

#define FRAME_HEAD 9u
#define FRAME_MAX  16384u /* SETTINGS_MAX_FRAME_SIZE by default, RFC 9113 §6.5.2 */
#define TLS_ALERT  21

void heard_begin(struct heard *h, bool h2)
{
    *h = (struct heard){.h2 = h2, .first = true};
    if (h2 && (!(h->frame = malloc(FRAME_HEAD + FRAME_MAX)) || nghttp2_hd_inflate_new(&h->inflater) != 0)) {
        fprintf(stderr, "attack: out of memory\n");
        exit(1);
    }
}

void heard_end(struct heard *h)
{
    if (h->inflater)
        nghttp2_hd_inflate_del(h->inflater);
    free(h->frame);
    *h = (struct heard){0};
}

static uint32_t number(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t *code_of(uint64_t counts[HEARD_CODES], uint32_t code)
{
    return &counts[code < HEARD_CODES - 1 ? code : HEARD_CODES - 1];
}

static void on_field(struct heard_counts *counts, const nghttp2_nv *field)
{
    char value[8] = "";
    memcpy(value, field->value, field->valuelen < 7 ? field->valuelen : 7);
    unsigned n = (unsigned)atoi(value);
    if (field->namelen == 7 && memcmp(field->name, ":status", 7) == 0 && n < HEARD_STATUSES)
        counts->status[n]++;
    if (field->namelen == 11 && memcmp(field->name, "grpc-status", 11) == 0)
        ++*code_of(counts->grpc, n);
}

static void on_headers(struct heard *h, struct heard_counts *counts, const uint8_t *p, size_t n, bool final)
{
    for (;;) {
        nghttp2_nv field;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(h->inflater, &field, &flags, p, n, final);
        if (used < 0) {
            counts->tangled++;
            return;
        }
        p += used;
        n -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            on_field(counts, &field);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            nghttp2_hd_inflate_end_headers(h->inflater);
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && n == 0)
            return;
    }
}

static void on_frame(struct heard *h, struct heard_counts *counts, const uint8_t *frame, size_t n)
{
    const uint8_t *payload = frame + FRAME_HEAD;
    switch (frame[3]) {
    case WIRE_HEADERS: on_headers(h, counts, payload, n, frame[4] & WIRE_END_HEADERS); break;
    case WIRE_RST_STREAM:
        if (n == 4)
            ++*code_of(counts->reset, number(payload));
        break;
    case WIRE_GOAWAY:
        if (n >= 8)
            ++*code_of(counts->goaway, number(payload + 4));
        break;
    case WIRE_PING:
    case WIRE_SETTINGS: counts->acks += frame[4] & 1; break;
    default: break;
    }
}

static void feed_h2(struct heard *h, struct heard_counts *counts, const uint8_t *p, size_t n)
{
    while (n > 0) {
        size_t want = FRAME_HEAD;
        if (h->n >= FRAME_HEAD)
            want += (size_t)h->frame[0] << 16 | (size_t)h->frame[1] << 8 | h->frame[2];
        if (want > FRAME_HEAD + FRAME_MAX) {
            counts->tangled++;
            return;
        }
        size_t take = want - h->n < n ? want - h->n : n;
        memcpy(h->frame + h->n, p, take);
        h->n += take;
        p += take;
        n -= take;
        if (h->n < FRAME_HEAD)
            continue;
        size_t length = (size_t)h->frame[0] << 16 | (size_t)h->frame[1] << 8 | h->frame[2];
        if (h->n == FRAME_HEAD + length) {
            on_frame(h, counts, h->frame, length);
            h->n = 0;
        }
    }
}

static void feed_h1(struct heard *h, struct heard_counts *counts, const uint8_t *p, size_t n)
{
    static const char start[] = "HTTP/1.1 ";
    for (size_t i = 0; i < n; i++) {
        if (h->matched < sizeof start - 1) {
            h->matched = p[i] == (uint8_t)start[h->matched] ? h->matched + 1 : p[i] == 'H';
            h->digits = 0;
        } else {
            h->digits = h->digits * 10 + (unsigned)(p[i] - '0');
            if (++h->matched == sizeof start + 2) {
                counts->status[h->digits < HEARD_STATUSES ? h->digits : 0]++;
                h->matched = 0;
            }
        }
    }
}

void heard_feed(struct heard *h, struct heard_counts *counts, const uint8_t *p, size_t n)
{
    counts->bytes += n;
    if (h->first && n > 0 && p[0] == TLS_ALERT)
        counts->alerts++;
    /* An answer to something that was not HTTP/2 after all comes as HTTP/1. */
    if (h->first && n > 0 && p[0] == 'H')
        h->h2 = false;
    h->first = false;
    if (h->h2)
        feed_h2(h, counts, p, n);
    else
        feed_h1(h, counts, p, n);
}

static void print_codes(FILE *to, const char *name, const uint64_t counts[HEARD_CODES], bool http2)
{
    const char *separator = "";
    fprintf(to, "\"%s\": {", name);
    for (uint32_t i = 0; i < HEARD_CODES; i++) {
        if (counts[i] == 0)
            continue;
        if (http2)
            fprintf(to, "%s\"%s\": %llu", separator, nghttp2_http2_strerror(i),
                    (unsigned long long)counts[i]);
        else
            fprintf(to, "%s\"%u\": %llu", separator, i, (unsigned long long)counts[i]);
        separator = ", ";
    }
    fprintf(to, "}, ");
}

void heard_print(const struct heard_counts *c, FILE *to)
{
    const char *separator = "";
    fprintf(to, "\"status\": {");
    for (uint32_t i = 0; i < HEARD_STATUSES; i++)
        if (c->status[i] > 0) {
            fprintf(to, "%s\"%u\": %llu", separator, i, (unsigned long long)c->status[i]);
            separator = ", ";
        }
    fprintf(to, "}, ");
    print_codes(to, "grpc", c->grpc, false);
    print_codes(to, "goaway", c->goaway, true);
    print_codes(to, "reset", c->reset, true);
    fprintf(to, "\"acks\": %llu, \"alerts\": %llu, \"tangled\": %llu, \"bytes_heard\": %llu",
            (unsigned long long)c->acks, (unsigned long long)c->alerts, (unsigned long long)c->tangled,
            (unsigned long long)c->bytes);
}
