/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>

#include "proto/base/macros.h"

/* References back in a name that may not be left early: each can double what comes out. */
#define HELD_REFERENCES_MAX 6u

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

/* Whether an identifier may be in punycode: "u", then its length (Rust RFC 2603,
 * "undisambiguated-identifier"). */
static bool may_be_punycode(struct bytes name)
{
    for (size_t i = 2; i + 1 < name.n; i++)
        if (name.p[i] == 'u' && name.p[i + 1] >= '0' && name.p[i + 1] <= '9')
            return true;
    return false;
}

/* Whether demangling a name with punycode ends soon, and with memory for it: what can repeat are references
 * back ("B") and binders of lifetimes ("G"). The letters of identifiers are taken for them too: it is rare
 * enough. libiberty ends the program where memory is out; four bytes a character, rounded up, is what it
 * takes. */
static bool ends_soon(struct bytes name)
{
    uint32_t references = 0;
    for (size_t i = 2; i < name.n; i++) {
        references += name.p[i] == 'B';
        if (name.p[i] == 'G')
            return false;
    }
    autofree void *trial = malloc(2 * 4 * DEMANGLE_IN_MAX);
    return trial && references <= HELD_REFERENCES_MAX;
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
    o.may_hold = is_v0 && may_be_punycode(mangled);
    if (o.may_hold && !ends_soon(mangled))
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
