/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_jsonc */
/* The JSON of pages: what they share. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "gateway/stats/json.h"

static void expect(json_object *top, const char *wanted)
{
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(json_write(unit_made(top), &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, wanted);
    buffer_release(&out);
}

UNIT(a_document)
{
    json_object *top = unit_made(json_object_new_object()), *list = json_object_new_array();
    ck_assert_int_eq(json_put(top, "list", list), 0);
    json_object *o = unit_made(json_append_object(list));
    ck_assert_int_eq(json_put(o, "text", json_text(BYTES_LIT("a\"b\n"))), 0);
    ck_assert_int_eq(json_put(o, "none", json_text(bytes_of(NULL, 0))), 0);
    unit_made(json_append_object(list));
    expect(top, "{\"list\":[{\"text\":\"a\\\"b\\n\",\"none\":\"\"},{}]}");
    json_object_put(top);
}

UNIT(members_may_be_absent)
{
    struct bytes keys[] = {BYTES_LIT("service.name"), BYTES_LIT("host"), BYTES_LIT("empty")};
    struct bytes values[] = {BYTES_LIT("shop"), {NULL, 0}, BYTES_LIT("")};
    json_object *o = json_members(keys, values, 3);
    expect(o, "{\"service.name\":\"shop\",\"host\":null,\"empty\":\"\"}");
    json_object_put(o);
    o = json_members(NULL, NULL, 0);
    expect(o, "{}");
    json_object_put(o);
}

/* What a person sends in a query, or a peer in a resource, is bytes: the page is UTF-8 (RFC 8259
 * section 8.1), and json-c writes what it is given. */
UNIT(bytes_that_are_no_text)
{
    static const uint8_t bad[] = {'a', 0xff, 0xc3, 0xa9, 0xed, 0xa0, 0x80, 'b', 0xc3};
    struct bytes key = bytes_of(bad, sizeof bad), value = key;
    json_object *o = json_members(&key, &value, 1);
#define CLEANED                                                 \
    "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" \
    "b\xef\xbf\xbd"
    expect(o, "{\"" CLEANED "\":\"" CLEANED "\"}");
    json_object_put(o);
}

UNIT(long_names_are_cut)
{
    char name[JSON_KEY_MAX + 3], wanted[JSON_KEY_MAX + 16];
    memset(name, 'k', sizeof name);
    snprintf(wanted, sizeof wanted, "{\"%.*s\":null}", (int)JSON_KEY_MAX, name);
    struct bytes key = bytes_of(name, sizeof name), value = {NULL, 0};
    json_object *o = json_members(&key, &value, 1);
    expect(o, wanted);
    json_object_put(o);
}

/* Nothing is leaked where memory was out before: the sanitizer looks. */
UNIT(what_is_not_there)
{
    ck_assert_int_eq(json_put(NULL, "x", json_object_new_array()), -ENOMEM);
    json_object *top = unit_made(json_object_new_object());
    ck_assert_int_eq(json_put(top, "x", NULL), -ENOMEM);
    expect(top, "{}");
    json_object_put(top);
}
