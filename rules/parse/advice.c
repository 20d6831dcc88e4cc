/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What somebody meant who wrote the words of another language.
 *
 * A row of the table is one mistake: what was expected, what stands there instead, and what to write. Rows
 * are asked in order. What a proposal repeats of the source (the next word, a number) is made by a function.
 */
#include "rules/parse/parser.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/base/nearest.h"

#define A_FRAME   "a frame (a name, a type word, a glob, a regex or a condition in parentheses)"
#define CLAUSES   " describe unit off where each value label limit combine "
#define SHOWN_MAX 120u

/* A token as it stands in the source. */
static struct bytes shown(const struct token *t)
{
    return bytes_of(token_start(t), t->kind == TOKEN_END ? 0 : min_of(t->place.length, SHOWN_MAX));
}

static bool is_one_of(const struct token *t, const char *words)
{
    size_t n = t->text.n;
    if (n == 0 || t->kind == TOKEN_STRING || t->kind == TOKEN_REGEX)
        return false;
    for (const char *at = strchr(words, ' '); at[1]; at = strchr(at + 1, ' '))
        if (strncmp(at + 1, (const char *)t->text.p, n) == 0 && at[1 + n] == ' ')
            return true;
    return false;
}

/* ---- proposals that repeat the source -------------------------------------------------------- */

static void quote_it(struct parser *p)
{
    report_propose(p->report, "write: \"%.*s\"", BYTES_FMT(shown(peek(p, 0))));
}

static void unquote_it(struct parser *p)
{
    report_propose(p->report, "write: %.*s", BYTES_FMT(peek(p, 0)->text));
}

static void is_it(struct parser *p)
{
    report_propose(p->report, "write: is %.*s", BYTES_FMT(shown(peek(p, 1))));
}

static void is_not_it(struct parser *p)
{
    report_propose(p->report, "write: is (not %.*s)", BYTES_FMT(shown(peek(p, 1))));
}

static void is_with_it_in_it(struct parser *p)
{
    const struct token *t = peek(p, 1);
    if (t->kind == TOKEN_STRING)
        report_propose(p->report, "write: is \"*%.*s*\"", BYTES_FMT(t->text));
    else
        is_it(p);
}

static void text_with_it_in_it(struct parser *p)
{
    const struct token *t = peek(p, 1);
    if (t->kind == TOKEN_STRING)
        report_propose(p->report, "write: ~ \"*%.*s*\"", BYTES_FMT(t->text));
}

static void any_frame_with_it_in_it(struct parser *p)
{
    const struct token *t = peek(p, 1);
    if (t->kind == TOKEN_STRING)
        report_propose(p->report, "write: any frame is \"*%.*s*\"", BYTES_FMT(t->text));
}

/* any is … → any frame is … */
static void frame_before_it(struct parser *p)
{
    report_propose(p->report, "write: %.*s frame is …",
                   BYTES_FMT(p->at > 0 ? p->tokens[p->at - 1].text : BYTES_LIT("any")));
}

/* function "x" → (function ~ "x"), since a frame has more than one text. */
static void in_parentheses(struct parser *p)
{
    const struct token *field = peek(p, 0), *behind = peek(p, 1);
    if (behind->kind == TOKEN_STRING)
        report_propose(p->report, "write: (%.*s ~ %.*s)", BYTES_FMT(field->text), BYTES_FMT(shown(behind)));
    else
        report_propose(p->report, "write: (%.*s ~ \"…\")", BYTES_FMT(field->text));
}

static void where_it(struct parser *p)
{
    report_propose(p->report, "write: where %.*s …", BYTES_FMT(shown(peek(p, 0))));
}

static void label_equals_it(struct parser *p)
{
    report_propose(p->report, "write: = %.*s", BYTES_FMT(shown(peek(p, 0))));
}

/* A field's name that is nearly right, or two conditions about one frame without a word between them. */
static void joined_to_the_word_before(struct parser *p)
{
    static const char *const fields[] = {"function", "system_name", "file", "mapping",
                                         "library",  "build_id",    "type"};
    const struct token *before = p->at > 0 ? &p->tokens[p->at - 1] : peek(p, 0);
    struct nearest near;
    nearest_start(&near, before->text);
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        nearest_offer(&near, bytes_str(fields[i]));
    if (near.best.n > 0)
        report_propose(p->report, "write: (%.*s ~ %.*s)", BYTES_FMT(near.best), BYTES_FMT(shown(peek(p, 0))));
    else if (before->kind == TOKEN_NAME)
        report_propose(p->report, "write: (%.*s and %.*s)", BYTES_FMT(before->text),
                       BYTES_FMT(shown(peek(p, 0))));
}

/* 0.01 → 1%. */
static void percent_of_it(struct parser *p)
{
    char number[32], *end;
    struct bytes text = peek(p, 0)->text;
    snprintf(number, sizeof number, "%.*s", (int)min_of(text.n, sizeof number - 1), (const char *)text.p);
    double share = strtod(number, &end);
    if (*end == 0 && share > 0 && share <= 1)
        report_propose(p->report, "write: %.6g%%", share * 100);
    else
        report_propose(p->report, "write: %s%%", number);
}

/* 5 minutes → 5m. */
static void duration_of_it(struct parser *p)
{
    static const struct {
        const char *words, *unit;
    } units[] = {{" s sec secs second seconds ", "s"},
                 {" m min mins minute minutes ", "m"},
                 {" h hour hours ", "h"},
                 {" ms millisecond milliseconds ", "ms"}};
    const char *unit = "s";
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (is_one_of(peek(p, 1), units[i].words))
            unit = units[i].unit;
    struct bytes number = peek(p, 0)->text;
    size_t digits = 0;
    while (digits < number.n && number.p[digits] >= '0' && number.p[digits] <= '9')
        digits++;
    report_propose(p->report, "write: %.*s%s", BYTES_FMT(bytes_of(number.p, digits)), unit);
}

static void with_underscore(struct parser *p)
{
    const struct token *before = p->at > 0 ? &p->tokens[p->at - 1] : peek(p, 0);
    report_propose(p->report, "names have letters, digits, _ and dots: %.*s_%.*s", BYTES_FMT(before->text),
                   BYTES_FMT(shown(peek(p, 1))));
}

/* 1,000, a second kind behind `on`, or clauses that are separated. */
static void without_comma(struct parser *p)
{
    const struct token *before = p->at > 0 ? &p->tokens[p->at - 1] : peek(p, 0), *behind = peek(p, 1);
    if (before->kind == TOKEN_QUANTITY && behind->kind == TOKEN_QUANTITY)
        report_propose(p->report, "numbers have no comma: %.*s%.*s", BYTES_FMT(before->text),
                       BYTES_FMT(behind->text));
    else if (p->at > 1 && is_one_of(&p->tokens[p->at - 2], " on ") && !is_one_of(behind, CLAUSES))
        report_propose(p->report,
                       "one kind stands here; for %.*s say it again: also counter NAME { on %.*s … }",
                       BYTES_FMT(shown(behind)), BYTES_FMT(shown(behind)));
    else
        report_propose(p->report, "clauses follow each other without a comma: leave it out");
}

/* The comma made a cell of the pattern that stands before it. */
static void rows_without_comma(struct parser *p)
{
    if (p->at > 0 && (p->tokens[p->at - 1].kind == TOKEN_STRING || p->tokens[p->at - 1].kind == TOKEN_REGEX))
        report_propose(p->report, "a comma separates cells; rows follow each other without");
}

/* ---- the table ------------------------------------------------------------------------------- */

enum instead { WORDS, STRING, NAME, REGEX, QUANTITY, END };

/* clang-format off */
static const struct mistake {
    const char *expected; /* what begins so; "": whatever it was */
    enum instead instead;
    const char *words;    /* of WORDS: those, with a blank before and behind each */
    const char *write;    /* NULL: `say` makes it */
    void (*say)(struct parser *p);
} mistakes[] = {
    {"", WORDS, " AND And ", "write: and", NULL},
    {"", WORDS, " OR Or ", "write: or", NULL},
    {"", WORDS, " NOT Not ", "write: not", NULL},
    {"a string", NAME, NULL, NULL, quote_it},
    {"`is`", WORDS, " == = ~ equals matches like has ", NULL, is_it},
    {"`is`", WORDS, " != !~ isnt ", NULL, is_not_it},
    {"`is`", WORDS, " contains includes ", NULL, is_with_it_in_it},
    {"`is`", WORDS, " in ", "several patterns: is (\"one\" or \"another\"), or name them: pattern p = \"one\" | \"another\"", NULL},
    {"`frame`", WORDS, " is ", NULL, frame_before_it},
    {"`frame`", WORDS, " frames ", "write: frame   (of all frames of the stack one is asked after another)", NULL},
    {"`~`, `!~`", WORDS, " = is equals ", "write: ==", NULL},
    {"`~`, `!~`", WORDS, " matches like ", "write: ~", NULL},
    {"`~`, `!~`", WORDS, " contains includes ", NULL, text_with_it_in_it},
    {"`~`, `!~`", WORDS, " in ", "write: ~ \"one\" | \"another\"", NULL},
    {"a text", WORDS, " resource scope profile sample attr ", "an attribute is written resource[\"service.name\"]", NULL},
    {A_FRAME, WORDS, " in [ any ", "several patterns: is (\"one\" or \"another\"), or name them: pattern p = \"one\" | \"another\"", NULL},
    {A_FRAME, WORDS, " function system_name file mapping library build_id type ", NULL, in_parentheses},
    {"a string", WORDS, " { ", "its name stands before it: \"what it shows\"", NULL},
    {"a statement", WORDS, " histogram summary metric sum updown rule alert record ",
     "a metric is a counter or a gauge: counter NAME { … }", NULL},
    {"a statement", WORDS, " let def define list macro set var const ",
     "a name for patterns: pattern NAME = \"…\" | \"…\"; for a condition about a frame: frame NAME = …", NULL},
    {"a statement", WORDS, " import include load ", "write: use PACK (NAME)", NULL},
    {"a statement", REGEX, NULL, "a comment begins with #", NULL},
    {"a statement", WORDS, " - ", "a comment begins with #", NULL},
    {"a statement", WORDS, " or , ", "patterns are joined by |", NULL},
    {"a clause", WORDS, " , ", NULL, without_comma},
    {"a clause", WORDS, " or ", "where a text may be missing another stands behind ??", NULL},
    {"a clause", WORDS, " counter gauge pattern sample text table pack test param extend override ",
     "add the } that ends the block before it", NULL},
    {"a clause", WORDS, " of ", "several patterns: is (\"one\" or \"another\"), or name them: pattern p = \"one\" | \"another\"", NULL},
    {"a clause", WORDS, " by ", "the caller stands first: FRAME calls FRAME", NULL},
    {"a clause", WORDS, " contains includes ", NULL, any_frame_with_it_in_it},
    {"a clause", WORDS, " + ", "a name with other signs stands in quotes; frames of C and C++ are of type native", NULL},
    {"a clause", WORDS, " ) ", "nothing is open that this ends: leave it out", NULL},
    {"a clause", WORDS, " [ ", "an attribute is written resource[\"KEY\"], scope[…], profile[…], sample[…], or attr[…] for whichever has it", NULL},
    {"a clause", WORDS, " leaf root any no every linked first last not resource scope profile sample attr calls ", NULL, where_it},
    {"a clause", STRING, NULL, NULL, joined_to_the_word_before},
    {"a clause", END, NULL, "add the } that ends this block", NULL},
    {"a clause", WORDS, " | ", "several texts: ~ \"one\" | \"another\"", NULL},
    {"a clause", WORDS, " if ", "a text under a condition: \"one\" when CONDITION ?? \"another\"", NULL},
    {"a pattern", WORDS, " ( ", "several patterns stand without parentheses: \"one\" | \"another\"", NULL},
    {"a condition about a frame", WORDS, " => ", NULL, rows_without_comma},
    {"a label's name", STRING, NULL, NULL, unquote_it},
    {"`=`", STRING, NULL, NULL, label_equals_it},
    {"`{`", WORDS, " - ", NULL, with_underscore},
    {"time, samples", WORDS, " seconds second milliseconds nanoseconds duration ns ms s cpu cpu_time ", "write: value time", NULL},
    {"time, samples", WORDS, " count counts number n ", "write: value events   (or: value samples)", NULL},
    {"time, samples", WORDS, " bytes size value total ", "write: value sum", NULL},
    {"a share", QUANTITY, NULL, NULL, percent_of_it},
    {"a number of series", STRING, NULL, NULL, unquote_it},
    {"a duration", QUANTITY, NULL, NULL, duration_of_it},
    {"`over`", WORDS, " above below ", "the window comes first: over 1m above …", NULL},
};
/* clang-format on */

static bool is_it_that(const struct parser *p, const struct mistake *m)
{
    const struct token *t = peek(p, 0);
    switch (m->instead) {
    case WORDS: return is_one_of(t, m->words);
    case STRING: return t->kind == TOKEN_STRING;
    case NAME: return t->kind == TOKEN_NAME;
    case REGEX: return t->kind == TOKEN_REGEX;
    case QUANTITY: return t->kind == TOKEN_QUANTITY;
    case END: return t->kind == TOKEN_END;
    }
    return false;
}

bool advise(struct parser *p, const char *what)
{
    for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
        const struct mistake *m = &mistakes[i];
        if (!bytes_starts(bytes_str(what), m->expected) || !is_it_that(p, m))
            continue;
        if (m->say)
            m->say(p);
        else
            report_propose(p->report, "%s", m->write);
        return true;
    }
    return false;
}
