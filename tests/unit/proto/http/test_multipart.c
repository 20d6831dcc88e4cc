/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/macros.h"
#include "proto/http/multipart.h"
#include "tests/lib/unit.h"

#define TYPE "multipart/form-data; boundary="

/* "name=body|name=body|", and "!wrong" where it is malformed. */
static const char *parts(const char *type, struct bytes body)
{
    static char text[1000];
    struct multipart m;
    struct multipart_part part;
    size_t n = 0;
    text[0] = 0;
    int r = multipart_begin(&m, bytes_str(type), body);
    while (r == 0 && (r = multipart_next(&m, &part)) == 0)
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s=%.*s|", BYTES_FMT(part.name),
                              BYTES_FMT(part.body));
    if (r == MULTIPART_MALFORMED)
        snprintf(text + n, sizeof text - n, "!%s", m.wrong);
    return text;
}

#define FIELD(name) "Content-Disposition: form-data; name=" name "\r\n"

UNIT(a_form_has_its_parts)
{
    static const struct {
        const char *type, *body, *want;
    } cases[] = {
        {TYPE "X", "--X\r\n" FIELD("\"a\"") "\r\none\r\n--X\r\n" FIELD("b") "\r\ntwo\r\n--X--\r\n",
         "a=one|b=two|"},
        {TYPE "\"X y\"", "--X y\r\n" FIELD("\"a\"") "\r\none\r\n--X y--", "a=one|"},
        {"Multipart/Form-Data; charset=\"a;boundary=b\" ; Boundary=X", "--X\r\n" FIELD("a") "\r\n1\r\n--X--",
         "a=1|"},
        {TYPE "X",
         "for old mail readers\r\n--X\r\ncontent-disposition:form-data;name=a\r\nX-Y: z\r\n\r\n1\r\n--X--",
         "a=1|"},
        {TYPE "X", "--X \t\r\n" FIELD("\"a;b\"; filename=\"c\"") "\r\n\r\n--Xy\r\n--X--", "a;b=\r\n--Xy|"},
        {TYPE "X", "--X\r\n\r\nnobody's\r\n--X--", "=nobody's|"},
        {TYPE "X", "--X\r\n" FIELD("a") "\r\n\r\n--X--", "a=|"},
        {TYPE "X", "--X--", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ck_assert_str_eq(parts(cases[i].type, bytes_str(cases[i].body)), cases[i].want);
}

UNIT(what_is_no_form_is_said_to_be_none)
{
    static const struct {
        const char *type, *body, *want;
    } cases[] = {
        {"multipart/form-data", "--X--", "!multipart/form-data needs a boundary"},
        {TYPE "\"", "--X--", "!multipart/form-data needs a boundary"},
        {TYPE "1234567890123456789012345678901234567890123456789012345678901234567890x", "",
         "!multipart/form-data needs"},
        {TYPE "X", "", "!the boundary of the form is nowhere"},
        {TYPE "X", "--Xa--", "!the boundary of the form is followed"},
        {TYPE "X", "--X\n\n1\n--X--", "!the boundary of the form is followed"},
        {TYPE "X", "--X\r\n" FIELD("a") "\r\n1", "!the form is cut short"},
        {TYPE "X", "--X\r\n" FIELD("a"), "!the header fields of a part do not end"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        ck_assert_msg(strncmp(parts(cases[i].type, bytes_str(cases[i].body)), cases[i].want,
                              strlen(cases[i].want)) == 0,
                      "%zu: %s", i, parts(cases[i].type, bytes_str(cases[i].body)));
}

UNIT(giant_heads_and_floods_of_parts_end_early)
{
    static char head[9000] = "--X\r\nA: ", many[1000];
    memset(head + 8, 'a', sizeof head - 20);
    strcpy(head + sizeof head - 12, "\r\n\r\n\r\n--X--");
    ck_assert_str_eq(parts(TYPE "X", bytes_str(head)),
                     "!the header fields of a part do not end, or are longer than 8 KiB");
    for (size_t i = 0; i < 70; i++)
        strcpy(many + 9 * i, "--X\r\n\r\n\r\n");
    strcat(many, "--X--");
    const char *said = parts(TYPE "X", bytes_str(many));
    ck_assert_ptr_nonnull(strstr(said, "!the form has more than 64 parts"));
}
