/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/bytes.h"
#include "proto/base/bytes_list.h"
#include "proto/base/macros.h"
#include "tests/lib/unit.h"

UNIT(after_last_takes_the_part_behind_the_separator)
{
    ck_assert(bytes_is(bytes_after_last(BYTES_LIT("/usr/lib/libc.so"), '/'), "libc.so"));
    ck_assert(bytes_is(bytes_after_last(BYTES_LIT("libc.so"), '/'), "libc.so"));
    ck_assert(bytes_is(bytes_after_last(BYTES_LIT("dir/"), '/'), ""));
    ck_assert(bytes_is(bytes_after_last(BYTES_LIT(""), '/'), ""));
}

UNIT(from_takes_the_part_that_is_left)
{
    ck_assert(bytes_is(bytes_from(BYTES_LIT("abc"), 1), "bc"));
    ck_assert(bytes_is(bytes_from(BYTES_LIT("abc"), 3), ""));
    ck_assert_uint_eq(bytes_from(bytes_of(NULL, 0), 0).n, 0);
}

UNIT(compare_orders_by_unsigned_bytes_and_prefix_first)
{
    ck_assert_int_eq(bytes_compare(BYTES_LIT("a"), BYTES_LIT("a")), 0);
    ck_assert_int_eq(bytes_compare(BYTES_LIT("a"), BYTES_LIT("ab")), -1);
    ck_assert_int_eq(bytes_compare(BYTES_LIT("\xff"), BYTES_LIT("a")), 1);
}

UNIT(utf8_takes_what_rfc3629_allows)
{
    ck_assert(bytes_is_utf8(BYTES_LIT("")));
    ck_assert(bytes_is_utf8(bytes_of(NULL, 0)));
    ck_assert(bytes_is_utf8(BYTES_LIT("plain ascii, longer than a word")));
    ck_assert(bytes_is_utf8(BYTES_LIT("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5")));
    ck_assert(!bytes_is_utf8(BYTES_LIT("\xc0\x80")));         /* overlong */
    ck_assert(!bytes_is_utf8(BYTES_LIT("\xed\xa0\x80")));     /* surrogate */
    ck_assert(!bytes_is_utf8(BYTES_LIT("\xf4\x90\x80\x80"))); /* above U+10FFFF */
    ck_assert(!bytes_is_utf8(BYTES_LIT("12345678\xe2\x82"))); /* cut */
    ck_assert(!bytes_is_utf8(BYTES_LIT("\x80")));
}

UNIT(words_of_a_line)
{
    struct bytes rest = BYTES_LIT(" \tone two\t three "), none = {0};
    ck_assert(bytes_is(bytes_word(&rest), "one"));
    ck_assert(bytes_is(bytes_word(&rest), "two"));
    ck_assert(bytes_is(bytes_word(&rest), "three"));
    ck_assert_uint_eq(bytes_word(&rest).n, 0);
    ck_assert_uint_eq(bytes_word(&none).n, 0);
}

UNIT(what_others_write_does_not_move_a_terminal_s_cursor)
{
    static const char *const as[][2] = {
        {"plain, \xc3\xa9 and \xf0\x9f\x94\xa5", "plain, \xc3\xa9 and \xf0\x9f\x94\xa5"},
        {"\x1b[2J\r\n\x7f", "?[2J???"},
        {"\xc2\x9b"
         "2J",
         "?2J"},                         /* C1's way to say the same */
        {"\xffgone\xe2\x82", "?gone??"}, /* is no character, is half of one */
        {"a\xe2\x80\xae"
         "b\xef\xbb\xbf",
         "a?b?"}, /* from right to left */
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(as); i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", as[i][0]);
        bytes_make_plain(text);
        ck_assert_str_eq(text, as[i][1]);
    }
    uint32_t c;
    ck_assert_uint_eq(bytes_shown(BYTES_LIT("\xe2\x82\xac"), &c), 3);
    ck_assert_uint_eq(c, 0x20ac);
    ck_assert_uint_eq(bytes_shown(BYTES_LIT("\n"), &c), 0);
    ck_assert_uint_eq(bytes_shown(BYTES_LIT(""), &c), 0);
}

UNIT(utf8_length_is_of_the_character_at_the_front)
{
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("")), 0);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("ab")), 1);
    ck_assert_uint_eq(bytes_utf8_length(bytes_of("\0", 1)), 1);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("\xc3\xa9\xff")), 2);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("\xe2\x82\xac\xff")), 3);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("\xf0\x9f\x94\xa5\xff")), 4);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("\x80\x80")), 0);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("\xf0\x9f\x94")), 0);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("\xc0\x80")), 0);
    ck_assert_uint_eq(bytes_utf8_length(BYTES_LIT("\xed\xa0\x80")), 0);
}

UNIT(hexadecimal_digits_have_values)
{
    const char *const digits = "0123456789abcdefABCDEF";
    for (int c = 0; c < 256; c++) {
        const char *at = c ? strchr(digits, c) : NULL;
        ck_assert_int_eq(bytes_hex_value((uint8_t)c), !at                ? -1
                                                      : at - digits < 16 ? at - digits
                                                                         : at - digits - 6);
    }
}

UNIT(a_number_is_all_of_its_hexadecimal_digits)
{
    static const struct {
        const char *digits;
        bool is_number;
        uint64_t number;
    } cases[] = {{"0", true, 0},
                 {"fF10", true, 0xff10},
                 {"ffffffffffffffff", true, UINT64_MAX},
                 {"00000000000000000", false, 0},
                 {"", false, 0},
                 {"1g", false, 0},
                 {"-1", false, 0},
                 {" 1", false, 0}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint64_t number = 7;
        ck_assert_int_eq(bytes_hex(bytes_str(cases[i].digits), &number), cases[i].is_number);
        ck_assert_uint_eq(number, cases[i].is_number ? cases[i].number : 7);
    }
}

UNIT(a_text_is_cut_between_characters)
{
    const struct bytes text = BYTES_LIT("a\xe2\x82\xac\xf0\x9f\x98\x80");
    static const size_t cut[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 8};
    for (size_t max = 0; max < ARRAY_LEN(cut); max++)
        ck_assert_uint_eq(bytes_cut(text, max).n, cut[max]);
    ck_assert_uint_eq(bytes_cut(BYTES_LIT("\x80\x80\x80\x80\x80\x80"), 5).n, 5); /* no UTF-8 */
    ck_assert_uint_eq(bytes_cut(BYTES_LIT(""), 5).n, 0);
}

UNIT(a_list_is_copied_with_what_it_is_of)
{
    const struct bytes list[] = {BYTES_LIT("ab"), {NULL, 0}, BYTES_LIT(""), BYTES_LIT("c")};
    struct bytes copy[ARRAY_LEN(list)];
    uint8_t at[3];
    ck_assert_uint_eq(bytes_total(list, ARRAY_LEN(list)), sizeof at);
    ck_assert_ptr_eq(bytes_copy_list(copy, list, ARRAY_LEN(list), at), at + sizeof at);
    ck_assert_mem_eq(at, "abc", sizeof at);
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        ck_assert(bytes_eq(copy[i], list[i]));
        ck_assert_int_eq(copy[i].p == NULL, list[i].p == NULL);
    }
}
