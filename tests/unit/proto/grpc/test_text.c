/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/grpc/text.h"

#include <errno.h>

#include "proto/base/base64.h"
#include "tests/lib/unit.h"

static struct buffer out;

static bool encodes(int (*fn)(struct bytes, struct buffer *), struct bytes in, const char *want)
{
    out.n = 0;
    return fn(in, &out) == 0 && bytes_is(buffer_bytes(&out), want);
}

UNIT(grpc_message_keeps_printable_ascii_and_escapes_the_rest)
{
    ck_assert(encodes(grpc_percent_encode, BYTES_LIT("plain ~text"), "plain ~text"));
    ck_assert(encodes(grpc_percent_encode, BYTES_LIT("100%\n\x7f\xc3\xa9"), "100%25%0A%7F%C3%A9"));
    ck_assert(encodes(grpc_percent_decode, BYTES_LIT("100%25%0A%7f%C3%a9"), "100%\n\x7f\xc3\xa9"));
    buffer_release(&out);
}

UNIT(a_bad_escape_is_taken_as_it_stands)
{
    ck_assert(encodes(grpc_percent_decode, BYTES_LIT("%"), "%"));
    ck_assert(encodes(grpc_percent_decode, BYTES_LIT("%4"), "%4"));
    ck_assert(encodes(grpc_percent_decode, BYTES_LIT("%zz%41%4"), "%zzA%4"));
    ck_assert(encodes(grpc_percent_decode, BYTES_LIT("%%41"), "%A"));
    buffer_release(&out);
}

UNIT(of_several_values_in_base64_the_first_is_read)
{
    ck_assert(encodes(grpc_base64_decode, BYTES_LIT("Zm9v"), "foo"));
    ck_assert(encodes(grpc_base64_decode, BYTES_LIT(" Zm8= ,Zm9v"), "fo"));
    ck_assert_int_eq(grpc_base64_decode(BYTES_LIT("Zm-v"), &out), BASE64_BAD);
    buffer_release(&out);
}

UNIT(timeouts_are_read)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"1n", 1},
                {"20u", 20000},
                {"100m", 100000000},
                {"10S", 10000000000},
                {"2M", 120000000000},
                {"1H", 3600000000000},
                {"00000000S", 0},
                {"99999999H", UINT64_MAX}};
    uint64_t ns;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(grpc_timeout_parse(bytes_str(good[i].text), &ns), 0);
        ck_assert_uint_eq(ns, good[i].ns);
    }
    static const char *const bad[] = {"", "S", "1", "1s", "-1S", "1.5S", "123456789S", " 1S", "1S "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(grpc_timeout_parse(bytes_str(bad[i]), &ns) == -EINVAL, "%s", bad[i]);
}

UNIT(timeouts_are_written_rounded_up_and_read_back)
{
    char text[GRPC_TIMEOUT_MAX];
    static const struct {
        uint64_t ns;
        const char *text;
    } cases[] = {{0, "0n"},
                 {99999999, "99999999n"},
                 {100000000, "100000u"},
                 {100000001, "100001u"},
                 {10000000000, "10000000u"},
                 {UINT64_MAX, "5124096H"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        grpc_timeout_format(cases[i].ns, text);
        ck_assert_str_eq(text, cases[i].text);
    }
    for (uint64_t ns = 1; ns < UINT64_MAX / 7; ns *= 7) {
        uint64_t back;
        grpc_timeout_format(ns, text);
        ck_assert_int_eq(grpc_timeout_parse(bytes_str(text), &back), 0);
        ck_assert_uint_ge(back, ns);
    }
}
