/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* References back in a name that may not be left early: each can double what comes out. */
#define HELD_REFERENCES_MAX 6u
/* Lifetimes of one binder: "G" and a number below 2^64. libiberty counts them one by one, and says nothing
 * meanwhile where the text is left out, as an impl's place is: then it cannot be left. */
#define LIFETIMES_MAX 64u

struct output {
    char *to;
    size_t n, room;
    bool is_over;
    bool may_hold; /* the demangler may hold memory: it is not left, it ends by itself */
    jmp_buf out;
};

/* The demanglers cannot be told to stop, and would go on for years with some names; so they are left. That is
 * right for those that hold nothing but their stack: C++'s, the old Rust one, and the new one as long as no
 * identifier is in punycode, whose text it puts together on the heap. */
static void take(const char *text, size_t n, void *user)
{
    struct output *o = user;
    if (o->is_over || n >= o->room - o->n) {
        o->is_over = true;
        if (!o->may_hold)
            longjmp(o->out, 1);
        return;
    }
    if (n) /* libiberty gives empty texts without an address */
        memcpy(o->to + o->n, text, n);
    o->n += n;
}

/* What a v0 name may have (Rust RFC 2603, and "v0 Symbol Format" of the rustc book). */
struct v0 {
    bool punycode;       /* an identifier with a "u" before its length */
    bool binder;         /* "G" */
    size_t lifetimes;    /* the most that one of them has, less one */
    uint32_t references; /* "B", back into the name: each can double what comes out */
};

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Behind the "_" that ends a number in base 62 at i; name.n if it does not end. */
static size_t after_number(struct bytes name, size_t i)
{
    while (i < name.n && (is_digit(name.p[i]) || (uint8_t)((name.p[i] | 0x20) - 'a') < 26))
        i++;
    return i < name.n && name.p[i] == '_' ? i + 1 : name.n;
}

/* The number itself, at most `max`: "_" is 0, "0_" 1. */
static size_t number_at(struct bytes name, size_t i, size_t max)
{
    size_t n = 0, from = i;
    for (; i < name.n && name.p[i] != '_' && n <= max; i++) {
        uint8_t c = name.p[i];
        n = 62 * n + (size_t)(is_digit(c) ? c - '0' : c >= 'a' ? c - 'a' + 10 : c - 'A' + 36);
    }
    return i == from ? 0 : min_of(n + 1, max);
}

/* Behind a constant's digits in base 16 at i, and their "_"; name.n if it has none. */
static size_t after_constant(struct bytes name, size_t i)
{
    i += i < name.n && name.p[i] == 'n';
    size_t from = i;
    while (i < name.n && (is_digit(name.p[i]) || (name.p[i] >= 'a' && name.p[i] <= 'f')))
        i++;
    return i > from && i < name.n && name.p[i] == '_' ? i + 1 : name.n;
}

/* Behind the identifier whose length is at i: digits, "_" where the text would begin with one, the text. */
static size_t after_identifier(struct bytes name, size_t i)
{
    size_t n = 0;
    bool is_zero = name.p[i] == '0'; /* then that is all of it */
    i += is_zero;
    while (!is_zero && i < name.n && is_digit(name.p[i]) && n <= name.n)
        n = 10 * n + (name.p[i++] - '0');
    i += i < name.n && name.p[i] == '_';
    return n > name.n - i ? name.n : i + n;
}

static void note_binder(struct v0 *found, struct bytes name, size_t i)
{
    found->binder = true;
    found->lifetimes = max_of(found->lifetimes, number_at(name, i + 1, LIFETIMES_MAX));
}

/* What it may have whatever is a word in it. */
static struct v0 v0_letters(struct bytes name)
{
    struct v0 found = {.punycode = false};
    for (size_t i = 2; i < name.n; i++) {
        found.punycode |= name.p[i] == 'u' && i + 1 < name.n && is_digit(name.p[i + 1]);
        found.references += name.p[i] == 'B';
        if (name.p[i] == 'G')
            note_binder(&found, name, i);
    }
    return found;
}

/* Reads the name word by word, without its grammar: a word's letter tells how long it is. Where it does not
 * ("s" is a disambiguator with a number, or the type i16; a type may be a constant's, whose digits follow)
 * all are followed, so that what is found may be more than there is, and never less. An "u3" in a crate's
 * hash or in an identifier is no word; in a name whose references lead to what is none, all letters count. */
static struct v0 v0_words(struct bytes name)
{
    /* What a word may be that begins at a place. */
    enum { ANY = 1, NUMBERED = 2, ABI = 4 }; /* NUMBERED: an "s" is no i16; ABI: a "C" is no crate */
    struct v0 found = {.punycode = false};
    uint8_t begins[DEMANGLE_IN_MAX + 1] = {0};
    size_t first = bytes_starts(name, "__R") ? 3 : 2;
    begins[first] = ANY;
    for (size_t i = first; i < name.n; i++) {
        uint8_t c = name.p[i], as = begins[i];
        if (!as)
            continue;
        found.references += c == 'B';
        if (c == 'G')
            note_binder(&found, name, i);
        if (c == 'B' && !begins[min_of(first + number_at(name, i + 1, i - first), i)])
            return v0_letters(name);
        found.punycode |= c == 'u' && i + 1 < name.n && is_digit(name.p[i + 1]);
        if (is_digit(c))
            begins[after_identifier(name, i)] |= ANY;
        else if (c == 'B' || c == 'G' || c == 'L') /* reference, binder, lifetime */
            begins[after_number(name, i + 1)] |= ANY;
        else if (c == 'M' || c == 'X' ||
                 (c == 'C' && as != ABI)) /* impl, crate: perhaps with a disambiguator */
            begins[i + 1] |= NUMBERED;
        else if (c != 's' || as != NUMBERED)
            begins[i + 1] |= c == 'K' ? ABI : ANY;
        if (c == 'C' && as & ABI)
            begins[i + 1] |= ANY;
        if (c == 's')
            begins[after_number(name, i + 1)] |= ANY;
        if (c >= 'a' && c <= 'z' && as != NUMBERED)
            begins[after_constant(name, i + 1)] |= ANY;
    }
    return found;
}

/* Whether demangling a name with punycode ends soon, and with memory for it. libiberty ends the program where
 * memory is out; four bytes a character, rounded up, is what it takes. */
static bool ends_soon(const struct v0 *words)
{
    autofree void *trial = malloc(2 * 4 * DEMANGLE_IN_MAX);
    return trial && !words->binder && words->references <= HELD_REFERENCES_MAX;
}

/* Rust's legacy names are C++'s, ending in a hash: 17h, 16 hex digits, E. */
static bool is_rust_legacy(struct bytes name)
{
    for (size_t i = 0; i + 20 <= name.n && i < 64; i++) /* behind it there may be ".llvm.123" */
        if (memcmp(name.p + name.n - 20 - i, "17h", 3) == 0 && name.p[name.n - 1 - i] == 'E')
            return true;
    return false;
}

size_t demangle(struct bytes mangled, char *to, size_t room)
{
    char name[DEMANGLE_IN_MAX];
    bool is_v0 = bytes_starts(mangled, "_R") || bytes_starts(mangled, "__R");
    if (mangled.n < 4 || mangled.n >= sizeof name || memchr(mangled.p, 0, mangled.n) ||
        (!is_v0 && !bytes_starts(mangled, "_Z") && !bytes_starts(mangled, "__Z")))
        return 0;
    memcpy(name, mangled.p, mangled.n);
    name[mangled.n] = 0;
    struct output o = {.to = to, .room = min_of(room, (size_t)DEMANGLE_OUT_MAX)};
    struct v0 words = is_v0 ? v0_words(mangled) : (struct v0){.punycode = false};
    o.may_hold = words.punycode;
    if (words.lifetimes >= LIFETIMES_MAX || (o.may_hold && !ends_soon(&words)))
        return 0;
    if (setjmp(o.out))
        return 0;
    int ok = is_v0 || is_rust_legacy(mangled) ? rust_demangle_callback(name, 0, take, &o) : 0;
    if (!ok && !is_v0 && o.n == 0)
        ok = cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, take, &o);
    if (!ok || o.is_over || o.n == 0)
        return 0;
    to[o.n] = 0;
    return o.n;
}
