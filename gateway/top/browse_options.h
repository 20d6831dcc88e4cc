/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What browse.h is told, and whom it tells.
 */
#ifndef GATEWAY_TOP_BROWSE_OPTIONS_H
#define GATEWAY_TOP_BROWSE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/top/fetch.h"

#define BROWSE_NAME_MAX 256u

struct browse_options {
    const struct top_url *url; /* its path is of no interest; must stay in place */
    const char *name;          /* of the gateway, for the first line */
    const char *note;          /* NULL: none */
    uint64_t interval, window; /* ns */
    bool ascii;
    bool once;           /* one flame graph to stdout, then ended(); no terminal is needed */
    bool color;          /* of it */
    uint32_t width;      /* of it, columns */
    const char *service; /* whose it is; NULL: everybody's. Shorter than BROWSE_NAME_MAX */
};

struct browse_events {
    void (*ended)(void *user); /* somebody wants to go */
    /* No stacks are kept there, or it is no gateway, or this no terminal: nothing was shown. `why` is words
     * for a person, valid during the call. */
    void (*unavailable)(void *user, const char *why);
    void *user;
};

#endif
