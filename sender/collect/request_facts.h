/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requests say besides samples: of the host, of the kinds of samples, of time.
 */
#ifndef SENDER_COLLECT_REQUEST_FACTS_H
#define SENDER_COLLECT_REQUEST_FACTS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "sender/attach/kinds.h"
#include "sender/pods/pods.h"
#include "sender/relabel/relabel.h"

/* What a request says of the host and of time. */
struct request_facts {
    struct bytes host_name, os_version, host_arch; /* .n 0: left out */
    struct bytes host_id, os_description;          /* likewise */
    struct bytes kernel_build_id;                  /* hex; .n 0: not known */
    const struct kinds *kinds;                     /* types and units */
    struct pods *pods;                             /* who knows names of containers; NULL: nobody */
    struct relabel *relabel;                       /* applied to each resource; NULL: nothing is */
    int64_t realtime_offset;                       /* CLOCK_REALTIME - CLOCK_MONOTONIC, ns */
    int64_t boot_offset;                           /* CLOCK_REALTIME - CLOCK_BOOTTIME, ns */
    uint64_t start, end;                           /* of the window, CLOCK_MONOTONIC */
    size_t max_bytes; /* a new request is begun when one is about this long: below the receiver's limit */
};

#endif
