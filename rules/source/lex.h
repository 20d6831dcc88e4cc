/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rule file as tokens (rules/LANGUAGE.md §2). Tokens point into the source; nothing is decoded yet, because
 * a string in pattern position is a glob and means its stars.
 */
#ifndef RULES_SOURCE_LEX_H
#define RULES_SOURCE_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/vec.h"
#include "rules/tree/tree.h"

struct report;

enum token_kind {
    TOKEN_END, /* always the last one */
    TOKEN_NAME,
    TOKEN_STRING,   /* text: between the quotes, escapes as written */
    TOKEN_REGEX,    /* text: between the slashes, as written */
    TOKEN_QUANTITY, /* 40% 250ms 97Hz 500 */
    TOKEN_PAREN,
    TOKEN_UNPAREN,
    TOKEN_BRACE,
    TOKEN_UNBRACE,
    TOKEN_BRACKET,
    TOKEN_UNBRACKET,
    TOKEN_COMMA,
    TOKEN_ASSIGN,  /* = */
    TOKEN_EQUAL,   /* == */
    TOKEN_UNEQUAL, /* != */
    TOKEN_MATCH,   /* ~ */
    TOKEN_UNMATCH, /* !~ */
    TOKEN_BAR,
    TOKEN_PLUS,
    TOKEN_ELSE,  /* ?? */
    TOKEN_ARROW, /* => */
    TOKEN_DASH,
    TOKEN_BELOW,  /* < */
    TOKEN_ALL_OF, /* .* behind a table's name */
    TOKEN_WRONG,  /* was reported; stands for nothing */
};

/* What a name is, if it is one of the language's own words (LANGUAGE §11). Order: as in the table of
 * lex_word.c. */
enum word {
    WORD_NONE_OF_OURS,
    WORD_ALL,
    WORD_ALSO,
    WORD_AND,
    WORD_ANY,
    WORD_ATTR,
    WORD_BEFORE,
    WORD_CALLS,
    WORD_CAPTURE,
    WORD_COUNTER,
    WORD_DIRECTLY,
    WORD_DROP,
    WORD_EACH,
    WORD_ELSE,
    WORD_EVERY,
    WORD_EXTEND,
    WORD_FIRST,
    WORD_FRAME,
    WORD_FRAMES,
    WORD_FROM,
    WORD_GAUGE,
    WORD_IN,
    WORD_INLINED,
    WORD_IS,
    WORD_KEEP,
    WORD_LAST,
    WORD_LEAF,
    WORD_LINKED,
    WORD_NEAREST,
    WORD_NO,
    WORD_NONE,
    WORD_NOT,
    WORD_OF,
    WORD_ON,
    WORD_OR,
    WORD_OVER,
    WORD_OVERRIDE,
    WORD_PACK,
    WORD_PARAM,
    WORD_PATTERN,
    WORD_PROFILE,
    WORD_REGION,
    WORD_RESOURCE,
    WORD_ROOT,
    WORD_RULES,
    WORD_SAMPLE,
    WORD_SCOPE,
    WORD_SET,
    WORD_TABLE,
    WORD_TEST,
    WORD_TEXT,
    WORD_THROUGH,
    WORD_TRIGGER,
    WORD_USE,
    WORD_WHEN,
    WORD_WHERE,
    WORD_WHILE,
    WORD_AFTER,
    WORD_PROFILE_TYPE,
    WORD_PROFILE_UNIT,
    WORD_FIELD_TYPE,
    WORD_FIELD_FUNCTION,
    WORD_FIELD_SYSTEM_NAME,
    WORD_FIELD_FILE,
    WORD_FIELD_MAPPING,
    WORD_FIELD_LIBRARY,
    WORD_FIELD_BUILD_ID, /* in the order of enum rule_field */
    WORD_TYPE_WORD,      /* native, kernel …: the name is the type */
};

struct token {
    uint8_t kind; /* enum token_kind */
    uint8_t word; /* enum word, of a TOKEN_NAME */
    bool nocase;  /* strings and regexes: an `i` stands behind */
    struct bytes text;
    struct rule_place place;
};

struct tokens {
    VEC(struct token) all; /* the last one is TOKEN_END */
};

/* Cuts a file up; what is no token is reported (E106, E112) and left out or stands as TOKEN_WRONG. 0 or
 * -ENOMEM. */
int lex(const struct rule_file *file, uint16_t number, struct report *report, struct tokens *ret);
void tokens_release(struct tokens *t);

/* The language's own word, or WORD_NONE_OF_OURS. */
enum word lex_word(struct bytes name);

/* The text of a string token, escapes resolved, in the arena. .p is NULL when memory is out. */
struct bytes lex_string(struct arena *arena, struct bytes raw);

/* Takes a glob apart into *atom (text, pieces, star_first, star_last; LANGUAGE §2). 0 or -ENOMEM. */
int lex_glob(struct arena *arena, struct bytes raw, struct rule_atom *atom);

/* What a person would call the token: "`and`", "a string", "the end of the file". In buf. */
const char *token_describe(const struct token *t, char *buf, size_t size);

#endif
