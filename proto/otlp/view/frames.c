/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/view/frames.h"

#include <inttypes.h>
#include <string.h>

/* The most entries between two neighbours of an `_at` column. */
static uint32_t longest(const uint32_t *at, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = max_of(most, at[i + 1] - at[i]);
    return most;
}

/* Frames of stack i: a location without lines is one, else each line is; counted until they pass the bound,
 * which a deep stack does soon. */
static uint64_t frames_of(const struct profiles *v, uint32_t i)
{
    const uint32_t *location = v->stack_location.location, *lines_at = v->location.lines_at;
    uint64_t frames = 0;
    for (uint32_t k = v->stack.locations_at[i]; k < v->stack.locations_at[i + 1]; k++) {
        uint32_t lines = lines_at[location[k] + 1] - lines_at[location[k]];
        frames += max_of(lines, 1u);
        if (frames > PROFILES_STACK_FRAMES_MAX)
            break;
    }
    return frames;
}

bool frames_is_deep(const struct profiles *v, uint32_t i)
{
    return frames_of(v, i) > PROFILES_STACK_FRAMES_MAX;
}

static uint64_t frames_allowed(const struct profiles *v)
{
    return (uint64_t)FRAMES_PER_BYTE * v->body.n + FRAMES_FREE;
}

/* No location has more lines, and one has more than half as many: all differences of the column ORed, four at
 * a time. What nearly all requests are judged by. */
static uint32_t lines_bound(const struct profiles *v)
{
    typedef uint32_t four __attribute__((vector_size(16)));
    const uint32_t *at = v->location.lines_at;
    uint32_t i = 0, n = v->location.n, bits = 1;
    four all = {0}, low, high;
    for (; i + 4 <= n && v->line.n > 1; i += 4) {
        memcpy(&low, at + i, sizeof low);
        memcpy(&high, at + i + 1, sizeof high);
        all |= high - low;
    }
    for (; i < n && v->line.n > 1; i++)
        bits |= at[i + 1] - at[i];
    return bits | all[0] | all[1] | all[2] | all[3];
}

static uint32_t lines_max(const struct profiles *v)
{
    return v->line.n > 1 ? max_of(longest(v->location.lines_at, v->location.n), 1u) : 1;
}

bool frames_any_deep(const struct profiles *v)
{
    if (likely((uint64_t)v->stack_location.n * lines_bound(v) <= PROFILES_STACK_FRAMES_MAX))
        return false;
    uint64_t deepest = (uint64_t)longest(v->stack.locations_at, v->stack.n) * lines_max(v);
    if (likely(deepest <= PROFILES_STACK_FRAMES_MAX))
        return false;
    for (uint32_t i = 0; i < v->stack.n; i++)
        if (frames_is_deep(v, i))
            return true;
    return false;
}

int frames_bound(struct profiles *v, struct error *e)
{
    uint64_t allowed = frames_allowed(v), frames = 0;
    uint32_t lines = lines_bound(v);
    v->location.several = lines > 1;
    if (likely((uint64_t)v->stack_location.n * lines <= allowed) ||
        (uint64_t)v->stack_location.n * lines_max(v) <= allowed)
        return 0;
    for (uint32_t i = 0; i < v->stack.n; i++) {
        uint64_t of_stack = frames_of(v, i);
        frames += of_stack > PROFILES_STACK_FRAMES_MAX ? 0 : of_stack;
    }
    if (frames <= allowed)
        return 0;
    return error_set(e, PROFILES_TOO_LARGE,
                     "the stacks have %" PRIu64 " frames, inlined ones counted at each mention; %" PRIu64
                     " are taken in a request of %zu bytes",
                     frames, allowed, v->body.n);
}
