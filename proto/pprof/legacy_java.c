/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Java's profiles (google/pprof, profile/legacy_java_profile.go at 1facf8f): settings, samples whose
 * addresses are numbers of locations, and the locations, "0x7 com.example.Shop.buy (Shop.java:12)". What was
 * an address is none: no location has one in the end.
 */
#include <errno.h>

#include "proto/pprof/legacy_parts.h"

/* Bytes between two samples of a heap. */
#define HEAP_RATE 524288

/* ---- settings ---------------------------------------------------------------------------------- */

/* Whether the line is one, with both. */
static bool take_setting(struct bytes line, struct bytes *ret_name, struct bytes *ret_value)
{
    return legacy_setting(line, ret_name, ret_value) && ret_name->n > 0 && ret_value->n > 0;
}

bool legacy_is_java(const struct legacy *l)
{
    struct legacy ahead = {.rest = l->rest};
    struct bytes name, value;
    while (legacy_line(&ahead)) {
        if (bytes_trim(ahead.line).n == 0)
            continue;
        if (!take_setting(ahead.line, &name, &value))
            return false;
        if (bytes_is(name, "format") || bytes_is(name, "resolution"))
            return true;
    }
    return false;
}

static int read_setting(struct legacy *l, bool is_heap, struct bytes name, struct bytes value)
{
    if (bytes_is(name, "format"))
        return bytes_is(value, "java") ? 0 : legacy_fail(l, "a format that is not java");
    if (bytes_is(name, "resolution")) {
        l->n_types = 2;
        l->types[0] = (struct legacy_type){is_heap ? BYTES_LIT("inuse_objects") : BYTES_LIT("contentions"),
                                           BYTES_LIT("count")};
        l->types[1] = (struct legacy_type){is_heap ? BYTES_LIT("inuse_space") : BYTES_LIT("delay"), value};
        return 0;
    }
    int64_t number;
    const bool is_period = bytes_is(name, "sampling period");
    if (is_heap || (!is_period && !bytes_is(name, "ms since reset")))
        return legacy_fail(l, "an unknown setting");
    if (!legacy_number(&value, &number) || value.n > 0 ||
        (!is_period && __builtin_mul_overflow(number, 1000000, &l->duration_nanos)))
        return legacy_fail(l, "the setting has no number");
    if (is_period) {
        l->period = number;
        l->period_type = (struct legacy_type){BYTES_LIT("contentions"), BYTES_LIT("count")};
    }
    return 0;
}

/* ---- samples ----------------------------------------------------------------------------------- */

static int64_t times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* "BYTES OBJECTS @ LOCATIONS", "DELAY COUNT @ LOCATIONS". False: it is none. */
static bool take_sample(struct bytes *line, int64_t *ret_count, int64_t *ret_size)
{
    return legacy_number(line, ret_size) && legacy_number(line, ret_count) && legacy_text(line, "@");
}

static int read_sample(struct legacy *l, bool is_heap, int64_t count, int64_t size, struct bytes locations)
{
    int64_t block_size = 0;
    if (is_heap && count == 0)
        return legacy_fail(l, "bytes of no object");
    if (is_heap) {
        block_size = count == -1 ? times(size, -1) : size / count;
        legacy_scale(&count, &size, HEAP_RATE);
    } else if (l->period != 0) {
        count = times(count, l->period);
        size = times(size, l->period);
    }
    int r = legacy_sample(l, (int64_t[]){count, size});
    if (r == 0)
        vec_last(&l->samples)->block_size = block_size;
    return r < 0 ? r : legacy_addresses(l, locations, LEGACY_NONE_RETURNS);
}

int legacy_read_java(struct legacy *l)
{
    const bool is_heap = bytes_is(bytes_trim(l->line), "--- heapz 1 ---");
    struct bytes name, value, line;
    int64_t count, size;
    int r = 0;
    l->is_java = true;
    l->has_block_size = is_heap;
    bool is_there = legacy_line(l);
    for (; is_there && r == 0; is_there = legacy_line(l)) {
        line = bytes_trim(l->line);
        if (line.n > 0 && !take_setting(line, &name, &value))
            break;
        r = line.n > 0 ? read_setting(l, is_heap, name, value) : 0;
    }
    if (r == 0 && l->n_types == 0)
        r = legacy_fail(l, "no resolution before it");
    for (; is_there && r == 0; is_there = legacy_line(l)) {
        line = bytes_trim(l->line);
        if (line.n > 0 && !take_sample(&line, &count, &size))
            break;
        r = line.n > 0 ? read_sample(l, is_heap, count, size, line) : 0;
    }
    return r;
}

/* ---- locations --------------------------------------------------------------------------------- */

/* "0x7 TEXT"; false: it is none. */
static bool take_location(struct bytes line, uint64_t *ret_address, struct bytes *ret_text)
{
    line = bytes_trim(line);
    size_t n = 2;
    while (n < line.n && bytes_hex_value(line.p[n]) >= 0)
        n++;
    if (!bytes_starts(line, "0x") || n >= line.n || !legacy_is_space(line.p[n]))
        return false;
    struct bytes digits = bytes_of(line.p + 2, n - 2);
    while (digits.n > 1 && digits.p[0] == '0')
        digits = bytes_from(digits, 1);
    *ret_text = bytes_trim(bytes_from(line, n));
    return bytes_hex(digits, ret_address);
}

/* Where the last "(" behind a blank stands that has more than `behind` bytes behind it; 0: nowhere. */
static size_t find_bracket(struct bytes text, size_t behind)
{
    for (size_t at = text.n; at-- > 1;)
        if (text.p[at] == '(' && legacy_is_space(text.p[at - 1]) && text.n - at - 1 > behind)
            return at;
    return 0;
}

/* "(FILE:LINE)" at the end of a text. */
static bool take_file_and_line(struct bytes text, struct legacy_function *f, int64_t *ret_line)
{
    size_t digits = 0;
    while (digits + 1 < text.n && text.p[text.n - 2 - digits] >= '0' && text.p[text.n - 2 - digits] <= '9')
        digits++;
    const size_t sign = digits + 1 < text.n && text.p[text.n - 2 - digits] == '-';
    const size_t tail = digits + sign + 2; /* with the colon and the bracket */
    if (digits == 0 || tail >= text.n || text.p[text.n - tail] != ':')
        return false;
    const size_t at = find_bracket(text, tail);
    struct bytes number = bytes_of(text.p + text.n - 1 - digits, digits);
    if (at == 0)
        return false;
    f->name = bytes_of(text.p, at - 1);
    f->file = bytes_of(text.p + at + 1, text.n - tail - at - 1);
    *ret_line = 0;
    if (!legacy_number(&number, ret_line) || sign)
        *ret_line = 0;
    return true;
}

/* The last part of a path, as Go's filepath.Base has it. */
static struct bytes base_of(struct bytes path)
{
    if (path.n == 0)
        return BYTES_LIT(".");
    while (path.n > 1 && path.p[path.n - 1] == '/')
        path.n--;
    return path.n == 1 ? path : bytes_after_last(path, '/');
}

/* "FUNCTION (FILE:LINE)", "FUNCTION (LIBRARY)", or what a thread does. */
static struct legacy_function function_of(struct bytes text, int64_t *ret_line)
{
    struct legacy_function f = {.name = text};
    *ret_line = 0;
    if (text.n == 0 || text.p[text.n - 1] != ')' || !take_file_and_line(text, &f, ret_line)) {
        const size_t at = text.n > 0 && text.p[text.n - 1] == ')' ? find_bracket(text, 0) : 0;
        if (at > 0) {
            f.name = bytes_of(text.p, at - 1);
            f.file = base_of(bytes_of(text.p + at + 1, text.n - at - 2));
        } else if (text.n > 0 && memmem(text.p, text.n, "generated stub/JIT", 18)) {
            f.name = BYTES_LIT("STUB");
        }
    }
    return f;
}

static int read_location(struct legacy *l)
{
    uint64_t address;
    struct bytes text;
    int64_t line;
    if (!take_location(l->line, &address, &text))
        return 0;
    const uint32_t *place = address == IDMAP_FREE ? &l->at_top : idmap_find(&l->places, address);
    if (!place || *place == 0)
        return 0;
    struct legacy_function f = function_of(text, &line);
    const uint32_t n = l->names.n, number = intern_add(&l->names, f.name);
    const int r = number == INTERN_NONE ? -ENOMEM : number == n ? vec_append(&l->functions, f) : 0;
    if (r == 0) {
        l->locations.p[*place - 1].function = number + 1;
        l->locations.p[*place - 1].line = line;
    }
    return r;
}

int legacy_java_locations(struct legacy *l)
{
    uint32_t n;
    int r = l->line.n > 0 ? read_location(l) : 0; /* the one that ended the samples */
    while (r == 0 && legacy_line(l))
        r = read_location(l);
    legacy_number_locations(l, &n);
    for (uint32_t i = 0; i < l->locations.n && r == 0; i++) {
        struct legacy_location *at = &l->locations.p[i];
        if (at->id && !at->function && at->address != 0) { /* pprof says of these that they are somewhere */
            r = l->mappings.n == 0 ? vec_append(&l->mappings, LEGACY_EVERYWHERE) : 0;
            at->mapping = 1;
        }
        at->address = 0;
    }
    return r;
}
