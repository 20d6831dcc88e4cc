/*
 * Which literals a regex cannot do without. Read from its text, top level only: groups, classes and
 * repetitions end a run, and whatever this reader is not sure of makes it say "nothing", which is always
 * right.
 */
#include "rules/regex_match.h"

struct reader {
    struct bytes source;
    size_t at;
    uint8_t *store;
    size_t n_store;
    size_t run;        /* where in store the current run began */
    struct bytes best; /* of this alternative */
};

static void end_run(struct reader *r)
{
    if (r->n_store - r->run > r->best.n) {
        r->best = bytes_of(r->store + r->run, r->n_store - r->run);
        r->run = r->n_store; /* kept: the next run begins behind it */
    } else {
        r->n_store = r->run;
    }
}

/* Skips a bracketed class or group that begins at `at`; false when it does not end. */
static bool skip_class(struct reader *r)
{
    r->at++;
    if (r->at < r->source.n && r->source.p[r->at] == '^')
        r->at++;
    if (r->at < r->source.n && r->source.p[r->at] == ']')
        r->at++;
    for (; r->at < r->source.n; r->at++) {
        uint8_t c = r->source.p[r->at];
        if (c == '\\')
            r->at++;
        else if (c == '[' && r->at + 1 < r->source.n && r->source.p[r->at + 1] == ':') {
            for (r->at += 2; r->at < r->source.n && r->source.p[r->at] != ']'; r->at++)
                ;
        } else if (c == ']') {
            r->at++;
            return true;
        }
    }
    return false;
}

static bool skip_group(struct reader *r)
{
    uint32_t depth = 0;
    while (r->at < r->source.n) {
        uint8_t c = r->source.p[r->at];
        if (c == '\\') {
            r->at += 2;
        } else if (c == '[') {
            if (!skip_class(r))
                return false;
        } else {
            depth += c == '(';
            depth -= c == ')';
            r->at++;
            if (depth == 0)
                return true;
        }
    }
    return false;
}

/* `(?i)` changes only case, which is folded anyway; any other option setting might change how the text reads.
 */
static bool option_setting_is_harmless(const struct reader *r)
{
    const uint8_t *p = r->source.p + r->at;
    size_t n = r->source.n - r->at;
    if (n < 2 || p[1] != '?')
        return true; /* an ordinary group */
    if (n >= 3 && p[2] == ':')
        return true;
    return n >= 4 && p[2] == 'i' && (p[3] == ')' || p[3] == ':');
}

enum item { ITEM_LITERAL, ITEM_OTHER, ITEM_BAR, ITEM_UNSURE };

/* One item; its repetition is looked at by the caller. *ret_byte for a literal. */
static enum item next_item(struct reader *r, uint8_t *ret_byte)
{
    uint8_t c = r->source.p[r->at];
    switch (c) {
    case '|': r->at++; return ITEM_BAR;
    case '(':
        if (!option_setting_is_harmless(r))
            return ITEM_UNSURE;
        return skip_group(r) ? ITEM_OTHER : ITEM_UNSURE;
    case '[': return skip_class(r) ? ITEM_OTHER : ITEM_UNSURE;
    case '.':
    case '^':
    case '$': r->at++; return ITEM_OTHER;
    case ')':
    case '*':
    case '+':
    case '?': return ITEM_UNSURE;
    case '\\': {
        if (r->at + 1 >= r->source.n)
            return ITEM_UNSURE;
        uint8_t e = r->source.p[r->at + 1];
        r->at += 2;
        bool alnum = (e >= '0' && e <= '9') || (e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z');
        if (!alnum) {
            *ret_byte = e;
            return ITEM_LITERAL;
        }
        return e && memchr("wWdDsSbBAzZntrfeahHvVR", e, 22) ? ITEM_OTHER : ITEM_UNSURE;
    }
    default:
        *ret_byte = c;
        r->at++;
        return ITEM_LITERAL;
    }
}

/* After an item: true when a repetition follows, which is skipped; *ret_min says whether it demands the item
 * once. */
static bool skip_repetition(struct reader *r, bool *ret_once, bool *ret_unsure)
{
    *ret_unsure = false;
    if (r->at >= r->source.n)
        return false;
    uint8_t c = r->source.p[r->at];
    if (c != '*' && c != '+' && c != '?' && c != '{')
        return false;
    *ret_once = c == '+';
    if (c == '{') {
        while (r->at < r->source.n && r->source.p[r->at] != '}')
            r->at++;
        *ret_unsure = r->at >= r->source.n;
    }
    r->at++;
    if (r->at < r->source.n && (r->source.p[r->at] == '?' || r->source.p[r->at] == '+'))
        r->at++;
    return true;
}

uint32_t regex_literals(struct bytes source, uint8_t *store, struct bytes *ret, uint32_t max)
{
    struct reader r = {.source = source, .store = store};
    uint32_t n = 0;
    for (;;) {
        bool end = r.at >= source.n, once = false, unsure = false;
        uint8_t byte = 0;
        enum item item = end ? ITEM_BAR : next_item(&r, &byte);
        if (item == ITEM_UNSURE)
            return 0;
        if (item == ITEM_BAR) {
            end_run(&r);
            if (r.best.n < REGEX_LITERAL_MIN || n == max)
                return 0;
            ret[n++] = r.best;
            r.best = (struct bytes){0};
            r.run = r.n_store;
            if (end)
                return n;
            continue;
        }
        bool repeated = skip_repetition(&r, &once, &unsure);
        if (unsure)
            return 0;
        if (item == ITEM_LITERAL && (!repeated || once))
            r.store[r.n_store++] = byte;
        if (item == ITEM_OTHER || repeated)
            end_run(&r);
    }
}
