/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which release's wire layout a body has: the five that share the package v1development carry no version, so
 * all that is in a request is asked, and each message votes against the layouts that it cannot be of.
 *
 * What makes a layout impossible for a message (VOTE points against it):
 *
 * 1. A number that the layout knows (fields.def) has another wire type, or content that its kind cannot have:
 *    a packed list that ends within a number, times that are no multiple of eight bytes, a profile_id that is
 *    not of 16. A number that the layout does not know says nothing: fields are added all the time.
 * 2. A Sample has neither values nor timestamps; in 1.8 and 1.9, not as many of the one as of the other; what
 *    occurs once occurs twice.
 * 3. Where its wire types leave a Sample more than one reading: its attributes or its link lead outside of
 *    their tables, or two of its attributes have one key. In 1.8, a Profile's comments or attributes lead
 *    outside of theirs.
 * 4. A resource's attribute has no key but a reference to one, which no layout before 1.10 has. A request
 *    with a dictionary is not of 1.5, one without not of 1.7.
 *
 * What is only unlikely weighs less. UNUSED: an entry of the attribute or the link table that nobody refers
 * to in one reading and somebody in the other, for who fills a table uses it. HINT: that all values of a
 * sample of 1.8 or 1.9 would be good attributes of 1.10; a list that is packed beside one that is not, in one
 * sample; comments of 1.8 that are as long as an id.
 *
 * The layout with the fewest points against it has it; among equals 1.10 if it is one of them, else the one
 * that knows most of the numbers, else the newer. So one odd message decides nothing as long as there are
 * others, and of a lone one the tables say more than it does. What a caller knows of the producer is so many
 * points against all other layouts; but where two messages or more are impossible in what is known and
 * nothing at all, not even a hint, speaks against another layout, the producer has become another: one odd
 * message cannot say that, and a first request after an upgrade must not be lost.
 */
#include "proto/otlp/layouts/sniff.h"

#include <string.h>

#include "proto/base/macros.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/wire/load.h"

/* Points: for what cannot be; for a table's entry that would be of no use; for what only is unlikely. */
enum { VOTE = 4, UNUSED = 2, HINT = 1 };

/* profiles.proto, Profile.profile_id. */
#define PROFILE_ID_SIZE 16u

/* Sets of layouts. */
typedef uint8_t set;
#define ONLY(layout) ((set)(1u << PROFILES_LAYOUT_##layout))
#define SET_1_7      ((set)(ONLY(1_5) | ONLY(1_7)))
#define SET_1_9      ((set)(ONLY(1_8) | ONLY(1_9)))
#define SET_1_10     ONLY(1_10)
#define SET_ALL      ((set)(SET_1_7 | SET_1_9 | SET_1_10))

/* --- Rule 1, as tables made of fields.def */

/* Messages that are asked, by where they are; what is there may be another message in another layout. */
enum place {
    PLACE_PROFILE,
    PLACE_SAMPLE,
    PLACE_SAMPLE_TYPE,
    PLACE_MAPPING,
    PLACE_LOCATION,
    PLACE_ATTRIBUTE, /* DICTIONARY_ATTRIBUTE_TABLE: KeyValue, then KeyValueAndUnit */
    PLACE_STACK,     /* DICTIONARY_STACK_TABLE: AttributeUnit, then Stack */
    PLACES
};

/* By place and number: the layouts that know it, in which it may have a wire type, and in which a LEN is … */
struct rule {
    set knows, takes[8], varints, fixed64s, profile_id;
};
static struct rule rules[PLACES][FIELD_NUMBERS];

static void rule_add(struct rule *rule, const struct field *f, set layout)
{
    enum wire_type one = field_wire(f);
    rule->knows |= layout;
    for (uint32_t type = 0; type < ARRAY_LEN(rule->takes); type++)
        if (!field_takes(f, (enum wire_type)type))
            rule->takes[type] &= (set)~layout;
    if (f->repeated && one == WIRE_VARINT)
        rule->varints |= layout;
    if (f->repeated && one == WIRE_I64)
        rule->fixed64s |= layout;
    if (f->type == FIELD_PROFILE_ID)
        rule->profile_id |= layout;
}

/* Before main, so that no thread sees them change. */
__attribute__((constructor)) static void make_rules(void)
{
    static const struct {
        enum message in;
        uint32_t number;
    } where[PLACES] = {
        [PLACE_PROFILE] = {MESSAGE_SCOPE_PROFILES, SCOPE_PROFILES_PROFILES},
        [PLACE_SAMPLE] = {MESSAGE_PROFILE, PROFILE_SAMPLES},
        [PLACE_SAMPLE_TYPE] = {MESSAGE_PROFILE, PROFILE_SAMPLE_TYPE},
        [PLACE_MAPPING] = {MESSAGE_DICTIONARY, DICTIONARY_MAPPING_TABLE},
        [PLACE_LOCATION] = {MESSAGE_DICTIONARY, DICTIONARY_LOCATION_TABLE},
        [PLACE_ATTRIBUTE] = {MESSAGE_DICTIONARY, DICTIONARY_ATTRIBUTE_TABLE},
        [PLACE_STACK] = {MESSAGE_DICTIONARY, DICTIONARY_STACK_TABLE},
    };
    memset(rules, 0, sizeof rules);
    for (uint32_t place = 0; place < PLACES; place++)
        for (uint32_t number = 1; number < FIELD_NUMBERS; number++) {
            struct rule *rule = &rules[place][number];
            memset(rule->takes, SET_ALL, sizeof rule->takes);
            for (enum profiles_layout l = PROFILES_LAYOUT_1_5; l <= PROFILES_LAYOUT_1_10; l++) {
                const struct field *holder = field_numbered(l, where[place].in, where[place].number);
                const struct field *f = field_numbered(l, (enum message)holder->message, number);
                if (f)
                    rule_add(rule, f, (set)(1u << l));
            }
        }
}

/* --- Votes */

/* Entries of a table that somebody refers to; those behind the first ENTRIES are not looked at. */
#define ENTRIES 2048u
struct referred {
    uint64_t bit[ENTRIES / 64];
};

/* A table that samples refer to: by a field that is another in 1.9 and in 1.10. */
struct table {
    uint32_t n;                              /* with entry 0, which is there also where it is not */
    struct referred anyhow, in_1_9, in_1_10; /* by what is the same in both, and by samples */
};

struct votes {
    uint64_t against[PROFILES_LAYOUTS], unknown[PROFILES_LAYOUTS];
    uint64_t impossible[PROFILES_LAYOUTS]; /* messages with a vote against it */
    bool dictionary;
    struct table attribute, link;
    uint32_t n_strings;
    uint32_t key[ENTRIES]; /* of attributes */
};

static void vote(struct votes *v, set possible, uint32_t points)
{
    for (enum profiles_layout l = PROFILES_LAYOUT_1_5; possible != 0 && l <= PROFILES_LAYOUT_1_10; l++)
        if (!(possible >> l & 1)) {
            v->against[l] += points;
            v->impossible[l] += points == VOTE;
        }
}

static void refer(struct referred *to, uint64_t index)
{
    if (index < ENTRIES)
        to->bit[index / 64] |= (uint64_t)1 << index % 64;
}

/* The indices that a field carries. */
static void refer_all(struct referred *to, const struct wire_field *f)
{
    struct wire_rest rest = {0};
    uint64_t index;
    while (wire_next_repeated(f, WIRE_VARINT, &rest, &index) == 0)
        refer(to, index);
}

/* The layouts that the field is possible in; one that is damaged says nothing. */
static set ask_field(struct votes *v, enum place place, const struct wire_field *f)
{
    if (f->number >= FIELD_NUMBERS)
        return SET_ALL;
    const struct rule *rule = &rules[place][f->number];
    set possible = rule->takes[f->type];
    if (f->type == WIRE_LEN && f->bytes.n > 0) {
        if (f->bytes.p[f->bytes.n - 1] >= 0x80)
            possible &= (set)~rule->varints;
        if (f->bytes.n % 8 != 0)
            possible &= (set)~rule->fixed64s;
        if (f->bytes.n != PROFILE_ID_SIZE)
            possible &= (set)~rule->profile_id;
    }
    for (enum profiles_layout l = PROFILES_LAYOUT_1_5; rule->knows != SET_ALL && l <= PROFILES_LAYOUT_1_10;
         l++)
        v->unknown[l] += !(rule->knows >> l & 1);
    return possible != 0 ? possible : SET_ALL;
}

/* A message of which only the fields' types tell. */
static void vote_message(struct votes *v, enum place place, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    set possible = SET_ALL;
    while (wire_load_next(&in, &f) == 0) {
        possible &= ask_field(v, place, &f);
        if ((place == PLACE_MAPPING && f.number == MAPPING_ATTRIBUTE_INDICES) ||
            (place == PLACE_LOCATION && f.number == LOCATION_ATTRIBUTE_INDICES))
            refer_all(&v->attribute.anyhow, &f);
    }
    vote(v, possible, VOTE);
}

/* --- Samples */

/* One field of a sample, in all its pieces. */
struct piece {
    struct wire_field first; /* what is judged, where there are several */
    uint32_t n, lists, numbers;
};

struct sample {
    struct piece of[SAMPLE_HIGHEST_OLD + 1];
    set possible;
};

static uint32_t count_varints(struct bytes list)
{
    uint32_t n = 0;
    for (size_t i = 0; i < list.n; i++)
        n += list.p[i] < 0x80;
    return n;
}

static void read_sample(struct votes *v, struct bytes message, struct sample *s)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    *s = (struct sample){.possible = SET_ALL};
    while (wire_load_next(&in, &f) == 0) {
        s->possible &= ask_field(v, PLACE_SAMPLE, &f);
        if (f.number > SAMPLE_HIGHEST_OLD)
            continue;
        struct piece *piece = &s->of[f.number];
        if (piece->lists + piece->numbers == 0)
            piece->first = f;
        *(f.type == WIRE_LEN ? &piece->lists : &piece->numbers) += 1;
        if (f.type != WIRE_LEN)
            piece->n++;
        else if (f.number == SAMPLE_TIMESTAMPS_UNIX_NANO)
            piece->n += (uint32_t)(f.bytes.n / 8);
        else
            piece->n += count_varints(f.bytes);
    }
}

/* Rule 2: what a sample must have, and can have but once. */
static set ask_shape(const struct sample *s)
{
    const struct piece *of = s->of;
    set possible = s->possible;
    if (of[SAMPLE_VALUE_1_7].n + of[SAMPLE_TIMESTAMPS_VARINT_1_7].n == 0)
        possible &= (set)~SET_1_7;
    const uint32_t values_1_9 = of[SAMPLE_VALUES_1_9].n, times = of[SAMPLE_TIMESTAMPS_UNIX_NANO].n;
    if (values_1_9 + times == 0 || (values_1_9 > 0 && times > 0 && values_1_9 != times) ||
        of[SAMPLE_LINK_INDEX_1_9].numbers > 1)
        possible &= (set)~SET_1_9;
    if (of[SAMPLE_VALUES].n + times == 0 || of[SAMPLE_LINK_INDEX].numbers > 1)
        possible &= (set)~SET_1_10;
    return possible;
}

/* Beyond this many, asking whether all keys differ costs more than the answer is worth: attributes of a
 * sample are a handful. */
#define ATTRS_PLAUSIBLE 64u

/* Whether they could be the attributes of one sample: in the table, and no key twice. */
static bool are_attributes(const struct votes *v, const struct piece *piece)
{
    uint64_t seen[ATTRS_PLAUSIBLE], index;
    uint32_t n = 0;
    struct wire_rest rest = {0};
    while (wire_next_repeated(&piece->first, WIRE_VARINT, &rest, &index) == 0) {
        if (index >= v->attribute.n || n == ATTRS_PLAUSIBLE)
            return false;
        for (uint32_t i = 0; i < n; i++)
            if (index == seen[i] ||
                (index < ENTRIES && seen[i] < ENTRIES && v->key[index] == v->key[seen[i]]))
                return false;
        seen[n++] = index;
    }
    return true;
}

static bool is_link(const struct votes *v, const struct piece *piece)
{
    return piece->numbers == 0 || piece->first.value < v->link.n;
}

/* Rule 3, for a sample that wire types leave several readings. */
static set ask_indices(const struct votes *v, const struct sample *s)
{
    set possible = s->possible;
    if (!are_attributes(v, &s->of[SAMPLE_ATTRIBUTE_INDICES]) || !is_link(v, &s->of[SAMPLE_LINK_INDEX]))
        possible &= (set)~SET_1_10;
    if (!are_attributes(v, &s->of[SAMPLE_ATTRIBUTE_INDICES_1_9]) ||
        !is_link(v, &s->of[SAMPLE_LINK_INDEX_1_9]))
        possible &= (set)~SET_1_9;
    return possible;
}

static bool packs_some(const struct piece *a, const struct piece *b)
{
    return (a->lists > 0 && b->numbers > 0) || (a->numbers > 0 && b->lists > 0);
}

/* What is only unlikely. */
static void hint(struct votes *v, const struct sample *s)
{
    const struct piece *of = s->of;
    if (of[SAMPLE_VALUES_1_9].n > 0 && (s->possible & SET_1_10))
        vote(v, (set)~SET_1_9, HINT); /* its values would be good attributes */
    if (packs_some(&of[SAMPLE_ATTRIBUTE_INDICES], &of[SAMPLE_VALUES]))
        vote(v, (set)~SET_1_10, HINT);
    if (packs_some(&of[SAMPLE_ATTRIBUTE_INDICES_1_9], &of[SAMPLE_VALUES_1_9]))
        vote(v, (set)~SET_1_9, HINT);
    if (packs_some(&of[SAMPLE_ATTRIBUTE_INDICES_1_7], &of[SAMPLE_VALUE_1_7]))
        vote(v, (set)~SET_1_7, HINT);
}

/* What it refers to, in the readings that it has. */
static void refer_from_sample(struct votes *v, struct bytes message, set possible)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (wire_load_next(&in, &f) == 0) {
        if (possible & SET_1_10 && f.number == SAMPLE_ATTRIBUTE_INDICES)
            refer_all(&v->attribute.in_1_10, &f);
        if (possible & SET_1_10 && f.number == SAMPLE_LINK_INDEX)
            refer_all(&v->link.in_1_10, &f);
        if (possible & SET_1_9 && f.number == SAMPLE_ATTRIBUTE_INDICES_1_9)
            refer_all(&v->attribute.in_1_9, &f);
        if (possible & SET_1_9 && f.number == SAMPLE_LINK_INDEX_1_9)
            refer_all(&v->link.in_1_9, &f);
    }
}

static void vote_sample(struct votes *v, struct bytes message)
{
    struct sample s;
    read_sample(v, message, &s);
    if ((s.possible & (s.possible - 1)) != 0) { /* more than one */
        set possible = ask_indices(v, &s);
        s.possible = possible != 0 ? possible : s.possible;
    }
    refer_from_sample(v, message, s.possible);
    hint(v, &s);
    vote(v, ask_shape(&s), VOTE);
}

/* --- The tree */

/* Whether a field carries indices, all below n. */
static bool are_below(const struct wire_field *f, uint32_t n)
{
    struct wire_rest rest = {0};
    uint64_t index;
    int r;
    while ((r = wire_next_repeated(f, WIRE_VARINT, &rest, &index)) == 0)
        if (index >= n)
            return false;
    return r == WIRE_END;
}

/* Rule 3 for what 1.8 has other than 1.9: its comments are where the profile_id is now. */
static set ask_profile_indices(struct votes *v, const struct wire_field *f)
{
    if (f->number == PROFILE_COMMENT_STRINDICES_1_8 && f->type == WIRE_LEN && f->bytes.n == PROFILE_ID_SIZE)
        vote(v, (set)~ONLY(1_8), HINT);
    bool good = true;
    if (f->number == PROFILE_COMMENT_STRINDICES_1_8)
        good = are_below(f, v->n_strings);
    else if (f->number == PROFILE_ATTRIBUTE_INDICES_1_8)
        good = are_below(f, v->attribute.n);
    return good ? SET_ALL : (set)~ONLY(1_8);
}

static void vote_profile(struct votes *v, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    set possible = SET_ALL;
    while (wire_load_next(&in, &f) == 0) {
        possible &= ask_field(v, PLACE_PROFILE, &f) & ask_profile_indices(v, &f);
        if (f.number == PROFILE_SAMPLES && f.type == WIRE_LEN)
            vote_sample(v, f.bytes);
        else if (f.number == PROFILE_SAMPLE_TYPE && f.type == WIRE_LEN)
            vote_message(v, PLACE_SAMPLE_TYPE, f.bytes);
        else if (f.number == PROFILE_ATTRIBUTE_INDICES || f.number == PROFILE_ATTRIBUTE_INDICES_1_8)
            refer_all(&v->attribute.anyhow, &f);
    }
    vote(v, possible, VOTE);
}

/* Rule 4. */
static void vote_resource(struct votes *v, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f, g;
    while (wire_load_next(&in, &f) == 0) {
        if (f.number != RESOURCE_ATTRIBUTES || f.type != WIRE_LEN)
            continue;
        struct wire_reader attribute = wire_reader(f.bytes);
        bool key = false, reference = false;
        while (wire_load_next(&attribute, &g) == 0) {
            key |= g.number == KEY_VALUE_KEY;
            reference |= g.number == KEY_VALUE_KEY_STRINDEX && g.type == WIRE_VARINT && g.value > 0;
        }
        if (reference && !key)
            vote(v, SET_1_10, VOTE);
    }
}

static void vote_resource_profiles(struct votes *v, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f, g;
    while (wire_load_next(&in, &f) == 0) {
        if (f.type != WIRE_LEN)
            continue;
        if (f.number == RESOURCE_PROFILES_RESOURCE)
            vote_resource(v, f.bytes);
        if (f.number != RESOURCE_PROFILES_SCOPE_PROFILES)
            continue;
        struct wire_reader scope = wire_reader(f.bytes);
        while (wire_load_next(&scope, &g) == 0)
            if (g.number == SCOPE_PROFILES_PROFILES && g.type == WIRE_LEN)
                vote_profile(v, g.bytes);
    }
}

/* --- The tables */

/* The key of an attribute of 1.8 and later; 0 where it has none. */
static uint32_t key_of(struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    uint32_t key = 0;
    while (wire_load_next(&in, &f) == 0)
        if (f.number == KEY_VALUE_AND_UNIT_KEY_STRINDEX && f.type == WIRE_VARINT)
            key = (uint32_t)f.value;
    return key;
}

static void vote_dictionary(struct votes *v, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (wire_load_next(&in, &f) == 0) {
        v->dictionary = true;
        if (f.type != WIRE_LEN)
            continue;
        switch (f.number) {
        case DICTIONARY_MAPPING_TABLE: vote_message(v, PLACE_MAPPING, f.bytes); break;
        case DICTIONARY_LOCATION_TABLE: vote_message(v, PLACE_LOCATION, f.bytes); break;
        case DICTIONARY_LINK_TABLE: v->link.n++; break;
        case DICTIONARY_STRING_TABLE: v->n_strings++; break;
        case DICTIONARY_ATTRIBUTE_TABLE:
            vote_message(v, PLACE_ATTRIBUTE, f.bytes);
            if (v->attribute.n < ENTRIES)
                v->key[v->attribute.n] = key_of(f.bytes);
            v->attribute.n++;
            break;
        case DICTIONARY_STACK_TABLE: vote_message(v, PLACE_STACK, f.bytes); break;
        default: break;
        }
    }
}

/* A table against a reading that leaves more of it unused than the other does. */
static void vote_table(struct votes *v, const struct table *table)
{
    for (uint32_t i = 1; i < min_of(table->n, ENTRIES); i++) {
        const uint64_t bit = (uint64_t)1 << i % 64;
        const bool in_1_9 = table->in_1_9.bit[i / 64] & bit, in_1_10 = table->in_1_10.bit[i / 64] & bit;
        if (!(table->anyhow.bit[i / 64] & bit) && in_1_9 != in_1_10)
            vote(v, in_1_9 ? (set)~SET_1_10 : (set)~SET_1_9, UNUSED);
    }
}

/* --- The verdict */

static enum profiles_layout least_against(const struct votes *v)
{
    enum profiles_layout best = PROFILES_LAYOUT_1_10;
    for (enum profiles_layout l = PROFILES_LAYOUT_1_9; l >= PROFILES_LAYOUT_1_5; l--)
        if (v->against[l] < v->against[best] ||
            (v->against[l] == v->against[best] && best != PROFILES_LAYOUT_1_10 &&
             v->unknown[l] < v->unknown[best]))
            best = l;
    return best;
}

/* Whether a layout has a vote more against it than another. */
static bool is_out(const struct votes *v, enum profiles_layout l, enum profiles_layout best)
{
    return v->against[l] >= v->against[best] + VOTE;
}

/* The layouts in which samples have the same numbers as in this one. */
static set kind_of(enum profiles_layout layout)
{
    static const set kinds[] = {SET_1_7, SET_1_9, SET_1_10};
    uint32_t i = 0;
    while (!(kinds[i] >> layout & 1))
        i++;
    return kinds[i];
}

/* Whether all layouts of another kind are out. */
static bool is_told(const struct votes *v, enum profiles_layout best)
{
    bool told = true;
    for (enum profiles_layout l = PROFILES_LAYOUT_1_5; l <= PROFILES_LAYOUT_1_10; l++)
        told &= kind_of(best) >> l & 1 || is_out(v, l, best);
    return told;
}

/* Whether all that is in the request is of this layout, and more of it than a message that was damaged cannot
 * be of the other. */
static bool is_another(const struct votes *v, enum profiles_layout known, enum profiles_layout by_itself)
{
    return v->against[by_itself] == 0 && v->impossible[known] >= 2;
}

/* A producer's layout weighs against other kinds; within its kind it is a hint, since there it may never have
 * been told. */
static struct layout_verdict verdict(struct votes *v, const struct profiles_producer *producer)
{
    const enum profiles_layout by_itself = least_against(v), known = producer->layout;
    struct layout_verdict ret = {.layout = by_itself, .told = is_told(v, by_itself)};
    if (known == PROFILES_LAYOUT_UNKNOWN)
        return ret;
    ret.contradicts = !(kind_of(known) >> by_itself & 1) && is_out(v, known, by_itself);
    if (ret.contradicts && is_another(v, known, by_itself))
        return ret;
    vote(v, kind_of(known), producer->weight);
    vote(v, (set)(1u << known), HINT);
    ret.layout = least_against(v);
    return ret;
}

struct layout_verdict layout_sniff(struct bytes body, const struct profiles_producer *producer)
{
    static const uint32_t order[] = {REQUEST_DICTIONARY, REQUEST_RESOURCE_PROFILES}; /* tables first */
    struct votes v = {0};
    for (uint32_t i = 0; i < ARRAY_LEN(order); i++) {
        struct wire_reader in = wire_reader(body);
        struct wire_field f;
        while (wire_load_next(&in, &f) == 0)
            if (f.number == order[i] && f.type == WIRE_LEN)
                (f.number == REQUEST_DICTIONARY ? vote_dictionary : vote_resource_profiles)(&v, f.bytes);
        v.attribute.n = max_of(v.attribute.n, 1u);
        v.link.n = max_of(v.link.n, 1u);
        v.n_strings = max_of(v.n_strings, 1u);
    }
    vote_table(&v, &v.attribute);
    vote_table(&v, &v.link);
    vote(&v, v.dictionary ? (set)~ONLY(1_5) : (set)~ONLY(1_7), VOTE);
    return verdict(&v, producer);
}
