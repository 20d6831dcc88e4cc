/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/buffer.h"
#include "proto/base/macros.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/lib/unit.h"

UNIT(grows_to_its_maximum_and_no_further)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(10);
    ck_assert_int_eq(buffer_add(&b, "12345678", 8), 0);
    ck_assert_int_eq(buffer_add(&b, "abc", 3), -ENOBUFS);
    ck_assert_uint_eq(b.n, 8);
    ck_assert_int_eq(buffer_add(&b, "ab", 2), 0);
    ck_assert(bytes_is(buffer_bytes(&b), "12345678ab"));
}

UNIT(bad_bytes_become_replacement_characters)
{
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"\xff", "\xef\xbf\xbd"},
        {"a\xc3\xa9\xc3", "a\xc3\xa9\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
        {"\xf0\x9f\x98\x80\x80", "\xf0\x9f\x98\x80\xef\xbf\xbd"},
        {"\xc0\xafz", "\xef\xbf\xbd\xef\xbf\xbdz"}, /* overlong */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        ck_assert_int_eq(buffer_add_utf8(&out, bytes_str(cases[i][0])), 0);
        ck_assert_msg(bytes_is(buffer_bytes(&out), cases[i][1]), "case %zu", i);
        ck_assert(bytes_is_utf8(buffer_bytes(&out)));
    }
    cleanup(buffer_release) struct buffer full = BUFFER_INIT(4); /* all or nothing */
    ck_assert_int_eq(buffer_add_utf8(&full, BYTES_LIT("a\xff\xff")), -ENOBUFS);
    ck_assert_uint_eq(full.n, 0);
}

UNIT(consume_moves_the_rest_to_the_front)
{
    cleanup(buffer_release) struct buffer b = {0};
    ck_assert_int_eq(buffer_printf(&b, "%d-%s", 42, "rest"), 0);
    buffer_consume(&b, 3);
    ck_assert(bytes_is(buffer_bytes(&b), "rest"));
    buffer_consume(&b, 4);
    ck_assert_uint_eq(b.n, 0);
}

UNIT(take_hands_the_memory_over)
{
    struct buffer b = {0};
    size_t n;
    ck_assert_int_eq(buffer_add_str(&b, "mine"), 0);
    autofree uint8_t *p = buffer_take(&b, &n);
    ck_assert(bytes_is(bytes_of(p, n), "mine"));
    ck_assert_ptr_null(b.p);
}

UNIT(bytes_are_added_as_digits_whole_or_not_at_all)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(6);
    ck_assert_int_eq(buffer_add_hex(&b, BYTES_LIT("")), 0);
    ck_assert_int_eq(buffer_add_hex(&b, BYTES_LIT("\x00\xf9")), 0);
    ck_assert(bytes_is(buffer_bytes(&b), "00f9"));
    ck_assert_int_eq(buffer_add_hex(&b, BYTES_LIT("ab")), -ENOBUFS);
    ck_assert_uint_eq(b.n, 4);
}
