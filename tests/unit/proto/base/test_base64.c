/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/base64.h"

#include <errno.h>

#include "tests/lib/unit.h"

static struct buffer out;

static bool says(bool is_any, const char *text, struct bytes want)
{
    out.n = 0;
    return base64_decode(bytes_str(text), is_any, &out) == 0 && bytes_eq(buffer_bytes(&out), want);
}

static bool is_written(struct bytes data, bool is_padded, const char *want)
{
    out.n = 0;
    return base64_encode(data, is_padded, &out) == 0 && bytes_is(buffer_bytes(&out), want);
}

/* RFC 4648 §10's examples. */
UNIT(it_is_written_and_read_padded_or_not)
{
    static const char *const examples[][3] = {{"", "", ""},
                                              {"f", "Zg", "Zg=="},
                                              {"fo", "Zm8", "Zm8="},
                                              {"foo", "Zm9v", "Zm9v"},
                                              {"foob", "Zm9vYg", "Zm9vYg=="},
                                              {"fooba", "Zm9vYmE", "Zm9vYmE="},
                                              {"foobar", "Zm9vYmFy", "Zm9vYmFy"}};
    for (size_t i = 0; i < ARRAY_LEN(examples); i++)
        for (int pads = 0; pads < 2; pads++) {
            ck_assert(is_written(bytes_str(examples[i][0]), pads, examples[i][1 + pads]));
            ck_assert(says(pads, examples[i][1 + pads], bytes_str(examples[i][0])));
        }
    ck_assert(is_written(BYTES_LIT("\xfb\xff\xfe"), false, "+//+"));
    buffer_release(&out);
}

UNIT(base64url_is_read_by_who_says_so)
{
    ck_assert(says(true, "-_8", BYTES_LIT("\xfb\xff")));
    ck_assert(says(true, "+/8=", BYTES_LIT("\xfb\xff")));
    ck_assert_int_eq(base64_decode(BYTES_LIT("-_8"), false, &out), BASE64_BAD);
    buffer_release(&out);
}

UNIT(what_is_none_is_refused)
{
    static const char *const bad[] = {
        "Z", "Zm9vY", "Zm.v", "Z===", "====", "Zm=v", "Zm9=v", "Zg=", "Zg==Zg==", "Zm9 "};
    out.n = 0;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_msg(base64_decode(bytes_str(bad[i]), true, &out) == BASE64_BAD, "%s", bad[i]);
        ck_assert_uint_eq(out.n, 0);
    }
    buffer_release(&out);
}

UNIT(it_may_be_read_where_it_is)
{
    uint8_t text[] = "Zm9vYmFy";
    struct buffer place = {.p = text, .cap = 8, .max = 8};
    ck_assert_int_eq(base64_decode(bytes_of(text, 8), false, &place), 0);
    ck_assert(place.p == text && bytes_is(buffer_bytes(&place), "foobar"));
    struct buffer small = {.p = text, .cap = 2, .max = 2};
    ck_assert_int_eq(base64_decode(BYTES_LIT("Zm9v"), false, &small), -ENOBUFS);
}
