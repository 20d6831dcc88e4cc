/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view proto/otlp/write */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/otlp/layouts/layout_1_9.h"
#include "proto/otlp/view/profiles.h"
#include "proto/otlp/write/subset.h"

static struct profiles decoded(struct bytes body, enum profiles_layout layout)
{
    struct profiles view;
    struct error e = {""};
    ck_assert_int_eq(profiles_init(&view, NULL), 0);
    ck_assert_msg(profiles_decode_as(&view, body, layout, &profiles_limits_default, &e) == 0, "%s", e.text);
    return view;
}

/* All samples of a view as 1.10 bytes without references. */
static struct buffer rebuilt(const struct profiles *view)
{
    struct buffer out = BUFFER_INIT(0);
    cleanup(arena_release) struct arena scratch = ARENA_INIT(NULL);
    ck_assert_int_eq(profiles_subset(view, NULL, NULL, &scratch, &out), 0);
    ck_assert_int_eq(buffer_reserve(&out, PROFILES_PADDING), 0);
    return out;
}

/* What is written as 1.9 and read as 1.9 (which translates to 1.10) says the same, to the byte. */
UNIT(there_and_back)
{
    static const char *const files[] = {"connector/ebpf-go-0003.pb", "connector/ebpf-java-0003.pb",
                                        "connector/ebpf-kernel_tcp-0001.pb", "connector/synth-multi.pb",
                                        "connector/rand-02.pb"};
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        size_t n;
        autofree uint8_t *p = unit_data(files[i], &n);
        cleanup(profiles_release) struct profiles view = decoded(bytes_of(p, n), PROFILES_LAYOUT_UNKNOWN);
        cleanup(buffer_release) struct buffer one = rebuilt(&view), old = BUFFER_INIT(0);
        ck_assert_int_eq(buffer_add_bytes(&old, buffer_bytes(&one)), 0);
        ck_assert_int_eq(buffer_reserve(&old, PROFILES_PADDING), 0);
        ck_assert_int_eq(profiles_to_1_9(old.p, old.n), 0);
        ck_assert_int_ne(memcmp(old.p, one.p, one.n), 0);
        cleanup(profiles_release) struct profiles again = decoded(buffer_bytes(&old), PROFILES_LAYOUT_1_9);
        ck_assert_uint_eq(again.rejected.samples, 0);
        cleanup(buffer_release) struct buffer two = rebuilt(&again);
        ck_assert_uint_eq(two.n, one.n);
        ck_assert_mem_eq(two.p, one.p, one.n);
    }
}

/* A sample with each field, by hand: the fields of 1.9 (profiles.proto, tag v1.9.0). */
UNIT(numbers)
{
    /* clang-format off */
    uint8_t request[] = {0x0a, 0x14, 0x12, 0x12, 0x12, 0x10, 0x12, 0x0e,
        0x08, 0x01,             /* stack_index */
        0x12, 0x01, 0x02,       /* 1.10 attribute_indices */
        0x18, 0x03,             /* 1.10 link_index */
        0xa2, 0x00, 0x01, 0x04, /* 1.10 values, with a tag longer than it need be */
        0x2a, 0x01, 0x05 };     /* timestamps: the same in both */
    static const uint8_t wanted[] = {0x0a, 0x14, 0x12, 0x12, 0x12, 0x10, 0x12, 0x0e,
        0x08, 0x01, 0x1a, 0x01, 0x02, 0x20, 0x03, 0x92, 0x00, 0x01, 0x04, 0x2a, 0x01, 0x05 };
    /* clang-format on */
    ck_assert_int_eq(profiles_to_1_9(request, sizeof request), 0);
    ck_assert_mem_eq(request, wanted, sizeof wanted);
}

UNIT(what_is_no_request)
{
    uint8_t cut[] = {0x0a, 0x05, 0x12, 0x03, 0x12, 0x7f, 0x00};
    ck_assert_int_eq(profiles_to_1_9(cut, sizeof cut), -EINVAL);
    ck_assert_int_eq(profiles_to_1_9(cut, 0), 0);
}
