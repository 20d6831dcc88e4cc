/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and maps as the text that rules see. */
#include "gateway/classify/attr_text.h"

#include "proto/base/macros.h"
#include "proto/wire/writer.h"
#include "tests/lib/unit.h"

/* Fields of AnyValue. */
enum { TEXT = 1, BOOL = 2, INT = 3, DOUBLE = 4, LIST = 5, BYTES = 7 };

static size_t begin_element(struct wire_writer *w)
{
    return wire_begin(w, 1);
}

static void expect(struct buffer *message, bool map, const char *wanted)
{
    struct attr_value v = {.kind = map ? ATTR_KVLIST : ATTR_ARRAY, .text = buffer_bytes(message)};
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(buffer_add_str(&out, "before,"), 0);
    ck_assert_int_eq(attr_text(NULL, &v, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, wanted);
    buffer_release(&out);
    buffer_release(message);
}

UNIT(a_list_of_every_kind_is_compact_json)
{
    struct buffer message = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&message);
    const double reals[] = {100000, 0.1, 1.0 / 0.0};
    size_t m = begin_element(&w);
    wire_put_bytes(&w, TEXT, BYTES_LIT("a\"\\\n"));
    wire_end(&w, m);
    m = begin_element(&w);
    wire_put_uint(&w, BOOL, 1);
    wire_end(&w, m);
    m = begin_element(&w);
    wire_put_int(&w, INT, -5);
    wire_end(&w, m);
    for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
        m = begin_element(&w);
        wire_put_double(&w, DOUBLE, reals[i]);
        wire_end(&w, m);
    }
    m = begin_element(&w);
    wire_put_bytes(&w, BYTES, BYTES_LIT("\x01\xff"));
    wire_end(&w, m);
    m = begin_element(&w);
    wire_end(&w, wire_begin(&w, LIST));
    wire_end(&w, m);
    wire_end(&w, begin_element(&w));
    ck_assert_int_eq(w.failed, 0);
    expect(&message, false, "before,[\"a\\\"\\\\\\u000a\",true,-5,1e+05,0.1,\"Infinity\",\"01ff\",[],null]");
}

UNIT(a_map_of_what_is_no_utf8_is_json_all_the_same)
{
    struct buffer message = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&message);
    size_t pair = wire_begin(&w, 1);
    wire_put_bytes(&w, 1, BYTES_LIT("k\xff"));
    size_t value = wire_begin(&w, 2);
    wire_put_bytes(&w, TEXT, BYTES_LIT("\xc3\xa9\x80"));
    wire_end(&w, value);
    wire_end(&w, pair);
    ck_assert_int_eq(w.failed, 0);
    expect(&message, true, "before,{\"k\xef\xbf\xbd\":\"\xc3\xa9\xef\xbf\xbd\"}");
}
