/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which release's wire layout a body has: the five that share the package v1development carry no version, so
 * the wire types of their fields have to tell (reference/gateway.md §2.3, which numbers the rules).
 */
#include "proto/otlp/layouts/layout.h"

#include "proto/wire/reader.h"

const char *profiles_layout_name(enum profiles_layout layout)
{
    switch (layout) {
    case PROFILES_LAYOUT_1_5: return "1.5";
    case PROFILES_LAYOUT_1_7: return "1.7";
    case PROFILES_LAYOUT_1_8: return "1.8";
    case PROFILES_LAYOUT_1_9: return "1.9";
    case PROFILES_LAYOUT_1_10: return "1.10";
    default: return "unknown";
    }
}

/* What was seen, as counts: a damaged 1.10 request has an odd field, an older one has hundreds. */
struct votes {
    uint32_t upto_1_7, tables_in_profile; /* both; only ≤ 1.5 */
    uint32_t upto_1_8, upto_1_9, from_1_10;
    bool dictionary;
};

/* Rule 4; field 2 and 5 as numbers, and 6, are up to 1.7 (locations_length, link, timestamps). */
static void vote_sample(struct votes *n, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    bool two_list = false, two_number = false, three_list = false, four_list = false, timed = false;
    uint32_t four_number = 0;
    while (wire_next(&in, &f) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(2, WIRE_LEN): two_list = true; break;
        case WIRE_TAG(2, WIRE_VARINT): two_number = true; break;
        case WIRE_TAG(3, WIRE_LEN): three_list = true; break;
        case WIRE_TAG(3, WIRE_VARINT): n->from_1_10++; break;
        case WIRE_TAG(4, WIRE_VARINT): four_number++; break;
        case WIRE_TAG(4, WIRE_LEN): four_list = true; break;
        case WIRE_TAG(5, WIRE_VARINT):
        case WIRE_TAG(6, WIRE_LEN):
        case WIRE_TAG(6, WIRE_VARINT): n->upto_1_7++; break;
        case WIRE_TAG(5, WIRE_LEN):
        case WIRE_TAG(5, WIRE_I64): timed = true; break;
        default: break;
        }
    }
    n->from_1_10 += four_list && !three_list; /* with both it is attributes and values of 1.7 */
    n->upto_1_7 += two_number && three_list;
    n->upto_1_9 += !two_number && (three_list || (two_list && four_number == 1));
    n->upto_1_9 +=
        two_list && !three_list && !four_list && four_number == 0 && !timed; /* rule 5: only {1, 2} */
}

/* Rules 2 and 3, and where 1.5 had its tables. */
static void vote_profile(struct votes *n, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (wire_next(&in, &f) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(1, WIRE_LEN): {
            struct wire_reader type = wire_reader(f.bytes);
            struct wire_field t;
            while (wire_next(&type, &t) == 0)
                n->upto_1_8 += t.number == 3 && t.type == WIRE_VARINT;
            break;
        }
        case WIRE_TAG(2, WIRE_LEN): vote_sample(n, f.bytes); break;
        case WIRE_TAG(4, WIRE_LEN): n->tables_in_profile++; break;
        case WIRE_TAG(3, WIRE_LEN):
        case WIRE_TAG(5, WIRE_VARINT):
        case WIRE_TAG(7, WIRE_VARINT): n->upto_1_7++; break;
        case WIRE_TAG(8, WIRE_LEN):
        case WIRE_TAG(9, WIRE_VARINT):
        case WIRE_TAG(12, WIRE_LEN):
        case WIRE_TAG(12, WIRE_VARINT): n->upto_1_8++; break;
        default: break;
        }
    }
}

/* Rule 1. */
static void vote_dictionary(struct votes *n, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    n->dictionary = true;
    while (wire_next(&in, &f) == 0) {
        if ((f.number != 6 && f.number != 7) || f.type != WIRE_LEN)
            continue;
        struct wire_reader entry = wire_reader(f.bytes);
        struct wire_field g;
        bool key_text = false, key_number = false, unit_number = false;
        while (wire_next(&entry, &g) == 0) {
            key_text |= g.number == 1 && g.type == WIRE_LEN;
            key_number |= g.number == 1 && g.type == WIRE_VARINT;
            unit_number |= g.number == 2 && g.type == WIRE_VARINT;
        }
        n->upto_1_7 += f.number == 6 ? key_text : key_number && unit_number; /* KeyValue; AttributeUnit */
    }
}

static void vote_resource_profiles(struct votes *n, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (wire_next(&in, &f) == 0) {
        if (f.number != 2 || f.type != WIRE_LEN)
            continue;
        struct wire_reader scope = wire_reader(f.bytes);
        struct wire_field g;
        while (wire_next(&scope, &g) == 0)
            if (g.number == 2 && g.type == WIRE_LEN)
                vote_profile(n, g.bytes);
    }
}

enum profiles_layout layout_sniff(struct bytes body)
{
    struct votes n = {0};
    struct wire_reader in = wire_reader(body);
    struct wire_field f;
    while (wire_next(&in, &f) == 0) {
        if (f.number == 1 && f.type == WIRE_LEN)
            vote_resource_profiles(&n, f.bytes);
        else if (f.number == 2 && f.type == WIRE_LEN)
            vote_dictionary(&n, f.bytes);
    }
    uint32_t old = n.upto_1_7 + n.tables_in_profile;
    if (old > 0 && old >= n.upto_1_9 && old >= n.from_1_10)
        return n.dictionary ? PROFILES_LAYOUT_1_7 : PROFILES_LAYOUT_1_5;
    if (n.from_1_10 > 0 && n.from_1_10 >= n.upto_1_9)
        return PROFILES_LAYOUT_1_10;
    if (n.upto_1_8 > 0)
        return PROFILES_LAYOUT_1_8;
    return n.upto_1_9 > 0 ? PROFILES_LAYOUT_1_9 : PROFILES_LAYOUT_UNKNOWN;
}
