/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/source/lex.h"

#include <stdlib.h>

#include "rules/source/report.h"
#include "tests/lib/unit.h"

struct lexed {
    struct tokens tokens;
    struct rules_diagnostics found;
};

static struct lexed lex_text(const char *text)
{
    struct lexed l = {0};
    struct rule_file file = {.name = BYTES_LIT("t"), .text = bytes_str(text)};
    uint32_t errors = 0, warnings = 0;
    struct report report = {.out = &l.found, .files = &file, .errors = &errors, .warnings = &warnings};
    ck_assert_int_eq(lex(&file, 0, &report, &l.tokens), 0);
    report_finish(&report);
    return l;
}

static void lexed_free(struct lexed *l)
{
    tokens_release(&l->tokens);
    rules_diagnostics_release(&l->found);
}

static void check_token(const struct lexed *l, uint32_t i, enum token_kind kind, const char *text)
{
    ck_assert_uint_lt(i, l->tokens.all.n);
    const struct token *t = &l->tokens.all.p[i];
    ck_assert_int_eq(t->kind, kind);
    ck_assert_msg(bytes_is(t->text, text), "token %u is %.*s, not %s", i, BYTES_FMT(t->text), text);
}

UNIT(names_keep_their_dots_and_a_star_behind_one_is_its_own)
{
    cleanup(lexed_free) struct lexed l = lex_text("profile.gc.time kernel_work.* a.1 x..y");
    check_token(&l, 0, TOKEN_NAME, "profile.gc.time");
    check_token(&l, 1, TOKEN_NAME, "kernel_work");
    check_token(&l, 2, TOKEN_ALL_OF, ".*");
    check_token(&l, 3, TOKEN_NAME, "a");
    ck_assert_int_gt(l.found.n_errors, 0); /* .1 and .. */
}

UNIT(an_i_directly_behind_a_quote_ignores_case)
{
    cleanup(lexed_free) struct lexed l = lex_text("\"*sip*\"i \"a\"in \"b\" i /r\\/x/i");
    ck_assert_uint_eq(l.tokens.all.n, 6 + 1);
    check_token(&l, 0, TOKEN_STRING, "*sip*");
    ck_assert(l.tokens.all.p[0].nocase);
    ck_assert(!l.tokens.all.p[1].nocase);
    check_token(&l, 2, TOKEN_NAME, "in");
    ck_assert(!l.tokens.all.p[3].nocase);
    check_token(&l, 4, TOKEN_NAME, "i");
    check_token(&l, 5, TOKEN_REGEX, "r\\/x");
    ck_assert(l.tokens.all.p[5].nocase);
    check_token(&l, 6, TOKEN_END, "");
}

UNIT(marks_and_quantities)
{
    cleanup(lexed_free) struct lexed l =
        lex_text("== = => != !~ ~ ?? | + - < ( ) { } [ ] , 40% 250ms 97Hz 500 # comment == \"x");
    static const enum token_kind kinds[] = {TOKEN_EQUAL,     TOKEN_ASSIGN,   TOKEN_ARROW,    TOKEN_UNEQUAL,
                                            TOKEN_UNMATCH,   TOKEN_MATCH,    TOKEN_ELSE,     TOKEN_BAR,
                                            TOKEN_PLUS,      TOKEN_DASH,     TOKEN_BELOW,    TOKEN_PAREN,
                                            TOKEN_UNPAREN,   TOKEN_BRACE,    TOKEN_UNBRACE,  TOKEN_BRACKET,
                                            TOKEN_UNBRACKET, TOKEN_COMMA,    TOKEN_QUANTITY, TOKEN_QUANTITY,
                                            TOKEN_QUANTITY,  TOKEN_QUANTITY, TOKEN_END};
    ck_assert_uint_eq(l.tokens.all.n, sizeof kinds / sizeof *kinds);
    for (uint32_t i = 0; i < l.tokens.all.n; i++)
        ck_assert_int_eq(l.tokens.all.p[i].kind, kinds[i]);
    check_token(&l, 19, TOKEN_QUANTITY, "250ms");
    ck_assert_uint_eq(l.found.n, 0);
}

UNIT(places_count_lines_and_columns_from_one)
{
    cleanup(lexed_free) struct lexed l = lex_text("a\n\t\"xy\"\r\n b");
    ck_assert_uint_eq(l.tokens.all.p[1].place.line, 2);
    ck_assert_uint_eq(l.tokens.all.p[1].place.column, 2);
    ck_assert_uint_eq(l.tokens.all.p[1].place.length, 4);
    ck_assert_uint_eq(l.tokens.all.p[2].place.line, 3);
    ck_assert_uint_eq(l.tokens.all.p[2].place.column, 2);
}

UNIT(a_byte_order_mark_is_passed_over_at_the_begin_alone)
{
    cleanup(lexed_free) struct lexed l = lex_text("\xef\xbb\xbfrules 1"),
                                     inside = lex_text("rules \xef\xbb\xbf"
                                                       "1");
    check_token(&l, 0, TOKEN_NAME, "rules");
    ck_assert_uint_eq(l.tokens.all.p[0].place.column, 1);
    ck_assert_uint_eq(l.found.n_errors, 0);
    ck_assert_uint_eq(inside.found.n_errors, 1);
}

UNIT(reserved_words_fields_and_types)
{
    ck_assert_int_eq(lex_word(BYTES_LIT("when")), WORD_WHEN);
    ck_assert_int_eq(lex_word(BYTES_LIT("after")), WORD_AFTER);
    ck_assert_int_eq(lex_word(BYTES_LIT("function")), WORD_FIELD_FUNCTION);
    ck_assert_int_eq(lex_word(BYTES_LIT("build_id")), WORD_FIELD_BUILD_ID);
    ck_assert_int_eq(lex_word(BYTES_LIT("luajit")), WORD_TYPE_WORD);
    ck_assert_int_eq(lex_word(BYTES_LIT("label")), WORD_NONE_OF_OURS);
    ck_assert_int_eq(lex_word(BYTES_LIT("wheN")), WORD_NONE_OF_OURS);
}

UNIT(globs_come_apart_at_their_stars)
{
    static const struct {
        const char *raw, *pieces[3];
        uint32_t n;
        bool first, last;
    } rows[] = {
        {"tcp_*", {"tcp_"}, 1, false, true},
        {"*", {NULL}, 0, true, true},
        {"**", {NULL}, 0, true, true},
        {"", {NULL}, 0, false, false},
        {"a*b*c", {"a", "b", "c"}, 3, false, false},
        {"*x\\*y*", {"x*y"}, 1, true, true},
        {"net/http.(\\*conn).serve", {"net/http.(*conn).serve"}, 1, false, false},
        {"a\\x41\\n\\\"\\\\", {"aA\n\"\\"}, 1, false, false},
    };
    cleanup(arena_release) struct arena arena = ARENA_INIT(NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rule_atom atom = {0};
        ck_assert_int_eq(lex_glob(&arena, bytes_str(rows[i].raw), &atom), 0);
        ck_assert_uint_eq(atom.n_pieces, rows[i].n);
        ck_assert_int_eq(atom.star_first, rows[i].first);
        ck_assert_int_eq(atom.star_last, rows[i].last);
        for (uint32_t k = 0; k < rows[i].n; k++)
            ck_assert_msg(bytes_is(atom.pieces[k], rows[i].pieces[k]), "%s", rows[i].raw);
    }
    struct bytes text = lex_string(&arena, BYTES_LIT("a\\tb\\x00*\\*"));
    ck_assert(bytes_eq(text, BYTES_LIT("a\tb\0**")));
}
