/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/source/lex.h"

#include <errno.h>
#include <stdio.h>

/* clang-format off */
/* The reserved words of LANGUAGE §11, in the order of enum word. */
static const char *const words[] = {
    NULL,
    "all", "also", "and", "any", "attr", "before", "calls", "capture", "counter",
    "directly", "drop", "each", "else", "every", "extend", "first", "frame", "frames",
    "from", "gauge", "in", "inlined", "is", "keep", "last", "leaf", "linked",
    "nearest", "no", "none", "not", "of", "on", "or", "over", "override", "pack",
    "param", "pattern", "profile", "region", "resource", "root", "rules", "sample",
    "scope", "set", "table", "test", "text", "through", "trigger", "use", "when",
    "where", "while", "after",
    "profile.type", "profile.unit",
    "type", "function", "system_name", "file", "mapping",
    "library", "build_id",
};
static const char *const type_words[] = {
    "native", "kernel", "jvm", "cpython", "go", "v8js", "php", "perl", "ruby", "dotnet", "rust", "beam", "luajit",
};
/* clang-format on */

_Static_assert(sizeof words / sizeof *words == WORD_TYPE_WORD, "one word each");

enum word lex_word(struct bytes name)
{
    for (unsigned i = 1; i < sizeof words / sizeof *words; i++) {
        if ((uint8_t)words[i][0] == name.p[0] && bytes_is(name, words[i]))
            return (enum word)i;
    }
    for (unsigned i = 0; i < sizeof type_words / sizeof *type_words; i++) {
        if (bytes_is(name, type_words[i]))
            return WORD_TYPE_WORD;
    }
    return WORD_NONE_OF_OURS;
}

/* One escape at raw.p[*at] (a backslash); the lexer has checked that it is whole. */
static uint8_t unescape(struct bytes raw, size_t *at)
{
    uint8_t c = raw.p[*at + 1];
    *at += 2;
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'x':
        *at += 2;
        return (uint8_t)(bytes_hex_value(raw.p[*at - 2]) << 4 | bytes_hex_value(raw.p[*at - 1]));
    default: return c;
    }
}

struct bytes lex_string(struct arena *arena, struct bytes raw)
{
    uint8_t *p = arena_alloc(arena, raw.n + 1);
    if (!p)
        return (struct bytes){0};
    size_t n = 0;
    for (size_t i = 0; i < raw.n;) {
        if (raw.p[i] == '\\')
            p[n++] = unescape(raw, &i);
        else
            p[n++] = raw.p[i++];
    }
    p[n] = '\0';
    return bytes_of(p, n);
}

int lex_glob(struct arena *arena, struct bytes raw, struct rule_atom *atom)
{
    uint32_t stars = 0;
    for (size_t i = 0; i < raw.n; i++) {
        if (raw.p[i] == '\\')
            i++;
        else if (raw.p[i] == '*')
            stars++;
    }
    uint8_t *p = arena_alloc(arena, raw.n + 1);
    struct bytes *pieces = arena_calloc(arena, stars + 1, sizeof *pieces);
    if (!p || !pieces)
        return -ENOMEM;
    atom->kind = RULE_GLOB;
    atom->text = raw;
    atom->pieces = pieces;
    atom->n_pieces = 0;
    atom->star_first = raw.n > 0 && raw.p[0] == '*';
    atom->star_last = false;
    struct bytes piece = bytes_of(p, 0);
    for (size_t i = 0; i < raw.n;) {
        atom->star_last = raw.p[i] == '*';
        if (atom->star_last) {
            if (piece.n > 0)
                pieces[atom->n_pieces++] = piece;
            piece = bytes_of(p, 0);
            i++;
            continue;
        }
        *p++ = raw.p[i] == '\\' ? unescape(raw, &i) : raw.p[i++];
        piece.n++;
    }
    if (piece.n > 0)
        pieces[atom->n_pieces++] = piece;
    return 0;
}

/* clang-format off */
static const char *const token_names[] = {
    [TOKEN_END] = "the end of the file", [TOKEN_STRING] = "a string", [TOKEN_REGEX] = "a regex",
    [TOKEN_PAREN] = "`(`", [TOKEN_UNPAREN] = "`)`", [TOKEN_BRACE] = "`{`", [TOKEN_UNBRACE] = "`}`",
    [TOKEN_BRACKET] = "`[`", [TOKEN_UNBRACKET] = "`]`", [TOKEN_COMMA] = "`,`", [TOKEN_ASSIGN] = "`=`",
    [TOKEN_EQUAL] = "`==`", [TOKEN_UNEQUAL] = "`!=`", [TOKEN_MATCH] = "`~`", [TOKEN_UNMATCH] = "`!~`",
    [TOKEN_BAR] = "`|`", [TOKEN_PLUS] = "`+`", [TOKEN_ELSE] = "`??`", [TOKEN_ARROW] = "`=>`", [TOKEN_DASH] = "`-`",
    [TOKEN_BELOW] = "`<`", [TOKEN_ALL_OF] = "`.*`", [TOKEN_WRONG] = "that",
};
/* clang-format on */

const char *token_describe(const struct token *t, char *buf, size_t size)
{
    if (t->kind != TOKEN_NAME && t->kind != TOKEN_QUANTITY)
        return token_names[t->kind];
    snprintf(buf, size, "`%.*s`", (int)(t->text.n < 64 ? t->text.n : 64), (const char *)t->text.p);
    return buf;
}
