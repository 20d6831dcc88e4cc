/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/control/parts.h"

static void expect(const struct bytes *keys, const struct bytes *values, uint32_t n, const char *wanted)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    struct json j = JSON_INIT(&out);
    put_members(&j, keys, values, n);
    ck_assert_int_eq(j.r, 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, wanted);
}

UNIT(members_may_be_absent)
{
    struct bytes keys[] = {BYTES_LIT("service.name"), BYTES_LIT("host"), BYTES_LIT("empty")};
    struct bytes values[] = {BYTES_LIT("shop"), {NULL, 0}, BYTES_LIT("")};
    expect(keys, values, 3, "{\"service.name\":\"shop\",\"host\":null,\"empty\":\"\"}");
    expect(NULL, NULL, 0, "{}");
}

/* What a person sends in a query, or a peer in a resource, is bytes: the page is UTF-8 (RFC 8259
 * section 8.1). */
UNIT(bytes_that_are_no_text)
{
    static const uint8_t bad[] = {'a', 0xff, 0xc3, 0xa9, 0xed, 0xa0, 0x80, 'b', 0xc3};
    struct bytes key = bytes_of(bad, sizeof bad), value = key;
#define CLEANED                                                 \
    "a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" \
    "b\xef\xbf\xbd"
    expect(&key, &value, 1, "{\"" CLEANED "\":\"" CLEANED "\"}");
}

UNIT(long_names_and_values_are_cut)
{
    enum { NAME = 255, VALUE = 1 << 20 };
    char name[NAME + 3];
    char *value = unit_made((char *)calloc(VALUE + 1, 1)),
         *wanted = unit_made((char *)calloc(NAME + VALUE + 16, 1));
    memset(name, 'k', sizeof name);
    memset(value, 'v', VALUE + 1);
    struct bytes key = bytes_of(name, sizeof name), has = bytes_of(value, VALUE + 1), none = {NULL, 0};
    snprintf(wanted, NAME + VALUE + 16, "{\"%.*s\":null}", NAME, name);
    expect(&key, &none, 1, wanted);
    snprintf(wanted, NAME + VALUE + 16, "{\"%.*s\":\"%.*s\"}", NAME, name, VALUE, value);
    expect(&key, &has, 1, wanted);
    free(wanted);
    free(value);
}
