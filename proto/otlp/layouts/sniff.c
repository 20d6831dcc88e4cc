/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which release's wire layout a body has: the five that share the package v1development carry no version, so
 * the wire types of their fields have to tell. Number and type together speak for the layouts that know such
 * a field:
 *
 * 1. a dictionary's attributes have their key as text, or its field 7 are units: up to 1.7; with no
 * dictionary the tables are in Profile: up to 1.5;
 * 2. Profile 3 (time) as a list: up to 1.7; ValueType 3 (aggregation_temporality): up to 1.8;
 * 3. Profile 8 and 9 with the types of 1.8, or a field 12: up to 1.8;
 * 4. Sample 4 (values) as a list, 3 (link) as a number: 1.10; the other way round: up to 1.9;
 * 5. Sample with fields 1 and 2 alone: up to 1.9, for 1.10 wants a value or a timestamp.
 *
 * A vote for a layout is one for those before it, too, until something tells them apart.
 */
#include "proto/otlp/layouts/sniff.h"

#include "proto/otlp/layouts/fields.h"
#include "proto/wire/reader.h"

/* What was seen, as counts: a damaged 1.10 request has an odd field, an older one has hundreds. */
struct votes {
    uint32_t upto_1_7, tables_in_profile; /* both; only ≤ 1.5 */
    uint32_t upto_1_8, upto_1_9, from_1_10;
    bool dictionary;
};

/* Rules 4 and 5. */
static void vote_sample(struct votes *n, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    bool two_list = false, two_number = false, three_list = false, four_list = false, timed = false;
    uint32_t four_number = 0;
    while (wire_next(&in, &f) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(SAMPLE_ATTRIBUTE_INDICES, WIRE_LEN): two_list = true; break; /* values of 1.9 */
        case WIRE_TAG(SAMPLE_LOCATIONS_LENGTH_1_7, WIRE_VARINT): two_number = true; break;
        case WIRE_TAG(SAMPLE_ATTRIBUTE_INDICES_1_9, WIRE_LEN): three_list = true; break; /* value of 1.7 */
        case WIRE_TAG(SAMPLE_LINK_INDEX, WIRE_VARINT): n->from_1_10++; break;
        case WIRE_TAG(SAMPLE_LINK_INDEX_1_9, WIRE_VARINT): four_number++; break;
        case WIRE_TAG(SAMPLE_VALUES, WIRE_LEN): four_list = true; break;
        case WIRE_TAG(SAMPLE_LINK_INDEX_1_7, WIRE_VARINT):
        case WIRE_TAG(SAMPLE_TIMESTAMPS_VARINT_1_7, WIRE_LEN):
        case WIRE_TAG(SAMPLE_TIMESTAMPS_VARINT_1_7, WIRE_VARINT): n->upto_1_7++; break;
        case WIRE_TAG(SAMPLE_TIMESTAMPS_UNIX_NANO, WIRE_LEN):
        case WIRE_TAG(SAMPLE_TIMESTAMPS_UNIX_NANO, WIRE_I64): timed = true; break;
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
        case WIRE_TAG(PROFILE_SAMPLE_TYPE, WIRE_LEN): {
            struct wire_reader type = wire_reader(f.bytes);
            struct wire_field t;
            while (wire_next(&type, &t) == 0)
                n->upto_1_8 += t.number == VALUE_TYPE_AGGREGATION_TEMPORALITY_1_8 && t.type == WIRE_VARINT;
            break;
        }
        case WIRE_TAG(PROFILE_SAMPLES, WIRE_LEN): vote_sample(n, f.bytes); break;
        case WIRE_TAG(PROFILE_LOCATION_TABLE_1_5, WIRE_LEN): n->tables_in_profile++; break;
        case WIRE_TAG(PROFILE_LOCATION_INDICES_1_7, WIRE_LEN): /* 1.5: mapping_table */
        case WIRE_TAG(PROFILE_DURATION_NANOS_1_7, WIRE_VARINT):
        case WIRE_TAG(PROFILE_PERIOD_1_7, WIRE_VARINT): n->upto_1_7++; break;
        case WIRE_TAG(PROFILE_PROFILE_ID_1_8, WIRE_LEN):
        case WIRE_TAG(PROFILE_DROPPED_ATTRIBUTES_COUNT_1_8, WIRE_VARINT):
        case WIRE_TAG(PROFILE_ATTRIBUTE_INDICES_1_8, WIRE_LEN):
        case WIRE_TAG(PROFILE_ATTRIBUTE_INDICES_1_8, WIRE_VARINT): n->upto_1_8++; break;
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
        if ((f.number != DICTIONARY_ATTRIBUTE_TABLE_KEYED_1_7 &&
             f.number != DICTIONARY_ATTRIBUTE_UNITS_1_7) ||
            f.type != WIRE_LEN)
            continue;
        struct wire_reader entry = wire_reader(f.bytes);
        struct wire_field g;
        bool key_text = false, key_number = false, unit_number = false;
        while (wire_next(&entry, &g) == 0) {
            key_text |= g.number == KEY_VALUE_KEY && g.type == WIRE_LEN;
            key_number |= g.number == ATTRIBUTE_UNIT_KEY_STRINDEX_1_7 && g.type == WIRE_VARINT;
            unit_number |= g.number == ATTRIBUTE_UNIT_UNIT_STRINDEX_1_7 && g.type == WIRE_VARINT;
        }
        n->upto_1_7 +=
            f.number == DICTIONARY_ATTRIBUTE_TABLE_KEYED_1_7 ? key_text : key_number && unit_number;
    }
}

static void vote_resource_profiles(struct votes *n, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (wire_next(&in, &f) == 0) {
        if (f.number != RESOURCE_PROFILES_SCOPE_PROFILES || f.type != WIRE_LEN)
            continue;
        struct wire_reader scope = wire_reader(f.bytes);
        struct wire_field g;
        while (wire_next(&scope, &g) == 0)
            if (g.number == SCOPE_PROFILES_PROFILES && g.type == WIRE_LEN)
                vote_profile(n, g.bytes);
    }
}

enum profiles_layout layout_sniff(struct bytes body)
{
    struct votes n = {0};
    struct wire_reader in = wire_reader(body);
    struct wire_field f;
    while (wire_next(&in, &f) == 0) {
        if (f.number == REQUEST_RESOURCE_PROFILES && f.type == WIRE_LEN)
            vote_resource_profiles(&n, f.bytes);
        else if (f.number == REQUEST_DICTIONARY && f.type == WIRE_LEN)
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
