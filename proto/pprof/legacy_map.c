/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory maps have the form of /proc/PID/maps, "START-END PERM OFFSET DEV INODE FILE", or of gperftools,
 * "START-END: FILE (@OFFSET) BUILDID", with "name=value" lines, whose $name stands in later ones. What is
 * neither is passed over.
 */
#include <ctype.h>

#include "proto/base/macros.h"
#include "proto/pprof/legacy_parts.h"

/* Steps of looking for the mappings of addresses: one by one, since those of a map may overlap. */
#define SEARCH_MAX (UINT64_C(1) << 28)

/* Values that later lines refer to, and what lines become by them. */
#define ATTRIBUTES_MAX 16u
#define REPLACED_MAX   (1u << 20)

bool legacy_line(struct legacy *l)
{
    const uint8_t *end = l->rest.n ? memchr(l->rest.p, '\n', l->rest.n) : NULL;
    size_t n = end ? (size_t)(end - l->rest.p) : l->rest.n;
    bool is_there = l->rest.n > 0;
    l->line = bytes_of(l->rest.p, n > 0 && l->rest.p[n - 1] == '\r' ? n - 1 : n);
    l->rest = end ? bytes_of(end + 1, l->rest.n - n - 1) : (struct bytes){0};
    l->line_number += is_there;
    return is_there;
}

bool legacy_begins_map(struct bytes line)
{
    return line.n > 0 && (memmem(line.p, line.n, "--- Memory map: ---", 19) ||
                          memmem(line.p, line.n, "MAPPED_LIBRARIES:", 17));
}

/* ---- one line --------------------------------------------------------------------------------- */

static bool take_spaces(struct bytes *s)
{
    size_t n = 0;
    while (n < s->n && legacy_is_space(s->p[n]))
        n++;
    *s = bytes_from(*s, n);
    return n > 0;
}

/* The front of `s` that is of these characters; hexadecimal digits where none are given. */
static struct bytes take_of(struct bytes *s, const char *characters)
{
    size_t n = 0;
    while (n < s->n && (characters ? s->p[n] && strchr(characters, s->p[n]) : bytes_hex_value(s->p[n]) >= 0))
        n++;
    struct bytes taken = bytes_of(s->p, n);
    *s = bytes_from(*s, n);
    return taken;
}

static bool take_char(struct bytes *s, char c)
{
    bool is_there = s->n > 0 && s->p[0] == (uint8_t)c;
    *s = bytes_from(*s, is_there);
    return is_there;
}

static struct bytes take_word(struct bytes *s)
{
    size_t n = 0;
    while (n < s->n && !legacy_is_space(s->p[n]))
        n++;
    struct bytes taken = bytes_of(s->p, n);
    *s = bytes_from(*s, n);
    return taken;
}

/* Behind blanks; nothing is taken where there is none. */
static struct bytes take_spaced(struct bytes *s, const char *characters)
{
    struct bytes rest = *s, taken = {0};
    if (take_spaces(&rest) && (taken = take_of(&rest, characters)).n > 0)
        *s = rest;
    return taken;
}

static bool number_of(struct bytes hex, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < hex.n; i++) {
        if (*ret >> 60)
            return false;
        *ret = *ret << 4 | (uint64_t)bytes_hex_value(hex.p[i]);
    }
    return true;
}

static void take_0x(struct bytes *s)
{
    if (s->n > 2 && s->p[0] == '0' && s->p[1] == 'x' && bytes_hex_value(s->p[2]) >= 0)
        *s = bytes_from(*s, 2);
}

/* "START-END:", where the two may stand without anything between them: then the last digit is the end. */
static bool take_range(struct bytes *s, struct bytes *ret_start, struct bytes *ret_end)
{
    take_spaces(s);
    take_0x(s);
    *ret_start = take_of(s, NULL);
    struct bytes rest = *s;
    if (rest.n > 0 && (legacy_is_space(rest.p[0]) || rest.p[0] == '-'))
        rest = bytes_from(rest, 1);
    take_spaces(&rest);
    take_0x(&rest);
    *ret_end = take_of(&rest, NULL);
    if (ret_end->n > 0 && ret_start->n > 0) {
        *s = rest;
    } else if (ret_start->n > 1) {
        *ret_end = bytes_of(ret_start->p + ret_start->n - 1, 1);
        ret_start->n--;
    } else {
        return false;
    }
    take_char(s, ':');
    return true;
}

/* " DEV INODE FILE", the file being what may be missing. */
static bool take_device(struct bytes *s, struct bytes *ret_file)
{
    struct bytes rest = *s;
    if (take_spaced(&rest, NULL).n == 0 || !take_char(&rest, ':') || take_of(&rest, NULL).n == 0 ||
        take_spaced(&rest, "0123456789").n == 0)
        return false;
    if (take_spaces(&rest))
        *ret_file = take_word(&rest);
    return true;
}

/* "(@FF00)". */
static struct bytes take_at_offset(struct bytes *s)
{
    struct bytes rest = *s, offset = {0};
    if (!take_spaces(&rest) || !take_char(&rest, '(') || !take_char(&rest, '@'))
        return offset;
    offset = take_of(&rest, NULL);
    if (offset.n == 0 || !take_char(&rest, ')'))
        return (struct bytes){0};
    *s = rest;
    return offset;
}

/* False: the line is no mapping. *ret_is_data: it is one without code. */
static bool take_mapping(struct bytes line, struct legacy_mapping *ret, bool *ret_is_data)
{
    struct bytes start, end, offset = {0}, rest = line;
    *ret = (struct legacy_mapping){0};
    if (!take_range(&rest, &start, &end))
        return false;
    struct bytes bare = rest, perm = take_spaced(&rest, "-rwxp"), with_perm = rest;
    offset = take_spaced(&rest, NULL);
    if (!take_device(&rest, &ret->file)) {
        offset = (struct bytes){0};
        rest = with_perm;
        if (!take_device(&rest, &ret->file)) { /* gperftools' */
            rest = perm.n ? with_perm : bare;
            struct bytes before_file = rest;
            if (take_spaces(&before_file) && before_file.n > 0) {
                ret->file = take_word(&before_file);
                rest = before_file;
            }
            offset = take_at_offset(&rest);
            ret->build_id = take_spaced(&rest, NULL);
        }
    }
    *ret_is_data = perm.n > 0 && !memchr(perm.p, 'x', perm.n);
    return *ret_is_data ||
           (number_of(start, &ret->start) && number_of(end, &ret->limit) && number_of(offset, &ret->offset));
}

/* Without "file.cc:12] ", which loggers write in front. */
static struct bytes without_log_prefix(struct bytes line)
{
    const uint8_t *end = line.n ? memchr(line.p, ']', line.n) : NULL;
    size_t at = end ? (size_t)(end - line.p) : 0, from = at;
    if (at == 0 || memchr(line.p, '[', at) || at + 1 >= line.n || !legacy_is_space(line.p[at + 1]))
        return line;
    while (from > 0 && isdigit(line.p[from - 1]))
        from--;
    return from < at && from > 1 && line.p[from - 1] == ':' ? bytes_from(line, at + 2) : line;
}

struct attributes {
    struct bytes name[ATTRIBUTES_MAX], value[ATTRIBUTES_MAX];
    uint32_t n;
};

/* The line with the values of $names, which lasts. */
static int replace(struct legacy *l, const struct attributes *a, struct bytes *line)
{
    struct bytes rest = *line;
    struct buffer *to = &l->replaced;
    size_t begun = to->n;
    int r = 0;
    if (a->n == 0 || line->n == 0 || !memchr(line->p, '$', line->n))
        return 0;
    if (!to->p && (r = buffer_reserve(to, REPLACED_MAX)) < 0)
        return r;
    while (rest.n > 0 && r == 0) {
        uint32_t i = 0;
        while (rest.p[0] == '$' && i < a->n &&
               !(rest.n > a->name[i].n && memcmp(rest.p + 1, a->name[i].p, a->name[i].n) == 0))
            i++;
        bool is_name = rest.p[0] == '$' && i < a->n;
        struct bytes text = is_name ? a->value[i] : bytes_of(rest.p, 1);
        if (to->n + text.n > REPLACED_MAX) /* slices of it are kept: it must not move */
            return error_set(l->e, PPROF_MALFORMED,
                             "line %llu: lines of the memory map become longer than 1 MiB",
                             (unsigned long long)l->line_number);
        r = buffer_add_bytes(to, text);
        rest = bytes_from(rest, is_name ? a->name[i].n + 1 : 1);
    }
    *line = bytes_of(to->p + begun, to->n - begun);
    return r;
}

static int read_mappings(struct legacy *l)
{
    struct attributes attributes = {.n = 0};
    int r = 0;
    while (r == 0 && legacy_line(l)) {
        struct legacy_mapping mapping;
        bool is_data = false;
        struct bytes line = without_log_prefix(l->line);
        if ((r = replace(l, &attributes, &line)) != 0)
            return r;
        const uint32_t n = attributes.n;
        if (take_mapping(line, &mapping, &is_data))
            r = is_data ? 0 : vec_append(&l->mappings, mapping);
        else if (n < ATTRIBUTES_MAX && legacy_setting(line, &attributes.name[n], &attributes.value[n]))
            attributes.n++;
    }
    return r;
}

/* ---- the table -------------------------------------------------------------------------------- */

static bool are_adjacent(const struct legacy_mapping *a, const struct legacy_mapping *b)
{
    return !(a->file.n && b->file.n && !bytes_eq(a->file, b->file)) &&
           !(a->build_id.n && b->build_id.n && !bytes_eq(a->build_id, b->build_id)) && a->limit == b->start &&
           !(a->offset && b->offset && a->offset + (a->limit - a->start) != b->offset);
}

static void merge_adjacent(struct legacy *l)
{
    uint32_t n = min_of(l->mappings.n, 1u);
    for (uint32_t i = 1; i < l->mappings.n; i++) {
        struct legacy_mapping *last = &l->mappings.p[n - 1], *m = &l->mappings.p[i];
        if (!are_adjacent(last, m)) {
            l->mappings.p[n++] = *m;
            continue;
        }
        last->limit = m->limit;
        last->file = m->file.n ? m->file : last->file;
        last->build_id = m->build_id.n ? m->build_id : last->build_id;
    }
    l->mappings.n = n;
}

/* "libc.so", "libc.so.6", "libc.so_1". */
static bool is_library(struct bytes file)
{
    const uint8_t *at = file.p, *end = file.p + file.n;
    while (at && (at = memmem(at, (size_t)(end - at), ".so", 3)) != NULL) {
        at += 3;
        if (at == end || (end - at > 1 && (at[0] == '.' || at[0] == '_') && isdigit(at[1])))
            return true;
    }
    return false;
}

/* The program stands first. */
static void put_program_first(struct legacy *l)
{
    for (uint32_t i = 0; i < l->mappings.n; i++) {
        struct bytes file = l->mappings.p[i].file;
        if (file.n == 0 || bytes_is(file, "(deleted)") || is_library(file) || file.p[0] == '[')
            continue;
        struct legacy_mapping first = l->mappings.p[0];
        l->mappings.p[0] = l->mappings.p[i];
        l->mappings.p[i] = first;
        return;
    }
}

/* Handlers that say wrongly where the program begins. */
static void mend_program(struct legacy *l)
{
    const uint64_t usual = 0x400000;
    if (l->mappings.n > 1 && bytes_starts(l->mappings.p[0].file, "/anon_hugepage") &&
        l->mappings.p[0].limit == l->mappings.p[1].start)
        l->first_mapping = 1;
    if (l->mappings.n > l->first_mapping) {
        struct legacy_mapping *m = &l->mappings.p[l->first_mapping];
        if (m->start - m->offset == usual) {
            m->start = usual;
            m->offset = 0;
        }
    }
}

/* The mapping that an address is in; of several the first; and else one that was said to begin too late. */
static uint32_t find_mapping(struct legacy *l, uint64_t address)
{
    for (uint32_t i = l->first_mapping; i < l->mappings.n; i++)
        if (l->mappings.p[i].start <= address && address < l->mappings.p[i].limit)
            return i + 1;
    for (uint32_t i = l->first_mapping; i < l->mappings.n; i++) {
        struct legacy_mapping *m = &l->mappings.p[i];
        if (m->offset != 0 && m->start - m->offset <= address && address < m->start) {
            m->start -= m->offset;
            m->offset = 0;
            return i + 1;
        }
    }
    return 0;
}

void legacy_number_locations(struct legacy *l, uint32_t *ret_n)
{
    *ret_n = 0;
    for (uint32_t i = 0; i < l->samples.n; i++)
        for (uint32_t k = 0; k < l->samples.p[i].n; k++) {
            struct legacy_location *at = &l->locations.p[l->stacks.p[l->samples.p[i].from + k]];
            at->id = at->id ? at->id : ++*ret_n;
        }
}

int legacy_read_map(struct legacy *l)
{
    uint32_t n = 0, everywhere = 0;
    int r = read_mappings(l);
    merge_adjacent(l);
    put_program_first(l);
    legacy_number_locations(l, &n);
    mend_program(l);
    if (r == 0 && (uint64_t)n * l->mappings.n > SEARCH_MAX)
        r = error_set(l->e, PPROF_MALFORMED, "%u mappings are too many for %u addresses", l->mappings.n, n);
    /* In the order of the samples: what is found may change where a mapping begins. */
    for (uint32_t i = 0; i < l->samples.n && r == 0; i++)
        for (uint32_t k = 0; k < l->samples.p[i].n && r == 0; k++) {
            struct legacy_location *at = &l->locations.p[l->stacks.p[l->samples.p[i].from + k]];
            if (at->mapping || at->address == 0)
                continue;
            at->mapping = find_mapping(l, at->address);
            if (at->mapping)
                continue;
            if (!everywhere) {
                r = vec_append(&l->mappings, LEGACY_EVERYWHERE);
                everywhere = l->mappings.n;
            }
            at->mapping = everywhere;
        }
    return r;
}
