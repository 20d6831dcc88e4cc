/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds of attack there are: what each sends, by which of the tables it is found. attack_http1.c,
 * attack_http2.c and attack_body.c (requests whose bodies hurt) have a table each; tests/bench/attack.c moves
 * the bytes. One thread.
 */
#ifndef TESTS_LIB_ATTACK_KIND_H
#define TESTS_LIB_ATTACK_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/attack_heard.h"
#include "tests/lib/attack_wire.h"

#define ATTACK_POST_HEAD "POST " WIRE_PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"

/* One connection of the attacker's. */
struct attack_peer {
    int fd; /* -1: to be opened at `due` */
    struct wire out;
    struct heard heard;
    uint32_t stream, index; /* the next stream's number; which of the kind's shapes */
    uint64_t blocks, due;   /* due: when the next block of a paced kind goes */
    uint64_t sent_blocks;
    bool finished; /* nothing more to send: what is open is held */
};

enum {
    ATTACK_H2 = 1,       /* begins with the preface */
    ATTACK_DEAF = 2,     /* never reads */
    ATTACK_LEAVES = 4,   /* resets the connection when all was sent, and comes again */
    ATTACK_QUIET = 8,    /* sends nothing by itself: `more` is not called */
    ATTACK_STARVED = 16, /* HTTP/2: says that it has no window */
    ATTACK_FILES = 32,   /* sends files, which are to be named: attack_body_load */
};

struct attack_kind {
    const char *name, *what, *source, *expect;
    void (*open)(struct attack_peer *p);
    bool (*more)(struct attack_peer *p); /* queues a block; false: that was all */
    uint32_t pace_ms;                    /* between blocks; 0: as fast as it goes */
    unsigned flags;
    void (*make)(
        struct wire *w); /* what `more` sends, made once before the clock runs: attack_body_prepare */
};

extern const struct attack_kind attack_http1[], attack_http2[], attack_body[];
extern const size_t attack_http1_n, attack_http2_n, attack_body_n;

/* What kinds with `make` or ATTACK_FILES send: made by one, or read from n files. These end the program,
 * saying why, when that cannot be. Released together. */
void attack_body_prepare(const struct attack_kind *kind);
void attack_body_load(char **paths, int n);
void attack_body_release(void);

#endif
