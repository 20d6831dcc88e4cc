/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/to_folded.h"

#include <inttypes.h>

#include "proto/convert/names.h"

/* Control characters, too: a file that has any is no text to who reads it. */
static bool is_blank(uint8_t c)
{
    return c <= ' ' || c == 0x7f;
}

/* Blanks around a name are nobody's: a line that begins with them could be one of perf script. */
static struct bytes trim(struct bytes name)
{
    while (name.n > 0 && is_blank(name.p[0]))
        name = bytes_of(name.p + 1, name.n - 1);
    while (name.n > 0 && is_blank(name.p[name.n - 1]))
        name.n--;
    return name;
}

static int put_name(struct buffer *out, struct bytes name)
{
    uint8_t *to = buffer_cursor(out, name.n);
    if (!to && name.n > 0)
        return buffer_add_bytes(out, name); /* which says why */
    for (size_t i = 0; i < name.n; i++)
        to[i] = name.p[i] == ';' ? ':' : is_blank(name.p[i]) ? ' ' : name.p[i];
    out->n += name.n;
    return 0;
}

static int put_address(const struct profiles *v, uint32_t location, struct buffer *out)
{
    struct bytes file = profiles_string(v, v->mapping.filename[v->location.mapping[location]]);
    int r = put_name(out, bytes_after_last(file, '/'));
    return r < 0 ? r : buffer_printf(out, "%s0x%" PRIx64, file.n ? "+" : "", v->location.address[location]);
}

/* A function's name; with its mark, where it was read from a folded stack that had one. */
static struct bytes name_of(const struct profiles *v, uint32_t function)
{
    struct bytes name = profiles_string(v, v->function.name[function]),
                 system = profiles_string(v, v->function.system_name[function]);
    bool is_marked = folded_mark(system) && system.n == name.n + FOLDED_MARK_BYTES &&
                     memcmp(system.p, name.p, name.n) == 0;
    return name.n == 0 || is_marked ? system : name;
}

/* The frames of a location, callers first, each but the very first behind a ';'. */
static int put_location(const struct profiles *v, uint32_t location, bool *first, struct buffer *out)
{
    uint32_t from = v->location.lines_at[location], at = v->location.lines_at[location + 1];
    int r = 0;
    do {
        uint32_t f = at > from ? v->line.function[at - 1] : 0;
        struct bytes name = trim(name_of(v, f));
        r = *first ? 0 : buffer_add_str(out, ";");
        *first = false;
        if (r == 0)
            r = name.n ? put_name(out, name) : put_address(v, location, out);
    } while (r == 0 && at > from && --at > from);
    return r;
}

static int put_sample(const struct profiles *v, uint32_t sample, struct buffer *out)
{
    uint32_t stack = v->sample.stack[sample];
    int64_t value = profiles_sample_value(v, sample);
    if (stack == PROFILES_REJECTED || value == 0 ||
        v->stack.locations_at[stack] == v->stack.locations_at[stack + 1])
        return 0;
    bool first = true;
    int r = 0;
    for (uint32_t i = v->stack.locations_at[stack + 1]; i-- > v->stack.locations_at[stack] && r == 0;)
        r = put_location(v, v->stack_location.location[i], &first, out);
    return r < 0 ? r : buffer_printf(out, " %" PRId64 "\n", value);
}

/* Whether a profile is of the kind of the first one. */
static bool is_first_kind(const struct profiles *v, uint32_t profile)
{
    return bytes_eq(profiles_string(v, v->profile.type[profile]), profiles_string(v, v->profile.type[0])) &&
           bytes_eq(profiles_string(v, v->profile.unit[profile]), profiles_string(v, v->profile.unit[0]));
}

int to_folded(const struct profiles *view, struct buffer *out)
{
    size_t was = out->n;
    int r = 0;
    for (uint32_t p = 0; p < view->profile.n && r == 0; p++)
        for (uint32_t i = view->profile.samples_at[p];
             is_first_kind(view, p) && i < view->profile.samples_at[p + 1] && r == 0; i++)
            r = put_sample(view, i, out);
    if (r < 0)
        out->n = was;
    return r;
}
