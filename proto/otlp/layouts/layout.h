/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wire layouts of OTLP profiles, and what every reader of one is given: the limits it keeps and the
 * conditions it may come back with. The floor of proto/otlp: bytes, no view.
 */
#ifndef PROTO_OTLP_LAYOUTS_LAYOUT_H
#define PROTO_OTLP_LAYOUTS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Readable bytes that must follow a body in memory (their content does not matter): the decoder loads whole
 * words. */
#define PROFILES_PADDING 64

/* The wire layouts that share the package name v1development: no release said on the wire which it is. */
enum profiles_layout {
    PROFILES_LAYOUT_UNKNOWN, /* of a request without profiles; and where it is to be found out */
    PROFILES_LAYOUT_1_5,     /* tables inside Profile */
    PROFILES_LAYOUT_1_7,
    PROFILES_LAYOUT_1_8,
    PROFILES_LAYOUT_1_9,
    PROFILES_LAYOUT_1_10, /* and 1.11, wire-identical */
    PROFILES_LAYOUTS
};

/* "1.10" and so on; "unknown". */
const char *profiles_layout_name(enum profiles_layout layout);

/* What came of a request that was not in protobuf and was written as such. */
struct profiles_written {
    enum profiles_layout layout;
    uint32_t unknown_fields; /* passed over, each time: keys that nobody knows */
};

/* Whether it is one that is translated before it is decoded (legacy.h). */
static inline bool profiles_layout_is_old(enum profiles_layout layout)
{
    return layout >= PROFILES_LAYOUT_1_5 && layout <= PROFILES_LAYOUT_1_9;
}

/* What is known of who made a request: so many points for a layout, beside what the request itself says
 * (sniff.c: a sample that no other layout could have is 4). */
struct profiles_producer {
    enum profiles_layout layout; /* UNKNOWN: nothing */
    uint32_t weight;
};

struct profiles_limits {
    size_t column_bytes; /* what the columns may take: hostile messages of two bytes amplify 26-fold */
    uint32_t
        depth; /* messages inside one another in an attribute's value, the AnyValue itself included (an array
                * level is two); OTLP runtimes stop at 100, counting from the request, six or less above */
};

extern const struct profiles_limits profiles_limits_default;

/* Conditions of those who read a request. */
enum {
    PROFILES_MALFORMED = 1, /* not a protobuf message of this type: truncated, bad varint, too deep, … */
    PROFILES_UNSUPPORTED,   /* a wire layout we do not decode; error names it */
    PROFILES_OVER_BUDGET,   /* columns would pass limits or budget: nothing is wrong with the message but its
                               size */
    PROFILES_TOO_LARGE,     /* its stacks mean more frames than its bytes pay for; error says how many */
};

/* Messages that hold nothing, or one field of one byte, and are repeated are what makes few bytes many
 * entries: 10 million in 20 MB. Writers have a few: entry 0 of each table; so more than this is not data. An
 * entry of a table is not meant when its byte is not zero: functions with a name and no more are data in any
 * number. */
#define HOLLOW_MAX   65536u
#define HOLLOW_BYTES 2u
#define HOLLOW_WORDS "more than 65536 messages that hold nothing"
_Static_assert(HOLLOW_MAX == 65536, "as the words say");

#endif
