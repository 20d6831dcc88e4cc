/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A body that was received and decoded: what it is and what it came as, each in memory that whoever keeps it
 * longer than its request may take over instead of copying (room_take).
 */
#ifndef PROTO_CODING_RECEIVED_H
#define PROTO_CODING_RECEIVED_H

#include "proto/coding/coding.h"
#include "proto/base/room.h"

struct received {
    enum coding coding;   /* in which it came; CODING_IDENTITY: plain */
    struct buffer *plain; /* what it is, out of its coding */
    struct buffer *coded; /* what came, if that is one whole member or frame of `coding` which was decoded to
                             just what is in `plain`; else NULL */
    struct budget *plain_budget, *coded_budget; /* that their memory is on */
    uint32_t unknown_fields; /* of what came, passed over when it was written as what it is */
};

#endif
