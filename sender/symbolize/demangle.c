#include "sender/symbolize/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>

#include "proto/base/macros.h"

struct output {
    char *to;
    size_t n, room;
    bool is_over;
    jmp_buf out;
};

static bool is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] & 0x80)
            return false;
    return true;
}

/* The demanglers cannot be told to stop, and would go on for years with some names; so they are left. They
 * hold memory only while they give a text that was punycode, and that is never all ASCII: what comes next is
 * ("::",
 * ", "). */
static void take(const char *text, size_t n, void *user)
{
    struct output *o = user;
    if (o->is_over || n >= o->room - o->n) {
        o->is_over = true;
        if (is_ascii(text, n))
            longjmp(o->out, 1);
        return;
    }
    if (n) /* libiberty gives empty texts without an address */
        memcpy(o->to + o->n, text, n);
    o->n += n;
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
