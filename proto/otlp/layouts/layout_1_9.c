/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/layouts/layout_1_9.h"

#include <errno.h>

#include "proto/otlp/layouts/fields.h"
#include "proto/wire/reader.h"

/* [number in 1.10] in 1.9, of Sample; 0: it has none, and stays. */
static const uint8_t renumbered[SAMPLE_HIGHEST + 1] = {
    [SAMPLE_STACK_INDEX] = SAMPLE_STACK_INDEX_1_9,
    [SAMPLE_ATTRIBUTE_INDICES] = SAMPLE_ATTRIBUTE_INDICES_1_9,
    [SAMPLE_LINK_INDEX] = SAMPLE_LINK_INDEX_1_9,
    [SAMPLE_VALUES] = SAMPLE_VALUES_1_9,
    [SAMPLE_TIMESTAMPS_UNIX_NANO] = SAMPLE_TIMESTAMPS_UNIX_NANO_1_9,
};
_Static_assert((int)SAMPLE_HIGHEST < 16, "a tag of one byte: no length changes");

/* The fields of one Sample. `base` is where the request may be written. */
static int rewrite_sample(uint8_t *base, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number >= sizeof renumbered || renumbered[f.number] == 0)
            continue;
        /* The number's low four bits are in a tag's first byte, however long the tag is. */
        uint8_t *tag = base + (f.from - base);
        *tag = (uint8_t)((*tag & 0x87) | renumbered[f.number] << 3);
    }
    return r == WIRE_END ? 0 : -EINVAL;
}

/* One reader for each level down to the samples, the innermost being read. */
int profiles_to_1_9(uint8_t *p, size_t n)
{
    static const uint32_t path[] = {REQUEST_RESOURCE_PROFILES, RESOURCE_PROFILES_SCOPE_PROFILES,
                                    SCOPE_PROFILES_PROFILES, PROFILE_SAMPLES};
    enum { LEVELS = sizeof path / sizeof *path };
    struct wire_reader in[LEVELS] = {wire_reader(bytes_of(p, n))};
    uint32_t level = 0;
    for (;;) {
        struct wire_field f;
        int r = wire_next(&in[level], &f);
        if (r == WIRE_END) {
            if (level-- == 0)
                return 0;
        } else if (r != 0) {
            return -EINVAL;
        } else if (f.number == path[level] && f.type == WIRE_LEN) {
            if (level + 1 < LEVELS)
                in[++level] = wire_reader(f.bytes);
            else if (rewrite_sample(p, f.bytes) < 0)
                return -EINVAL;
        }
    }
}
