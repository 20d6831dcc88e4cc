/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which literals a regex cannot do without. Read from its text: classes and repetitions end a run, a group
 * that must take part counts with its own literals, and whatever this reader is not sure of makes it say
 * "nothing", which is always right.
 */
#include "rules/pattern/regex_match.h"

#include "proto/base/macros.h"

#define GROUPS_MAX 32u /* inside each other; the front end lets no more through (regex_check.h) */

/* Literals of which at least one occurs; none: nothing is known. */
struct set {
    struct bytes items[REGEX_LITERALS_MAX];
    uint32_t n;
    uint64_t score; /* of the worst of them */
};

struct reader {
    struct bytes source;
    size_t at;
    uint8_t *store;
    size_t n_store;
    uint64_t (*score)(void *context, struct bytes literal);
    void *context;
    bool unsure;
};

/* What stands in one alternative so far. */
struct sequence {
    size_t run; /* where in store the current run began */
    struct set best;
};

static uint64_t score_of(const struct reader *r, struct bytes literal)
{
    return r->score ? r->score(r->context, literal) : UINT32_MAX - literal.n;
}

/* Takes a set for the alternative's if it is the better one to look for. */
static void offer(struct sequence *s, const struct set *set)
{
    if (set->n > 0 && (s->best.n == 0 || set->score < s->best.score))
        s->best = *set;
}

static void end_run(struct reader *r, struct sequence *s)
{
    struct bytes run = bytes_of(r->store + s->run, r->n_store - s->run);
    s->run = r->n_store; /* kept: the next run begins behind it */
    if (run.n < REGEX_LITERAL_MIN)
        return;
    struct set set = {.items = {run}, .n = 1, .score = score_of(r, run)};
    offer(s, &set);
}

/* Skips a bracketed class that begins at `at`. */
static void skip_class(struct reader *r)
{
    r->at++;
    if (r->at < r->source.n && r->source.p[r->at] == '^')
        r->at++;
    if (r->at < r->source.n && r->source.p[r->at] == ']')
        r->at++;
    for (; r->at < r->source.n; r->at++) {
        uint8_t c = r->source.p[r->at];
        if (c == '\\') {
            r->at++;
        } else if (c == '[' && r->at + 1 < r->source.n && r->source.p[r->at + 1] == ':') {
            for (r->at += 2; r->at < r->source.n && r->source.p[r->at] != ']'; r->at++)
                ;
        } else if (c == ']') {
            r->at++;
            return;
        }
    }
    r->unsure = true;
}

/* Behind `(`: past `?:`; any other option might change how the text reads, but for case, which is folded. */
static void skip_options(struct reader *r)
{
    const uint8_t *p = r->source.p + r->at;
    size_t n = r->source.n - r->at;
    if (n == 0 || p[0] != '?')
        return;
    if (n >= 2 && p[1] == ':')
        r->at += 2;
    else if (n >= 3 && p[1] == 'i' && (p[2] == ':' || p[2] == ')'))
        r->at += p[2] == ':' ? 3 : 2;
    else
        r->unsure = true;
}

enum repetition { REPEAT_NONE, REPEAT_ONCE_OR_MORE, REPEAT_PERHAPS };

static enum repetition skip_repetition(struct reader *r)
{
    if (r->at >= r->source.n)
        return REPEAT_NONE;
    uint8_t c = r->source.p[r->at];
    if (c != '*' && c != '+' && c != '?' && c != '{')
        return REPEAT_NONE;
    if (c == '{') {
        while (r->at < r->source.n && r->source.p[r->at] != '}')
            r->at++;
        r->unsure |= r->at >= r->source.n;
    }
    r->at++;
    if (r->at < r->source.n && (r->source.p[r->at] == '?' || r->source.p[r->at] == '+'))
        r->at++;
    return c == '+' ? REPEAT_ONCE_OR_MORE : REPEAT_PERHAPS;
}

/* An escape that stands for one byte as it is written. */
static bool escaped_literal(struct reader *r, uint8_t *ret_byte)
{
    if (r->at + 1 >= r->source.n) {
        r->unsure = true;
        return false;
    }
    uint8_t e = r->source.p[r->at + 1];
    r->at += 2;
    if (!((e >= '0' && e <= '9') || (e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z'))) {
        *ret_byte = e;
        return true;
    }
    r->unsure |= memchr("wWdDsSbBAzZntrfeahHvVR", e, 22) == NULL;
    return false;
}

static struct set read_group(struct reader *r, uint32_t depth);

/* One item of a sequence, with its repetition. */
static void read_item(struct reader *r, struct sequence *s, uint32_t depth)
{
    uint8_t byte = r->source.p[r->at];
    bool literal = false;
    struct set group = {.n = 0};
    switch (byte) {
    case '(':
        end_run(r, s);
        r->at++;
        skip_options(r);
        group = read_group(r, depth + 1);
        s->run = r->n_store;
        r->unsure |= r->at >= r->source.n;
        r->at++;
        break;
    case '[': skip_class(r); break;
    case '.':
    case '^':
    case '$': r->at++; break;
    case '*':
    case '+':
    case '?': r->unsure = true; break;
    case '\\': literal = escaped_literal(r, &byte); break;
    default:
        literal = true;
        r->at++;
        break;
    }
    if (r->unsure)
        return;
    enum repetition repetition = skip_repetition(r);
    if (literal && repetition != REPEAT_PERHAPS)
        r->store[r->n_store++] = byte;
    if (repetition != REPEAT_PERHAPS)
        offer(s, &group);
    if (!literal || repetition != REPEAT_NONE)
        end_run(r, s);
}

/* Alternatives up to `)` or the end: each must have literals, and all of them together are the set. As deep
 * as groups stand inside each other. */
static struct set read_group(struct reader *r, uint32_t depth)
{
    struct set all = {.n = 0};
    bool none = false;
    r->unsure |= depth > GROUPS_MAX;
    for (bool more = true; more && !r->unsure;) {
        struct sequence s = {.run = r->n_store};
        while (!r->unsure && r->at < r->source.n && r->source.p[r->at] != '|' && r->source.p[r->at] != ')')
            read_item(r, &s, depth);
        end_run(r, &s);
        none |= s.best.n == 0 || all.n + s.best.n > REGEX_LITERALS_MAX;
        for (uint32_t i = 0; i < s.best.n && !none; i++)
            all.items[all.n++] = s.best.items[i];
        all.score = max_of(all.score, s.best.score) + (all.n > 1);
        more = r->at < r->source.n && r->source.p[r->at] == '|';
        r->at += more;
    }
    if (none || r->unsure)
        all.n = 0;
    return all;
}

uint32_t regex_literals(struct bytes source, uint8_t *store, struct bytes ret[REGEX_LITERALS_MAX],
                        uint64_t (*score)(void *context, struct bytes literal), void *context)
{
    struct reader r = {.source = source, .store = store, .score = score, .context = context};
    struct set set = read_group(&r, 0);
    if (r.unsure || r.at < source.n)
        return 0;
    memcpy(ret, set.items, set.n * sizeof *ret);
    return set.n;
}
