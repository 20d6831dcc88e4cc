/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "sender/runtimes/calls.h"

static struct calls *made(void)
{
    struct calls *s = calls_new();
    unit_made(s);
    return s;
}

static const struct call *kept(struct calls *s, const struct runtime_name *name)
{
    const struct call *call = calls_keep(s, name, false);
    unit_made((void *)call);
    return call;
}

UNIT(what_is_equal_is_kept_once)
{
    struct calls *s = made();
    struct runtime_name name = {.name = BYTES_LIT("work"), .file = BYTES_LIT("/srv/app.py"), .line = 7};
    const struct call *call = kept(s, &name);
    for (int i = 0; i < 2; i++)
        ck_assert_ptr_eq(kept(s, &name), call);
    name.line = 8;
    const struct call *below = kept(s, &name);
    ck_assert(below != call && call_file(below) == call_file(call));
    ck_assert_uint_eq(call_size(call_file(call)) - call_size(call), strlen("/srv/app.py") - strlen("work"));
    struct runtime_name is = call_name(call);
    ck_assert(bytes_is(is.name, "work") && bytes_is(is.file, "/srv/app.py") && is.line == 7);
    ck_assert_uint_eq(call_name(below).line, 8);
    for (int i = 0; i < 3; i++)
        call_let_go(s, call);
    ck_assert(bytes_is(call_name(below).file, "/srv/app.py"));
    call_let_go(s, below);
    calls_let_go(s);
}

UNIT(what_a_call_is_inlined_into_stays_with_it)
{
    struct calls *s = made();
    struct runtime_name outer = {.name = BYTES_LIT("outer"), .line = 1},
                        inner = {.name = BYTES_LIT("inner"), .line = 2, .caller = &outer};
    const struct call *in = kept(s, &inner), *out = kept(s, &outer);
    ck_assert_ptr_eq(call_caller(in), out);
    ck_assert_ptr_null(call_caller(out));
    inner.caller = NULL;
    const struct call *alone = kept(s, &inner);
    ck_assert(alone != in && !call_caller(alone) && call_name(alone).file.n == 0);
    call_let_go(s, out);
    ck_assert(bytes_is(call_name(call_caller(in)).name, "outer"));
    call_let_go(s, in);
    call_let_go(s, alone);
    calls_let_go(s);
}

UNIT(marks_tell_calls_apart)
{
    struct calls *s = made();
    struct runtime_name name = {.name = BYTES_LIT("work"), .mark = {.at = {1, 2, 3}, .said = 4}};
    const struct call *bare = kept(s, &name), *call[2];
    for (uint64_t i = 0; i < 2; i++) {
        name.mark.said = 4 + i;
        call[i] = calls_keep(s, &name, true);
        unit_made((void *)call[i]);
        struct runtime_mark mark = call_name(call[i]).mark;
        ck_assert_mem_eq(&mark, &name.mark, sizeof mark);
    }
    ck_assert(call[0] != call[1] && call[0] != bare && call[1] != bare);
    call_let_go(s, call[0]);
    call_let_go(s, call[1]);
    ck_assert(bytes_is(call_name(bare).name, "work"));
    call_let_go(s, call_hold(s, bare));
    call_let_go(s, bare);
    calls_let_go(s);
}

/* Also when tables have shrunk, what is left is found, and nothing else. */
UNIT(what_nobody_holds_is_gone_in_any_order)
{
    enum { CALLS = 2000, LEFT = 40 };
    struct calls *s = made();
    const struct call *call[CALLS];
    char text[32];
    for (uint32_t i = 0; i < CALLS; i++) {
        struct runtime_name name = {.name = bytes_of(text, (size_t)sprintf(text, "function_%u", i))};
        call[i] = kept(s, &name);
    }
    for (uint32_t i = 0; i < CALLS; i++)
        if (i * 7 % CALLS % (CALLS / LEFT))
            call_let_go(s, call[i]);
    for (uint32_t i = 0; i < CALLS; i++) {
        struct runtime_name name = {.name = bytes_of(text, (size_t)sprintf(text, "function_%u", i))};
        bool is_left = i * 7 % CALLS % (CALLS / LEFT) == 0;
        const struct call *again = kept(s, &name);
        ck_assert(!is_left || again == call[i]);
        ck_assert(bytes_is(call_name(again).name, text));
        call_let_go(s, again);
        if (is_left)
            call_let_go(s, call[i]);
    }
    calls_let_go(s);
}
