/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The board as its files share it.
 */
#ifndef GATEWAY_CHECK_BOARD_PARTS_H
#define GATEWAY_CHECK_BOARD_PARTS_H

#include <pthread.h>

#include "gateway/stats/producers.h"
#include "proto/otlp/check/rules.h"

/* The last findings that are kept, one for each rule and producer, and the bytes of each path and text. */
#define BOARD_LATEST   256u
#define BOARD_TEXT_MAX 256u

struct board_text {
    uint8_t text[BOARD_TEXT_MAX];
    uint32_t n;
};

struct board_finding {
    uint32_t producer;
    enum check_rule rule;
    uint64_t at_unix_nano;
    struct board_text service, path, text;
};

struct board {
    pthread_mutex_t lock;
    uint64_t count[STATS_PRODUCERS + 1][CHECK_RULES];
    struct board_finding latest[BOARD_LATEST];
    uint32_t n_latest;
};

#endif
